package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// Where nothing can confine commands they are refused, with what to do about it; they never run without.
func TestRefusal(t *testing.T) {
	for name, test := range map[string]struct{ program, reason string }{
		"bubblewrap is missing":      {"", "bubblewrap is not installed"},
		"bubblewrap does not work":   {"#!/bin/sh\necho no permissions here >&2; exit 1\n", "no permissions here"},
		"bubblewrap is no program":   {"nonsense", "bubblewrap does not work here"},
		"bubblewrap lacks an option": {"#!/bin/sh\necho \"Unknown option $1\" >&2; exit 1\n", "Unknown option"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if test.program != "" {
				testkit.Program(t, filepath.Join(path, "bwrap"), []byte(test.program))
			}
			t.Setenv("PATH", path) // so not parallel
			s := sandbox.Detect(t.Context(), sandbox.Auto)
			if got, want := s.Kind(), "none"; got != want {
				t.Errorf("Kind = %q, want %q", got, want)
			}
			dir := t.TempDir()
			_, err := s.Run(t.Context(), sandbox.Command{Dir: dir, Shell: "echo > written"})
			if got := landfall.KindOf(err); got != landfall.Forbidden {
				t.Errorf("Run: %v, want Forbidden", err)
			}
			for _, want := range []string{test.reason, "apt-get install bubblewrap", "--sandbox off"} {
				if message := landfall.MessageOf(err); !strings.Contains(message, want) {
					t.Errorf("the message %q lacks %q", message, want)
				}
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("the command has run: %v, %v", entries, err)
			}
			if got, want := sandbox.Detect(t.Context(), sandbox.Off).Kind(), "off"; got != want {
				t.Errorf("Kind = %q, want %q", got, want)
			}
		})
	}
}

// Without a sandbox a command runs as the server's own user, in its folder, with a home that is removed afterwards.
func TestOff(t *testing.T) {
	t.Parallel()
	s := sandbox.Detect(t.Context(), sandbox.Off)
	dir := t.TempDir()
	out := show(t, s, sandbox.Command{Dir: dir,
		Shell: `pwd; id -u; echo x > written; mkdir "$HOME/closed"; echo > "$TMPDIR/closed/f"; chmod 0 "$HOME/closed"; echo "$HOME"`})
	lines := strings.Fields(out)
	if len(lines) != 3 || lines[0] != dir || lines[1] != fmt.Sprint(os.Getuid()) {
		t.Fatalf("the command printed %q, want %s, %d and its home", out, dir, os.Getuid())
	}
	if _, err := os.Stat(filepath.Join(dir, "written")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lines[2]); !os.IsNotExist(err) {
		t.Errorf("the home is still there: %v", err)
	}
}

// What a command without a sandbox leaves in the background ends with it, and does not hold it up.
func TestOffEndsItsProcessGroup(t *testing.T) {
	t.Parallel()
	s := sandbox.Detect(t.Context(), sandbox.Off)
	for name, s := range map[string]*sandbox.Sandbox{"with control groups": s,
		"with the watch alone": sandbox.WatchOnly(s)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := "16180" + fmt.Sprint(len(name))
			show(t, s,
				sandbox.Command{Shell: `nohup sh -c 'trap "" TERM HUP; while :; do sleep ` + word + `; done' & sleep 0.1`})
			eventually(t, "what was left in the background is gone", func() bool { return len(running(word)) == 0 })
		})
	}
}

// A server that is not root confines too, where the kernel lets it, or refuses.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	o := newOrdinary(t)
	out, err := o.run(t, o.program, "server", "auto", o.dir,
		`id -u; grep Cap /proc/self/status; mkdir -p closed/deep; echo x > closed/f; chmod 0 closed
for f in /x /usr/x /etc/x `+o.home+`/x; do (echo x > $f) 2>/dev/null && echo "DONE: $f"; done; chmod 0755 `+
			sandbox.InitAt+` && echo DONE; [ -r /proc/1/environ ] && echo DONE; true`)
	if err != nil {
		t.Fatalf("the server: %v\n%s", err, out)
	}
	if strings.HasPrefix(out, "refused: build commands are refused") {
		t.Logf("this kernel lets nobody but root confine: %s", out)
		return
	}
	if !strings.HasPrefix(out, "65534\n") || strings.Contains(out, "DONE") ||
		!strings.Contains(out, "CapEff:\t0000000000000000") {
		t.Errorf("the command is not confined:\n%s", out)
	}
	info, err := os.Stat(filepath.Join(o.dir, "closed"))
	if err != nil || info.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("the server cannot remove what the command closed: %v, %v", info, err)
	}
}
