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
// Its errors are those of Find and of Recorder.Accept.
func (r Requests) Accept(ctx context.Context, named landfall.Reference,
	input json.RawMessage) (landfall.Execution, error) {
	f, err := r.Find(ctx, named)
	if err != nil {
		return landfall.Execution{}, err
	}
	in := event.Of(uuid.NewString(), "/api/v1/executions", "dev.landfall.invoke", time.Now())
	if len(input) > 0 {
		in.SetDataContentType("application/json")
		in.DataEncoded = input
	}
	return r.Recorder.Accept(ctx, function.Call{Function: f, Event: in})
}
