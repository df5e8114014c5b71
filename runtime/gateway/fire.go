package gateway

import (
	"net/http"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/functions"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
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
	g.count(w, r, (*Gateway).fire)
}

// fire answers as Fire, and returns the app that it was for; none when there is no such app.
func (g *Gateway) fire(w *page.Writer, r *http.Request, table *registry.Table) (app string) {
	below, ok := strings.CutPrefix(r.URL.Path, registry.TriggerPath)
	if !ok {
		page.Write(w, r, pageNoTrigger())
		return ""
	}
	namespace, rest, _ := strings.Cut(below, "/")
	name, rest, _ := strings.Cut(rest, "/")
	name, selector, _ := strings.Cut(name, ":")
	found, app, ok := g.resolve(w, r, table, hostname.Host{App: name, Selector: selector})
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
		w.Header().Set("Allow", http.MethodPost)
		page.Write(w, r, pageOtherMethods())
		return app
	}
	if r.Header.Get("Accept") == eventType {
		g.functions.Serve(w, r, t, landfall.AccessToken, functions.AsEvent)
		return app
	}
	g.functions.Serve(w, r, t, access.Required(t.Access(), found.SignedIn), functions.AsHTTP)
	return app
}

// eventType is what somebody accepts who wants an event, and not what HTTP makes of it.
const eventType = "application/cloudevents+json"
