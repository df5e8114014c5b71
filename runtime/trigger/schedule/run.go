package schedule

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
)

const (
	// How long a firing waits for a function that is busy: at most before it tries again, and in all. The runner says how
	// long at first.
	mostWait  = 30 * time.Second
	busyLimit = 5 * time.Minute
	// longestTry is more than it takes a function to say that it is busy.
	longestTry = time.Second
	// storeWait is how long the end of a firing waits for a store that is away.
	storeWait = time.Second
)

// run runs a firing to its end. Where ctx ends it, or the process, it stays open, and is run again. While its function
// is busy it waits, and is out of the way when its trigger is due next; zero: it is not.
func (s *Scheduler) run(ctx context.Context, t *registry.Trigger, f store.Firing, next time.Time) {
	crashpoint.Here("firing.claimed")
	started := s.Elapsed()
	calls := newCalls(t)
	for wait := time.Millisecond; ; {
		err := s.invoke(ctx, t, f, calls)
		crashpoint.Here("firing.answered")
		if ctx.Err() != nil {
			return
		}
		fault, ok := errors.AsType[*function.Error](err)
		if !ok || fault.Reason != function.ReasonBusy || s.Elapsed()-started > busyLimit {
			s.end(ctx, t, f, giveUp(t, calls))
			return
		}
		wait = min(max(2*wait, fault.RetryAfter), mostWait)
		if s.move(ctx, f, store.FiringWaiting) != nil || !pause(ctx, wait) {
			return
		}
		if !next.IsZero() && !s.Now().Before(next.Add(-longestTry)) {
			s.end(ctx, t, f, giveUp(t, calls))
			return
		}
		if s.move(ctx, f, store.FiringRunning) != nil {
			return // another process has it, or fired the next time already
		}
	}
}

// end writes how a firing ended.
func (s *Scheduler) end(ctx context.Context, t *registry.Trigger, f store.Firing, err error) {
	f.State, f.Finished = store.FiringSucceeded, s.Now()
	if err != nil {
		f.State, f.Problem = store.FiringFailed, problemOf(err)
	}
	for {
		err := s.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.MoveFiring(ctx, f) })
		if err == nil {
			crashpoint.Here("firing.ended")
			s.over(ctx, t, f)
			return
		}
		if landfall.Is(err, landfall.Conflict) || !pause(ctx, storeWait) {
			return // another process has taken it over, or this one stops
		}
	}
}

// move writes the state of a firing that goes on. An error means that it does not: another process has it, or the next
// time came.
func (s *Scheduler) move(ctx context.Context, f store.Firing, to store.FiringState) error {
	f.State = to
	return s.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.MoveFiring(ctx, f) })
}

// pause waits; false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// invoke gives the event of a firing to the functions of its trigger that have not answered yet, to all at once, and
// returns why it failed; while one of them is busy, that.
func (s *Scheduler) invoke(ctx context.Context, t *registry.Trigger, f store.Firing, calls []*call) error {
	var group sync.WaitGroup
	for _, c := range calls {
		if c.over {
			continue
		}
		group.Go(func() {
			c.err = s.invokeOne(ctx, t, f, c.function)
			c.over = !isBusy(c.err)
		})
	}
	group.Wait()
	return outcomeOf(t, calls)
}

// call is the call of one function by a firing.
type call struct {
	function *landfall.Function
	over     bool // it need not be tried again
	err      error
}

// newCalls returns the calls of a firing: one, or one for each function of a tag.
func newCalls(t *registry.Trigger) []*call {
	var calls []*call
	for _, f := range t.Targets() {
		calls = append(calls, &call{function: f})
	}
	return calls
}

// isBusy reports whether an error says that a function has no place for a call now.
func isBusy(err error) bool {
	fault, ok := errors.AsType[*function.Error](err)
	return ok && fault.Reason == function.ReasonBusy
}

// outcomeOf returns why a firing failed: the error of its call, of one that is busy, or how many functions of its tag
// failed, and how.
func outcomeOf(t *registry.Trigger, calls []*call) error {
	if t.Tag != "" && len(t.Tagged) == 0 {
		return landfall.Errorf("schedule.invoke", landfall.Unavailable, "the function tag %s names no function", t.Tag)
	}
	var problems []string
	for _, c := range calls {
		switch {
		case c.err == nil:
			continue
		case t.Tag == "" || !c.over:
			return c.err
		}
		name := "one that the app may not call"
		if c.function != nil {
			name = c.function.Name
		}
		problems = append(problems, name+": "+landfall.MessageOf(c.err))
	}
	if len(problems) == 0 {
		return nil
	}
	return landfall.Errorf("schedule.invoke", landfall.Unavailable, "%d of %d functions of the tag %s failed: %s",
		len(problems), len(calls), t.Tag, strings.Join(problems, "; "))
}

// giveUp lets no call be tried again, and returns why the firing failed.
func giveUp(t *registry.Trigger, calls []*call) error {
	for _, c := range calls {
		c.over = true
	}
	return outcomeOf(t, calls)
}

func (s *Scheduler) invokeOne(ctx context.Context, t *registry.Trigger, f store.Firing, to *landfall.Function) error {
	answer, err := s.Functions.Call(ctx, function.Call{Function: to, Trigger: t, Event: eventOf(t, f)})
	if err != nil {
		return err
	}
	fault, failed, err := event.ErrorOf(answer)
	if err != nil {
		return err
	}
	if failed {
		return &landfall.Error{Op: "schedule.invoke", Kind: landfall.Unavailable, Message: fault.Message}
	}
	p, err := event.ProtocolOf(answer)
	if err == nil && p.Status >= http.StatusBadRequest {
		err = landfall.Errorf("schedule.invoke", landfall.Unavailable, "the function answered with the status %d", p.Status)
	}
	return err
}

// eventOf returns the event of a firing. A function that was written for HTTP sees the request that Fission's timer
// sends.
func eventOf(t *registry.Trigger, f store.Firing) event.Event {
	e := event.Of(f.Due.UTC().Format(time.RFC3339), t.Source(), landfall.ScheduleEvent, f.Due.UTC())
	e.SetSubject(t.Name)
	event.SetExecution(&e, uuid.NewString())
	event.SetProtocol(&e, event.Protocol{
		Type: "http", Method: t.Time.Method, RequestURL: addressOf(t.Time.Subpath),
		Headers: map[string][]string{"X-Fission-Timer-Name": {t.Name}},
	})
	return e
}

// addressOf returns a path and its query in ASCII.
func addressOf(subpath string) string {
	u, err := url.ParseRequestURI(subpath)
	if err != nil {
		return "/"
	}
	return u.RequestURI()
}

// problemOf returns what is remembered of an error.
func problemOf(err error) string {
	const most = 1000
	text := landfall.MessageOf(err)
	if len(text) > most {
		text = text[:most]
	}
	return text
}
