package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/testkit"
)

// A repository has fifty apps, each in a folder of its own. A push that changes one of them is one fetch; every app has
// its own status, and those without a change say so.
func TestMonorepo(t *testing.T) {
	t.Parallel()
	const apps = 50
	w := forge.NewReportingWorld(t)
	h := w.Host(t, "harbor/mono")
	name := func(i int) string { return fmt.Sprintf("app-%02d", i) }
	for i := range apps {
		var app client.App
		w.Call(http.MethodPost, "/apps", client.NewApp{Name: name(i), Repository: h.Clone(), Branch: "main",
			Folder: "apps/" + name(i)}, &app)
		h.Write("apps/"+name(i)+"/index.html", "page 1 of "+name(i))
	}
	first := h.Commit("Fifty apps")
	w.Hears(h.Send("main"))
	for i := range apps {
		forge.WantEnds(t, w, name(i), first, landfall.RunSucceeded)
	}
	wantStatuses(t, w, first, apps, 0)

	h.Write("apps/"+name(7)+"/index.html", "page 2")
	second := h.Commit("One app changes")
	push := h.Send("main")
	before := h.Forge.Requests(h.Name)
	begin := time.Now()
	testkit.Equal(t, "runs of the delivery", len(w.Hears(push).Runs), apps)
	for i := range apps {
		run := forge.WantEnds(t, w, name(i), second, landfall.RunSucceeded)
		if changed := run.Stats.UnitsChanged > 0; changed != (i == 7) {
			t.Errorf("%s: %d units changed", name(i), run.Stats.UnitsChanged)
		}
	}
	t.Logf("fifty apps: %v", time.Since(begin))
	// what is asked: where the references are, and for what is new
	testkit.Equal(t, "requests to the forge", h.Forge.Requests(h.Name)-before, 2)
	wantStatuses(t, w, second, apps, apps-1)
	t.Logf("of %d apps, %d statuses were sent", apps, len(w.API.Statuses(string(second))))
}

// wantStatuses fails the test unless a commit has a green status of each of its apps in the end, so many of which say
// that the app is unchanged.
func wantStatuses(t *testing.T, w *forge.World, commit landfall.CommitSHA, apps, unchanged int) {
	t.Helper()
	last := map[string]githubtest.Status{}
	w.Eventually("each app has its final status", func() bool {
		clear(last)
		same := 0
		for _, s := range w.API.Statuses(string(commit)) {
			last[s.Context] = s
		}
		for _, s := range last {
			if s.State != string(landfall.StatusSuccess) {
				return false
			}
			if strings.Contains(s.Description, "Unchanged") {
				same++
			}
		}
		return len(last) == apps && same == unchanged
	})
}
