package pages_test

import (
	"net/http"
	"path"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/browser"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Whoever may change the app reads on the page of a run that a fork's commit waits, and approves or declines it there.
// Whoever may only look sees that it waits, and no button.
func TestApprovalsInABrowser(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	h.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "ours")
	_, push := h.Release("ours")
	w.Hears(push)
	f := h.Fork(t, 12)
	f.Write("site/index.html", "theirs")
	commit, told := f.Push("opened_fork", "Fix a typo")
	page := "/runs/" + path.Base(w.Hears(told).Runs[0])
	var reader client.MadeToken
	w.Call(http.MethodPost, "/tokens", client.NewToken{Name: "reader", Scope: landfall.ScopeRead}, &reader)

	look := browser.Look{Script: false, Width: 1000, Scheme: "light"}
	b := browser.NewTab(t, w.Site, look)
	b.SignIn(reader.Text)
	b.Open(page)
	wantReads(t, b, "waits for approval", commit.Short())
	testkit.Equal(t, "buttons", browser.Value[int](b, `document.querySelectorAll("main a.button, main button").length`), 0)
	b.Open(page + "/approve")
	wantReads(t, b, "Your token may look at shop, and not change it.")

	b = browser.NewTab(t, w.Site, look)
	b.SignIn(w.Token)
	b.Open(page)
	b.Press(`a[href="` + page + `/approve"]`)
	wantReads(t, b, "Approve the commit", "Read what it changes before")
	b.WantUsable("approve")
	b.Press("main form button")
	testkit.Equal(t, "where one is then", b.Path(), page)
	run := w.Finished("shop", commit)
	testkit.Equal(t, "state: "+run.Reason, run.State, landfall.RunSucceeded)
	b.Open(page)
	wantReads(t, b, "succeeded", "the page of the run")

	f.Write("site/index.html", "worse")
	next, told := f.Push("synchronize_fork_deleted", "Mine coins")
	page = "/runs/" + path.Base(w.Hears(told).Runs[0])
	b.Open(page)
	b.Press(`a[href="` + page + `/decline"]`)
	b.Fill("#reason", "it mines coins")
	b.Press("main form button")
	wantReads(t, b, "declined", "Declined by admin: it mines coins")
	testkit.Equal(t, "state", w.Finished("shop", next).State, landfall.RunDeclined)
	testkit.Equal(t, "the console", b.Heard(), "")
}
