package function

import (
	"errors"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

// Reason is why a function gave no answer.
type Reason string

// The reasons.
const (
	ReasonBusy     Reason = "busy"      // as many executions as may be are under way
	ReasonTimeout  Reason = "timeout"   // it did not answer in time
	ReasonExit     Reason = "exit"      // it ended
	ReasonMemory   Reason = "memory"    // it was killed for the memory that it took
	ReasonProtocol Reason = "protocol"  // what it wrote is not one event
	ReasonTooLarge Reason = "too-large" // its answer is larger than the limit
	// ReasonLost is that what ran it, in another process, went away: it may have run, wholly or in part.
	ReasonLost Reason = "lost"
)

// Error is the cause of an error of a Caller that the function made, or that is about its capacity.
type Error struct {
	Reason     Reason
	Trace      string        // the end of the execution's log
	RetryAfter time.Duration // of ReasonBusy: when to try again
}

// Error implements error.
func (e *Error) Error() string { return "the function failed: " + string(e.Reason) }

// EventError returns what an event says in the place of an answer for an error of a Caller.
func EventError(err error) event.Error {
	fault := event.Error{Message: landfall.MessageOf(err), Type: landfall.KindOf(err).String()}
	if f, ok := errors.AsType[*Error](err); ok {
		fault.Type, fault.Trace = string(f.Reason), f.Trace
	}
	return fault
}
