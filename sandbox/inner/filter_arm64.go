package inner

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// calls are what this architecture has beside the others': nothing.
func calls() []uint32 { return nil }

// olderWatches are the older forms of what makes a watch of files: there are none.
func olderWatches() []uint32 { return nil }
