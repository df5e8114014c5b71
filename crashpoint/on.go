//go:build crashpoints

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// reached counts how often the named instant came by.
var reached atomic.Int64

// Here kills the process at the instant that LANDFALL_CRASH names, as NAME or NAME@N for the N-th time.
func Here(name string) {
	want, count, _ := strings.Cut(os.Getenv("LANDFALL_CRASH"), "@")
	if want != name {
		return
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	if reached.Add(1) == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
