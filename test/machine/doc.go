// Package machine makes what a machine may have wrong: disks that are full, take no more files, or belong to somebody
// else.
package machine
