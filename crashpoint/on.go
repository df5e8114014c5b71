//go:build crashpoints

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// armed is the instant at which the process dies, and how often it came by.
var armed struct {
	sync.Mutex

	at      string
	reached int
}

// Here kills the process at the instant that LANDFALL_CRASH names, as NAME or NAME@N for the N-th time. With @FILE, a
// file names it while there is one, and is gone when the process dies; what it says behind a blank makes it another one,
// which is counted anew.
func Here(name string) {
	armed.Lock()
	defer armed.Unlock()
	at := os.Getenv("LANDFALL_CRASH")
	file, inFile := strings.CutPrefix(at, "@")
	if inFile {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		at = string(text)
	}
	if at != armed.at {
		armed.at, armed.reached = at, 0
	}
	at, _, _ = strings.Cut(at, " ")
	want, count, _ := strings.Cut(at, "@")
	if want != name {
		return
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		n = 1
	}
	armed.reached++
	if armed.reached != n || inFile && os.Remove(file) != nil { // somebody was faster
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
