package rpc_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/trigger"
	"landfall.dev/landfall/test/testkit"
)

// A function that is called here runs in another process, by way of a router or without one: its answer and its log are
// those that it would have here.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _ := w.process()
	through := w.serve(w.router(nil, at))
	for name, address := range map[string]string{"a runner": at, "a router": through} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := newLogs()
			r := w.router(logs, address)
			f := w.function("greet", counter)
			answer, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("greet", "x1")})
			// E-036: the runner is a process that was told where the registry is, and nothing else
			if err != nil {
				t.Fatal(err)
			}
			// E-072: it passes the event to a router or a runner, whichever it is told
			if answer.Source() != "/counter" || answer.Type() != "count" {
				t.Errorf("the answer is %s from %s, want the function's", answer.Type(), answer.Source())
			}
			// E-076: there the function ran
			if !strings.HasSuffix(string(answer.Data()), " 1") {
				t.Errorf("the answer is %q, want that it is the first of its process", answer.Data())
			}
			if got := event.ExecutionOf(answer); got != "x1" {
				t.Errorf("the answer is of the execution %q, want x1", got)
			}
			if got, want := logs.of("x1"), "event 1\n"; got != want {
				t.Errorf("the log is %q, want %q", got, want)
			}
		})
	}
}

// The trigger manager calls functions elsewhere as it calls them in its own process.
func TestTriggerManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	f := w.function("echo", `while read -r event; do printf '%s\n' "$event"; done`)
	bound := &registry.Trigger{Trigger: landfall.Trigger{Config: map[string]string{"GREETING": "good morning"}},
		Name: "greet", AppName: "shop", Namespace: "default", Function: f}
	for name, address := range map[string]string{"a runner": at, "a router": w.serve(w.router(nil, at))} {
		seen := &spy{run: w.router(nil, address)}
		m := &trigger.Manager{
			Functions: seen, Table: func() *registry.Table { return nil },
			Address: func(f *landfall.Function) string { return "https://landfall.example" + rpc.NameOf(f).String() },
		}
		answer, err := m.Call(t.Context(), function.Call{Function: f, Trigger: bound, Event: ask("greet", "x1")})
		// E-060: by a router, or by a runner if there is none
		if err != nil || answer.Type() != "greet" {
			t.Errorf("by way of %s the trigger manager gets %v, %v", name, answer, err)
		}
		// The event has the configuration of app and trigger.
		if config, err := event.ConfigOf(seen.event); err != nil || config["GREETING"] != "good morning" {
			t.Errorf("the event says %v, %v; want the trigger's configuration", config, err)
		}
		if config, err := event.ConfigOf(answer); err != nil || len(config) != 0 {
			t.Errorf("the answer says %v, %v; want nothing of what only the function is told", config, err)
		}
	}
}

// spy keeps the event that a function was called with.
type spy struct {
	run   function.Caller
	event event.Event
}

// Call implements function.Caller.
func (s *spy) Call(ctx context.Context, c function.Call) (event.Event, error) {
	s.event = c.Event
	return s.run.Call(ctx, c)
}

// What goes wrong in another process is the same error here, so that whoever answers for it answers the same.
func TestErrorsTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, here, _ := w.runner()
	direct, through := w.router(nil, at), w.router(nil, w.serve(w.router(nil, at)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name, kind string
		change     func(f *landfall.Function)
		gone       bool // the caller is
		hold       bool // while another call takes the only place
		reason     function.Reason
	}{
		{name: "an end", kind: "exit", reason: function.ReasonExit},
		{name: "too large", kind: "large", reason: function.ReasonTooLarge},
		{name: "too late", kind: "hang", change: func(f *landfall.Function) {
			f.Resources.Timeout = 50 * time.Millisecond
		}, reason: function.ReasonTimeout},
		{name: "busy", kind: "good", change: func(f *landfall.Function) {
			f.Resources.Concurrency = 1
		}, hold: true, reason: function.ReasonBusy},
		{name: "given up", kind: "good", gone: true},
		{name: "no program", kind: "good", change: func(f *landfall.Function) {
			f.Entrypoint = "nothing"
		}, reason: function.ReasonExit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := w.function(strings.ReplaceAll(test.name, " ", "-"), counter)
			if test.change != nil {
				test.change(f)
			}
			ctx := t.Context()
			if test.gone {
				ctx = gone
			}
			if test.hold {
				var group sync.WaitGroup
				defer group.Wait()
				defer release(t, f)
				group.Go(func() { _, _ = here.Functions.Call(t.Context(), function.Call{Function: f, Event: ask("hang", "")}) })
				testkit.Eventually(t, "the place is taken", func() bool {
					n, idle := here.runner.Count(f.ID)
					return n == 1 && idle == 0
				})
			}
			_, want := here.Functions.Call(ctx, function.Call{Function: f, Event: ask(test.kind, "x")})
			if want == nil || reason(want) != test.reason {
				t.Fatalf("here it makes %v, want %q", want, test.reason)
			}
			for name, run := range map[string]function.Caller{"a runner": direct, "a router": through} {
				_, err := run.Call(ctx, function.Call{Function: f, Event: ask(test.kind, "y")})
				same(t, name, err, want)
			}
		})
	}
}

// release lets the calls of a function that hang go on.
func release(t testing.TB, f *landfall.Function) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.Package.Key, "go"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// same fails unless an error says to people and programs what another one says.
func same(t *testing.T, name string, got, want error) {
	t.Helper()
	if landfall.KindOf(got) != landfall.KindOf(want) || landfall.MessageOf(got) != landfall.MessageOf(want) {
		t.Errorf("by way of %s the error is %s %q, want %s %q", name,
			landfall.KindOf(got), landfall.MessageOf(got), landfall.KindOf(want), landfall.MessageOf(want))
	}
	var zero function.Error
	is, _ := errors.AsType[*function.Error](got)
	was, _ := errors.AsType[*function.Error](want)
	if is == nil {
		is = &zero
	}
	if was == nil {
		was = &zero
	}
	if is.Reason == function.ReasonTimeout || is.Reason == function.ReasonProtocol {
		is.Trace = was.Trace // how far it came is chance
	}
	if *is != *was {
		t.Errorf("by way of %s it failed as %+v, want %+v", name, is, was)
	}
}

// What the caller says of resources goes before what the registry says: it knows the trigger, and the registry only the
// function.
func TestResourcesOfCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	f := w.function("hang", counter)
	defer release(t, f)
	asked := *f
	asked.Resources = landfall.Resources{Timeout: 50 * time.Millisecond}
	for name, address := range map[string]string{"a runner": at, "a router": w.serve(w.router(nil, at))} {
		began := time.Now()
		if _, err := w.router(nil, address).Call(t.Context(), function.Call{Function: &asked,
			Event: ask("hang", "")}); reason(err) != function.ReasonTimeout || time.Since(began) > testkit.Patience/2 {
			t.Errorf("by way of %s it ended after %s with %v, want after the caller's %s", name, time.Since(began), err,
				asked.Resources.Timeout)
		}
	}
}

// Two calls that name the same execution at the same time are two, and nobody gets the log of the other one.
func TestSameExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	f := w.function("talk", `while read -r event; do
	case "$event" in
	*'"type":"hang"'*)
		echo "it begins" >&2
		while [ ! -e go ]; do sleep 0.02; done
		echo "it ends" >&2 ;;
	*) echo "another" >&2 ;;
	esac
	printf '{"specversion":"1.0","id":"1","source":"/talk","type":"said"}\n'
done`)
	first, second := newLogs(), newLogs()
	over := begin(t.Context(), w.router(first, at), f, "hang", nil, nil)
	testkit.Eventually(t, "the first one runs", func() bool { return first.of("x1") == "it begins\n" })
	if end := <-begin(t.Context(), w.router(second, at), f, "good", nil, nil); end.err != nil ||
		second.of("x1") != "another\n" {
		t.Errorf("the second one: got %v and the log %q, want its own line", end.err, second.of("x1"))
	}
	release(t, f)
	if end := <-over; end.err != nil || first.of("x1") != "it begins\nit ends\n" {
		t.Errorf("the first one: got %v and the log %q, want its own lines", end.err, first.of("x1"))
	}
}

// A router sends on what a runner needs, and nothing else that a request has.
func TestSentOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	got := make(chan http.Header, 1)
	there := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Clone()
		busy(w, r)
	})
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	send(t, http.MethodPost, "http://"+w.serve(w.router(nil, there.at()))+"/run", http.Header{
		"Authorization": {"Bearer " + roleSecret.Reveal()}, "Content-Type": {"text/plain"}, "Traceparent": {trace},
		rpc.FunctionHeader: {rpc.NameOf(f).String()},
		"Ce-Specversion":   {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/me"}, "Ce-Type": {"good"},
		"Cookie": {"session=1"}, "X-Forwarded-For": {"192.0.2.1"}, "Proxy-Authorization": {"Basic x"}, "User-Agent": {"me"},
	}, "hello")
	h := <-got
	for name, want := range map[string]string{
		"Authorization": "Bearer " + roleSecret.Reveal(), "Content-Type": "text/plain", "Traceparent": trace,
		"Ce-Type": "good", rpc.FunctionHeader: rpc.NameOf(f).String(), "Cookie": "", "X-Forwarded-For": "",
		"Proxy-Authorization": "",
	} {
		if h.Get(name) != want {
			t.Errorf("the runner gets %q as %s, want %q", h.Get(name), name, want)
		}
	}
}

// What a function logs is there while it runs.
func TestLogsTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	logs := newLogs()
	r := w.router(logs, w.serve(w.router(nil, at)))
	f := w.function("talk", counter)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("hang", "x1")})
		ended <- err
	}()
	testkit.Eventually(t, "the log is there before the answer", func() bool { return logs.of("x1") == "event 1\n" })
	release(t, f)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A call that is given up ends the function.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	r := w.router(nil, w.serve(w.router(nil, at)))
	f := w.function("hang", counter)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := begin(ctx, r, f, "hang", nil, nil)
	testkit.Eventually(t, "the function runs", func() bool { n, _ := there.runner.Count(f.ID); return n == 1 })
	cancel()
	if end := <-over; landfall.KindOf(end.err) != landfall.Canceled {
		t.Errorf("the call ends with %v, want that it was given up", end.err)
	}
	testkit.Eventually(t, "the function is gone", func() bool { n, _ := there.runner.Count(f.ID); return n == 0 })
}

// What is known of a function's version is asked for once. It runs on when the registry is away.
func TestRegistryIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	r := w.router(nil, at)
	f := w.function("greet", `while read -r event; do
	printf '{"specversion":"1.0","id":"1","source":"/s","type":"greet","data":"%s"}\n' "$GREETING"
done`)
	for range 5 {
		answer, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("greet", "")})
		if err != nil {
			t.Fatal(err)
		}
		// E-075: what the function is, and how it is configured, is the registry's to say
		if got := string(answer.Data()); got != `"hello"` {
			t.Errorf("the function says %s, want what it is configured to", got)
		}
	}
	if n := w.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times, want once", n)
	}
	other := *f
	other.ID, other.Version = "another", landfall.NewUID()
	_, err := r.Call(t.Context(), function.Call{Function: &other, Event: ask("greet", "")})
	if landfall.KindOf(err) != landfall.NotFound ||
		!strings.Contains(landfall.MessageOf(err), "there is no function default/greet:"+string(other.Version)) {
		t.Errorf("a version that is not there makes %v, want the registry's words", err)
	}
}

// A function that changed under its name, as when a secret of it was revoked, is not the one that was known.
func TestRegistryHasAnotherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	r := w.router(nil, at)
	f := w.function("greet", counter)
	asked := *f
	asked.ID = "as the caller knew it a moment ago"
	for range 3 {
		count(t, r, &asked, "good")
	}
	if n := w.asked.Load(); n != 3 {
		t.Errorf("the registry was asked %d times, want each time, since it has another one", n)
	}
}

// While nobody is there who could run a function, the error says so, and that it is worth another try.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	for name, r := range map[string]function.Caller{
		"no runner": w.router(nil), "a dead one": w.router(nil, dead(t)),
		"behind a router": w.router(nil, w.serve(w.router(nil, dead(t)))),
	} {
		_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
		if landfall.KindOf(err) != landfall.Unavailable || reason(err) != "" {
			t.Errorf("%s: %v, want that it is not available", name, err)
		}
	}
}

// A function is called by its URL alone, in whatever process there is.
func TestShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	for range 2 {
		at, _ := w.process()
		status, body := send(t, http.MethodPost, "http://"+at+"/run", http.Header{
			"Authorization": {"Bearer " + roleSecret.Reveal()}, "Content-Type": {"application/cloudevents+json"},
		},
			`{"specversion":"1.0","id":"1","source":"/me","type":"good","function":"https://functions.example/functions/default/greet:`+string(f.Version)+`"}`)
		// E-046: by a process that has nothing of the function's app
		if status != http.StatusOK || !strings.Contains(body, `"source":"/counter"`) {
			t.Errorf("the function's URL alone makes %d %s, want the function's answer", status, body)
		}
	}
}

// Calls that end well, badly, or are given up leave nothing: no goroutine, no connection and no process.
func TestNothingStays(t *testing.T) { //nolint:paralleltest // it counts what all of the process has
	before := runtime.NumGoroutine()
	t.Run("calls", func(t *testing.T) {
		w := newWorld(t)
		at, _, _ := w.runner()
		front := w.router(nil, at, dead(t))
		w.watch(front)
		lossy := newStub(t, cut)
		r, lost := w.router(newLogs(), w.serve(front)), w.router(nil, lossy.at())
		f := w.function("greet", counter)
		for range 20 {
			count(t, r, f, "good")
			_, _ = r.Call(t.Context(), function.Call{Function: f, Event: ask("exit", "")})
			_, _ = lost.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
			short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			_, _ = r.Call(short, function.Call{Function: f, Event: ask("slow", "")})
			cancel()
		}
	})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
