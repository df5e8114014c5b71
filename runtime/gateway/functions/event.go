package functions

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

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
		answer = event.Answer(asked, uuid.NewString())
		if _, refused := errors.AsType[*contract.MismatchError](err); refused { // then there was no execution
			status = http.StatusBadRequest
			delete(w.Header(), page.ExecutionHeader)
		} else {
			event.SetExecution(&answer, event.ExecutionOf(asked))
		}
		event.SetError(&answer, function.EventError(err))
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
