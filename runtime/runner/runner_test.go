package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// A function is a program that a person can run in a shell. The runner gives it the same events, by a process that
// stays.
func TestFunction(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"confined", "off"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			log := newLogs()
			r := start(t, &runner.Runner{Sandbox: box(t, kind), Logs: log})
			f := counter(t, "exit 1")
			f.Dir = write(t, strings.Replace(read(t, f.Dir), "n=$((n+1))", `n=$((n+1)); echo "$GREETING, event $n" >&2`, 1))
			f.Env = map[string]string{"GREETING": "hello"}
			shell := exec.CommandContext(t.Context(), "sh", "-c", `echo "$EVENT" | ./function 2>/dev/null`)
			shell.Dir, shell.Env = f.Dir, append(shell.Environ(),
				`EVENT={"specversion":"1.0","id":"1","source":"/me","type":"greet"}`)
			// E-011, E-013: it runs standalone, from a shell
			alone, err := shell.Output()
			if want := `{"specversion":"1.0","id":"1","source":"/counter","type":"count","data":1}` + "\n"; err != nil ||
				string(alone) != want {
				t.Fatalf("in a shell it prints %q, %v; want %q", alone, err, want)
			}
			for n := 1; n <= 3; n++ {
				e, err := r.Run(t.Context(), f, function.Call{Event: ask("greet", "x"+string(rune('0'+n)))})
				if err != nil {
					t.Fatal(err)
				}
				// E-010, E-015, E-016: a stream of events in, a stream of events out
				if e.Source() != "/counter" || e.Type() != "count" {
					t.Errorf("the answer is %s from %s, want the function's", e.Type(), e.Source())
				}
				// E-006: by one process, which is there already
				if got, want := string(e.Data()), string(rune('0'+n)); got != want {
					t.Errorf("it is answer %s of its process, want %s", got, want)
				}
			}
			for n := 1; n <= 3; n++ {
				execution := "x" + string(rune('0'+n))
				// E-013, E-042: the log of each execution is apart, and complete when the answer is there
				if got, want := log.of(execution), "hello, event "+string(rune('0'+n))+"\n"; got != want {
					t.Errorf("the log of %s is %q, want %q", execution, got, want)
				}
			}
			if processes, idle := r.Count(f.ID); processes != 1 || idle != 1 {
				t.Errorf("there are %d processes, %d idle; want one that is idle", processes, idle)
			}
		})
	}
}

// A function of the document's shape gets and gives events of 0.1.
func TestDraft(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := runner.Function{Function: landfall.Function{ID: "draft"}, Form: event.Draft, Args: []string{"./function"},
		Dir: write(t, `#!/bin/sh
while read -r event; do
	case "$event" in '{"cloud-events-version":"0.1",'*'"extensions":{"config":{"COLOUR":"red"}'*) ;; *) echo "it got $event" >&2; exit 1 ;; esac
	echo '{"cloud-events-version":"0.1","event-id":"2","source":"/old","event-type":"t","content-type":"text/plain","data":"hi","extensions":{"protocol":{"status_code":201}}}'
done
`)}
	e := ask("t", "")
	event.SetConfig(&e, map[string]string{"COLOUR": "red"})
	got, err := r.Run(t.Context(), f, function.Call{Event: e})
	if err != nil {
		t.Fatalf("%v: %s", err, function.EventError(err).Trace)
	}
	// E-017: the answer says what the protocol's answer is
	if p, err := event.ProtocolOf(got); err != nil || p.Status != 201 || string(got.Data()) != "hi" {
		t.Errorf("the answer is %s, %v", got, err)
	}
}

// An answer has all fields of a response, though the function says little, and nothing of the request.
func TestResponse(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	e := ask("count", "x1")
	event.SetTypeVersion(&e, "v1.5")
	event.SetProtocol(&e, event.Protocol{Type: "http", Method: "POST", Headers: map[string][]string{"X-Mine": {"1"}}})
	got, err := r.Run(t.Context(), counter(t, ""), function.Call{Event: e})
	if err != nil {
		t.Fatal(err)
	}
	if since := time.Since(got.Time()); since < 0 || since > testkit.Patience {
		t.Errorf("the answer is of %v, want now", got.Time())
	}
	got.SetTime(time.Date(2018, 4, 1, 23, 12, 34, 0, time.UTC))
	line, err := event.Append(nil, event.Draft, got)
	want := `{"cloud-events-version":"0.1","event-id":"1","source":"/counter","event-type":"count",` +
		`"event-type-version":"v1.5","event-time":"2018-04-01T23:12:34Z","content-type":"application/json","data":1,` +
		`"extensions":{"execution":"x1","protocol":{"headers":{"Content-Type":["application/json"]}}}}`
	// E-078: a response has each field of the document, its time too, and the headers of the response
	if err != nil || string(line) != want {
		t.Errorf("the answer is\n%s, %v, want\n%s", line, err, want)
	}
}

// What a process logged for one execution is not told of another: not in its log, and not with its error.
func TestLogIsOfOneExecution(t *testing.T) {
	t.Parallel()
	logs := newLogs()
	r := start(t, &runner.Runner{Logs: logs})
	f := counter(t, "")
	f.Args = []string{"/bin/sh", "-c", `while read -r event; do
	case "$event" in
	*'"type":"bad"'*) echo "it goes" >&2; exit 3 ;;
	esac
	echo "it stays" >&2
	n=1
	` + answer + `
done`}
	if _, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "x1")}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x2")})
	if fault := function.EventError(err); reason(err) != function.ReasonExit || fault.Trace != "it goes\n" {
		t.Errorf("the second one failed with %v and the trace %q, want what it logged itself", err, fault.Trace)
	}
	if one, two := logs.of("x1"), logs.of("x2"); one != "it stays\n" || two != "it goes\n" {
		t.Errorf("the logs are %q and %q, want each its own", one, two)
	}
}

// An error that a function answers is an answer.
func TestErrorEvent(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := counter(t,
		`printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","error":{"message":"no such order","type":"NotFound"}}\n'`)
	e, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "")})
	if err != nil {
		t.Fatal(err)
	}
	// E-018: errors are events
	if fault, ok, err := event.ErrorOf(e); !ok || err != nil || fault.Message != "no such order" ||
		fault.Type != "NotFound" {
		t.Errorf("the error is %+v, %t, %v", fault, ok, err)
	}
	if n := count(t, r, f); n != 2 {
		t.Errorf("the next answer is %d; want 2, by the same process", n)
	}
}

// A function that hands its request back does not tell its caller what only the function was told. Events may be as
// large as they like: cat writes before it has read all.
func TestEcho(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := runner.Function{Function: landfall.Function{ID: "echo"}, Args: []string{"/bin/cat"}, Dir: t.TempDir()}
	for _, size := range []int{0, 5000, 70_000, 3 << 20} {
		e := ask("echo", "x1")
		if err := e.SetData("text/plain", strings.Repeat("ü", size/2)); err != nil {
			t.Fatal(err)
		}
		event.SetConfig(&e, map[string]string{"PASSWORD": "canary"})
		event.SetTrigger(&e, event.Trigger{FunctionURL: "/functions/default/echo:1",
			Config: map[string]string{"PASSWORD": "canary"}})
		got, err := r.Run(t.Context(), f, function.Call{Event: e})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if len(got.Data()) != size || event.ExecutionOf(got) != "x1" {
			t.Errorf("%d bytes came back as %d, of execution %q", size, len(got.Data()), event.ExecutionOf(got))
		}
		text, err := json.Marshal(got)
		// E-041, E-077: the request's extensions are stripped from the answer
		if err != nil || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("functions/default")) {
			t.Errorf("the answer has what only the function is told, %v: %.300s", err, text)
		}
	}
	if processes, _ := r.Count("echo"); processes != 1 {
		t.Errorf("there are %d processes, want 1", processes)
	}
}

// An answer may come over several lines and in several pieces.
func TestPretty(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := counter(t,
		`printf '\n {"specversion":"1.0", "id":"1",\n "source":"/a\\"}{", '; printf '"type":"t",\n "data" : {"a": [1,\n {"b":2} ]}}'`)
	for range 3 {
		e, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "")})
		if err != nil || !strings.Contains(string(e.Data()), `{"b":2}`) {
			t.Fatalf("the answer is %s, %v", e, err)
		}
	}
}

// A program that ends after each answer is a function, too: no call fails because a process is about to end.
func TestOneShot(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"confined", "off"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, &runner.Runner{Sandbox: box(t, kind)})
			f := runner.Function{Function: landfall.Function{ID: "once"},
				Args: []string{"/bin/sh", "-c", "read -r event; n=1; " + answer}, Dir: t.TempDir()}
			for range 8 {
				if n := count(t, r, f); n != 1 {
					t.Errorf("the answer is %d", n)
				}
			}
		})
	}
}

// What a function writes between two events never answers the next one.
func TestStray(t *testing.T) {
	t.Parallel()
	log, word := newLogs(), filepath.Join(t.TempDir(), "go") // a process that is not confined sees the test's files
	r := start(t, &runner.Runner{Sandbox: box(t, "off"), Logs: log})
	f := counter(t, answer+`; (until [ -e "$GO" ]; do sleep 0.01; done; n=99; `+answer+`; echo "stray written" >&2) &`)
	f.Env = map[string]string{"GO": word}
	if _, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "first")}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(word, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the stray event is written", func() bool {
		return strings.Contains(log.of(""), "stray written")
	})
	if n := count(t, r, f); n != 1 {
		t.Errorf("the next caller got %d; want 1, by a new process", n)
	}
}

// A process that answers before it has read all of its event gets no other one: it would take what is left for that.
func TestAnswersUnreadEvent(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := runner.Function{Function: landfall.Function{ID: "hasty"}, Dir: t.TempDir(), Args: []string{"/bin/sh", "-c", `n=0
while event=$(dd bs=2048 count=1 2>/dev/null) && [ -n "$event" ]; do
	n=$((n+1))
	` + answer + `
	[ ${#event} -lt 2048 ] || sleep 600
done`}}
	large := ask("large", "")
	if err := large.SetData("text/plain", strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	count(t, r, f)
	if got, err := r.Run(t.Context(), f, function.Call{Event: large}); err != nil || string(got.Data()) != "2" {
		t.Fatalf("the answer to the large event is %s, %v; want 2, by the same process", got.Data(), err)
	}
	if n := count(t, r, f); n != 1 {
		t.Errorf("the next answer is %d; want 1, by a new process", n)
	}
}

// As many executions as the function's concurrency are under way at one time. One more is refused at once, with the
// time after which to try again; when one has ended there is room.
func TestBusy(t *testing.T) {
	t.Parallel()
	log := newLogs()
	r := start(t, &runner.Runner{Logs: log})
	f := counter(t, "echo working >&2; exec sleep 600")
	f.Resources.Concurrency = 2
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	for _, execution := range []string{"a", "b"} {
		go func() {
			_, err := r.Run(ctx, f, function.Call{Event: ask("bad", execution)})
			errs <- err
		}()
		log.await(t, execution, "working")
	}
	began := time.Now()
	_, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "")})
	failure, ok := errors.AsType[*function.Error](err)
	// E-039, N-030: busy is said at once, as something to try again, with the time
	if !ok || failure.Reason != function.ReasonBusy || failure.RetryAfter <= 0 ||
		landfall.KindOf(err) != landfall.Unavailable ||
		time.Since(began) > 20*time.Second {
		t.Fatalf("the error is %v after %s, want busy", err, time.Since(began))
	}
	// other functions do not notice
	other := counter(t, "")
	other.ID = "other"
	count(t, r, other)
	cancel()
	for range 2 {
		if err := <-errs; landfall.KindOf(err) != landfall.Canceled {
			t.Errorf("a call that was given up ended with %v", err)
		}
	}
	testkit.Eventually(t, "there is room again", func() bool {
		processes, _ := r.Count(f.ID)
		return processes == 0
	})
	if n := count(t, r, f); n != 1 {
		t.Errorf("the next answer is %d; want 1, by a new process", n)
	}
}

// A caller that goes away costs no process that answers in a moment. What hangs is killed.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	log := newLogs()
	r := start(t, &runner.Runner{Logs: log})
	f := counter(t, "echo working >&2; until [ -e go ]; do :; done; "+answer)
	f.Resources.Concurrency = 1
	count(t, r, f)
	leave := func(execution string, meanwhile func()) {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, f, function.Call{Event: ask("bad", execution)})
			left <- err
		}()
		log.await(t, execution, "working")
		cancel()
		meanwhile()
		if err := <-left; landfall.KindOf(err) != landfall.Canceled {
			t.Errorf("a call that was given up ended with %v", err)
		}
	}
	leave("a", func() {
		if err := os.WriteFile(filepath.Join(f.Dir, "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if n := count(t, r, f); n != 3 {
		t.Errorf("the next answer is %d; want 3, by the process that answered", n)
	}
	if err := os.Remove(filepath.Join(f.Dir, "go")); err != nil {
		t.Fatal(err)
	}
	leave("b", func() {})
	testkit.Eventually(t, "what hangs is gone", func() bool {
		processes, _ := r.Count(f.ID)
		return processes == 0
	})
}

// The machine's limit counts all functions. Idle processes make room for others' work, the oldest first.
func TestMachineLimit(t *testing.T) {
	t.Parallel()
	log := newLogs()
	r := start(t, &runner.Runner{Logs: log, Limits: runner.Limits{Processes: 2}})
	first, second, third := counter(t, ""), counter(t, ""), counter(t, "echo working >&2; exec sleep 600")
	first.ID, second.ID, third.ID = "first", "second", "third"
	for _, f := range []runner.Function{first, second, third} {
		count(t, r, f)
	}
	if p1, _ := r.Count("first"); p1 != 0 {
		t.Error("the oldest idle process did not make room")
	}
	if n := count(t, r, second); n != 2 {
		t.Errorf("the answer is %d; want 2: the younger idle process stays", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	third.Resources.Timeout = testkit.Patience
	for _, execution := range []string{"a", "b"} {
		go func() { _, _ = r.Run(ctx, third, function.Call{Event: ask("bad", execution)}) }()
		log.await(t, execution, "working")
	}
	_, err := r.Run(t.Context(), first, function.Call{Event: ask("good", "")})
	// E-039: a runner without room says so
	if reason(err) != function.ReasonBusy || !strings.Contains(landfall.MessageOf(err), "limit of this machine") {
		t.Errorf("the error is %v, want busy", err)
	}
}

// However many functions of one app do not answer, and whatever room they may have, there is room for another app's.
func TestAppLeavesRoom(t *testing.T) {
	t.Parallel()
	log := newLogs()
	r := start(t, &runner.Runner{Logs: log, Limits: runner.Limits{Processes: 8}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hang := func(app, id string) error {
		f := counter(t, "echo working >&2; exec sleep 600")
		f.App, f.ID, f.Resources.Timeout = app, id, testkit.Patience
		ended := make(chan error, 1)
		execution := app + id
		go func() {
			_, err := r.Run(ctx, f, function.Call{Event: ask("bad", execution)})
			ended <- err
		}()
		for {
			select {
			case err := <-ended:
				return err
			case <-log.wake:
				if strings.Contains(log.of(execution), "working") {
					return nil
				}
			}
		}
	}
	var err error
	for taken := 0; err == nil && taken < 8; taken++ {
		err = hang("zoo", strconv.Itoa(taken))
	}
	if reason(err) != function.ReasonBusy || !strings.Contains(landfall.MessageOf(err), "is for others") {
		t.Errorf("the app takes all: %v", err)
	}
	for id := range 6 { // as when another release is live, and their last calls do not end
		r.Forget(strconv.Itoa(id))
	}
	if err := hang("zoo", "next"); reason(err) != function.ReasonBusy ||
		!strings.Contains(landfall.MessageOf(err), "is for others") {
		t.Errorf("the app takes all by versions that are forgotten: %v", err)
	}
	f := counter(t, "")
	f.App = "shop"
	if n := count(t, r, f); n != 1 {
		t.Errorf("the other app's answer is %d", n)
	}
}

// What is kept warm stays while one that was too many takes its time to end.
func TestWarmStaysWhileOthersEnd(t *testing.T) {
	t.Parallel()
	log := newLogs()
	r := start(t, &runner.Runner{Sandbox: box(t, "off"), Logs: log})
	f := runner.Function{Function: landfall.Function{ID: t.Name()}, Args: []string{"./function"}, Dir: write(t, `#!/bin/sh
n=0
while read -r event; do
	n=$((n+1))
	echo working >&2
	while [ ! -e go ]; do sleep 0.01; done
	`+answer+`
done
sleep 0.5
`)}
	f.Resources.KeepWarm, f.Resources.IdleTimeout = 1, 100*time.Millisecond
	var calls sync.WaitGroup
	for _, execution := range []string{"a", "b"} {
		calls.Go(func() { _, _ = r.Run(t.Context(), f, function.Call{Event: ask("bad", execution)}) })
		log.await(t, execution, "working")
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	testkit.Eventually(t, "one is left", func() bool {
		processes, idle := r.Count(f.ID)
		return processes == 1 && idle == 1
	})
	if n := count(t, r, f); n != 2 {
		t.Errorf("the answer is %d; want 2, by a process that answered before", n)
	}
}

// What is kept warm does not make room for others.
func TestWarmStays(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{Limits: runner.Limits{Processes: 1}})
	warm, other := counter(t, ""), counter(t, "")
	warm.ID, warm.Resources.KeepWarm, other.ID = "warm", 1, "other"
	count(t, r, warm)
	if _, err := r.Run(t.Context(), other, function.Call{Event: ask("good", "")}); reason(err) != function.ReasonBusy {
		t.Errorf("the error is %v, want busy", err)
	}
	if n := count(t, r, warm); n != 2 {
		t.Errorf("the answer is %d; want 2, by the process that is kept warm", n)
	}
	r.Forget("warm")
	testkit.Eventually(t, "there is room for others", func() bool {
		_, err := r.Run(t.Context(), other, function.Call{Event: ask("good", "")})
		return err == nil
	})
}

// Not more is kept warm than may run at one time.
func TestWarmWithinConcurrency(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := counter(t, "")
	f.Resources.Concurrency, f.Resources.KeepWarm = 2, 4
	if err := r.Warm(f); err != nil {
		t.Fatal(err)
	}
	if processes, _ := r.Count(f.ID); processes != 2 {
		t.Errorf("%d processes are warm; want 2", processes)
	}
}

// A process that is busy when its version is forgotten answers, and ends then: nobody can call it any more.
func TestForgottenWhileBusy(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := counter(t, "")
	const word = "forgotten-271828"
	f.Args = []string{"/bin/sh", "-c", `while read -r event; do sleep 0.3; n=1; ` + answer + `; done # ` + word}
	over := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "")})
		over <- err
	}()
	testkit.Eventually(t, "it is busy", func() bool { return len(processes(word)) > 0 })
	r.Forget(f.ID)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	answered := time.Now()
	testkit.Eventually(t, "it has ended", func() bool { return len(processes(word)) == 0 })
	if took := time.Since(answered); took > usual/2 {
		t.Errorf("it ended %s after its answer, as if it waited for another event", took)
	}
}

// usual is how long a process waits of which nobody says how long.
const usual = 30 * time.Second

// Each process has its own time to wait: one that was busy longer than another outlives it.
func TestIdleEach(t *testing.T) {
	t.Parallel()
	const slow, wait = time.Second, 2 * time.Second
	r := start(t, &runner.Runner{Defaults: landfall.Resources{IdleTimeout: wait}})
	f := counter(t, "sleep 1; "+answer)
	began := time.Now()
	over := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "")})
		over <- err
	}()
	testkit.Eventually(t, "one is busy", func() bool { n, idle := r.Count(f.ID); return n == 1 && idle == 0 })
	count(t, r, f)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "none is left", func() bool { n, _ := r.Count(f.ID); return n == 0 })
	if took := time.Since(began); took < slow+wait {
		t.Errorf("none is left after %s; the slower one may wait for %s after its call, of %s", took, wait, slow)
	}
}

// A process that has been idle for too long executes nothing: while it takes its time to end, it is in the way of no
// call.
func TestIdleEnds(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{Defaults: landfall.Resources{IdleTimeout: 20 * time.Millisecond, Concurrency: 1}})
	f := counter(t, "")
	program := filepath.Join(f.Dir, "function")
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Program(t, program, append(text, "sleep 600\n"...))
	count(t, r, f)
	for range 3 {
		testkit.Eventually(t, "it is to end", func() bool { _, idle := r.Count(f.ID); return idle == 0 })
		if n := count(t, r, f); n != 1 {
			t.Errorf("the answer is %d, want that of a new process", n)
		}
	}
}

// A pool is empty when nobody calls, but for what is kept warm; that is there before the first call, and again after a
// failure.
func TestIdle(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{Defaults: landfall.Resources{IdleTimeout: 20 * time.Millisecond}})
	cold, warm := counter(t, "exit 1"), counter(t, "exit 1")
	cold.ID, warm.ID, warm.Resources.KeepWarm = "cold", "warm", 2
	is := func(f runner.Function, want int) func() bool {
		return func() bool {
			processes, idle := r.Count(f.ID)
			return processes == want && idle == want
		}
	}
	if err := r.Warm(warm); err != nil || !is(warm, 2)() {
		t.Fatalf("not two processes are warm: %v", err)
	}
	count(t, r, cold)
	waits := time.Now()
	count(t, r, warm)
	testkit.Eventually(t, "the pool is empty", is(cold, 0))
	if took := time.Since(waits); took > usual/2 {
		t.Errorf("it was empty after %s, as if nobody had said how long a process may wait", took)
	}
	if left := processes(cold.Dir); len(left) > 0 {
		t.Errorf("a pool that is empty has processes: %v", left)
	}
	if n := count(t, r, warm); n != 2 {
		t.Errorf("the answer is %d; want 2, by the process that answered last", n)
	}
	if _, err := r.Run(t.Context(), warm, function.Call{Event: ask("bad", "")}); reason(err) != function.ReasonExit {
		t.Errorf("the error is %v", err)
	}
	// N-023: the pool refills
	testkit.Eventually(t, "two are warm again", is(warm, 2))
	r.Forget("warm")
	testkit.Eventually(t, "a version that is forgotten has no process", is(warm, 0))
}

// A trigger's resources go before its function's, and those before the defaults; a process has one size of memory.
func TestResources(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{Defaults: landfall.Resources{Timeout: testkit.Patience}})
	f := counter(t, "")
	trigger := landfall.Resources{Memory: 64 << 20, Timeout: testkit.Patience / 2}
	// E-082, E-085: a trigger's resources override the function's
	if got, want := trigger.Or(landfall.Resources{Memory: 32 << 20, MilliCPU: 500, Disk: 1 << 20}),
		(landfall.Resources{Memory: 64 << 20, MilliCPU: 500, Disk: 1 << 20, Timeout: testkit.Patience / 2}); got != want {
		t.Errorf("Or = %+v, want %+v", got, want)
	}
	count(t, r, f)
	f.Resources = trigger.Or(f.Resources)
	if n := count(t, r, f); n != 1 {
		t.Errorf("the answer is %d; want 1: another size of memory is another process", n)
	}
	if processes, _ := r.Count(f.ID); processes != 2 {
		t.Errorf("there are %d processes, want 2", processes)
	}
}

// noting starts programs in a sandbox, and notes what bounds them.
type noting struct {
	*sandbox.Sandbox

	limits []sandbox.Limits
}

// Start implements runner.Starter.
func (n *noting) Start(p sandbox.Program) (*sandbox.Process, error) {
	n.limits = append(n.limits, p.Limits)
	return n.Sandbox.Start(p)
}

// What a function may take bounds its process: memory, processors and disk.
func TestResourcesBoundTheProcess(t *testing.T) {
	t.Parallel()
	n := &noting{Sandbox: box(t, "confined")}
	log := newLogs()
	r := start(t, &runner.Runner{Sandbox: n, Logs: log,
		Defaults: landfall.Resources{Timeout: testkit.Patience, MilliCPU: 700}})
	f := counter(t, "head -c 2097152 /dev/zero >/tmp/file && echo fits >&2; rm /tmp/file; "+answer)
	for _, c := range []struct {
		of   landfall.Resources
		want sandbox.Limits
		says string
	}{
		{landfall.Resources{Memory: 64 << 20, Disk: 1 << 20}, sandbox.Limits{Memory: 64 << 20, Disk: 1 << 20, CPU: 700}, ""},
		{landfall.Resources{Memory: 64 << 20, Disk: 4 << 20, MilliCPU: 900},
			sandbox.Limits{Memory: 64 << 20, Disk: 4 << 20, CPU: 900}, "fits\n"},
	} {
		f.Resources = c.of
		execution := fmt.Sprint(c.of.Disk)
		if _, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", execution)}); err != nil {
			t.Fatal(err)
		}
		// E-082: memory, cpus in thousandths and disk are the limits of the process, and defaults stand for what is not said
		if got := n.limits[len(n.limits)-1]; got != c.want {
			t.Errorf("the process was started with %+v, want %+v", got, c.want)
		}
		if got := log.of(execution); strings.Contains(got, "fits") != (c.says != "") {
			t.Errorf("2 MiB at a disk of %d bytes: its log is %q, want %q", c.of.Disk, got, c.says)
		}
	}
}

// A runner that is closed has nothing left: no process, no descriptor, no goroutine.
func TestClose(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // what is left there, and in this process, is seen; so not parallel
	descriptors, goroutines := held(t)
	for _, kind := range []string{"confined", "off"} {
		log := newLogs()
		r := &runner.Runner{Sandbox: box(t, kind), Logs: log, Defaults: landfall.Resources{Timeout: testkit.Patience}}
		f := counter(t, "echo working >&2; exec sleep 600")
		f.Dir = filepath.Clean(f.Dir)
		count(t, r, f)
		errs := make(chan error)
		for _, execution := range []string{"a", "b"} {
			go func() {
				_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", execution)})
				errs <- err
			}()
			log.await(t, execution, "working")
		}
		r.Close()
		r.Close()
		for range 2 {
			if err := <-errs; err == nil {
				t.Error("a call that was under way has an answer")
			}
		}
		if _, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "")}); landfall.KindOf(err) != landfall.Canceled {
			t.Errorf("%s: a later call ended with %v, want canceled", kind, err)
		}
		if left := processes(f.Dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", kind, left)
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", kind, left, err)
		}
	}
	testkit.Eventually(t, "no descriptor and no goroutine is left", func() bool {
		d, g := held(t)
		return d <= descriptors && g <= goroutines
	})
}
