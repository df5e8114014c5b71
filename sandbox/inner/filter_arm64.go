package inner

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// calls are the system calls that only this architecture has: none.
func calls() []uint32 { return nil }

// olderWatches are the older system calls that make a watch of files: there are none.
func olderWatches() []uint32 { return nil }
