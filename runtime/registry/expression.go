package registry

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"

	"landfall.dev/landfall/route"
)

// expression is a pattern that http.ServeMux does not have.
type expression struct {
	*route.Expression

	method, host string
	route        *Route
}

// readExpression returns the expression of a pattern, METHOD HOST/PATH; nil for a pattern of http.ServeMux, and for one
// that cannot be read: a spec has no such patterns.
func readExpression(pattern string, to *Route) *expression {
	method, rest, _ := strings.Cut(pattern, " ")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 || !route.Needed(rest[slash:]) {
		return nil
	}
	e, err := route.Parse(rest[slash:])
	if err != nil {
		return nil
	}
	return &expression{Expression: e, method: method, host: rest[:slash], route: to}
}

// precedence compares two expressions: one for a host comes first, then the one with more text before its first brace.
// Then the longer one does, and of two that are as long the order is that of their characters.
func precedence(a, b *expression) int {
	return cmp.Or(
		cmp.Compare(min(1, len(b.host)), min(1, len(a.host))), cmp.Compare(len(b.Fixed), len(a.Fixed)),
		cmp.Compare(len(b.Key), len(a.Key)), cmp.Compare(a.Key, b.Key), cmp.Compare(a.method, b.method),
	)
}

// takes reports whether requests with a method go to the expression.
func (e *expression) takes(method string) bool {
	return e.method == method || e.method == http.MethodGet && method == http.MethodHead
}

// precedes reports whether the expression is more specific than a pattern of http.ServeMux that takes a request as
// well: a path without wildcards is the most specific of all, and then what has more text before its first wildcard.
func (e *expression) precedes(pattern string) bool {
	_, rest, _ := strings.Cut(pattern, " ")
	slash := strings.IndexByte(rest, '/')
	host, path := rest[:slash], rest[slash:]
	if hosts := min(1, len(e.host)) - min(1, len(host)); hosts != 0 {
		return hosts > 0
	}
	exact := !strings.HasSuffix(path, "/") && !strings.Contains(strings.TrimSuffix(path, "{$}"), "{")
	fixed, _, _ := strings.Cut(path, "{")
	return !exact && len(e.Fixed) >= len(fixed)
}

// matching returns the first expression that takes a request, and its values; or else the methods of those that take
// its path.
func (r *Routes) matching(request *http.Request) (found *expression, values map[string]string, methods []string) {
	host := request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	for _, e := range r.expressions {
		if e.host != "" && e.host != host {
			continue
		}
		values, matches := e.Match(request.URL.Path)
		if matches && e.takes(request.Method) {
			return e, values, nil
		}
		if matches {
			methods = append(methods, e.method)
			if e.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	return nil, nil, methods
}

// give gives a request to an expression, as http.ServeMux does it for a pattern of its own.
func (e *expression) give(request *http.Request, values map[string]string) *Route {
	request.Pattern = e.method + " " + e.host + e.Shown
	for name, value := range values {
		request.SetPathValue(name, value)
	}
	return e.route
}

// union returns methods of two lists, sorted, each once.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
