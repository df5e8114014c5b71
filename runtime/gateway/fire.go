package gateway

import (
	"net/http"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger"
)

// Fire answers at registry.TriggerPath + NAMESPACE/APP/TRIGGER of the control host, and for another release than the live one at
// NAMESPACE/APP:RELEASE/TRIGGER: by what the trigger of that name answers. An HTTP trigger takes every method and is as public as
// its route. Other triggers take POST with a token.
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
		writePage(w, r, pageStarting())
		return ""
	}
	namespace, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, registry.TriggerPath), "/")
	name, rest, _ := strings.Cut(rest, "/")
	name, selector, _ := strings.Cut(name, ":")
	found, app, ok := g.resolve(w, r, table, Host{App: name, Selector: selector})
	if !ok {
		return app
	}
	named := found.Release.Named(rest)
	if len(named) == 0 || named[0].Namespace != namespace {
		writePage(w, r, pageNoTrigger())
		return app
	}
	t := named[0]
	if t.Kind != landfall.HTTPTrigger && r.Method != http.MethodPost {
		h.Set("Allow", http.MethodPost)
		writePage(w, r, pageOtherMethods())
		return app
	}
	g.call(w, r, t, found.SignedIn)
	return app
}

// byHand returns the event of a schedule or a queue that somebody fires with a request.
func byHand(r *http.Request, t *registry.Trigger, execution string, data []byte) event.Event {
	e := trigger.NewEvent(t)
	setData(&e, r, data)
	event.SetExecution(&e, execution)
	return e
}
