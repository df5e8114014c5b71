package registry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/registry"
)

func TestFindRoute(t *testing.T) {
	t.Parallel()
	routes := registry.NewRoutes([]registry.Route{
		{Trigger: &registry.Trigger{Name: "list"}, Patterns: []string{"GET /api/items"}},
		{Trigger: &registry.Trigger{Name: "add"}, Patterns: []string{"POST /api/items", "PUT /api/items"}},
		{Trigger: &registry.Trigger{Name: "item"}, Patterns: []string{"GET /api/items/{id}"}},
		{Trigger: &registry.Trigger{Name: "best"}, Patterns: []string{"GET /api/items/best"}},
		{Trigger: &registry.Trigger{Name: "files"}, Patterns: []string{"GET /files", "GET /files/"}},
		{Trigger: &registry.Trigger{Name: "slash"}, Patterns: []string{"GET /docs/{$}"}},
		{Trigger: &registry.Trigger{Name: "host"}, Patterns: []string{"GET shop.example.com/hosted"}},
		{Trigger: &registry.Trigger{Name: "late"}, Patterns: []string{"GET /api/items/{name}"}}, // conflicts with item
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
			got = route.Name
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

// An expression is found beside the patterns of http.ServeMux: what is more specific comes first, whatever the order of
// the routes.
func TestFindExpression(t *testing.T) {
	t.Parallel()
	all := []registry.Route{
		{Trigger: &registry.Trigger{Name: "pages"},
			Patterns: []string{`GET /chat/{html:[a-z.\/]+}`, `POST /chat/{html:[a-z.\/]+}`}},
		{Trigger: &registry.Trigger{Name: "rooms"}, Patterns: []string{`GET /chat/rooms/{id:[0-9a-z]+}`}},
		{Trigger: &registry.Trigger{Name: "exact"}, Patterns: []string{"GET /chat/app.html"}},
		{Trigger: &registry.Trigger{Name: "below"}, Patterns: []string{"GET /chat", "GET /chat/"}},
		{Trigger: &registry.Trigger{Name: "item"}, Patterns: []string{"GET /api/items/{id}"}},
		{Trigger: &registry.Trigger{Name: "any"}, Patterns: []string{`GET /{any:.*}`}},
		{Trigger: &registry.Trigger{Name: "host"}, Patterns: []string{`GET shop.example.com/{any:[a-z]+}`}},
	}
	for _, c := range []struct{ method, url, trigger, values, allow string }{
		{"GET", "/chat/app.html", "exact", "", ""},
		{"GET", "/chat/js/app.js", "pages", "js/app.js", ""},
		{"HEAD", "/chat/js/app.js", "pages", "js/app.js", ""},
		{"PUT", "/chat/js/app.js", "", "", "GET HEAD POST"},
		{"GET", "/chat/UPPER", "below", "", ""},
		{"GET", "/chat/rooms/7", "rooms", "7", ""},
		{"GET", "/chat/rooms/a", "rooms", "a", ""},
		{"GET", "/api/items/7", "item", "7", ""},
		{"GET", "/else", "any", "else", ""},
		{"GET", "http://shop.example.com:8080/else", "host", "else", ""},
		{"GET", "http://shop.example.com/chat/rooms/7", "rooms", "7", ""},
	} {
		for turn := range all {
			routes := registry.NewRoutes(append(append([]registry.Route{}, all[turn:]...), all[:turn]...))
			r := httptest.NewRequest(c.method, c.url, nil)
			route, allow := routes.Find(r)
			got, values := "", ""
			if route != nil {
				got, values = route.Name, r.PathValue("html")+r.PathValue("id")+r.PathValue("any")
			}
			if got != c.trigger || values != c.values || strings.Join(allow, " ") != c.allow {
				t.Errorf("%s %s: got %q with %q, allowed %q; want %+v", c.method, c.url, got, values, allow, c)
			}
		}
	}
}
