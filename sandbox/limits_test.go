package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/sandbox"
)

const mib = 1 << 20

// kinds returns every way in which limits are held.
func kinds(t *testing.T) map[string]*sandbox.Sandbox {
	t.Helper()
	s, off := confined(t), sandbox.Detect(t.Context(), sandbox.Off)
	return map[string]*sandbox.Sandbox{
		"confined with control groups": s, "confined with the watch alone": sandbox.WatchOnly(s),
		"off with control groups": off, "off with the watch alone": sandbox.WatchOnly(off),
	}
}

// A command that wants more than it may have is ended, quickly and whole, and its result names the limit. It is the
// same whether control groups hold the limit or the watch.
func TestLimits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is seen; so not parallel
	for kind, s := range kinds(t) {
		at := sandbox.InitAt
		if s.Kind() == "off" {
			at = self(t)
		}
		for i, test := range []struct {
			name, shell, killed string
			limits              sandbox.Limits
		}{
			{"time", "sleep 600 & sleep 600", "time limit of 300ms", sandbox.Limits{Wall: 300 * time.Millisecond}},
			{"time, deaf to signals", `trap "" TERM INT HUP QUIT; while :; do sleep 0.1; done`, "time limit of 300ms",
				sandbox.Limits{Wall: 300 * time.Millisecond}},
			{"time, busy", `while :; do :; done`, "time limit of 300ms", sandbox.Limits{Wall: 300 * time.Millisecond}},
			{"memory", at + " probe hog 1500000000", "memory limit of 256 MiB", sandbox.Limits{Memory: 256 * mib}},
			{"memory, and go on", at + " probe hog 1500000000; sleep 600", "memory limit of 256 MiB",
				sandbox.Limits{Memory: 256 * mib}},
			{"processes", `while :; do sleep 600 & done`, "limit of 40 processes", sandbox.Limits{Processes: 40}},
			{"disk, one file", "cat /dev/zero > big; sleep 600", "disk limit of 8 MiB", sandbox.Limits{Disk: 8 * mib}},
			{"disk, a file with holes", "truncate -s 8M a; truncate -s 8M b; sleep 600", "disk limit of 8 MiB",
				sandbox.Limits{Disk: 8 * mib}},
			{"disk, empty files", `i=0; mkdir -p a/b; while :; do : > a/b/$i; i=$((i+1)); done`, "disk limit of 1 MiB",
				sandbox.Limits{Disk: mib}},
			{"disk, files without a name", "exec 3> a 4> b; rm a b; head -c 6M /dev/zero >&3; head -c 6M /dev/zero >&4; " +
				"sleep 600", "disk limit of 8 MiB", sandbox.Limits{Disk: 8 * mib}},
			{"folders", at + " probe deep 30000; sleep 600", "limit of 300 folders within one another", sandbox.Limits{}},
			{"folders, and no more", at + " probe deep 30000", "limit of 300 folders within one another", sandbox.Limits{}},
			{"disk, in a folder that is closed", "mkdir a; head -c 9M /dev/zero > a/b; chmod 0 a; sleep 600",
				"disk limit of 8 MiB", sandbox.Limits{Disk: 8 * mib}},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				word := fmt.Sprintf("landfall-test-%d-%d", os.Getpid(), i)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if test.limits.Wall == 0 {
					test.limits.Wall = patience
				}
				var out logtest.Buffer
				result, err := s.Run(t.Context(), sandbox.Command{Dir: dir, Shell: test.shell + " # " + word, Limits: test.limits,
					Output: &out})
				if err != nil {
					t.Fatalf("Run: %v; it printed:\n%.2000s", err, out.String())
				}
				// N-015: a build that hangs, forks without end or fills the disk is ended, and the result says why
				if !strings.Contains(result.Killed, test.killed) {
					t.Errorf("Killed = %q, want %q; the exit code is %d; it printed:\n%.2000s", result.Killed, test.killed,
						result.ExitCode, out.String())
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Errorf("the folder cannot be removed: %v", err)
				}
				// N-015: nothing of it is left behind: no process, no control group, no temporary folder
				if left := leftovers(t, s, word); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// A fork bomb is ended in one blow, because all that it makes ends with process 1.
func TestForkBomb(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is seen; so not parallel
	s := confined(t)
	word := fmt.Sprintf("landfall-bomb-%d", os.Getpid())
	result, err := s.Run(t.Context(), sandbox.Command{
		Dir: dir, Shell: `bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done # ` + word,
		Limits: sandbox.Limits{Processes: 64, Wall: patience},
	})
	if err != nil {
		t.Fatal(err)
	}
	// N-015: a build that forks without end is ended by its limit of processes
	if want := "limit of 64 processes"; !strings.Contains(result.Killed, want) {
		t.Errorf("Killed = %q, want %q", result.Killed, want)
	}
	// N-015: nothing of it is left behind
	if left := leftovers(t, s, word); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What lies in memory has a size of its own, so that it fails like a full disk, and the host's /tmp has none of it.
func TestTemporaryFilesAreLimited(t *testing.T) {
	t.Parallel()
	s := confined(t)
	for _, folder := range []string{"/tmp", "/dev/shm"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			out := show(t, s, sandbox.Command{
				Shell:  "head -c 400M /dev/zero > " + folder + "/big; stat -c 'it has %s bytes' " + folder + "/big",
				Limits: sandbox.Limits{Memory: 256 * mib},
			})
			var size int
			_, after, _ := strings.Cut(out, "it has ")
			// N-015: a build that fills its temporary folder gets an error there
			if _, err := fmt.Sscan(after, &size); err != nil || size > 128*mib ||
				!strings.Contains(out, "No space left on device") {
				t.Errorf("the file has %d bytes, want at most 128 MiB and an error: %v:\n%s", size, err, out)
			}
		})
	}
}

// Of a flood the beginning is passed on, with a line that says that it was cut; the command goes on to its end.
func TestOutputIsCut(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := show(t, s, sandbox.Command{Dir: dir, Shell: "yes | head -c 20000000; yes | head -c 20000000 >&2; echo " +
				"ended > ended", Limits: sandbox.Limits{Output: 1001, Wall: patience}})
			cut := "(the output is cut here: it reached its limit)"
			// N-015: a build that floods its log has its log cut, and goes on
			if want := strings.Repeat("y\n", 500) + "y"; !strings.HasPrefix(out, want) || len(out) > len(want)+len(cut)+2 ||
				!strings.Contains(out, cut) {
				t.Errorf("the output has %d bytes and ends with %q", len(out), out[max(0, len(out)-100):])
			}
			if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
				t.Errorf("the command did not come to its end: %v", err)
			}
		})
	}
}

// broken is an output that cannot be written to.
type broken struct{}

// Write implements io.Writer.
func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// An output that fails does not hold up the command, and none is none.
func TestOutputThatFails(t *testing.T) {
	t.Parallel()
	s := confined(t)
	result, err := s.Run(t.Context(), sandbox.Command{Dir: t.TempDir(), Shell: "head -c 5000000 /dev/zero; exit 3",
		Output: broken{}})
	if err != nil || plain(result) != (sandbox.Result{ExitCode: 3}) {
		t.Errorf("Run = %+v, %v, want exit code 3", result, err)
	}
	result, err = s.Run(t.Context(), sandbox.Command{Dir: t.TempDir(), Shell: "head -c 5000000 /dev/zero; exit 4"})
	if err != nil || plain(result) != (sandbox.Result{ExitCode: 4}) {
		t.Errorf("Run = %+v, %v, want exit code 4", result, err)
	}
}

// The exit code is the command's own, also when a signal ended it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		for shell, want := range map[string]int{
			"true": 0, "exit 1": 1, "exit 42": 42, "exit 125": 125, "exit 255": 255, "no-such-command": 127, "/etc": 126,
			"syntax (": 2, "kill -9 $$": 137, "kill -TERM $$": 143, "kill -SEGV $$": 139, "sh -c 'kill -9 $$'": 137,
			"(sleep 0.1; exit 7) & exit 5": 5,
		} {
			t.Run(kind+"/"+shell, func(t *testing.T) {
				t.Parallel()
				result, err := s.Run(t.Context(), sandbox.Command{Dir: t.TempDir(), Shell: shell})
				// N-015: a build that fails is a result, with its exit code
				result = plain(result)
				if want := (sandbox.Result{ExitCode: want}); err != nil || result != want {
					t.Errorf("Run = %+v, %v, want %+v", result, err, want)
				}
			})
		}
	}
}

// reacting calls itself with what is printed.
type reacting func(printed string)

// Write implements io.Writer.
func (r reacting) Write(p []byte) (int, error) {
	r(string(p))
	return len(p), nil
}

// What is printed arrives while the command runs: here it waits for what the reader of its first line does.
func TestStreaming(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var out strings.Builder
			output := reacting(func(printed string) {
				out.WriteString(printed)
				if out.String() == "first\n" {
					if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
						t.Error(err)
					}
				}
			})
			result, err := s.Run(t.Context(), sandbox.Command{
				Dir: dir, Output: output, Shell: "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last >&2",
				Limits: sandbox.Limits{Wall: patience},
			})
			if got, want := out.String(), "first\nlast\n"; err != nil || plain(result) != (sandbox.Result{}) || got != want {
				t.Errorf("Run = %+v, %v with output %q, want %q", result, err, got, want)
			}
		})
	}
}

// The end of the context ends the command, whole, and is not the command's fault.
func TestCancel(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			word := fmt.Sprintf("landfall-cancel-%d-%d", os.Getpid(), len(kind))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			output := reacting(func(string) { cancel() })
			result, err := s.Run(ctx, sandbox.Command{Dir: t.TempDir(), Output: output,
				Shell: `trap "" TERM; (sleep 600; true) & echo up; while :; do sleep 600; done # ` + word})
			if landfall.KindOf(err) != landfall.Canceled || !errors.Is(err, context.Canceled) || result.Killed != "" {
				t.Errorf("Run = %+v, %v, want Canceled", result, err)
			}
			if left := running(word); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			_, err = s.Run(ctx, sandbox.Command{Dir: t.TempDir(), Shell: "echo x > written"})
			if landfall.KindOf(err) != landfall.Canceled {
				t.Errorf("Run with a context that has ended: %v, want Canceled", err)
			}
		})
	}
}

// Commands run beside each other, each with its own folder, output and end.
func TestBesideEachOther(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		for i := range 8 {
			t.Run(fmt.Sprintf("%s/%d", kind, i), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				var out logtest.Buffer
				proxy := &sandbox.Proxy{} // each has its own at the same address
				if s.Kind() == "off" {
					proxy = nil
				}
				result, err := s.Run(t.Context(), sandbox.Command{
					Dir: dir, Output: &out, Proxy: proxy, Env: map[string]string{"N": fmt.Sprint(i)},
					Shell: `echo $N > mine; echo $N > $TMPDIR/mine; for i in 1 2 3 4 5; do sleep 0.05; echo $N; done; cat mine $TMPDIR/mine; exit $N`,
				})
				if want := strings.Repeat(fmt.Sprintf("%d\n", i), 7); err != nil ||
					plain(result) != (sandbox.Result{ExitCode: i}) || out.String() != want {
					t.Errorf("Run = %+v, %v with output %q, want exit code %d and %q", result, err, out.String(), i, want)
				}
			})
		}
	}
}

// plain is a result without where its folder was.
func plain(r sandbox.Result) sandbox.Result {
	r.Dir = ""
	return r
}
