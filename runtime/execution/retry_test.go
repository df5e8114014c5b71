package execution_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// What failed is tried again as often as its trigger says, or else its function, and is a dead letter then.
func TestRetries(t *testing.T) {
	t.Parallel()
	none, two := 0, 2
	patient := hello()
	patient.Retries = 1
	queue := landfall.Trigger{Kind: landfall.QueueTrigger, Queue: landfall.QueueSource{MaxRetries: 3}}
	refused := &landfall.Error{Kind: landfall.Invalid, Message: "it does not fit"}
	ended := &landfall.Error{Message: "it ended with hunter2", Err: &function.Error{Reason: function.ReasonExit}}
	for name, c := range map[string]struct {
		function *landfall.Function
		trigger  *registry.Trigger
		fails    int64 // how often
		with     error // nil: it answers with an error
		attempts int64
		dead     bool
	}{
		"nobody says":               {hello(), nil, 9, ended, 1, true},
		"the function":              {patient, nil, 9, ended, 2, true},
		"the function, in time":     {patient, nil, 1, ended, 2, false},
		"an answer with an error":   {patient, nil, 9, nil, 2, true},
		"the trigger":               {patient, &registry.Trigger{Trigger: landfall.Trigger{Retries: &two}}, 9, ended, 3, true},
		"the trigger, not at all":   {patient, &registry.Trigger{Trigger: landfall.Trigger{Retries: &none}}, 9, ended, 1, true},
		"a trigger that says none":  {patient, &registry.Trigger{}, 9, ended, 2, true},
		"a queue":                   {hello(), &registry.Trigger{Trigger: queue}, 9, ended, 4, true},
		"what cannot become better": {patient, nil, 9, refused, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Limits.Backoff = time.Nanosecond
			f.Redact = func(_ *landfall.Function, text string) string { return strings.ReplaceAll(text, "hunter2", "[secret]") }
			x, err := f.Accept(t.Context(), function.Call{Function: c.function, Trigger: c.trigger, Event: request("1")})
			if err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			f.work(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
				n := calls.Add(1)
				f.Log("hello", event.ExecutionOf(e), fmt.Appendf(nil, "attempt %d", n))
				answer, _ := greets(ctx, e)
				if n > c.fails {
					return answer, nil
				}
				event.SetError(&answer, event.Error{Message: "no"})
				return answer, c.with
			})
			x = f.over(x.ID)
			testkit.Equal(t, "attempts", x.Attempt, c.attempts)
			testkit.Equal(t, "calls", calls.Load(), c.attempts)
			testkit.Equal(t, "whether it is a dead letter", x.Dead, c.dead)
			testkit.Equal(t, "the secret in its message", strings.Contains(x.Message, "hunter2"), false)
			for n := range c.attempts {
				testkit.Contains(t, bytes.NewBufferString(f.log(x.ID)), fmt.Sprintf("attempt %d", n+1))
			}
			if !c.dead {
				testkit.Equal(t, "what is left of the failure", x.Reason+x.Message, "")
			}
		})
	}
}

// One that waits for its next attempt says what went wrong and when it is tried again, each time twice as late.
func TestBackoff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits.Backoff = time.Hour / 2 // which is bounded
	patient := hello()
	patient.Retries = 9
	x, err := f.Accept(t.Context(), function.Call{Function: patient, Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	stop := f.work(func(context.Context, *landfall.Function, event.Event) (event.Event, error) {
		return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
	})
	testkit.Eventually(t, "the first failure", func() bool {
		x, err = f.db.Execution(t.Context(), x.ID)
		return err == nil && !x.Next.IsZero()
	})
	stop()
	testkit.Equal(t, "what is shown", fmt.Sprintln(x.State, x.Attempt, x.Reason, x.Message, x.Dead),
		"queued 1 exit it ended false\n")
	for tried, want := range map[int64]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		9: 256 * time.Second, 10: 5 * time.Minute, 20: 5 * time.Minute} {
		testkit.Equal(t, fmt.Sprint("pause after attempt ", tried), execution.Pause(tried, time.Second), want)
	}
}

// A dead letter is sent again once, whoever asks, and runs as at first.
func TestResend(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits.Backoff = time.Nanosecond
	patient := hello()
	patient.Retries = 1
	x, err := f.Accept(t.Context(), function.Call{Function: patient, Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	stop := f.work(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		if calls.Add(1) < 4 {
			return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
		}
		return greets(ctx, e)
	})
	x = f.over(x.ID)
	testkit.Equal(t, "whether it is a dead letter", x.Dead, true)
	stop()
	answers := make(chan error, 2)
	for range cap(answers) {
		go func() {
			_, err := f.Resend(t.Context(), x.ID)
			answers <- err
		}()
	}
	one, other := <-answers, <-answers
	if one == nil {
		one, other = other, one
	}
	testkit.Equal(t, "of two at once, one is told", landfall.KindOf(one), landfall.Conflict)
	testkit.Equal(t, "and the other", other, nil)
	next := &fixture{&execution.Recorder{DB: f.db, Process: "q", Logger: f.Logger, Limits: f.Limits}, t, f.db, f.counts}
	next.work(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		testkit.Equal(t, "its event", string(e.Data()), "Ada")
		if calls.Add(1) < 4 {
			return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
		}
		return greets(ctx, e)
	})
	x = next.over(x.ID)
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "attempts", x.Attempt, 4)
	_, err = next.Resend(t.Context(), x.ID)
	testkit.Equal(t, "one that succeeded", landfall.KindOf(err), landfall.Conflict)
}

// A process that dies between a failure and its record loses nothing: another one tries again.
func TestRetryOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Limits.Backoff = time.Nanosecond
	patient := hello()
	patient.Retries = 1
	x, err := f.Accept(t.Context(), function.Call{Function: patient, Event: request("1")})
	if err != nil {
		t.Fatal(err)
	}
	err = f.db.Update(t.Context(), func(tx *store.Tx) error { // of an earlier life, which failed, and died before it said so
		_, err := tx.LeaseExecutions(t.Context(), "p", time.Now(), time.Now().Add(time.Hour), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.work(func(context.Context, *landfall.Function, event.Event) (event.Event, error) {
		return event.Event{}, &landfall.Error{Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
	})
	x = f.over(x.ID)
	testkit.Equal(t, "what came of it", fmt.Sprintln(x.State, x.Attempt, x.Dead), "failed 2 true\n")
}
