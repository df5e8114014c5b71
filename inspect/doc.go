// Package inspect reads what is in the versions of an app: the files of a group version, and what differs between two of them.
package inspect
