package github_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// What all installations see is listed by name, page by page, by tokens that may do nothing but list. What is missing is
// said.
func TestRepositories(t *testing.T) {
	t.Parallel()
	c := connect(t)
	many := map[string]int64{}
	for i := range 150 {
		many[fmt.Sprintf("tide/module-%03d", i)] = int64(1000 + i)
	}
	c.api.Install("tide", many)
	suspended := c.api.Install("quay", map[string]int64{"quay/old": 9})
	c.api.Change(suspended, func(i *githubtest.Installation) { i.Suspended = true })
	all, err := c.tokens.Repositories(t.Context(), c.app, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got := all.Repositories
	if len(got) != 152 || got[0].Name != "harbor/mono" || got[0].ID != 2 || got[151].Name != "tide/module-149" || all.More {
		t.Errorf("got %d repositories (more: %v), want the two of harbor and then the 150 of tide", len(got), all.More)
	}
	if len(all.Problems) != 1 || !strings.Contains(all.Problems[0], "on quay is suspended") {
		t.Errorf("got the problems %q, want that one installation is suspended", all.Problems)
	}
	for _, token := range c.api.Tokens() {
		// S33: what is for all repositories may list them, and nothing else
		if len(token.Permissions) != 1 || token.Permissions["metadata"] != "read" ||
			slices.ContainsFunc(token.Used, func(used string) bool { return used != "GET /installation/repositories" }) {
			t.Errorf("got the token %+v, want one that lists", token)
		}
	}

	if all, err = c.tokens.Repositories(t.Context(), c.app, 100); err != nil || len(all.Repositories) != 102 || !all.More {
		t.Errorf("got %d repositories (more: %v, %v), want the first 102, and that there are more", len(all.Repositories),
			all.More, err)
	}
}

// That GitHub does not list is a sentence; nothing is retried while somebody waits.
func TestRepositoriesUnavailable(t *testing.T) {
	t.Parallel()
	c := connect(t)
	for n, fault := range map[int]githubtest.Fault{ // of the requests for installations, a token, and the list
		1: {Status: http.StatusBadGateway},
		2: {Status: http.StatusServiceUnavailable},
		3: {Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "60"}},
	} {
		c.api.Fail(n, fault)
		before := c.api.Requests()
		_, err := c.tokens.Repositories(t.Context(), c.app, 1000)
		if !landfall.Is(err, landfall.Unavailable) || !strings.Contains(landfall.MessageOf(err), "try again later") {
			t.Errorf("got %v, want that it is to be tried again later", err)
		}
		if got := c.api.Requests() - before; got != n {
			t.Errorf("got %d requests, want %d", got, n)
		}
	}
}
