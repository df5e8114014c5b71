package registry

import (
	"net/http"
	"slices"
	"strings"
)

// Route binds requests to an HTTP trigger of a release.
type Route struct {
	*Trigger

	Patterns []string // of http.ServeMux, or with a route.Expression in place of the path; one for each method
}

// Routes are the routes of a release, ready to be looked up. They are immutable.
type Routes struct {
	mux         *http.ServeMux
	expressions []*expression // the one that precedes others first
}

// NewRoutes returns the routes of a release; nil when there are none. A route that conflicts with one before it is left
// out: a spec has no such routes.
func NewRoutes(routes []Route) *Routes {
	if len(routes) == 0 {
		return nil
	}
	r := &Routes{mux: http.NewServeMux()}
	for i := range routes {
		for _, pattern := range routes[i].Patterns {
			if e := readExpression(pattern, &routes[i]); e != nil {
				r.expressions = append(r.expressions, e)
				continue
			}
			r.add(pattern, &routes[i])
		}
	}
	slices.SortStableFunc(r.expressions, precedence)
	return r
}

// add adds a pattern. The standard library says by a panic that it cannot be.
func (r *Routes) add(pattern string, route *Route) {
	defer func() { _ = recover() }()
	r.mux.Handle(pattern, match{route})
}

// match is what the mux finds. It answers nothing, and is called only for what the mux tells the request then.
type match struct{ route *Route }

// ServeHTTP implements http.Handler.
func (m match) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if f, ok := w.(*finding); ok {
		f.route = m.route
	}
}

// finding is where the mux puts what it found. What it would answer goes nowhere.
type finding struct {
	route  *Route
	header http.Header
}

// Header implements http.ResponseWriter.
func (f *finding) Header() http.Header {
	if f.header == nil {
		f.header = http.Header{}
	}
	return f.header
}

// Write implements http.ResponseWriter.
func (*finding) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (*finding) WriteHeader(int) {}

// Find returns the route that takes a request, whose path values are set then. When there is none for its method, it
// returns those that its path takes, sorted; else nothing. The path of the request must be clean.
func (r *Routes) Find(request *http.Request) (*Route, []string) {
	if r == nil {
		return nil, nil
	}
	var f finding
	r.mux.ServeHTTP(&f, request)
	var methods []string
	if len(r.expressions) > 0 {
		var e *expression
		var values map[string]string
		e, values, methods = r.matching(request)
		if e != nil && (f.route == nil || e.precedes(request.Pattern)) {
			return e.give(request, values), nil
		}
	}
	if f.route != nil || f.header == nil {
		return f.route, nil
	}
	return nil, union(allowed(f.header), methods)
}

// allowed returns the methods of the Allow header that a mux writes, which are sorted.
func allowed(h http.Header) []string {
	if h.Get("Allow") == "" {
		return nil
	}
	return strings.Split(h.Get("Allow"), ", ")
}
