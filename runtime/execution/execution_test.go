package execution_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// counts is a meter.
type counts struct {
	mu         sync.Mutex
	outcomes   map[execution.Outcome]int
	unrecorded int
}

// Called implements execution.Meter.
func (c *counts) Called(_ *landfall.Function, outcome execution.Outcome, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[outcome]++
}

// Unrecorded implements execution.Meter.
func (c *counts) Unrecorded(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unrecorded += n
}

// fixture is a recorder on a database.
type fixture struct {
	*execution.Recorder
	t      testing.TB
	db     *store.DB
	counts *counts
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	db := storetest.Open(t, storetest.SQLite(t))
	c := &counts{outcomes: map[execution.Outcome]int{}}
	return &fixture{
		&execution.Recorder{DB: db, Process: "p", Logger: slog.New(slog.DiscardHandler), Meter: c}, t, db, c,
	}
}

// hello is a version of a function with a secret in its configuration.
func hello() *landfall.Function {
	return &landfall.Function{ID: "hello", Namespace: "default", Name: "hello", Version: "owf2k7qa", Number: 3,
		Group: "owf2k7qb", Config: map[string]string{"password": "hunter2"}}
}

// request is an event of a name.
func request(id string) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("/me")
	e.SetType("greet")
	e.SetDataContentType("text/plain")
	e.DataEncoded = []byte("Ada")
	event.SetExecution(&e, "x-"+id)
	event.SetConfig(&e, map[string]string{"password": "hunter2"})
	event.SetTrigger(&e, event.Trigger{FunctionURL: "/functions/hello", Config: map[string]string{"password": "hunter2"}})
	return e
}

// answers is a Caller that knows of a call only the event.
type answers func(ctx context.Context, e event.Event) (event.Event, error)

// Call implements function.Caller.
func (f answers) Call(ctx context.Context, c function.Call) (event.Event, error) {
	return f(ctx, c.Event)
}

// run records a call that next takes.
func (f *fixture) run(ctx context.Context, fn *landfall.Function, e event.Event, next answers) (event.Event, error) {
	return f.Recorded(next).Call(ctx, function.Call{Function: fn, Event: e})
}

// greets answers an event.
func greets(_ context.Context, e event.Event) (event.Event, error) {
	answer := event.Answer(e, "answer")
	answer.SetDataContentType("text/plain")
	answer.DataEncoded = []byte("Hello")
	return answer, nil
}

// shown returns an execution as the store has it now.
func (f *fixture) shown(id string) landfall.Execution {
	f.t.Helper()
	if err := f.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	x, err := f.db.Execution(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return x
}

func (f *fixture) log(id string) string {
	f.t.Helper()
	pieces, err := f.db.ExecutionLog(f.t.Context(), id, 0, 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	var all strings.Builder
	for _, p := range pieces {
		all.WriteString(p.Text)
	}
	return all.String()
}

// What a run came to is on record, with what it logged, and without anything that it was given.
func TestRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hooked := &registry.Trigger{Release: "release1", Name: "hook"}
	_, err := f.Recorded(answers(func(ctx context.Context, e event.Event) (event.Event, error) {
		f.Log("hello", event.ExecutionOf(e), []byte("one\nt"))
		f.Log("hello", event.ExecutionOf(e), []byte("wo\n"))
		f.Log("hello", "", []byte("between two\n"))
		f.Log("hello", "x-2", []byte("another's\n"))
		running := f.shown("x-1")
		testkit.Equal(t, "state while it runs", running.State, landfall.ExecutionRunning)
		testkit.Equal(t, "log while it runs", f.log("x-1"), "one\ntwo\n")
		f.Log("hello", event.ExecutionOf(e), []byte("the end"))
		return greets(ctx, e)
	})).Call(t.Context(), function.Call{Function: hello(), Trigger: hooked, Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	x := f.shown("x-1")
	// C-013: the record has the version of the function that was in use
	testkit.Equal(t, "number of the version", x.Number, 3)
	testkit.Equal(t, "version", x.Version, "owf2k7qa")
	testkit.Equal(t, "release", x.Release, "release1")
	testkit.Equal(t, "trigger", x.Trigger, "hook")
	testkit.Equal(t, "event", x.Event, landfall.ExecutionEvent{Source: "/me", Type: "greet", ID: "1"})
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "sizes", fmt.Sprint(x.Input, x.Output, x.Log), "3 5 15")
	testkit.Equal(t, "log", f.log("x-1"), "one\ntwo\nthe end")
	if x.Duration <= 0 {
		t.Errorf("duration: got %v", x.Duration)
	}
	// E-041: neither configuration nor what a trigger added is in the record
	testkit.Equal(t, "whether the record has the secret", strings.Contains(fmt.Sprintf("%+v", x), "hunter2"), false)
}

// Two runs at the same time that name the same execution are two, each with a record and a log of its own; so are those
// that name none.
func TestSameExecution(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	names := map[string]bool{}
	say := func(line string, inner func()) func(context.Context, event.Event) (event.Event, error) {
		return func(ctx context.Context, e event.Event) (event.Event, error) {
			inner()
			name := event.ExecutionOf(e)
			names[name] = true
			f.Log("hello", name, []byte(line))
			testkit.Equal(t, "log of "+name, f.shown(name).Log, int64(len(line)))
			testkit.Equal(t, "log of "+name, f.log(name), line)
			return greets(ctx, e)
		}
	}
	run := func(name, line string, inner func()) {
		e := request("1")
		event.SetExecution(&e, name)
		if _, err := f.run(t.Context(), hello(), e, say(line, inner)); err != nil {
			t.Error(err)
		}
		testkit.Equal(t, "name in the caller's event", event.ExecutionOf(e), name)
	}
	run("x-1", "first\n", func() {
		run("x-1", "the second\n", func() {})
		run("", "another\n", func() {})
		run(strings.Repeat("x", 1000), "with a long name\n", func() {})
	})
	if len(names) != 4 || !names["x-1"] {
		t.Errorf("the executions are %v, want four", names)
	}
}

// Each way to fail has its reason.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fails := func(name string, fault error, answer func(e *event.Event)) landfall.Execution {
		_, _ = f.run(t.Context(), hello(), request(name), func(ctx context.Context, e event.Event) (event.Event, error) {
			if fault != nil {
				return event.Event{}, fault
			}
			a, err := greets(ctx, e)
			answer(&a)
			return a, err
		})
		return f.shown("x-" + name)
	}
	for _, c := range []struct {
		name    string
		fault   error
		answer  func(e *event.Event)
		reason  string
		message string
		outcome execution.Outcome
		log     string
	}{
		{"timeout", &landfall.Error{Message: "too slow", Err: &function.Error{Reason: function.ReasonTimeout, Trace: "secret"}},
			nil, "timeout", "too slow", execution.Failed, "too slow\n"},
		{"busy", &landfall.Error{Kind: landfall.Unavailable, Message: "later", Err: &function.Error{Reason: function.ReasonBusy}},
			nil, "busy", "later", execution.Busy, ""},
		{"left", &landfall.Error{Kind: landfall.Canceled, Message: "gone"}, nil, "canceled", "gone", execution.Canceled, ""},
		{"package", &landfall.Error{Kind: landfall.NotFound, Message: "no package"}, nil, "not-found", "no package",
			execution.Refused, "no package\n"}, {"error", nil, func(e *event.Event) {
			event.SetError(e, event.Error{Message: "no", Type: "ValueError"})
		}, "ValueError", "no", execution.Failed,
			"no\n"},
		{"long", nil, func(e *event.Event) { event.SetError(e, event.Error{Message: strings.Repeat("é", 1000)}) }, "error",
			strings.Repeat("é", 512), execution.Failed, strings.Repeat("é", 512) + "\n"},
	} {
		f.counts.outcomes[c.outcome] = 0
		x := fails(c.name, c.fault, c.answer)
		testkit.Equal(t, c.name+": state", x.State, landfall.ExecutionFailed)
		testkit.Equal(t, c.name+": reason", x.Reason, c.reason)
		testkit.Equal(t, c.name+": message", x.Message, c.message)
		testkit.Equal(t, c.name+": counted", f.counts.outcomes[c.outcome], 1)
		testkit.Equal(t, c.name+": log", f.log(x.ID), c.log)
		testkit.Equal(t, c.name+": size of the log", x.Log, int64(len(c.log)))
	}
}

// The log of a function that gave no answer ends with why, on a line of its own; one that answered with an error has
// said it itself.
func TestLogSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	logs := func(name string, fault error) string {
		_, _ = f.run(t.Context(), hello(), request(name), func(ctx context.Context, e event.Event) (event.Event, error) {
			f.Log("hello", event.ExecutionOf(e), []byte("half a li"))
			if fault != nil {
				return event.Event{}, fault
			}
			a, err := greets(ctx, e)
			event.SetError(&a, event.Error{Message: "no"})
			return a, err
		})
		f.shown("x-" + name)
		return f.log("x-" + name)
	}
	exit := &landfall.Error{Message: "it ended with exit code 3", Err: &function.Error{Reason: function.ReasonExit}}
	testkit.Equal(t, "log of one that ended", logs("ended", exit), "half a li\nit ended with exit code 3\n")
	testkit.Equal(t, "log of one that answered with an error", logs("answered", nil), "half a li")
}

// picky is a Recipient that can use no answer.
type picky struct{}

// Sent implements function.Recipient.
func (picky) Sent() int64 { return 0 }

// Judge implements function.Recipient.
func (picky) Judge(event.Event) error {
	return &landfall.Error{Op: "test", Message: "hunter2 is no header", Err: &function.Error{Reason: function.ReasonProtocol}}
}

// A call whose answer nobody can use did not succeed: the record says so, and the log why, as the page tells its
// visitor.
func TestUnusableAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Redact = func(_ *landfall.Function, text string) string { return strings.ReplaceAll(text, "hunter2", "[secret]") }
	_, err := f.Recorded(answers(greets)).Call(t.Context(),
		function.Call{Function: hello(), Event: request("1"), Recipient: picky{}})
	testkit.Equal(t, "what the caller is told", landfall.MessageOf(err), "hunter2 is no header")
	x := f.shown("x-1")
	testkit.Equal(t, "state", x.State, landfall.ExecutionFailed)
	testkit.Equal(t, "reason", x.Reason, string(function.ReasonProtocol))
	testkit.Equal(t, "log", f.log("x-1"), "[secret] is no header\n")
}

// An answer does not wait for the database: not for the record, and not for the log.
func TestAnswerDoesNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, let := make(chan struct{}), make(chan struct{})
	over := make(chan error)
	go func() {
		over <- f.db.Update(t.Context(), func(*store.Tx) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error)
	go func() { kept <- f.Keep(ctx) }()
	answer, err := f.run(t.Context(), hello(), request("1"),
		func(ctx context.Context, e event.Event) (event.Event, error) {
			f.Log("hello", event.ExecutionOf(e), []byte("a line\n"))
			return greets(ctx, e)
		})
	// E-042: the answer is there while the log is not stored yet
	testkit.Equal(t, "answer while the store is held", string(answer.Data()), "Hello")
	if err != nil {
		t.Error(err)
	}
	close(let)
	stop()
	if err := errors.Join(<-over, <-kept); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "state later", f.shown("x-1").State, landfall.ExecutionSucceeded)
	// E-042: the log is fetched by itself
	testkit.Equal(t, "log later", f.log("x-1"), "a line\n")
}

// While the database does not answer, what waits for it has a bound, however often it is tried to write it.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits = execution.Limits{Rate: 10_000_000, Keep: 10_000_000}
	held, let, over := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		over <- f.db.Update(t.Context(), func(*store.Tx) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	calls := 0
	for range 4 {
		tried := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			tried <- f.Flush(ctx)
		}()
		for trying := true; trying; calls++ {
			_, _ = f.run(t.Context(), hello(), request(fmt.Sprint(calls)),
				func(ctx context.Context, e event.Event) (event.Event, error) {
					f.Log("hello", event.ExecutionOf(e), []byte("a line\n"))
					return greets(ctx, e)
				})
			select {
			case <-tried:
				trying = false
			default:
			}
		}
	}
	close(let)
	if err := errors.Join(<-over, f.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	all, err := f.db.ExecutionsLike(t.Context(), landfall.Execution{}, landfall.Execution{}, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	const most = 4096 + 4 // the bound, and what was under way at one of the writes, whose record goes on
	if len(all) > most {
		t.Errorf("%d executions waited, of %d; want %d at most", len(all), calls, most)
	}
	testkit.Equal(t, "on record or counted", len(all)+f.counts.unrecorded, calls)
	_, _ = f.run(t.Context(), hello(), request("later"), greets)
	testkit.Equal(t, "state of a later one", f.shown("x-later").State, landfall.ExecutionSucceeded)
}

// Under more load than is recorded, failures are kept, and what is not kept is counted.
func TestOverload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits.Rate = 20
	const calls, failures = 10_000, 50
	for i := range calls {
		_, _ = f.run(t.Context(), hello(), request(fmt.Sprint(i)),
			func(ctx context.Context, e event.Event) (event.Event, error) {
				if i%(calls/failures) == 0 {
					return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
				}
				return greets(ctx, e)
			})
	}
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := f.db.ExecutionsLike(t.Context(), landfall.Execution{}, landfall.Execution{}, 2*calls)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, x := range all {
		if x.State == landfall.ExecutionFailed {
			failed++
		}
	}
	testkit.Equal(t, "failures on record", failed, failures)
	testkit.Equal(t, "on record or counted", len(all)+f.counts.unrecorded, calls)
	if len(all) > calls/2 {
		t.Errorf("recorded: got %d of %d", len(all), calls)
	}
}

// A version keeps its newest records, and the newest of its logs.
func TestTrim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits = execution.Limits{Keep: 20, Logs: 1000, Rate: 10_000}
	for i := range 100 {
		_, _ = f.run(t.Context(), hello(), request(fmt.Sprint(i)),
			func(ctx context.Context, e event.Event) (event.Event, error) {
				f.Log("hello", event.ExecutionOf(e), []byte(strings.Repeat("x", 99)+"\n"))
				return greets(ctx, e)
			})
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.db.ExecutionsLike(t.Context(), landfall.Execution{}, landfall.Execution{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 || len(all) > 22 {
		t.Errorf("records: got %d", len(all))
	}
	testkit.Equal(t, "the newest", all[0].ID, "x-99")
	logs, err := f.db.FunctionLog(t.Context(), "default", "hello", 3, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(logs) < 10 || len(logs) > 12 {
		t.Errorf("logs: got %d", len(logs))
	}
}

// found returns the version of the function that an execution was accepted for.
func found(_ context.Context, x landfall.Execution) (*landfall.Function, *registry.Trigger, error) {
	fn := hello()
	fn.Version, fn.Number, fn.Group = x.Version, x.Number, x.Group
	return fn, nil, nil
}

// work runs what was accepted until the test ends, or stop is called.
func (f *fixture) work(run func(context.Context, *landfall.Function, event.Event) (event.Event, error)) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	over := make(chan error, 2)
	go func() { over <- f.Keep(ctx) }()
	go func() {
		over <- f.Work(ctx, found,
			f.Recorded(function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
				return run(ctx, c.Function, c.Event)
			})))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-over, <-over); err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

// over waits until an execution is over.
func (f *fixture) over(id string) (x landfall.Execution) {
	f.t.Helper()
	testkit.Eventually(f.t, "the end of "+id, func() bool {
		var err error
		x, err = f.db.Execution(f.t.Context(), id)
		return err == nil && x.State.Final()
	})
	return x
}

// What was accepted is run in the version that it was accepted for, and its answer is kept.
func TestAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x, err := f.Accept(t.Context(), function.Call{Function: hello(), Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "state", x.State, landfall.ExecutionQueued)
	f.Redact = func(_ *landfall.Function, text string) string { return strings.ReplaceAll(text, "s3cret", "***") }
	var config atomic.Value
	f.work(func(ctx context.Context, fn *landfall.Function, e event.Event) (event.Event, error) {
		f.Log("hello", event.ExecutionOf(e), []byte("at work\n"))
		config.Store(fmt.Sprint(e, fn.Version))
		answer, err := greets(ctx, e)
		answer.DataEncoded = []byte("s3cret")
		return answer, err
	})
	x = f.over(x.ID)
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "attempts", x.Attempt, 1)
	testkit.Equal(t, "log", f.log(x.ID), "at work\n")
	result, _, err := event.Parse(x.Result)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "result", string(result.Data()), "***")
	// E-041: what was stored of the event has none of the configuration that came with it
	testkit.Equal(t, "whether the stored event had the secret",
		strings.Contains(fmt.Sprint(config.Load()), "hunter2"), false)
	large := request("2")
	large.DataEncoded = make([]byte, 1<<20)
	_, err = f.Accept(t.Context(), function.Call{Function: hello(), Event: large})
	if _, tooLarge := errors.AsType[*event.TooLargeError](err); !tooLarge {
		t.Errorf("a large event: got %v", err)
	}
}

// While secrets are looked for in what one function said, everybody else's calls begin and end; none is cut in two and
// half shown.
func TestRedactionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	looking, seen := make(chan struct{}), make(chan struct{})
	f.Redact = func(_ *landfall.Function, text string) string {
		if strings.HasPrefix(text, "slow") {
			close(looking)
			<-seen
		}
		return strings.ReplaceAll(text, "s3cret", "***")
	}
	run := func(id, message string) {
		_, _ = f.run(t.Context(), hello(), request(id), func(context.Context, event.Event) (event.Event, error) {
			return event.Event{}, &landfall.Error{Message: message}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run("1", "slow"+strings.Repeat(".", 1024-len("slow")-len("s3c"))+"s3cret")
	}()
	<-looking
	run("2", "quick")
	close(seen)
	<-ended
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := f.db.Execution(t.Context(), "x-1")
	if err != nil || strings.Contains(x.Message, "s3c") || !strings.HasSuffix(x.Message, "***") {
		t.Errorf("got %q, %v", x.Message, err)
	}
}

// A function that is busy is tried again, and so is one whose runner went away, but not for ever; one that fails is
// not.
func TestAcceptedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	f.work(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		switch {
		case e.ID() == "fails":
			calls.Add(1)
			return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
		case e.ID() == "dies":
			calls.Add(1)
			return event.Event{}, &landfall.Error{Message: "its runner is gone", Err: &function.Error{Reason: function.ReasonLost}}
		case calls.Add(1) == 1 && e.ID() == "lost":
			return event.Event{}, &landfall.Error{Message: "its runner is gone", Err: &function.Error{Reason: function.ReasonLost}}
		case calls.Load() == 1:
			return event.Event{}, &landfall.Error{Kind: landfall.Unavailable, Err: &function.Error{Reason: function.ReasonBusy}}
		}
		return greets(ctx, e)
	})
	for _, c := range []struct {
		id       string
		calls    int64
		state    landfall.ExecutionState
		attempts int64
	}{
		{"busy", 2, landfall.ExecutionSucceeded, 1}, {"fails", 1, landfall.ExecutionFailed, 1},
		{"lost", 2, landfall.ExecutionSucceeded, 2}, {"dies", 3, landfall.ExecutionFailed, 3},
	} {
		calls.Store(0)
		x, err := f.Accept(t.Context(), function.Call{Function: hello(), Event: request(c.id)})
		if err != nil {
			t.Fatal(err)
		}
		x = f.over(x.ID)
		testkit.Equal(t, c.id+": state", x.State, c.state)
		testkit.Equal(t, c.id+": calls", calls.Load(), c.calls)
		testkit.Equal(t, c.id+": attempts", x.Attempt, c.attempts)
	}
}

// What a dead process ran is run by the next one.
func TestAcceptedOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x, err := f.Accept(t.Context(), function.Call{Function: hello(), Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	err = f.db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.LeaseExecutions(t.Context(), "p", time.Now(), time.Now().Add(time.Hour), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.work(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		return greets(ctx, e)
	})
	x = f.over(x.ID)
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "attempts", x.Attempt, 2)
}

// What this process runs already is not taken for what its earlier life ran, whoever of the two that look comes first.
func TestAcceptedWhileItBegins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x, err := f.Accept(t.Context(), function.Call{Function: hello(), Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 2)
	started, answer := make(chan struct{}, 9), make(chan struct{})
	go func() {
		over <- f.Work(ctx, found, answers(func(ctx context.Context, e event.Event) (event.Event, error) {
			started <- struct{}{}
			<-answer
			return greets(ctx, e)
		}))
	}()
	<-started
	go func() { over <- f.Keep(ctx) }()
	f.Log("hello", x.ID, []byte("at work\n"))
	testkit.Eventually(t, "a log, which is written after the first look", func() bool { return f.log(x.ID) != "" })
	close(answer)
	x = f.over(x.ID)
	cancel()
	if err := errors.Join(<-over, <-over); err != nil {
		t.Error(err)
	}
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "attempts", x.Attempt, 1)
	testkit.Equal(t, "starts beside the first", len(started), 0)
}

// Two processes whose clocks differ by an hour do not take each other for dead, and see each other's death all the
// same.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	for name, differ := range map[string]time.Duration{"the other's is behind": -time.Hour,
		"the other's is ahead": time.Hour} {
		f := newFixture(t)
		x, err := f.Accept(t.Context(), function.Call{Function: hello(), Event: request("1")})
		if err != nil {
			t.Fatal(err)
		}
		theirs := time.Now().Add(differ)
		sign := func(after time.Duration) {
			err := f.db.Update(t.Context(), func(tx *store.Tx) error {
				running := x
				running.State, running.Attempt = landfall.ExecutionRunning, 1
				return tx.RecordExecutions(t.Context(), theirs,
					[]store.ExecutionRecord{{Execution: running, Process: "q", Until: theirs.Add(after)}})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err = f.db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.LeaseExecutions(t.Context(), "q", time.Now(), theirs.Add(30*time.Second), 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		state := func() landfall.ExecutionState {
			now, err := f.db.Execution(t.Context(), x.ID)
			if err != nil {
				t.Fatal(err)
			}
			return now.State
		}
		began := time.Now()
		for after := time.Duration(0); after <= 2*time.Minute; after += 10 * time.Second {
			sign(after)
			f.Look(t.Context(), began.Add(after))
			testkit.Equal(t, name+": while it lives", state(), landfall.ExecutionRunning)
		}
		f.Look(t.Context(), began.Add(140*time.Second))
		testkit.Equal(t, name+": a moment after its last sign", state(), landfall.ExecutionRunning)
		f.Look(t.Context(), began.Add(150*time.Second))
		testkit.Equal(t, name+": when it is dead", state(), landfall.ExecutionQueued)
	}
}

// Only who prefers it is answered before the function ran.
func TestDeferred(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		prefer []string
		done   bool
	}{
		{nil, false}, {[]string{"wait=10"}, false}, {[]string{"respond-asynchronously"}, false},
		{[]string{"respond-async"}, true}, {[]string{"wait=10, Respond-Async; x=y"}, true},
		{[]string{"wait=10", "respond-async"}, true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header["Prefer"] = c.prefer
		w := httptest.NewRecorder()
		done, err := f.Deferred(w, r, function.Call{Function: hello(), Event: request(strings.Join(c.prefer, ""))})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, fmt.Sprint(c.prefer), done, c.done)
		if !done {
			continue
		}
		testkit.Equal(t, "status", w.Code, http.StatusAccepted)
		testkit.Equal(t, "preference", w.Header().Get("Preference-Applied"), "respond-async")
		testkit.Equal(t, "location", w.Header().Get("Location"), "/api/v1/executions/x-"+strings.Join(c.prefer, ""))
	}
}
