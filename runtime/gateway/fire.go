package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/trigger"
)

// Fire answers at registry.TriggerPath + NAMESPACE/APP/TRIGGER of the control host, and for another release than the
// live one at NAMESPACE/APP:RELEASE/TRIGGER: by what the trigger of that name answers. An HTTP trigger takes every
// method and is as public as its route. Other triggers take POST with a token.
//
// Who accepts application/cloudevents+json, and nothing else, gets the event that the function answers with, as at
// /fire, or one that says what went wrong. That has more of an error than visitors may know, and needs a token that may
// invoke, whatever the trigger says.
//
// What an Authorization header says is for the control host, and no function gets it.
func (g *Gateway) Fire(w http.ResponseWriter, r *http.Request) {
	c := counted{ResponseWriter: w}
	g.count(g.fire(&c, r), &c)
}

// fire answers as Fire, and returns the app that it was for; none when there is no such app.
func (g *Gateway) fire(w http.ResponseWriter, r *http.Request) (app string) {
	h := w.Header()
	h["X-Content-Type-Options"] = g.headers.nosniff
	table := g.registry.Table()
	if table == nil {
		h.Set("Retry-After", "1")
		page.Write(w, r, pageStarting())
		return ""
	}
	below, ok := strings.CutPrefix(r.URL.Path, registry.TriggerPath)
	if !ok {
		page.Write(w, r, pageNoTrigger())
		return ""
	}
	namespace, rest, _ := strings.Cut(below, "/")
	name, rest, _ := strings.Cut(rest, "/")
	name, selector, _ := strings.Cut(name, ":")
	found, app, ok := g.resolve(w, r, table, Host{App: name, Selector: selector})
	if !ok {
		return app
	}
	named := found.Release.Named(rest)
	if len(named) == 0 || named[0].Namespace != namespace {
		page.Write(w, r, pageNoTrigger())
		return app
	}
	t := named[0]
	if t.Kind != landfall.HTTPTrigger && r.Method != http.MethodPost {
		h.Set("Allow", http.MethodPost)
		page.Write(w, r, pageOtherMethods())
		return app
	}
	if r.Header.Get("Accept") == eventType {
		g.call(w, r, t, landfall.AccessToken, replyEvent)
		return app
	}
	g.call(w, r, t, stricter(t.Access(), found.SignedIn), nil)
	return app
}

// eventType is what somebody accepts who wants an event, and not what HTTP makes of it.
const eventType = "application/cloudevents+json"

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
		event.SetError(&answer, runner.ErrorOf(err))
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
