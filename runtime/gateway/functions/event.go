package functions

import (
	"errors"
	"net/http"

	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger"
)

// replyEvent answers with the event that a function answered with, or for the error with one that stands in its place.
func replyEvent(w http.ResponseWriter, asked, answer event.Event, err error) {
	status := http.StatusOK
	if err != nil {
		status = pageOfFailure(err).Status
		if _, refused := errors.AsType[*contract.MismatchError](err); refused {
			status = http.StatusBadRequest
			delete(w.Header(), page.ExecutionHeader) // there was none
		}
		if after := function.RetryAfter(err); after != "" {
			w.Header().Set("Retry-After", after)
		}
		answer = function.ErrorEvent(asked, err, status)
	}
	_ = event.Write(w, status, event.Structured, answer) // the client may be gone
}

// byHand returns the event of a schedule or a queue that somebody fires with a request.
func byHand(r *http.Request, t *registry.Trigger, execution string, data []byte) event.Event {
	e := trigger.NewEvent(t)
	setData(&e, r, data)
	event.SetExecution(&e, execution)
	return e
}
