package rpc_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/test/testkit"
)

const (
	// testkit.Patience is how long a test waits for what happens at once on a machine that has nothing else to do.

	roleSecret = secret.Text("what-all-roles-share-and-nobody-else")
	runnerWord = "run-as-a-runner" // the first argument of a process that is one
)

// TestMain is also the init of what functions run in, and the runner of tests in which it is a process.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == runnerWord {
		if err := runProcess(os.Args[2]); err != nil {
			slog.Error("the runner failed", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runProcess is a runner: it says where, and serves until it is killed.
func runProcess(known string) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at, err := url.Parse(known)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString(listener.Addr().String() + "\n"); err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(&rpc.Registry{URL: at, Secret: roleSecret}, slog.Default()).Handler,
		ReadHeaderTimeout: testkit.Patience}
	return server.Serve(listener)
}

// functions calls functions whose package's key is the folder that they lie in.
func functions(r *runner.Runner) function.Caller {
	return function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
		f := c.Function
		return r.Run(ctx, runner.Function{Function: *f, Args: []string{"./" + f.Entrypoint}, Dir: f.Package.Key,
			Env: f.Config}, c)
	})
}

// runs is a runner of a test: what it is at /run, and what runs functions in it.
type runs struct {
	*rpc.Handler

	runner *runner.Runner
}

func newHandler(known *rpc.Registry, logger *slog.Logger) runs {
	logs := &rpc.Logs{Logger: logger}
	r := &runner.Runner{Sandbox: sandbox.Detect(context.Background(), sandbox.Off), Logs: logs}
	return runs{&rpc.Handler{Functions: functions(r), Lookup: known.Function, Logs: logs, Secret: roleSecret,
		Logger: logger}, r}
}

// world is a registry with its functions.
type world struct {
	t      testing.TB
	url    *url.URL
	logger *slog.Logger
	log    *logtest.Buffer
	asked  atomic.Int64 // how often the registry was

	mu        sync.Mutex
	functions map[string]*landfall.Function // by NAME:VERSION
}

func newWorld(t testing.TB) *world {
	t.Helper()
	log := &logtest.Buffer{}
	w := &world{t: t, functions: map[string]*landfall.Function{}, log: log,
		logger: slog.New(slog.NewTextHandler(log, nil))}
	door := &rpc.RegistryHandler{Secret: roleSecret,
		Find: func(_ context.Context, ref landfall.Reference, group landfall.UID) (*landfall.Function, error) {
			w.asked.Add(1)
			w.mu.Lock()
			defer w.mu.Unlock()
			f := w.functions[ref.Name+":"+ref.Selector]
			if f == nil || (group != "" && f.Group != group) {
				return nil, &landfall.Error{Op: "world", Kind: landfall.NotFound, Message: "there is no function " + ref.String()}
			}
			return f, nil
		}, Live: func() []*landfall.Function { return nil }}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	var err error
	if w.url, err = url.Parse(server.URL); err != nil {
		t.Fatal(err)
	}
	return w
}

// function makes a function of a shell program.
func (w *world) function(name, program string) *landfall.Function {
	w.t.Helper()
	dir := w.t.TempDir()
	testkit.Program(w.t, filepath.Join(dir, "function"), []byte("#!/bin/sh\n"+program))
	version := landfall.NewUID()
	f := &landfall.Function{
		ID: "default/" + name + ":1 " + string(version), Namespace: "default", Name: name, Version: version, Number: 1,
		Group: landfall.NewUID(), Entrypoint: "function", Package: landfall.Archive{Key: dir},
		Resources: landfall.Resources{Timeout: testkit.Patience}, Config: map[string]string{"GREETING": "hello"},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions[name+":"+string(f.Version)] = f
	return f
}

// counter is a program that counts the events that its process got, and says which process it is. The type of an event
// says what it does before.
const counter = `n=0
while read -r event; do
	n=$((n+1))
	echo "event $n" >&2
	case "$event" in
	*'"type":"slow"'*) sleep 0.2 ;;
	*'"type":"hang"'*) while [ ! -e go ]; do sleep 0.02; done ;;
	*'"type":"exit"'*) echo "it goes" >&2; exit 3 ;;
	*'"type":"large"'*) head -c 20000000 /dev/zero | tr '\0' '{' ;;
	esac
	printf '{"specversion":"1.0","id":"%s","source":"/counter","type":"count","datacontenttype":"text/plain","data":"%s %s"}\n' "$n" "$$" "$n"
done
`

// runner starts a runner in this process.
func (w *world) runner() (at string, r runs, server *httptest.Server) {
	w.t.Helper()
	r = newHandler(&rpc.Registry{URL: w.url, Secret: roleSecret}, w.logger)
	server = httptest.NewServer(r.Handler)
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		r.runner.Close()
	})
	return server.Listener.Addr().String(), r, server
}

// process starts a runner in a process of its own.
func (w *world) process() (at string, kill func()) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), self, runnerWord, w.url.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stderr = w.log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w.t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the runner says no address: %v; %s", err, w.log)
	}
	return strings.TrimSpace(line), kill
}

// router returns a router over some runners.
func (w *world) router(logs runner.Logs, runners ...string) *rpc.Router {
	r := &rpc.Router{Runners: runners, Secret: roleSecret, Logs: logs, Logger: w.logger}
	w.t.Cleanup(r.Close)
	return r
}

// watch lets a router watch its runners until the test ends.
func (w *world) watch(r *rpc.Router) {
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Watch(ctx) // it returns nil
	}()
	w.t.Cleanup(func() {
		stop()
		<-ended
	})
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

// count calls a counter, and returns the process and the number that it says.
func count(t testing.TB, run function.Caller, f *landfall.Function, kind string) (process, number string) {
	t.Helper()
	answer, err := run.Call(t.Context(), function.Call{Function: f, Event: ask(kind, "")})
	if err != nil {
		t.Fatalf("Run: %v (%+v)", err, function.EventError(err))
	}
	process, number, _ = strings.Cut(string(answer.Data()), " ")
	return process, number
}

// ended is what came of a call.
type ended struct {
	answer event.Event
	err    error
}

// begin begins a call with a body, or with nil, whose answer is streamed to somebody; nil: to nobody.
func begin(ctx context.Context, run function.Caller, f *landfall.Function, kind string, body function.Body,
	to function.Stream) chan ended {
	over := make(chan ended, 1)
	go func() {
		answer, err := run.Call(ctx, function.Call{Function: f, Event: ask(kind, "x1"), Body: body, Stream: to})
		over <- ended{answer, err}
	}()
	return over
}

// reason returns why a call failed.
func reason(err error) function.Reason {
	if f, ok := errors.AsType[*function.Error](err); ok {
		return f.Reason
	}
	return ""
}

// logs keeps what functions logged, by execution.
type logs struct {
	mu   sync.Mutex
	text map[string]string
}

func newLogs() *logs { return &logs{text: map[string]string{}} }

// Log implements runner.Logs.
func (l *logs) Log(_, execution string, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text[execution] += string(text)
}

func (l *logs) of(execution string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[execution]
}

// serve serves a handler, and returns where.
func (w *world) serve(h http.Handler) string {
	server := httptest.NewServer(h)
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String()
}

// dead returns an address where nobody listens.
func dead(t testing.TB) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
