package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/registry/stored"
)

// accepted returns the function that an execution was accepted for, as it was then, whatever the names mean by now, and its trigger.
func (s *server) accepted(ctx context.Context, x landfall.Execution) (*landfall.Function, *registry.Trigger, error) {
	ref := landfall.Reference{Namespace: x.Namespace, Name: x.Function, Selector: strconv.FormatInt(x.Number, 10)}
	f, err := s.source().FunctionInGroup(ctx, ref, x.Group)
	if err != nil || x.Trigger == "" {
		return f, nil, err
	}
	t := s.registry.Table().Trigger(x.Release, x.Trigger, f.ID)
	if t == nil {
		return nil, nil, &landfall.Error{Op: "functions.runAccepted", Kind: landfall.NotFound, Message: fmt.Sprintf(
			"the release %s, whose trigger %s the execution came through, is not accessible any more", x.Release, x.Trigger)}
	}
	return f, t, nil
}

// source is where functions are found.
func (s *server) source() stored.Source {
	return stored.Source{DB: s.db, Process: s.process, Logger: s.logger}
}

// recordRest writes what is known of executions when nothing runs any more.
func (s *server) recordRest() {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.recorder.Flush(ctx); err != nil {
		s.logger.Warn("the last executions are not recorded", "error", err)
	}
}

// executions are the executions of this process for the API.
type executions struct{ *server }

var _ api.Executions = executions{}

// Accept implements api.Executions.
func (e executions) Accept(ctx context.Context, ref landfall.Reference, input json.RawMessage) (landfall.Execution, error) {
	f, err := e.source().Function(ctx, ref)
	if err != nil {
		return landfall.Execution{}, err
	}
	in := event.New()
	in.SetID(uuid.NewString())
	in.SetSource("/api/v1/executions")
	in.SetType("dev.landfall.invoke")
	in.SetTime(time.Now())
	if len(input) > 0 {
		in.SetDataContentType("application/json")
		in.DataEncoded = input
	}
	return e.recorder.Accept(ctx, function.Call{Function: f, Event: in})
}

// logDoor answers GET /log?execution=ID, where the Fn document has the logs of a runner, with the log as text.
func logDoor(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("execution")
		if id == "" {
			answer(w, http.StatusBadRequest, "Name an execution: /log?execution=ID")
			return
		}
		const before, behind = "/api/v1/executions/", "/log"
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = before+id+behind, before+url.PathEscape(id)+behind
		r.Header.Set("Accept", "text/plain")
		rest.ServeHTTP(w, r)
	})
}

// Flush implements api.Executions.
func (e executions) Flush(ctx context.Context) error { return e.recorder.Flush(ctx) }
