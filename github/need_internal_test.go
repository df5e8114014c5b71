package github

import (
	"os"
	"strings"
	"testing"
)

// Each permission that the App asks for is needed by a request or an event, no request needs another one, and the
// documentation has the same table.
func TestPermissionsAreNeeded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/github.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]string{}
	for _, p := range Permissions() {
		asked[p.Name] = p.Level
		without := p.Without
		if without == "" {
			without = "nothing works"
		}
		line := ""
		for l := range strings.Lines(string(text)) {
			if strings.HasPrefix(l, "| `"+p.Name+":"+p.Level+"` |") {
				line = l
			}
		}
		if !strings.HasSuffix(strings.TrimSpace(line), "| "+without+" |") {
			t.Errorf("docs/github.md says %q of %s:%s, want that without it %s", line, p.Name, p.Level, without)
		}
	}
	for _, n := range append(needs(), listNeed()) {
		if granted := asked[n.permission]; granted != n.level && granted != "write" {
			t.Errorf("%s needs %s:%s, and the App asks for %q", n.request, n.permission, n.level, granted)
		}
	}
	for _, event := range Events() {
		if !strings.Contains(string(text), "`"+event+"`") {
			t.Errorf("docs/github.md does not say for what the event %s is", event)
		}
	}
}

// The permission of a request is found by its path, whatever stands in it.
func TestNeedOf(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"POST /repos/harbor/shop/statuses/5f1c2e7a":               "harbor/shop statuses:write",
		"GET /repos/harbor/shop/commits/5f1c2e7a/statuses":        "harbor/shop statuses:read",
		"PATCH /repos/harbor/shop/issues/comments/12":             "harbor/shop pull_requests:write",
		"GET /repos/harbor/shop":                                  "harbor/shop metadata:read",
		"GET /repos/harbor/shop/collaborators/mira/permission":    "harbor/shop metadata:read",
		"POST /repositories/7/statuses/5f1c2e7a":                  "7 statuses:write",
		"GET /repositories/7/commits/5f1c2e7a/statuses":           "7 statuses:read",
		"GET /repositories/7":                                     "7 metadata:read",
		"PUT /repositories/7/contents/index.html":                 "",
		"GET /repositories/seven":                                 "",
		"GET /repositories":                                       "",
		"PUT /repos/harbor/shop/pulls/12/merge":                   "",
		"PUT /repos/harbor/shop/contents/index.html":              "",
		"DELETE /repos/harbor/shop":                               "",
		"POST /repos/harbor/shop/git/refs":                        "",
		"GET /user":                                               "",
		"POST /repos/harbor/shop/statuses/../contents/index.html": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		repository, n, known := needOf(method, path)
		got := ""
		if known {
			got = repository + " " + n.permission + ":" + n.level
		}
		// S33: what is not in the table, such as a push or a merge, gets no token
		if got != want {
			t.Errorf("%s needs %q, want %q", request, got, want)
		}
	}
}
