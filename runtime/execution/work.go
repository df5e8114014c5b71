package execution

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
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
	"landfall.dev/landfall/trace"
)

const (
	workers   = 16               // executions that were accepted, at once
	lookEvery = time.Second      // for what was accepted elsewhere, and for what could not be run before
	patience  = 10 * time.Second // with what is under way at a stop
	longest   = 24 * time.Hour   // that an execution waits for a function that is busy
	soonest   = time.Second      // until one that could not be run is tried again
	latest    = 30 * time.Second
	settling  = 5 * time.Second // of a write at the end

	maxEvent  = 1 << 20   // bytes of an event that is accepted
	maxResult = 256 << 10 // bytes of an answer that is kept
)

// waiting bounds what of one app waits, and its dead letters.
func waiting() store.WaitingLimit {
	const count, bytes = 10_000, 256 << 20
	return store.WaitingLimit{Count: count, Bytes: bytes}
}

// Find returns the function that an execution was accepted for, and the trigger that it came through; nil: it came by
// the function's name. NotFound when one of them is gone.
type Find func(ctx context.Context, x landfall.Execution) (*landfall.Function, *registry.Trigger, error)

// Accept stores a call that a function is to answer, in the version that it names, whatever becomes of what named it.
// When it returns, the execution is on the disk. Of the event nothing is stored that only the function is told: its
// configuration is found again. Invalid when the event is too large, or the function's contract refuses it; Unavailable
// when too many wait.
func (r *Recorder) Accept(ctx context.Context, c function.Call) (landfall.Execution, error) {
	x, input, err := r.prepare(ctx, c)
	if err != nil {
		return landfall.Execution{}, err
	}
	err = r.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.AcceptExecution(ctx, x, input, waiting())
	})
	if err != nil {
		return landfall.Execution{}, err
	}
	crashpoint.Here("execution.accepted")
	r.ring()
	return r.DB.Execution(ctx, x.ID)
}

// prepare returns an execution that is to be accepted, and the event that it answers, as it is stored.
func (r *Recorder) prepare(ctx context.Context, c function.Call) (x landfall.Execution, input []byte, err error) {
	const op landfall.Op = "execution.Accept"
	if err := r.Contracts.Of(c.Function.Contract).CheckInput(c.Event); err != nil {
		return x, nil, err
	}
	e := c.Event.Clone()
	event.Strip(&e)
	event.SetTrace(&e, trace.Parent(ctx))
	if event.ExecutionOf(e) == "" || len(event.ExecutionOf(e)) > nameSize {
		event.SetExecution(&e, uuid.NewString())
	}
	input, err = event.Append(nil, event.Structured, e)
	if err != nil {
		return x, nil, landfall.Wrapf(op, landfall.Invalid, err, "the event cannot be written as JSON")
	}
	if len(input) > maxEvent {
		return x, nil, &landfall.Error{Op: op, Kind: landfall.Invalid,
			Err: &event.TooLargeError{Limit: "accepted event bytes", Max: maxEvent},
			Message: "the event is too large to be kept: the limit is " + strconv.Itoa(maxEvent) +
				" bytes; without Prefer: respond-async more is taken"}
	}
	c.Event = e
	x = describe(&c, time.Now())
	x.State, x.Async, x.Retries = landfall.ExecutionQueued, true, retriesOf(c)
	return x, input, nil
}

// bellOf returns what rings when something was accepted here.
func (r *Recorder) bellOf() chan struct{} {
	r.bellOnce.Do(func() { r.bell = make(chan struct{}, 1) })
	return r.bell
}

func (r *Recorder) ring() {
	select {
	case r.bellOf() <- struct{}{}:
	default: // it rings already
	}
}

// Work has functions answer what was accepted until ctx ends, and then waits a moment for what is under way; what takes
// longer is run again at the next start, or by another process.
func (r *Recorder) Work(ctx context.Context, find Find, functions function.Caller) error {
	r.begun(ctx) // else it would be taken for what its earlier life ran
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	free := make(chan struct{}, workers)
	for range workers {
		free <- struct{}{}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, x := range r.lease(ctx, len(free)) {
			<-free
			group.Go(func() {
				defer func() {
					free <- struct{}{}
					r.ring() // there may be more
				}()
				r.perform(working, x, find, functions)
			})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-r.bellOf():
		}
	}
	late := time.AfterFunc(patience, stop)
	defer late.Stop()
	group.Wait()
	return nil
}

// lease takes executions that wait.
func (r *Recorder) lease(ctx context.Context, limit int) (leased []store.LeasedExecution) {
	if limit == 0 {
		return nil
	}
	now := time.Now()
	due, err := r.DB.ExecutionsDue(ctx, now)
	if err == nil && due {
		err = r.DB.Update(ctx, func(tx *store.Tx) (err error) {
			leased, err = tx.LeaseExecutions(ctx, r.Process, now, now.Add(lease), limit)
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.WarnContext(ctx, "executions that were accepted wait", "error", err)
	}
	if err != nil {
		return nil
	}
	return leased
}

// perform runs an execution that was leased.
func (r *Recorder) perform(ctx context.Context, leased store.LeasedExecution, find Find, functions function.Caller) {
	crashpoint.Here("execution.leased")
	x := &running{Execution: leased.Execution, until: leased.Started.Add(lease), always: true}
	x.Reason, x.Message, x.Next = "", "", time.Time{} // they are of the attempt before
	r.mu.Lock()
	r.add(x)
	r.mu.Unlock()
	answer, err := r.answer(ctx, x, leased.Input, find, functions)
	crashpoint.Here("execution.answered")
	if err != nil && again(err, x.tried()) && time.Since(x.accepted()) < longest {
		r.giveBack(ctx, x, isLost(err))
		return
	}
	if err == nil {
		r.keepResult(x, answer)
	}
	r.end(x, answer, err)
	if x.Dead {
		r.Logger.WarnContext(ctx, "an execution is a dead letter now", "execution", x.ID, "function", x.Function,
			"version", x.Version, "attempts", x.Attempt, "reason", x.Reason)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	_ = r.write(limited, false) // what could not be written is tried again
	crashpoint.Here("execution.recorded")
}

func (r *Recorder) answer(ctx context.Context, x *running, input []byte, find Find,
	functions function.Caller) (event.Event, error) {
	e, _, err := event.Parse(input)
	if err != nil {
		return event.Event{}, err
	}
	r.mu.Lock()
	known := x.Execution
	r.mu.Unlock()
	f, t, err := find(ctx, known)
	if err != nil {
		return event.Event{}, err
	}
	r.mu.Lock()
	x.function, x.alias = f, aliasOf(f, t)
	r.mu.Unlock()
	return functions.Call(ctx, function.Call{Function: f, Trigger: t, Event: e, Accepted: true})
}

// again reports whether an execution that could not be run may be run later: nobody is busy then, or we do not stop. So
// may one whose runner went away, as often as if this process had.
func again(err error, attempt int64) bool {
	kind := landfall.KindOf(err)
	return kind == landfall.Unavailable || kind == landfall.Canceled || isLost(err) && attempt < attempts
}

// isLost reports whether a function may have run of which nobody knows what it did.
func isLost(err error) bool {
	fault, ok := errors.AsType[*function.Error](err)
	return ok && fault.Reason == function.ReasonLost
}

// giveBack lets an execution wait on: the longer it has waited, the longer. tried says that it counts as an attempt.
func (r *Recorder) giveBack(ctx context.Context, x *running, tried bool) {
	const part = 10
	now := time.Now()
	next := now.Add(min(max(now.Sub(x.accepted())/part, soonest), latest))
	if ctx.Err() != nil {
		next = now
	}
	r.mu.Lock()
	delete(r.active, x.ID)
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	err := r.DB.Update(limited, func(tx *store.Tx) error {
		return tx.ReturnExecution(limited, x.Execution, r.Process, next, tried)
	})
	if err != nil {
		r.Logger.WarnContext(ctx, "an execution is run again when its lease is over", "execution", x.ID, "error", err)
	}
}

// keepResult keeps what the function answered, unless it is large.
func (r *Recorder) keepResult(x *running, answer event.Event) {
	result, err := event.Append(nil, event.Structured, answer)
	if err == nil && len(result) <= maxResult {
		result = []byte(r.redacted(x, string(result)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		x.Message = "the answer cannot be written as JSON, and is not kept"
	case len(result) > maxResult:
		x.Message = "the answer of " + strconv.Itoa(len(result)) + " bytes is not kept: the limit is " +
			strconv.Itoa(maxResult)
	default:
		x.Result = json.RawMessage(result)
	}
}

// Deferred answers a request that would rather not wait for the function (Prefer: respond-async, RFC 7240): it accepts
// the event, answers 202 with the execution, and returns true. It returns false, and does nothing, for any other
// request. When the event is not accepted, it returns the error, and nothing is answered.
func (r *Recorder) Deferred(w http.ResponseWriter, req *http.Request, c function.Call) (bool, error) {
	if !prefersAsync(req.Header) {
		return false, nil
	}
	x, err := r.Accept(req.Context(), c)
	if err != nil {
		return true, err
	}
	body, err := json.Marshal(x)
	if err != nil {
		return true, err
	}
	h := w.Header()
	h.Set("Location", "/api/v1/executions/"+x.ID)
	h.Set("Preference-Applied", respondAsync)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
	return true, nil
}

const respondAsync = "respond-async"

// prefersAsync reports whether a preference of a request is respond-async.
func prefersAsync(h http.Header) bool {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), respondAsync) {
				return true
			}
		}
	}
	return false
}
