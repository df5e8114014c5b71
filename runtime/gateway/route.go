package gateway

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/functions"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// route answers a request whose path a route of the release takes, or that may see nothing of the release, and reports
// whether it did: what has no route for the method may be a file.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request, found registry.Resolution, path string) bool {
	var route *registry.Route
	var methods []string
	if utf8.ValidString(path) { // an event has no other text; a file may have such a name
		route, methods = found.Release.Routes.Find(r)
	}
	if route != nil {
		g.functions.Serve(w, r, route.Trigger, access.Required(route.Access(), found.SignedIn), functions.AsHTTP)
		return true
	}
	if found.SignedIn && g.guard.AdmitVisitor(w, r, found.App) == access.Nobody {
		return true
	}
	if methods == nil {
		return false
	}
	exists, err := g.files.Has(r.Context(), found.Release, path)
	if err != nil {
		g.files.Fail(w, r, found.App, err)
		return true
	}
	if exists {
		if page.Reads(r) {
			return false
		}
		methods = slices.Compact(slices.Sorted(slices.Values(append(methods, http.MethodGet, http.MethodHead))))
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	page.Write(w, r, pageOtherMethods())
	return true
}
