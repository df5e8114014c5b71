// Package demo_test tests what the targets of the Makefile ask for before they build.
package demo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever lacks Go, or has one that is too old, hears so together with all else that is missing, before anything is
// built or installed.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ goProgram, says string }{
		"no Go":      {"exit 1", "missing: Go 1."},
		"an old one": {`[ "$1" = env ] && echo go1.19.8 && exit; exit 1`, "this machine has go1.19.8"},
	} {
		goProgram := filepath.Join(t.TempDir(), "go")
		if err := os.WriteFile(goProgram, []byte("#!/bin/sh\n"+test.goProgram+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("tools/need.sh", "go", "no-such-command=bubblewrap")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GO="+goProgram)
		out, err := cmd.CombinedOutput()
		for _, part := range []string{test.says, "https://go.dev/dl/", "missing: bubblewrap. Type: sudo apt-get install"} {
			if err == nil || !strings.Contains(string(out), part) {
				t.Errorf("%s: got %v and %q, which does not say %q", what, err, out, part)
			}
		}
	}
}
