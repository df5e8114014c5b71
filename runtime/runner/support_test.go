package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// TestMain is also the init of what the tests confine.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// boxes are the sandboxes of this machine, found once.
var boxes = sync.OnceValue(func() map[string]*sandbox.Sandbox {
	ctx := context.Background()
	return map[string]*sandbox.Sandbox{"confined": sandbox.Detect(ctx, sandbox.Auto),
		"off": sandbox.Detect(ctx, sandbox.Off)}
})

// box returns a sandbox, which must work.
func box(t testing.TB, kind string) *sandbox.Sandbox {
	t.Helper()
	s := boxes()[kind]
	if s.Kind() == "none" {
		t.Fatal("nothing can confine functions here; type: apt-get install bubblewrap")
	}
	return s
}

// logs keeps what functions logged, by execution.
type logs struct {
	mu   sync.Mutex
	text map[string]string
	wake chan struct{}
}

func newLogs() *logs { return &logs{text: map[string]string{}, wake: make(chan struct{}, 1)} }

// Log implements runner.Logs.
func (l *logs) Log(_, execution string, text []byte) {
	l.mu.Lock()
	l.text[execution] += string(text)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *logs) of(execution string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[execution]
}

// await waits until an execution's log has a text.
func (l *logs) await(t *testing.T, execution, text string) {
	t.Helper()
	late := time.After(testkit.Patience)
	for !strings.Contains(l.of(execution), text) {
		select {
		case <-l.wake:
		case <-late:
			t.Fatalf("the log of %q has no %q: %q", execution, text, l.of(execution))
		}
	}
}

// start returns a runner that is closed with the test, and has left nothing then.
func start(t testing.TB, r *runner.Runner) *runner.Runner {
	t.Helper()
	if r.Sandbox == nil {
		r.Sandbox = box(t, "confined")
	}
	t.Cleanup(r.Close)
	return r
}

// write makes a folder with an executable file, function.
func write(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Program(t, filepath.Join(dir, "function"), []byte(text))
	return dir
}

// answer is a line of shell that answers with the number of the event, as its data.
const answer = `printf '{"specversion":"1.0","id":"%s","source":"/counter","type":"count","data":%s}\n' "$n" "$n"`

// counter returns a function that counts the events that it got, and does something else when an event's type is "bad".
func counter(t testing.TB, bad string) runner.Function {
	t.Helper()
	return runner.Function{Function: landfall.Function{ID: t.Name()}, Args: []string{"./function"},
		Dir: write(t, `#!/bin/sh
n=0
while read -r event; do
	n=$((n+1))
	case "$event" in *'"type":"bad"'*) `+bad+` ;; *) `+answer+` ;; esac
done
`)}
}

// ask returns an event of a type.
func ask(kind, execution string) event.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("/test")
	e.SetType(kind)
	if execution != "" {
		event.SetExecution(&e, execution)
	}
	return e
}

// count calls a counter, and returns the number that it says.
func count(t testing.TB, r *runner.Runner, f runner.Function) int {
	t.Helper()
	e, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "")})
	if err != nil {
		t.Fatalf("Run: %v (%+v)", err, function.EventError(err))
	}
	n, err := strconv.Atoi(string(e.Data()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reason returns why a call failed.
func reason(err error) function.Reason {
	if f, ok := errors.AsType[*function.Error](err); ok {
		return f.Reason
	}
	return ""
}

// processes returns the processes of the machine that have a word in their command line.
func processes(word string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if data, err := os.ReadFile(line); err == nil && bytes.Contains(data, []byte(word)) {
			found = append(found, fmt.Sprintf("%s %q", line, data))
		}
	}
	return found
}

// held returns how many descriptors and goroutines this process has.
func held(t testing.TB) (descriptors, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries), runtime.NumGoroutine()
}
