package github_test

import (
	"net/http"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/testkit"
)

// Where the repositories are is known from the address of the API.
func TestHost(t *testing.T) {
	t.Parallel()
	for api, want := range map[string]string{
		"https://api.github.com/": "github.com", "https://api.github.com": "github.com",
		"https://git.example.com/api/v3/": "git.example.com", "https://api.example.com/api/v3": "api.example.com",
		"http://127.0.0.1:80/": "127.0.0.1:80",
	} {
		testkit.Equal(t, api, github.Host(api), want)
	}
}

// Webhooks are made, found by their address on whatever page, read again only when they changed, and deleted.
func TestHooks(t *testing.T) {
	t.Parallel()
	d := testkit.Must(description())(t)
	s := githubtest.New(t, d, token)
	client := testkit.Must(github.NewClient(s.URL, token, http.DefaultClient))(t)
	h, ctx := &github.Hooks{Client: client, Pace: github.NewPace(), Now: time.Now}, t.Context()
	of := landfall.GitHubRepository{Owner: "harbor", Name: "shop"}
	for range 101 {
		s.AddHook(githubtest.Hook{Repository: "harbor/shop", URL: "https://other.example/", Events: []string{"push"}})
	}
	const address = "https://landfall.example/webhooks/github/1"
	none := testkit.Must(h.FindHook(ctx, of, address))(t)
	testkit.Equal(t, "before it is made", none.ID, 0)
	wanted := landfall.ForgeHook{URL: address, Events: []string{"push", "pull_request"}, Active: true}
	made := testkit.Must(h.PutHook(ctx, of, wanted, "secret"))(t)
	found := testkit.Must(h.FindHook(ctx, of, address))(t)
	if found.ID != made.ID || !found.JSON || !found.Verified || !found.Signed || !found.Active || len(found.Events) != 2 {
		t.Errorf("got %+v, want what was made", found)
	}
	seen, changed, err := h.Hook(ctx, of, made.ID, "")
	if err != nil || !changed || seen.Tag == "" {
		t.Fatalf("got %+v, %t and %v, want it with a tag", seen, changed, err)
	}
	if _, changed, err := h.Hook(ctx, of, made.ID, seen.Tag); err != nil || changed {
		t.Errorf("got %t and %v, want that it is as it was", changed, err)
	}
	wanted.ID, wanted.Active = made.ID, false
	testkit.Must(h.PutHook(ctx, of, wanted, "another"))(t)
	seen, changed, err = h.Hook(ctx, of, made.ID, seen.Tag)
	if err != nil || !changed || seen.Active {
		t.Errorf("got %+v, %t and %v, want that it is not active any more", seen, changed, err)
	}
	for range 2 { // what is gone is gone
		if err := h.DeleteHook(ctx, of, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = h.Hook(ctx, of, made.ID, "")
	testkit.Kind(t, "what was deleted", err, landfall.NotFound)
	_, err = h.PutHook(ctx, of, landfall.ForgeHook{URL: "landfall.example", Events: []string{"push"}}, "secret")
	testkit.Kind(t, "an address that is none", err, landfall.Invalid)
	for status, kind := range map[int]landfall.Kind{http.StatusForbidden: landfall.Forbidden, http.StatusNotFound: landfall.NotFound} {
		s.RefuseHooks(status)
		_, err := h.FindHook(ctx, of, address)
		testkit.Kind(t, http.StatusText(status), err, kind)
	}
}

// Failed deliveries of a repository's webhook, and of the App's, are listed on all pages and made again under the same
// id. While GitHub wants a pause, nothing is sent.
func TestHookDeliveries(t *testing.T) {
	t.Parallel()
	d := testkit.Must(description())(t)
	s := githubtest.New(t, d, token)
	client := testkit.Must(github.NewClient(s.URL, token, http.DefaultClient))(t)
	h, ctx := &github.Hooks{Client: client, Pace: github.NewPace(), Now: time.Now}, t.Context()
	const nobody = "http://127.0.0.1:1/"
	id := s.AddHook(githubtest.Hook{Repository: "harbor/shop", URL: nobody, Active: true, Events: []string{"push"}})
	s.AddHook(githubtest.Hook{URL: nobody, Active: true, Events: []string{"push"}})
	began := time.Now().Add(-time.Minute)
	for range 101 {
		s.Deliver("harbor/shop", "push", []byte(`{"repository":{"id":7}}`))
	}
	guid := s.Deliver("harbor/shop", "push", []byte(`{"repository":{"id":7}}`))
	for _, of := range []landfall.GitHubRepository{{Owner: "harbor", Name: "shop"}, {}} {
		all := testkit.Must(h.Deliveries(ctx, of, id, began))(t)
		if len(all) != 102 || all[0].Delivery != guid || all[0].Repository != 7 || !all[0].Failed() || all[0].Event != "push" {
			t.Fatalf("got %d deliveries of %q, want 102, the newest first", len(all), of.Name)
		}
		// L-019: a delivery that failed is asked for again, under the same id
		if err := h.Redeliver(ctx, of, id, all[0].ID); err != nil {
			t.Fatal(err)
		}
		again := testkit.Must(h.Deliveries(ctx, of, id, began))(t)
		testkit.Equal(t, "attempts", len(again), 103)
		testkit.Equal(t, "the id", again[0].Delivery, guid)
		later := testkit.Must(h.Deliveries(ctx, of, id, time.Now().Add(time.Minute)))(t)
		testkit.Equal(t, "attempts since then", len(later), 0)
	}
	s.Fail(1, githubtest.Fault{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "60"}})
	before := s.Requests()
	for range 2 {
		_, err := h.Deliveries(ctx, landfall.GitHubRepository{}, 0, began)
		testkit.Kind(t, "while GitHub wants a pause", err, landfall.Unavailable)
	}
	testkit.Equal(t, "requests", s.Requests()-before, 1)
}
