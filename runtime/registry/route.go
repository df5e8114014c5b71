package registry

import (
	"net/http"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Function is one version of a function of a release: what is needed to run it.
type Function struct {
	ID          string // of this version with this configuration, and of no other
	App         string // the id of the app that owns it; empty for one made by hand
	Namespace   string
	Name        string
	Version     landfall.UID
	Number      int64
	Environment Environment
	Package     Archive
	Entrypoint  string // within the package, as the environment understands it; may be empty
	Resources   landfall.Resources
	Config      map[string]string // of the app
}

// Environment is what a function runs in, as its document has it.
type Environment struct {
	Name  string
	Image string // of its runtime; empty when no document defines the environment
}

// Archive is a package as it is stored: a zip of files.
type Archive struct {
	Key    string
	Digest landfall.Digest
	Size   int64
}

// Access says who may call a route.
type Access string

// The kinds of access.
const (
	Public   Access = "public"
	Token    Access = "token"     // with a bearer token that may invoke the app's functions
	SignedIn Access = "signed-in" // from a browser that signed in
)

// Route binds requests to a function: an HTTP trigger of a release.
type Route struct {
	Trigger  string
	Patterns []string  // of http.ServeMux, one for each method
	Access   Access    // empty: public
	Function *Function // nil: the version that the trigger names is gone
	Shares   []Share   // in place of Function, when the trigger names functions with weights, which sum to 100
}

// Share is a function that gets some of the requests of a route.
type Share struct {
	Function *Function // nil: it is gone
	Percent  int
}

// Choose returns the function that answers a request, by a number from 0 to 99 that is drawn for it; nil when that one is gone.
func (r *Route) Choose(drawn int) *Function {
	for _, s := range r.Shares {
		if drawn < s.Percent {
			return s.Function
		}
		drawn -= s.Percent
	}
	return r.Function
}

// Routes are the routes of a release, ready to be looked up. They are immutable.
type Routes struct {
	mux    *http.ServeMux
	routes []Route
}

// NewRoutes returns the routes of a release; nil when there are none. A route that conflicts with one before it is left out: a
// spec has no such routes.
func NewRoutes(routes []Route) *Routes {
	if len(routes) == 0 {
		return nil
	}
	r := &Routes{http.NewServeMux(), routes}
	for i := range routes {
		for _, pattern := range routes[i].Patterns {
			r.add(pattern, &routes[i])
		}
	}
	return r
}

// Functions returns the functions that the routes lead to.
func (r *Routes) Functions() []*Function {
	if r == nil {
		return nil
	}
	var all []*Function
	for _, route := range r.routes {
		for _, share := range slices.Concat(route.Shares, []Share{{Function: route.Function}}) {
			if share.Function != nil {
				all = append(all, share.Function)
			}
		}
	}
	return all
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

// Find returns the route that takes a request, whose path values are set then. When there is none for its method, it returns
// those that its path takes, sorted; else nothing. The path of the request must be clean.
func (r *Routes) Find(request *http.Request) (*Route, []string) {
	if r == nil {
		return nil, nil
	}
	var f finding
	r.mux.ServeHTTP(&f, request)
	if f.route != nil || f.header == nil {
		return f.route, nil
	}
	return nil, allowed(f.header)
}

// allowed returns the methods of the Allow header that a mux writes, which are sorted.
func allowed(h http.Header) []string {
	if h.Get("Allow") == "" {
		return nil
	}
	return strings.Split(h.Get("Allow"), ", ")
}
