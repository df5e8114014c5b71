package runs_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// A check run is owed where an App can make it: from the start of a run, and when it is over with the end of its log.
func TestCheckIsOwed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	checks := runs.Checks{Checks: store.NewChecks(s.Receiver.DB), Runs: s.Receiver.Runs}
	due := func() []landfall.Check { return testkit.Must(checks.Due(t.Context(), time.Now(), 10))(t) }
	s.Update(func(tx *store.Tx) error {
		return tx.PutGitHubApp(t.Context(), landfall.GitHubApp{ID: 1, Slug: "landfall"})
	})
	run := s.pushed()
	first := due()
	if len(first) != 1 || first[0].Commit != run.Commit || first[0].Report.State != landfall.RunQueued ||
		first[0].Report.RunID != run.ID || first[0].Report.Repository.Owner != "harbor" || len(first[0].Report.Log) != 0 {
		t.Fatalf("got %+v, want that the run waits", first)
	}
	if err := checks.Record(t.Context(), first[0], true); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "check runs when it is told", len(due()), 0)
	run.State, run.Reason = landfall.RunFailed, "specs/app.yaml:7: there is no field \"colour\""
	s.ends(run)
	last := due()
	if len(last) != 1 || last[0].Report.State != landfall.RunFailed || last[0].Report.Reason != run.Reason ||
		last[0].Report.Finished.IsZero() || last[0].Report.Promotable {
		t.Fatalf("got %+v, want that it failed", last)
	}
	testkit.EqualList(t, "the end of the log", last[0].Report.Log[len(last[0].Report.Log)-1:],
		[]string{"failed: " + run.Reason})
	testkit.Equal(t, "the app", last[0].App, accepttest.AppID)
}

// A check run that could not be made as long as its run was on record is given up, and not tried again for ever.
func TestCheckOfForgottenRun(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	checks := runs.Checks{Checks: store.NewChecks(s.Receiver.DB), Runs: s.Receiver.Runs}
	commit := landfall.CommitSHA("5c1e0a9f4be3c6e4a2c4f2f7a7e8d9c0b1a2f3e4")
	s.Update(func(tx *store.Tx) error { return tx.WantCheck(t.Context(), accepttest.AppID, commit, time.Now()) })
	testkit.Equal(t, "check runs", len(testkit.Must(checks.Due(t.Context(), time.Now(), 10))(t)), 0)
	check := testkit.Must(s.Receiver.DB.Check(t.Context(), accepttest.AppID, commit))(t)
	testkit.Equal(t, "it is given up", check.Dropped, true)
	testkit.Contains(t, text(check.Problem), "not on record any more")
}

// text is what people read.
type text string

// String implements fmt.Stringer.
func (t text) String() string { return string(t) }

// Where no App is, no check run is owed.
func TestNoCheckIsOwed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	run := s.pushed()
	_, err := s.Receiver.DB.Check(t.Context(), run.App, run.Commit)
	testkit.Kind(t, "the check run", err, landfall.NotFound)
}
