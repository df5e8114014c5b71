package webhook_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// tellRepositories tells how an administrator finds a repository on a page, and makes an app of it there.
func tellRepositories(t *testing.T, w *forge.World, installation int64, mono *forge.Hosted) {
	t.Helper()
	page := func(path string) site.Page { return w.ReadAs(w.URL + path) }
	testkit.Contains(t, site.Told{page("/github").Body}, `href="/github/repositories"`)
	all := page("/github/repositories")
	testkit.Contains(t, site.Told{all.Body}, "harbor/mono", "harbor/shop", `<a href="/apps/shop">shop</a>`,
		`<form class="search" method="get"`)
	found := page("/github/repositories?filter=MONO").Body
	if !strings.Contains(found, "harbor/mono") || strings.Contains(found, "harbor/shop") {
		t.Errorf("the filter shows\n%s\nwant harbor/mono alone", found)
	}
	testkit.Contains(t, site.Told{page("/github/repositories?filter=nosuch").Body}, "No repository")
	listed := w.Landfall("github", "repositories", "--filter", "R/sh")
	if !strings.Contains(listed, "harbor/shop") || strings.Contains(listed, "mono") {
		t.Errorf("the command lists\n%s\nwant harbor/shop alone", listed)
	}
	w.API.Change(installation, func(i *githubtest.Installation) { i.Suspended = true })
	testkit.Contains(t, site.Told{page("/github/repositories").Body}, "on harbor is suspended")
	w.API.Change(installation, func(i *githubtest.Installation) { i.Suspended = false })

	asked := page("/github/new-app?repository=harbor%2Fmono")
	testkit.Contains(t, site.Told{asked.Body}, `name="repository" value="harbor/mono"`, `name="name" value="mono"`)
	send := func(name, repository string) site.Page {
		return w.Send(http.MethodPost, w.URL+"/github/new-app", url.Values{"name": {name}, "repository": {repository}}.Encode(),
			"Content-Type", "application/x-www-form-urlencoded", "Origin", w.URL)
	}
	for _, wrong := range []string{"", "https://github.test/harbor/mono.git", "mono"} {
		if got := send("mono", wrong); got.Status != http.StatusBadRequest {
			t.Errorf("an app of %q got %d, want that it is no repository at GitHub", wrong, got.Status)
		}
	}
	made := send("mono", "harbor/mono")
	if made.Status != http.StatusOK || !strings.Contains(made.Body, "The app is there.") {
		t.Fatalf("the form got %d\n%s\nwant the page of the app", made.Status, made.Body)
	}
	one, push := mono.Release("one")
	w.Tells(push)
	forge.WantEnds(t, w, "mono", one, landfall.RunSucceeded)

	var least client.MadeToken
	w.Call(http.MethodPost, "/tokens", client.NewToken{Name: "of-mono", Scope: landfall.ScopeAdmin, App: "mono"}, &least)
	for _, path := range []string{"/github/repositories", "/github/new-app"} {
		got := w.Send(http.MethodGet, w.URL+path, "", "Authorization", "Bearer "+least.Text)
		// S33: who may administer one app sees nothing of what the App sees
		if got.Status != http.StatusForbidden || strings.Contains(got.Body, "harbor") {
			t.Errorf("%s answers a token of one app with %d\n%s\nwant 403", path, got.Status, got.Body)
		}
	}
}
