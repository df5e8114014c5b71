package rpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/secret"
)

// Handler is a runner at /run: it takes an event, looks up the function that the event names, runs it and returns the
// result. Its fields are set before the first request.
type Handler struct {
	Functions function.Caller
	Lookup    func(ctx context.Context, name Name) (*landfall.Function, error) // a Registry's Function
	Logs      *Logs                                                            // of the runner that Functions run in
	Secret    secret.Text
	Logger    *slog.Logger

	gate gate
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.gate.Serve(w, r, served{Secret: h.Secret, Answer: h.answer})
}

// Drain lets no event in any more: it is for another runner. What is under way comes to its end.
func (h *Handler) Drain() { h.gate.Drain() }

// answer runs a function.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, body []byte, rest *incoming) {
	e, form, err := readEvent(r, body)
	if err != nil {
		writeError(w, r, form, standIn(), err)
		return
	}
	name, err := named(r.Header, e)
	if err != nil {
		writeError(w, r, form, e, err)
		return
	}
	f, err := h.find(r, name)
	if err != nil {
		h.told(r, name, e, err)
		if landfall.Is(err, landfall.Unavailable) {
			w.Header().Set(refusedHeader, busy) // another one may know it
		}
		writeError(w, r, form, e, err)
		return
	}
	to := &reply{w: w, r: r, form: form, request: e}
	c := function.Call{Function: f}
	if rest != nil {
		if f.Body == 0 {
			writeError(w, r, form, e, landfall.Errorf("call", landfall.Invalid,
				"the function takes no body that follows its event"))
			return
		}
		rest.most, rest.want = f.Body, to.accept
		c.Body = rest
	}
	if inPieces(r) {
		c.Stream = to
	}
	execution := h.Logs.begin(&e, to)
	c.Event = e
	returned := false
	defer func() {
		h.Logs.forget(execution)
		if !returned { // it panics, which a server survives
			to.end(event.Event{}, landfall.Errorf("call", landfall.Internal, "the function could not be run"))
		}
	}()
	answer, err := h.Functions.Call(r.Context(), c)
	returned = true
	h.Logs.forget(execution)
	h.told(r, name, e, err)
	to.end(answer, err)
}

// find returns the function of a name, with the resources that the request says.
func (h *Handler) find(r *http.Request, name Name) (*landfall.Function, error) {
	resources, err := parseResources(r.Header.Get(resourcesHeader))
	if err != nil {
		return nil, err
	}
	f, err := h.Lookup(r.Context(), name)
	if err != nil {
		return nil, err
	}
	own := *f
	own.Resources = resources.Or(f.Resources)
	return &own, nil
}

// told says in the log why a function could not be run. What functions do is the caller's to say.
func (h *Handler) told(r *http.Request, name Name, e event.Event, err error) {
	if err == nil || r.Context().Err() != nil || landfall.Is(err, landfall.Canceled) || reasonOf(err) != "" {
		return
	}
	h.Logger.WarnContext(r.Context(), "a function could not be run", "function", name.Reference.String(), "execution",
		event.ExecutionOf(e), "error", err)
}

// readEvent reads the one event of a request.
func readEvent(r *http.Request, body []byte) (event.Event, event.Form, error) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	events, form, err := event.Read(r, event.Limits{Bytes: maxEvent, Events: 1})
	switch {
	case err != nil:
		return event.Event{}, form, err
	case form == event.Batch || len(events) != 1:
		return event.Event{}, form, landfall.Errorf("call", landfall.Invalid,
			"a runner takes one event at a time, and this is a batch")
	}
	return events[0], form, nil
}
