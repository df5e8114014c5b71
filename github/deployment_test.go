package github_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// deployments is a github.Deployments in memory.
type deployments struct {
	all     []landfall.Deployment
	refused map[int64]landfall.Refusal
	lose    int // so many times, Record fails
}

func (d *deployments) Due(_ context.Context, now time.Time, limit int) (due []landfall.Deployment, err error) {
	for _, one := range d.all {
		if one.Covered < one.Wanted && !one.Dropped && !one.NextAt.After(now) && len(due) < limit &&
			!d.refused[one.Report.Repository.ID].Until.After(now) {
			due = append(due, one)
		}
	}
	return due, nil
}

func (d *deployments) change(pointer string, f func(*landfall.Deployment)) {
	for i := range d.all {
		if d.all[i].Pointer == pointer {
			f(&d.all[i])
		}
	}
}

func (d *deployments) Record(_ context.Context, of landfall.Deployment, whole bool) error {
	if d.lose > 0 {
		d.lose--
		return &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"}
	}
	d.change(of.Pointer, func(one *landfall.Deployment) {
		one.Repository, one.ID, one.Release, one.Told, one.Replaced = of.Repository, of.ID, of.Release, of.Told, of.Replaced
		one.Attempts, one.Problem = 0, ""
		if whole {
			one.Covered = of.Wanted
		}
	})
	return nil
}

func (d *deployments) Postpone(_ context.Context, of landfall.Deployment, at time.Time, problem string) error {
	d.change(of.Pointer, func(one *landfall.Deployment) {
		one.NextAt, one.Problem, one.Attempts = at, problem, one.Attempts+1
	})
	return nil
}

func (d *deployments) Drop(_ context.Context, of landfall.Deployment, problem string) error {
	d.change(of.Pointer, func(one *landfall.Deployment) { one.Problem, one.Dropped = problem, true })
	return nil
}

func (d *deployments) Refuse(_ context.Context, repository int64, refusal landfall.Refusal) error {
	if d.refused == nil {
		d.refused = map[int64]landfall.Refusal{}
	}
	d.refused[repository] = refusal
	return nil
}

func (d *deployments) Forgive(context.Context, landfall.Feature) error {
	d.refused = nil
	return nil
}

// want says what GitHub is to show of a pointer.
func (d *deployments) want(pointer string, report landfall.DeploymentReport) {
	if !slices.ContainsFunc(d.all, func(one landfall.Deployment) bool { return one.Pointer == pointer }) {
		d.all = append(d.all, landfall.Deployment{App: "a1", Pointer: pointer})
	}
	d.change(pointer, func(one *landfall.Deployment) {
		one.Report, one.Wanted, one.Dropped = report, one.Wanted+1, false
	})
}

// owed returns how many are neither covered nor dropped nor refused.
func (d *deployments) owed() (n int) {
	for _, one := range d.all {
		if one.Covered < one.Wanted && !one.Dropped && d.refused[one.Report.Repository.ID].Problem == "" {
			n++
		}
	}
	return n
}

// deploying returns a bench whose sender tells of deployments.
func deploying(t *testing.T) (*bench, *deployments) {
	t.Helper()
	b, d := newBench(t), &deployments{}
	b.Deployments, b.Refusals = d, d
	b.server.Point("harbor/shop", "main", commitA, false)
	b.server.Point("harbor/shop", "feature", commitB, true)
	return b, d
}

// tell lets time pass until no deployment is owed.
func tell(t *testing.T, b *bench, d *deployments) {
	t.Helper()
	for range 200 {
		if err := b.Flush(t.Context()); err != nil && d.lose == 0 && landfall.KindOf(err) != landfall.Unavailable {
			t.Fatal(err)
		}
		if d.owed() == 0 {
			return
		}
		if err := b.clock.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("after 200 minutes deployments are owed: %+v", d.all)
}

var live = landfall.DeploymentReport{
	Repository: landfall.GitHubRepository{ID: 710200300, Owner: "harbor", Name: "shop"}, AppName: "shop",
	Release: "owf2k7qa", Commit: commitA, Branch: "main", Environment: "production", Production: true,
	URL: "https://shop.example.com/", Run: installation + "/runs/r1",
}

// preview is what GitHub is to show of a branch.
func preview(release landfall.UID, commit landfall.CommitSHA) landfall.DeploymentReport {
	r := live
	r.Release, r.Commit, r.Branch, r.Environment, r.Production = release, commit, "feature", "preview/feature", false
	r.URL = "https://shop--" + string(release) + ".example.com/"
	return r
}

// states returns the refs, commits and states of the deployments of an environment, oldest first.
func states(b *bench, environment string) (all []string) {
	for _, d := range b.server.Deployments("harbor/shop", environment) {
		all = append(all, d.Ref+" "+d.SHA[:7]+" "+d.State())
	}
	return all
}

func wantStates(t *testing.T, b *bench, environment string, want ...string) {
	t.Helper()
	if got := states(b, environment); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", environment, got, want)
	}
}

// GitHub shows what is live and what previews there are, each with its addresses.
func TestDeploymentsAreTold(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	d.want("live", live)
	d.want("tag branch-feature", preview("abcd2345", commitB))
	b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
	tell(t, b, d)
	// L-016: the deployment is made for the branch that is the pull request's head
	wantStates(t, b, "production", "main 5f1c2e7 success")
	wantStates(t, b, "preview/feature", "feature c3d9a1f success")
	all := b.server.Deployments("harbor/shop", "")
	if len(all) != 2 || !all[0].Production || all[0].Transient || all[1].Production || !all[1].Transient {
		t.Errorf("got %+v, want production and a transient preview", all)
	}
	got := all[1].Statuses[0]
	if got.EnvironmentURL != "https://shop--abcd2345.example.com/" || got.LogURL != installation+"/runs/r1" ||
		got.Description != "Preview abcd2345 of shop." {
		t.Errorf("got %+v, want the addresses of the release and of the run", got)
	}
	requests := b.server.Requests()
	d.want("live", live)
	tell(t, b, d)
	if n := b.server.Requests(); n != requests {
		t.Errorf("%d requests more, want none when nothing changed", n-requests)
	}
}

// What replaces a release is active before that one is inactive; a rollback makes a deployment of the older commit; what
// is gone is inactive.
func TestDeploymentsAreReplaced(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	d.want("live", live)
	tell(t, b, d)
	next := live
	next.Release, next.Commit, next.Run = "bcde3456", commitC, ""
	b.server.Point("harbor/shop", "main", commitC, false)
	d.want("live", next)
	tell(t, b, d)
	wantStates(t, b, "production", "main 5f1c2e7 inactive", "main 9e07b4d success")
	back := live
	back.Branch = "" // its head is another commit now
	d.want("live", back)
	tell(t, b, d)
	wantStates(t, b, "production", "main 5f1c2e7 inactive", "main 9e07b4d inactive", commitA+" 5f1c2e7 success")
	back.Release = ""
	d.want("live", back)
	tell(t, b, d)
	wantStates(t, b, "production", "main 5f1c2e7 inactive", "main 9e07b4d inactive", commitA+" 5f1c2e7 inactive")
	d.want("live", next)
	d.want("live", back) // only the newest matters
	requests := b.server.Requests()
	tell(t, b, d)
	if n := b.server.Requests(); n != requests {
		t.Errorf("%d requests more, want none for what was replaced before it was told", n-requests)
	}
}

// A branch that has moved before we hear of it gets no deployment that shows another commit than it has.
func TestDeploymentOfMovedBranch(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	d.want("tag branch-feature", preview("abcd2345", commitA))
	tell(t, b, d)
	// L-016: what GitHub says of a commit is of that commit
	wantStates(t, b, "preview/feature", "feature c3d9a1f inactive", commitA+" 5f1c2e7 success")
}

// After any single fault at any request, and after any lost record, each release has one deployment, and only the
// newest is active.
func TestDeploymentsConverge(t *testing.T) {
	t.Parallel()
	faults := map[string]githubtest.Fault{
		"401": {Status: 401}, "502": {Status: 502}, "502 after the write": {Status: 502, Written: true},
		"403 with Retry-After":     {Status: 403, Header: map[string]string{"Retry-After": "120"}},
		"429":                      {Status: 429, Header: map[string]string{"Retry-After": "120"}},
		"no answer":                {Close: true},
		"no answer after a write":  {Close: true, Written: true},
		"201 and half an answer":   {Status: 201, Written: true, Body: `{"id": 1, "sta`},
		"503 and its own pause":    {Status: 503, Header: map[string]string{"Retry-After": "300"}},
		"the record of it is lost": {Status: 200},
	}
	for name, fault := range faults {
		for n := 1; n <= 7; n++ {
			t.Run(fmt.Sprintf("%s at request %d", name, n), func(t *testing.T) {
				t.Parallel()
				b, d := deploying(t)
				d.want("live", live)
				if fault.Status == 200 {
					d.lose = n
				} else {
					b.server.Fail(n, fault)
				}
				tell(t, b, d)
				b.restart(t)
				b.Deployments, b.Refusals = d, d
				next := live
				next.Release, next.Commit = "bcde3456", commitC
				b.server.Point("harbor/shop", "main", commitC, false)
				d.want("live", next)
				tell(t, b, d)
				// N-018: whatever GitHub answers, in the end it shows what is live, and nothing twice
				wantStates(t, b, "production", "main 5f1c2e7 inactive", "main 9e07b4d success")
				b.checkPace(t)
			})
		}
	}
}

// A lost answer for what is replaced before it is found again leaves nothing active.
func TestDeploymentLostAndReplaced(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	b.server.Fail(2, githubtest.Fault{Close: true, Written: true})
	d.want("live", live)
	b.flush(t)
	next := live
	next.Release, next.Commit = "bcde3456", commitC
	b.server.Point("harbor/shop", "main", commitC, false)
	d.want("live", next)
	tell(t, b, d)
	wantStates(t, b, "production", "main 5f1c2e7 inactive", "main 9e07b4d success")
}

// Where the token may not make deployments, that is said once, and nothing else is held up.
func TestDeploymentsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request int
		status  int
	}{
		"a token that may not read them": {2, http.StatusForbidden}, "a fine-grained token": {3, http.StatusForbidden},
		"a classic token": {3, http.StatusNotFound}, "a token that may make them and no more": {4, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, d := deploying(t)
			b.server.Fail(c.request, githubtest.Fault{Status: c.status})
			d.want("live", live)
			d.want("tag branch-feature", preview("abcd2345", commitB))
			b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
			b.flush(t)
			requests := b.server.Requests()
			for range 20 {
				if err := b.clock.Wait(t.Context(), time.Hour); err != nil {
					t.Fatal(err)
				}
				b.flush(t)
			}
			// N-018: a 403 or a 404 turns deployments off, says why, and is not asked for again
			if n := b.server.Requests(); n != requests || len(b.server.Statuses(commitA)) != 1 ||
				!strings.Contains(d.refused[710200300].Problem, "may not make deployments of harbor/shop") {
				t.Errorf("%d requests more, statuses %v, refused: %v", n-requests, b.server.Statuses(commitA), d.refused)
			}
			if n := strings.Count(b.log.String(), "deployments are turned off for this repository"); n != 1 {
				t.Errorf("it is said %d times, want once:\n%s", n, b.log)
			}
			if err := b.clock.Wait(t.Context(), 5*time.Hour); err != nil {
				t.Fatal(err)
			}
			b.flush(t)
			wantStates(t, b, "production", "main 5f1c2e7 success")
		})
	}
}

// What GitHub finds wrong stops with a reason until something happens again.
func TestDeploymentDropped(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	gone := preview("abcd2345", commitB)
	gone.Branch = "none"
	d.want("tag branch-feature", gone)
	b.flush(t)
	// N-018: after a 422 it stops, with a reason
	if !d.all[0].Dropped || !strings.Contains(d.all[0].Problem, "check that commit c3d9a1f is still in harbor/shop") {
		t.Errorf("got %+v, want that it stopped", d.all[0])
	}
	d.want("tag branch-feature", preview("abcd2345", commitB))
	tell(t, b, d)
	wantStates(t, b, "preview/feature", "feature c3d9a1f success")
}

// Deployments leave room for statuses: one that comes meanwhile is the next request, and waits for nothing.
func TestDeploymentsLeaveRoom(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	for i := range 40 {
		d.want(fmt.Sprintf("tag branch-b%d", i), preview(landfall.UID(fmt.Sprintf("abcd%04d", i)), commitB))
	}
	b.flush(t)
	before, at := b.server.Requests(), b.clock.Now()
	if d.owed() == 0 {
		t.Fatal("everything was told at once")
	}
	for i := range 5 {
		b.outbox.owe(commitA, landfall.StatusSuccess, fmt.Sprintf("Release %d is live.", i))
	}
	b.flush(t)
	// L-023: a final status goes before any other call
	if got := len(b.server.Statuses(commitA)); got != 5 || b.server.Requests() != before+5 || !b.clock.Now().Equal(at) {
		t.Errorf("%d statuses after %d requests and %s, want 5 at once", got, b.server.Requests()-before,
			b.clock.Now().Sub(at))
	}
	tell(t, b, d)
	b.checkPace(t)
}
