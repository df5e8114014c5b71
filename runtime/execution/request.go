package execution

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// Requests accepts the executions that people ask the API for, by the name of a function.
type Requests struct {
	*Recorder

	Find func(ctx context.Context, ref landfall.Reference) (*landfall.Function, error)
}

// Accept stores an event with that JSON as its data, which the named function is to answer, and returns the execution.
// It has the given id; for an empty one, a new one. When there is an execution of that id, that is returned. Its errors
// are those of Find and of Recorder.Accept.
func (r Requests) Accept(ctx context.Context, id string, named landfall.Reference,
	input json.RawMessage) (landfall.Execution, error) {
	if id != "" {
		x, err := r.DB.Execution(ctx, id)
		if landfall.Ignore(err, landfall.NotFound) != nil || err == nil {
			return x, err
		}
	}
	f, err := r.Find(ctx, named)
	if err != nil {
		return landfall.Execution{}, err
	}
	in := event.Of(uuid.NewString(), "/api/v1/executions", "dev.landfall.invoke", time.Now())
	event.SetExecution(&in, id)
	setJSON(&in, input)
	return r.Recorder.Accept(ctx, function.Call{Function: f, Event: in})
}

// setJSON gives an event JSON as its data; none for nil.
func setJSON(e *event.Event, data json.RawMessage) {
	if len(data) > 0 {
		e.SetDataContentType("application/json")
		e.DataEncoded = data
	}
}
