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
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
)

// checks is a github.Checks in memory, for one commit.
type checks struct {
	one  landfall.Check
	lose int // so many times, Record fails
}

func (c *checks) Due(_ context.Context, now time.Time, _ int) ([]landfall.Check, error) {
	if c.one.Covered == c.one.Wanted || c.one.Dropped || c.one.NextAt.After(now) {
		return nil, nil
	}
	return []landfall.Check{c.one}, nil
}

func (c *checks) Record(_ context.Context, of landfall.Check, whole bool) error {
	if c.lose > 0 {
		c.lose--
		return &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"}
	}
	report, wanted := c.one.Report, c.one.Wanted
	c.one = of
	c.one.Report, c.one.Wanted, c.one.Attempts = report, wanted, 0
	if whole {
		c.one.Covered = of.Wanted
	}
	return nil
}

func (c *checks) Postpone(_ context.Context, _ landfall.Check, at time.Time, problem string) error {
	c.one.NextAt, c.one.Problem, c.one.Attempts = at, problem, c.one.Attempts+1
	return nil
}

func (c *checks) Drop(_ context.Context, _ landfall.Check, problem string) error {
	c.one.Problem, c.one.Dropped = problem, true
	return nil
}

// appBench is a bench whose sender is an App's.
type appBench struct {
	*bench

	checks   *checks
	refusals *deployments
}

func newAppBench(t *testing.T) *appBench {
	t.Helper()
	b := &appBench{newBench(t), &checks{}, &deployments{}}
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	b.server = githubtest.New(t, d, "ghs_of_an_app")
	b.restart(t)
	return b
}

func (b *appBench) restart(t *testing.T) {
	t.Helper()
	client, err := github.NewClient(b.server.URL, "ghs_of_an_app", b.http)
	if err != nil {
		t.Fatal(err)
	}
	b.bench.restart(t)
	b.Client, b.Checks, b.Refusals = client, b.checks, b.refusals
	b.AppLogin = func(context.Context) (string, error) { return "landfall[bot]", nil }
}

// wants says what the check run of commit A says.
func (b *appBench) wants(name string) landfall.CheckReport {
	return b.wantsReport(checkReports()[name])
}

func (b *appBench) wantsReport(r landfall.CheckReport) landfall.CheckReport {
	r.Commit, r.Repository = commitA, live.Repository
	r.Started = b.clock.Now()
	if r.State.Final() {
		r.Finished = r.Started.Add(2 * time.Second)
	}
	b.checks.one.App, b.checks.one.Commit, b.checks.one.Report = "a1", commitA, r
	b.checks.one.Wanted, b.checks.one.Dropped = b.checks.one.Wanted+1, false
	return r
}

// told lets time pass until the check run is told.
func (b *appBench) told(t *testing.T) {
	t.Helper()
	for range 100 {
		if err := b.Flush(t.Context()); err != nil && landfall.KindOf(err) != landfall.Unavailable {
			t.Fatal(err)
		}
		if b.checks.one.Covered == b.checks.one.Wanted {
			return
		}
		if err := b.clock.Wait(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("it is not told: %+v", b.checks.one)
}

func (b *appBench) run(t *testing.T) githubtest.CheckRun {
	t.Helper()
	all := b.server.CheckRuns("harbor/shop", commitA)
	if len(all) == 0 {
		t.Fatal("there is no check run")
	}
	return all[len(all)-1]
}

// A commit's check run is in progress and then completed, with what the run came to; its status is sent first.
func TestCheckRunIsTold(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		conclusion string
		actions    []string
		notes      int
	}{
		"ready": {"success", []string{"retry", "promote"}, 0}, "skipped": {"neutral", []string{"retry"}, 0},
		"superseded": {"cancelled", []string{"retry"}, 0}, "build": {"failure", []string{"retry"}, 0},
		"spec": {"failure", []string{"retry"}, 2}, "contract": {"failure", []string{"retry"}, 1},
		"unchanged": {"success", []string{"retry"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newAppBench(t)
			b.wants("building")
			b.told(t)
			if got := b.run(t); got.Status != "in_progress" || got.Name != "landfall/shop" || got.ExternalID != "r1" ||
				got.Details != installation+"/runs/r1" || len(got.Actions) != 0 {
				t.Errorf("got %+v, want it in progress", got)
			}
			report := b.wants(name)
			b.checks.one.Report.Promotable = name == "ready"
			b.outbox.owe(commitA, landfall.StatusSuccess, "Released owf2k7qa")
			b.told(t)
			got := b.run(t)
			var actions []string
			for _, action := range got.Actions {
				actions = append(actions, action.Identifier)
			}
			if got.Status != "completed" || got.Conclusion != want.conclusion || !slices.Equal(actions, want.actions) ||
				len(got.Output.Annotations) != want.notes || got.Output.Summary != github.CheckSummary(report) ||
				got.Output.Text != github.CheckText(report) || got.Output.Title != github.CheckTitle(report) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if n := len(b.server.Statuses(commitA)); n != 1 || len(b.server.CheckRuns("harbor/shop", "")) != 1 {
				t.Errorf("%d statuses and %+v, want one of each", n, b.server.CheckRuns("harbor/shop", ""))
			}
			requests := b.server.Requests()
			b.checks.one.Wanted++
			b.told(t)
			if n := b.server.Requests(); n != requests {
				t.Errorf("%d requests more, want none when nothing changed", n-requests)
			}
		})
	}
}

// Whatever comes of a run, its check run has a conclusion. A rule of GitHub that requires the check is never left
// waiting by a run that is over.
func TestCheckConclusions(t *testing.T) {
	t.Parallel()
	for state, want := range map[landfall.RunState]string{
		landfall.RunQueued: "", landfall.RunRunning: "", landfall.RunWaiting: "action_required",
		landfall.RunSucceeded: "success", landfall.RunSkipped: "neutral",
		landfall.RunFailed: "failure", landfall.RunError: "failure",
		landfall.RunSuperseded: "cancelled", landfall.RunCancelled: "cancelled", landfall.RunDeclined: "cancelled",
		landfall.RunExpired: "timed_out",
	} {
		b := newAppBench(t)
		r := checkReports()["building"]
		r.State = state
		b.wantsReport(r)
		b.told(t)
		got := b.run(t)
		if got.Conclusion != want || (got.Status == "completed") != (want != "") || state.Final() && want == "" {
			t.Errorf("%s: got %s %s, want %s", state, got.Status, got.Conclusion, want)
		}
	}
}

// A run that waited for approval is in progress when it is approved, though GitHub lets nothing that is completed be in
// progress again.
func TestCheckRunOfApproved(t *testing.T) {
	t.Parallel()
	b := newAppBench(t)
	for _, step := range []struct{ name, status, conclusion string }{
		{"waiting", "completed", "action_required"}, {"building", "in_progress", ""}, {"ready", "completed", "success"},
	} {
		b.wants(step.name)
		b.told(t)
		if got := b.run(t); got.Status != step.status || got.Conclusion != step.conclusion {
			t.Errorf("%s: got %s %s, want %s %s", step.name, got.Status, got.Conclusion, step.status, step.conclusion)
		}
	}
	if all := b.server.CheckRuns("harbor/shop", ""); len(all) != 2 {
		t.Errorf("got %+v, want one that waited and one of the run", all)
	}
}

// An error of a spec stands at its file and line; what is no place in the repository is no annotation.
func TestCheckAnnotations(t *testing.T) {
	t.Parallel()
	b := newAppBench(t)
	b.wants("spec")
	b.checks.one.Report.Reason = "specs/app.yaml:7: there is no field \"colour\x1b[31m\"\n/etc/passwd:1: x\n../a:1: x\n" +
		"a//b:1: x\nhttp://localhost:80: no\nspecs/app.yaml:0: x\nspecs/app.yaml: x"
	b.told(t)
	want := []githubtest.Annotation{{Path: "specs/app.yaml", Start: 7, End: 7, Level: "failure",
		Message: "there is no field \"colour[31m\""}}
	// N-042: control characters do not come into annotations
	if got := b.run(t).Output.Annotations; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// many has more annotations than GitHub takes in one request.
func many(count int) landfall.CheckReport {
	r := checkReports()["spec"]
	r.Reason = ""
	for i := range count {
		r.Reason += fmt.Sprintf("specs/app.yaml:%d: there is no field \"colour\"\n", i+1)
	}
	return r
}

// Errors at more lines than fit into one request follow in further ones, up to a limit.
func TestCheckRunOfManyErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ errors, notes, requests int }{{50, 50, 1}, {51, 51, 2}, {120, 120, 3}, {600, 250, 5}} {
		b := newAppBench(t)
		b.wants("building")
		b.told(t)
		b.wantsReport(many(c.errors))
		requests := b.server.Requests()
		b.told(t)
		requests = b.server.Requests() - requests
		got := b.run(t).Output
		var lines []int
		for _, note := range got.Annotations {
			lines = append(lines, note.Start)
		}
		// N-018: each error stands at its line once, however many there are
		if len(lines) != c.notes || !slices.IsSorted(lines) || len(slices.Compact(lines)) != c.notes {
			t.Errorf("%d errors: got annotations at %v, want %d", c.errors, lines, c.notes)
		}
		if requests != 2*c.requests { // each is preceded by a look
			t.Errorf("%d errors: got %d requests, want %d", c.errors, requests, 2*c.requests)
		}
		if says := strings.Contains(got.Summary, "350 more errors"); says != (c.errors == 600) {
			t.Errorf("%d errors: got %s, want the number of what is left", c.errors, got.Summary)
		}
		requests = b.server.Requests()
		b.checks.one.Wanted++
		b.told(t)
		if n := b.server.Requests() - requests; n != 0 {
			t.Errorf("%d errors: %d requests more, want none when nothing changed", c.errors, n)
		}
	}
}

// A status that is due meanwhile goes before further annotations.
func TestCheckRunOfManyErrorsLeavesRoom(t *testing.T) {
	t.Parallel()
	b := newAppBench(t)
	b.wantsReport(many(120))
	var noted int
	b.Allowed = func(context.Context) error {
		switch all := b.server.CheckRuns("harbor/shop", commitA); {
		case len(all) == 0:
		case noted == 0:
			b.outbox.owe(commitA, landfall.StatusSuccess, "Released owf2k7qa")
			noted = len(all[0].Output.Annotations)
		case len(b.server.Statuses(commitA)) == 0:
			noted = len(all[0].Output.Annotations)
		}
		return nil
	}
	b.told(t)
	// L-023: a final status goes before any other call
	if all := b.run(t).Output.Annotations; noted != 100 || len(all) != 120 {
		t.Errorf("the status came after %d annotations of %d, want after 100 of 120", noted, len(all))
	}
}

// A run of the same commit again has a check run of its own, which GitHub shows in the place of the first.
func TestCheckRunOfRetry(t *testing.T) {
	t.Parallel()
	b := newAppBench(t)
	b.wants("build")
	b.told(t)
	b.wants("building")
	b.checks.one.Report.RunID = "r2"
	b.told(t)
	all := b.server.CheckRuns("harbor/shop", commitA)
	if len(all) != 2 || all[0].Conclusion != "failure" || all[1].ExternalID != "r2" || all[1].Status != "in_progress" {
		t.Errorf("got %+v, want both", all)
	}
}

// After any fault there is one check run for each run, completed, with its annotations once.
func TestCheckRunFaults(t *testing.T) {
	t.Parallel()
	faults := map[string]githubtest.Fault{
		"401": {Status: 401}, "502": {Status: 502}, "502 after the write": {Status: 502, Written: true},
		"403 with Retry-After":    {Status: 403, Header: map[string]string{"Retry-After": "120"}},
		"429":                     {Status: 429, Header: map[string]string{"Retry-After": "120"}},
		"no answer":               {Close: true},
		"no answer after a write": {Close: true, Written: true},
		"201 and half an answer":  {Status: 201, Written: true, Body: `{"id": 1, "sta`},
	}
	for name, fault := range faults {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprintf("%s at request %d", name, n), func(t *testing.T) {
				t.Parallel()
				b := newAppBench(t)
				b.server.Fail(n, fault)
				b.wants("building")
				b.told(t)
				b.restart(t)
				b.wantsReport(many(120))
				b.told(t)
				all := b.server.CheckRuns("harbor/shop", "")
				// N-018: whatever GitHub answers, the check run follows, once
				if len(all) != 1 || all[0].Conclusion != "failure" || len(all[0].Output.Annotations) != 120 {
					t.Errorf("got %+v, want one with each annotation once", all)
				}
			})
		}
	}
	for n := range 3 {
		b := newAppBench(t)
		b.wants("building")
		b.told(t)
		b.checks.lose = n + 1
		b.wantsReport(many(120))
		b.told(t)
		if all := b.server.CheckRuns("harbor/shop", ""); len(all) != 1 || len(all[0].Output.Annotations) != 120 {
			t.Errorf("%d lost records: got %+v, want one with each annotation once", n+1, all)
		}
	}
	b := newAppBench(t)
	b.checks.lose = 1
	b.wants("building")
	b.told(t)
	if n := len(b.server.CheckRuns("harbor/shop", "")); n != 1 {
		t.Errorf("a lost record makes %d check runs, want one", n)
	}
}

// Where the App may not make check runs, that is said once, and statuses arrive all the same; a wrong one stops.
func TestCheckRunRefused(t *testing.T) {
	t.Parallel()
	b := newAppBench(t)
	b.server.Fail(2, githubtest.Fault{Status: http.StatusForbidden})
	b.wants("building")
	b.flush(t)
	// N-018: a 403 turns check runs off, and says why
	if got := b.refusals.refused[710200300]; got.Feature != landfall.ChecksFeature ||
		!strings.Contains(got.Problem, "may not make check runs of harbor/shop") {
		t.Errorf("got %+v, want the reason", got)
	}
	b = newAppBench(t)
	b.server.Fail(2, githubtest.Fault{Status: http.StatusUnprocessableEntity})
	b.wants("building")
	b.flush(t)
	// N-018: after a 422 it stops, with a reason
	if !b.checks.one.Dropped || !strings.Contains(b.checks.one.Problem, "is still in harbor/shop") {
		t.Errorf("got %+v, want that it stopped", b.checks.one)
	}
	b = newAppBench(t)
	b.AppLogin = func(context.Context) (string, error) { return "", nil }
	b.wants("building")
	b.flush(t)
	if n := b.server.Requests(); n != 0 {
		t.Errorf("%d requests of who is no App, want none", n)
	}
}
