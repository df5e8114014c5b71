package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// An app that was reached with a plain token is reached as the GitHub App from one command on: its webhook goes, each
// push runs once, and its pull requests get a comment that the App can edit.
func TestReachAsApp(t *testing.T) {
	t.Parallel()
	w := atGitHub{forge.NewGitHubWorld(t)}
	h, app := w.Follow("shop")
	fresh, _ := w.Follow("fresh")
	own := w.hook("the webhook is there", h, func(githubtest.Hook) bool { return true })
	w.hook("the other one, too", fresh, func(githubtest.Hook) bool { return true })
	one, _ := h.Release("one") // which no delivery tells of
	h.Git("switch", "--quiet", "-c", "feature")
	two, push := h.Release("two")
	w.API.Deliver(h.Name, push.Event, push.Body)
	pull := h.Pull("opened", 4, "feature")
	w.API.Deliver(h.Name, pull.Event, pull.Body)
	run := forge.WantEnds(t, w.World, "shop", two, landfall.RunSucceeded)
	comments := func(what string, right func(all []githubtest.Comment) bool) (all []githubtest.Comment) {
		t.Helper()
		w.Eventually(what, func() bool {
			all = w.API.Comments(h.Name, 4)
			return right(all)
		})
		return all
	}
	says := func(c githubtest.Comment, author int64, run client.Run) bool {
		return c.Author == author && strings.Contains(c.Body, string(run.Release))
	}
	byHand := comments("a person's comment says the release", func(all []githubtest.Comment) bool {
		return len(all) == 1 && says(all[0], githubtest.Self, run)
	})[0]

	keyed := w.Host(t, "harbor/keyed")
	var keyedApp client.App
	w.Call(http.MethodPost, "/apps", client.NewApp{Name: "keyed", Repository: w.SSH.URL(keyed.Name), Branch: "main",
		HostKeys: []string{w.SSH.HostKey()}}, &keyedApp)
	w.SSH.Allow(t, keyedApp.DeployKey.PublicKey, keyed.Name)
	byKey, push := keyed.Release("one")
	w.Deliver(forge.Hook{URL: keyedApp.Hook.URL, Secret: keyedApp.Hook.Secret}, push)
	forge.WantEnds(t, w.World, "keyed", byKey, landfall.RunSucceeded)

	refused := func(app, repository string, code int, says string) {
		t.Helper()
		out, got := w.Run(t.TempDir(), "app", "set", app, "--repo", repository)
		testkit.Equal(t, "how app set "+app+" --repo "+repository+" ends", got, code)
		testkit.Contains(t, site.Told{out}, says)
	}
	refused("shop", h.Name, 3, "landfall github connect")
	w.Connect()
	refused("shop", h.Name, 5, "is not installed on harbor/shop")
	w.API.Install("harbor", map[string]int64{h.Name: h.ID, fresh.Name: fresh.ID, keyed.Name: keyed.ID,
		"harbor/other": 7})
	refused("shop", "harbor/other", 4, "harbor/other (id 7) is another one")
	refused("fresh", h.Name, 4, "is another one")
	refused("shop", "shop", 2, "write it as OWNER/NAME")
	w.Landfall("app", "create", "pushed")
	refused("pushed", h.Name, 4, "built-in remote")
	var bound client.MadeToken
	w.Call(http.MethodPost, "/tokens", client.NewToken{Name: "of-shop", Scope: landfall.ScopeAdmin, App: "shop"}, &bound)
	got := w.Send(http.MethodPut, w.URL+"/api/v1/apps/shop/repository", `{"repository":"harbor/shop"}`, "Content-Type",
		"application/json", "Authorization", "Bearer "+bound.Text)
	// S33: who may administer one app reaches nothing by the App
	testkit.Equal(t, "the answer to a token of one app", got.Status, http.StatusForbidden)
	if now := w.ShowApp("shop"); now.GitHubApp || now.Hook == nil || now.Hook.URL != app.Hook.URL {
		t.Errorf("what was refused changed the app to %+v", now)
	}

	w.Rule(h.Name, forge.Rule{Admits: w.API.Admits})
	w.Landfall("app", "set", "shop", "--repo", h.Name)
	w.Landfall("app", "set", "shop", "--repo", h.Name) // it may be said again
	w.says("shop", "reached as: the GitHub App")
	w.Eventually("its webhook is gone", func() bool { return len(w.API.Hooks(h.Name)) == 0 })
	three, push := h.Release("three")
	byOld := w.Deliver(forge.Hook{URL: app.Hook.URL, Secret: own.Secret}, push)
	testkit.Equal(t, "the answer to a delivery to the webhook of before", byOld.Status, http.StatusUnauthorized)
	w.Tells(push)
	w.Tells(h.Pull("synchronize", 4, "feature"))
	run = forge.WantEnds(t, w.World, "shop", three, landfall.RunSucceeded)
	w.Landfall("app", "set", "fresh", "--repo", fresh.Name)
	w.says("fresh", "reached as: the GitHub App")
	w.Eventually("its webhook is gone", func() bool { return len(w.API.Hooks(fresh.Name)) == 0 })

	w.Landfall("app", "set", "keyed", "--repo", keyed.Name)
	asked := len(w.SSH.Asked())
	byToken, push := keyed.Release("two")
	w.Tells(push)
	forge.WantEnds(t, w.World, "keyed", byToken, landfall.RunSucceeded)
	if now := w.ShowApp("keyed"); now.DeployKey != nil || !now.GitHubApp || len(w.SSH.Asked()) != asked {
		t.Errorf("the app with a deploy key is %+v now, want one that is fetched as the GitHub App", now)
	}

	byApp := comments("the App's comment says the release", func(all []githubtest.Comment) bool {
		return len(all) == 2 && says(all[1], githubtest.Bot, run)
	})[1]
	four, push := h.Release("four")
	w.Tells(push)
	w.Tells(h.Pull("synchronize", 4, "feature"))
	run = forge.WantEnds(t, w.World, "shop", four, landfall.RunSucceeded)
	// L-026: the App goes on with its own comment, and nobody touches that of before
	comments("the App's comment follows", func(all []githubtest.Comment) bool {
		return len(all) == 2 && all[0] == byHand && all[1].ID == byApp.ID && says(all[1], githubtest.Bot, run)
	})
	forge.WantEnds(t, w.World, "shop", one, landfall.RunSucceeded)
	for _, commit := range []landfall.CommitSHA{one, two, three, four} {
		n := 0
		for _, run := range w.Runs("shop") {
			if run.Commit == commit {
				n++
			}
		}
		testkit.Equal(t, "runs of "+commit.Short(), n, 1)
	}
}
