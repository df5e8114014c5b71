package web_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// waits makes a run of a fork's commit that waits for approval.
func (p *pages) waits(app landfall.App, id, digit string, number int) {
	p.t.Helper()
	ctx, commit := p.t.Context(), landfall.CommitSHA(strings.Repeat(digit, 40))
	p.update(func(tx *store.Tx) error {
		push, err := tx.CreatePush(ctx, landfall.Push{App: app.ID, Ref: landfall.PullRef(number), After: commit,
			PullRequest: &landfall.PullRequest{Number: number, Base: "main", Fork: true}, Accepted: noon})
		return errors.Join(err, tx.SetHead(ctx, push), tx.CreateRun(ctx, landfall.Run{
			ID: id, App: app.ID, Commit: commit, Branch: landfall.ForkBranch(number), State: landfall.RunWaiting, Fork: number,
			UID: landfall.UID(strings.Repeat(digit, 8)), Created: noon}), tx.AddRunRef(ctx, id, push))
	})
}

func (p *pages) wantRun(id string, want landfall.RunState) landfall.Run {
	p.t.Helper()
	run, err := p.db.Run(p.t.Context(), id)
	if err != nil || run.State != want {
		p.t.Fatalf("the run is %s (%v), want %s", run.State, err, want)
	}
	return run
}

// Who may change the app approves or declines the commit of a fork on its page; nobody else is offered it, or does it.
func TestApprovals(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	p.waits(app, "good", "d", 12)
	p.waits(app, "bad", "e", 13)
	const deployToken, otherToken = "a token that may change the shop, and is long", "a token of another app, long too"
	p.update(func(tx *store.Tx) error {
		return errors.Join(
			tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte(deployToken)), Name: "bob", App: app.ID,
				Scope: landfall.ScopeDeploy, Created: noon}),
			tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte(otherToken)), Name: "eve", App: "another",
				Scope: landfall.ScopeDeploy, Created: noon}))
	})
	links := []string{`href="/runs/good/approve"`, `href="/runs/good/decline"`}

	p.signIn(readerToken)
	page := p.get("/runs/good")
	p.want(page, http.StatusOK, "waits for approval")
	for _, link := range links {
		if strings.Contains(page.body, link) {
			t.Errorf("a reader is offered %s", link)
		}
	}
	for _, token := range []string{readerToken, otherToken} {
		p.signIn(token)
		for _, action := range []string{"approve", "decline"} {
			// S18: who has no write access does not approve, with whatever request
			p.want(p.get("/runs/good/"+action), http.StatusForbidden)
			p.want(p.post("/runs/good/"+action, url.Values{"reason": {"mine"}}), http.StatusForbidden)
		}
	}
	p.cookie = nil
	p.want(p.post("/runs/good/approve", nil), http.StatusUnauthorized)
	p.wantRun("good", landfall.RunWaiting)

	p.signIn(deployToken)
	p.want(p.get("/runs/good"), http.StatusOK, links...)
	p.want(p.get("/runs/good/approve"), http.StatusOK, "without secrets and without a network", "Read what it changes before")
	p.wantRun("good", landfall.RunWaiting) // looking does nothing
	// S18: nor does a page of somebody else in the browser of who may
	p.want(p.post("/runs/good/approve", nil, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"),
		http.StatusForbidden)
	p.wantRun("good", landfall.RunWaiting)
	a := p.post("/runs/good/approve", nil)
	p.want(a, http.StatusSeeOther)
	p.want(p.get(a.Header.Get("Location")), http.StatusOK, "Approved by", "bob", "the page of the run")
	if by := p.wantRun("good", landfall.RunQueued).Approval; by == nil || by.By != "bob" || by.Via != "the page of the run" {
		t.Errorf("got the approval %+v, want bob's", by)
	}
	p.want(p.post("/runs/good/approve", nil), http.StatusConflict, "does not wait for approval")

	p.want(p.get("/runs/bad/decline"), http.StatusOK, "The next push to the pull request asks again", `name="reason"`)
	a = p.post("/runs/bad/decline", url.Values{"reason": {"it mines coins"}})
	p.want(a, http.StatusSeeOther)
	page = p.get(a.Header.Get("Location"))
	p.want(page, http.StatusOK, "declined", "Declined by bob: it mines coins")
	if strings.Contains(page.body, "/runs/bad/approve") {
		t.Error("a commit that was declined can be approved")
	}
	p.wantRun("bad", landfall.RunDeclined)
}
