package function

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
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

// ErrorEvent returns the event that answers a request in the place of a function's, for an error of a Caller and the
// status that HTTP has for it. It says what a function's error says.
func ErrorEvent(request event.Event, err error, status int) event.Event {
	answer := event.Answer(request, uuid.NewString())
	_, refused := errors.AsType[*contract.MismatchError](err) // then nothing was executed
	if execution := event.ExecutionOf(request); execution != "" && !refused {
		event.SetExecution(&answer, execution)
	}
	event.SetError(&answer, EventError(err))
	p := event.Protocol{Type: "http", Status: status, Headers: map[string][]string{"Content-Type": {"application/json"}}}
	if after := RetryAfter(err); after != "" {
		p.Headers["Retry-After"] = []string{after}
	}
	event.SetProtocol(&answer, p)
	event.Respond(request, &answer)
	return answer
}

// RetryAfter returns how many seconds to wait before the call that failed is made again; empty when waiting does not
// help.
func RetryAfter(err error) string {
	fault, ok := errors.AsType[*Error](err)
	busy, kind := ok && fault.Reason == ReasonBusy, landfall.KindOf(err)
	switch {
	case busy:
		return strconv.Itoa(int(max(1, math.Ceil(fault.RetryAfter.Seconds()))))
	case kind == landfall.Unavailable, kind == landfall.Canceled:
		return "1"
	}
	return ""
}
