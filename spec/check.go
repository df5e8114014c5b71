package spec

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/route"
)

// pendingReference is a name that a document uses and another one must define.
type pendingReference struct {
	pos        Position
	who        string
	kind, name string
}

// reference records that who names an object, to be checked when every document was read.
func (r *reader) reference(pos Position, who, kind, name string) {
	if name != "" {
		r.pending = append(r.pending, pendingReference{pos, who, kind, name})
	}
}

// checkReferences reports names that no document defines, and archives that no document uses.
func (r *reader) checkReferences() {
	used := map[string]bool{}
	for _, p := range r.pending {
		used[p.kind+" "+p.name] = true
		if !r.has(p.kind, p.name) {
			r.problemf(p.pos, "%s names %s %s, which the spec does not define%s", p.who, p.kind, quote(p.name),
				r.suggestion(p.kind, p.name))
		}
	}
	for _, a := range r.spec.Archives {
		if !used[archiveKind+" "+a.Name] {
			r.warnf(a.Pos, "no Package uses ArchiveUploadSpec %s", a.Name)
		}
	}
}

// suggestion asks whether a declared name was meant by one that is not declared.
func (r *reader) suggestion(kind, written string) string {
	declared := map[string]bool{}
	for known := range r.names {
		if known.kind == kind {
			declared[known.name] = true
		}
	}
	if best := Nearest(written, declared); best != "" {
		return "; did you mean " + quote(best) + "?"
	}
	return ""
}

// processBound is a trigger that says how many processes its functions may have.
type processBound struct {
	trigger Trigger
	who     string
	pos     Position
}

// checkBounds reports triggers whose functions would keep more processes warm than they may have. It knows nothing
// about versions that the documents do not make.
func (r *reader) checkBounds() {
	for _, b := range r.bounds {
		for _, f := range b.trigger.References() {
			if n := r.warm[f.Name]; f.Selector == landfall.Latest && n > b.trigger.Resources.Concurrency {
				r.problemf(b.pos,
					"%s: concurrency is %d, and Function %s keeps %d processes warm (%s); set it to at least %d, or leave it out",
					b.who, b.trigger.Resources.Concurrency, f.Name, n, keepWarm, n)
			}
		}
	}
}

// servedTrigger is a trigger with an address, and the position of the address.
type servedTrigger struct {
	trigger Trigger
	pos     Position
}

// place returns the position of the route, if it is in a file.
func (r servedTrigger) place() string {
	if r.pos == (Position{}) {
		return ""
	}
	return " at " + r.pos.String()
}

// Patterns returns the patterns under which an HTTP trigger is served: one of http.ServeMux for each method, and two
// with a prefix. A URL that ends in "/" matches only itself. The patterns of a route.Expression have the form METHOD
// HOST/PATH, too.
func (t Trigger) Patterns() []string {
	paths := []string{t.HTTP.URL}
	switch base := strings.TrimSuffix(t.HTTP.URL, "/"); {
	case route.Needed(t.HTTP.URL) && t.HTTP.Prefix:
		paths = []string{route.Below(t.HTTP.URL)}
	case route.Needed(t.HTTP.URL):
	case t.HTTP.Prefix && base == "":
		paths = []string{"/"}
	case t.HTTP.Prefix:
		paths = []string{base, base + "/"}
	case strings.HasSuffix(t.HTTP.URL, "/"):
		paths = []string{t.HTTP.URL + "{$}"}
	}
	patterns := make([]string, 0, len(t.HTTP.Methods)*len(paths))
	for _, method := range t.HTTP.Methods {
		for _, path := range paths {
			patterns = append(patterns, method+" "+t.HTTP.Host+path)
		}
	}
	return patterns
}

// checkRoute returns what is wrong with a trigger's address by itself, or "".
func checkRoute(t Trigger) string {
	if t.HTTP.URL == "" {
		return "is no address: give relativeurl or prefix"
	}
	if !strings.HasPrefix(t.HTTP.URL, "/") {
		return "must begin with /"
	}
	expression := route.Needed(t.HTTP.URL)
	for _, c := range []byte(t.HTTP.URL) {
		if c <= ' ' || c == 0x7f || !expression && (c == '?' || c == '#') {
			return "must not contain spaces, control characters, ? or #"
		}
	}
	if expression {
		if _, err := route.Parse(t.HTTP.URL); err != nil {
			return "is no route: " + landfall.MessageOf(err)
		}
		return ""
	}
	if !register(http.NewServeMux(), t.Patterns()) {
		return "is no route: it is a clean path, in which {name} stands for one whole segment and {name...} for the rest"
	}
	return ""
}

// register reports whether mux accepts the patterns. The standard library refuses only by a panic.
func register(mux *http.ServeMux, patterns []string) (ok bool) {
	defer func() { ok = recover() == nil }()
	for _, p := range patterns {
		mux.Handle(p, http.NotFoundHandler())
	}
	return true
}

// checkRoutes reports routes of which neither is more specific than the other. Routes of different hosts never
// conflict, and a route with a host precedes those without, so each host is checked by itself.
func (r *reader) checkRoutes() {
	slices.SortFunc(r.routes, func(a, b servedTrigger) int {
		return cmp.Or(cmp.Compare(a.trigger.HTTP.Host, b.trigger.HTTP.Host), cmp.Compare(a.pos.File, b.pos.File),
			cmp.Compare(a.pos.Line, b.pos.Line))
	})
	patterns := 0
	var over Position
	for _, s := range r.routes {
		before := patterns
		if patterns += len(s.trigger.Patterns()); before <= r.limits.Objects {
			over = s.pos
		}
	}
	if patterns > r.limits.Objects {
		r.problemf(over, "%d routes, counted by method; the limit is %d (setting LANDFALL_MAX_SPEC_OBJECTS)", patterns,
			r.limits.Objects)
		return
	}
	r.checkExpressions()
	mux, first := http.NewServeMux(), 0
	for i, later := range r.routes {
		if route.Needed(later.trigger.HTTP.URL) {
			continue
		}
		if later.trigger.HTTP.Host != r.routes[first].trigger.HTTP.Host {
			mux, first = http.NewServeMux(), i
		}
		if register(mux, later.trigger.Patterns()) {
			continue
		}
		if len(r.problems) >= shownProblems {
			r.more++
			return
		}
		for _, earlier := range r.routes[first:i] {
			if route.Needed(earlier.trigger.HTTP.URL) {
				continue
			}
			pair := http.NewServeMux()
			if register(pair, earlier.trigger.Patterns()) && !register(pair, later.trigger.Patterns()) {
				r.conflict(later, earlier)
				break
			}
		}
	}
}

// conflict reports two routes of which neither is more specific.
func (r *reader) conflict(later, earlier servedTrigger) {
	r.problemf(later.pos, "the route %s of HTTPTrigger %s conflicts with %s of HTTPTrigger %s%s",
		quote(later.trigger.HTTP.URL), later.trigger.Name, quote(earlier.trigger.HTTP.URL), earlier.trigger.Name,
		earlier.place())
}

// checkExpressions reports routes with the same regular expressions, and too many expressions, because a request may be
// compared with each.
func (r *reader) checkExpressions() {
	const most = 5 * route.MaxSize // instructions of all of them
	first, size := map[string]servedTrigger{}, 0
	for _, s := range r.routes {
		if !route.Needed(s.trigger.HTTP.URL) {
			continue
		}
		e, err := route.Parse(s.trigger.HTTP.URL)
		if err != nil {
			continue // it was reported
		}
		if size += e.Size; size > most {
			r.problemf(s.pos, "HTTPTrigger %s: the regular expressions of all routes are too large together: compiled, they "+
				"have more than %d instructions", s.trigger.Name, most)
			return
		}
		for _, method := range s.trigger.HTTP.Methods {
			key := method + " " + s.trigger.HTTP.Host + e.Key
			if earlier, taken := first[key]; taken {
				r.conflict(s, earlier)
				break
			}
			first[key] = s
		}
	}
}
