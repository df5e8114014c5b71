package github_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/testkit"
)

// Open pull requests are listed on all pages. What is as it was is not sent again.
func TestPulls(t *testing.T) {
	t.Parallel()
	s := githubtest.New(t, testkit.Must(description())(t), token)
	client := testkit.Must(github.NewClient(s.URL, token, http.DefaultClient))(t)
	p := &github.Pulls{Requests: &github.Hooks{Client: client, Pace: github.NewPace(), Now: time.Now}}
	of, ctx := landfall.GitHubRepository{Owner: "harbor", Name: "shop"}, t.Context()
	tell := func(number int, state, merged string) {
		s.Deliver("harbor/shop", "pull_request", fmt.Appendf(nil, `{"number": %d, "pull_request": {"number": %[1]d,
			"state": %q, "merged_at": %s, "closed_at": null, "created_at": "2026-11-20T15:00:00Z", 
			"updated_at": "2026-11-21T15:00:00Z",
			"head": {"ref": "feature", "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e", "repo": {"id": 8, "name": "shop", "full_name": "else/shop"}},
			"base": {"ref": "main", "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
				"repo": {"id": 7, "name": "shop", "full_name": "harbor/shop", "owner": {"login": "harbor"}}}}}`,
			number, state, merged))
	}
	for number := range 101 {
		tell(number+1, "open", "null")
	}
	s.Label("harbor/shop", 101, landfall.ApprovalLabel)
	all := testkit.Must(p.Open(ctx, of))(t)
	if len(all) != 101 || all[100].Number != 101 || all[100].Base != "main" || !all[100].Fork || all[100].Closed ||
		all[100].Repository != (landfall.GitHubRepository{ID: 7, Owner: "harbor", Name: "shop"}) ||
		len(all[100].Labels) != 1 || all[100].Head != "refs/heads/feature" || all[100].Updated.Day() != 21 {
		t.Fatalf("got %d pull requests, the last %+v, want 101", len(all), all[len(all)-1])
	}
	before := s.Requests()
	testkit.Equal(t, "the same again", len(testkit.Must(p.Open(ctx, of))(t)), 101)
	testkit.Equal(t, "requests", s.Requests()-before, 2)
	tell(101, "closed", `"2026-11-21T15:00:00Z"`)
	testkit.Equal(t, "after one was closed", len(testkit.Must(p.Open(ctx, of))(t)), 100)
	if one := testkit.Must(p.Pull(ctx, of, 101))(t); !one.Closed || !one.Merged {
		t.Errorf("got %+v, want that it was merged", one)
	}
	_, err := p.Pull(ctx, of, 200)
	testkit.Kind(t, "what is not there", err, landfall.NotFound)
}
