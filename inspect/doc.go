// Package inspect reads the versions of an app: the files of a group version, and the differences between two of them.
package inspect
