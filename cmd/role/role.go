// Package role is how a part of landfall is started by a program of its own.
package role

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Main becomes landfall with one role: `landfall-gateway ARGUMENTS` is `landfall serve --role gateway ARGUMENTS`. The
// process stays the same, and so do its environment and what it was given. It returns only when there is no landfall
// beside this program; then it has said so, and the result is an exit code.
func Main(role string) int {
	self, err := os.Executable()
	if err == nil {
		landfall := filepath.Join(filepath.Dir(self), "landfall")
		err = syscall.Exec(landfall, slices.Concat([]string{landfall, "serve", "--role", role}, os.Args[1:]), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "landfall-%s: landfall has to lie beside this program: %v\n", role, err)
	return 1
}
