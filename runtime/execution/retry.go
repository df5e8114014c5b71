package execution

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/store"
)

// longestBackoff bounds the pause before a retry. The store takes a longer one for a clock that was set back.
const longestBackoff = 5 * time.Minute

// retriesOf returns how often a call that is accepted is tried again when it fails: its trigger says so, or else its
// function.
func retriesOf(c function.Call) int64 {
	switch t := c.Trigger; {
	case t == nil:
	case t.Kind == landfall.QueueTrigger:
		return int64(t.Queue.MaxRetries)
	case t.Retries != nil:
		return int64(*t.Retries)
	}
	return int64(c.Function.Retries)
}

// tried returns how many attempts there were since the execution was accepted, or sent again.
func (x *running) tried() int64 { return x.Attempt - x.Earlier }

// accepted returns when that was.
func (x *running) accepted() time.Time {
	if x.Sent.IsZero() {
		return x.Created
	}
	return x.Sent
}

// decide says what becomes of an accepted execution that failed: it waits for its next attempt, or is a dead letter.
// The caller holds the lock.
func (x *running) decide(err error, backoff time.Duration) {
	if x.tried() > x.Retries || !mayHelp(err) {
		x.Dead = true
		return
	}
	x.Next = x.Finished.Add(pause(x.tried(), backoff))
	x.State, x.Finished, x.Output = landfall.ExecutionQueued, time.Time{}, 0
}

// pause returns how long to wait after an attempt, counted from 1: twice as long as after the one before.
func pause(tried int64, first time.Duration) time.Duration {
	wait := min(first, longestBackoff)
	for range tried - 1 {
		wait = min(2*wait, longestBackoff)
	}
	return wait
}

// mayHelp reports whether another attempt can come to something else: not when the function takes no such event, or is
// gone.
func mayHelp(err error) bool {
	kind := landfall.KindOf(err)
	return err == nil || kind != landfall.Invalid && kind != landfall.NotFound
}

// Resend has a dead letter run again: in the version that it was accepted for, with as many retries as at first. When
// it returns, that is on the disk. Its errors are those of store.Tx.ResendExecution.
func (r *Recorder) Resend(ctx context.Context, id string) (landfall.Execution, error) {
	err := r.DB.Update(ctx, func(tx *store.Tx) error { return tx.ResendExecution(ctx, id, time.Now(), waiting()) })
	if err != nil {
		return landfall.Execution{}, err
	}
	crashpoint.Here("execution.resent")
	r.ring()
	return r.DB.Execution(ctx, id)
}
