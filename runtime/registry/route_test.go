package registry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

func TestFindRoute(t *testing.T) {
	t.Parallel()
	routes := registry.NewRoutes([]registry.Route{
		{Trigger: "list", Patterns: []string{"GET /api/items"}},
		{Trigger: "add", Patterns: []string{"POST /api/items", "PUT /api/items"}},
		{Trigger: "item", Patterns: []string{"GET /api/items/{id}"}},
		{Trigger: "best", Patterns: []string{"GET /api/items/best"}},
		{Trigger: "files", Patterns: []string{"GET /files", "GET /files/"}},
		{Trigger: "slash", Patterns: []string{"GET /docs/{$}"}},
		{Trigger: "host", Patterns: []string{"GET shop.example.com/hosted"}},
		{Trigger: "late", Patterns: []string{"GET /api/items/{name}"}}, // conflicts with item
	})
	for _, c := range []struct{ method, url, trigger, allow string }{
		{"GET", "/api/items", "list", ""},
		{"HEAD", "/api/items", "list", ""},
		{"POST", "/api/items", "add", ""},
		{"DELETE", "/api/items", "", "GET HEAD POST PUT"},
		{"GET", "/api/items/7", "item", ""},
		{"GET", "/api/items/best", "best", ""},
		{"POST", "/api/items/7", "", "GET HEAD"},
		{"GET", "/api/items/7/more", "", ""},
		{"GET", "/files", "files", ""},
		{"GET", "/files/a/b", "files", ""},
		{"GET", "/docs/", "slash", ""},
		{"GET", "/docs/a", "", ""},
		{"GET", "/docs", "", ""}, // not a redirect of ours
		{"GET", "/hosted", "", ""},
		{"GET", "http://shop.example.com:8080/hosted", "host", ""},
		{"GET", "/", "", ""},
		{"OPTIONS", "/nothing", "", ""},
	} {
		r := httptest.NewRequest(c.method, c.url, nil)
		route, allow := routes.Find(r)
		got := ""
		if route != nil {
			got = route.Trigger
		}
		if got != c.trigger || strings.Join(allow, " ") != c.allow {
			t.Errorf("%s %s: got %q, allowed %q, want %q, %q", c.method, c.url, got, allow, c.trigger, c.allow)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/api/items/a%2Fb", nil)
	if _, _ = routes.Find(r); r.PathValue("id") != "a/b" {
		t.Errorf("the value of id is %q, want a/b", r.PathValue("id"))
	}
	if route, allow := registry.NewRoutes(nil).Find(r); route != nil || allow != nil {
		t.Errorf("without routes: got %v, %q", route, allow)
	}
}

// A table knows every function that can still be called.
func TestFunctions(t *testing.T) {
	t.Parallel()
	routes := func(id string) *registry.Routes {
		return registry.NewRoutes([]registry.Route{{Patterns: []string{"GET /"}, Function: &registry.Function{ID: id}}, {Patterns: []string{"GET /gone"}}})
	}
	table := registry.New([]registry.App{
		{ID: "1", Name: "shop", Live: "bbbbbbbb", Releases: []registry.Release{{ID: "aaaaaaaa", Routes: routes("old")}, {ID: "bbbbbbbb", Routes: routes("new")}, {ID: "cccccccc"}}},
		{ID: "2", Name: "zoo", Deleted: true, Releases: []registry.Release{{ID: "aaaaaaaa", Routes: routes("deleted")}}},
	})
	got := table.Functions()
	if len(got) != 2 || got["old"] == nil || got["new"] == nil {
		t.Errorf("got %v, want old and new", got)
	}
	if r := table.Resolve("shop", "", false).Release; r.ID != landfall.UID("bbbbbbbb") || r.Routes == nil {
		t.Errorf("the live release is %v, want bbbbbbbb with its routes", r)
	}
}

// V5: every percent of the requests goes where the weights say, and only there.
func TestChoose(t *testing.T) {
	t.Parallel()
	old, next := &registry.Function{ID: "old"}, &registry.Function{ID: "next"}
	for percent := range 101 {
		route := registry.Route{Shares: []registry.Share{{Function: old, Percent: 100 - percent}, {Function: next, Percent: percent}}}
		got := 0
		for drawn := range 100 {
			if route.Choose(drawn) == next {
				got++
			}
		}
		if got != percent {
			t.Errorf("%d of 100 requests go to a function with %d percent", got, percent)
		}
	}
	if got := (&registry.Route{Function: old}).Choose(99); got != old {
		t.Errorf("a route of one function leads to %v", got)
	}
}
