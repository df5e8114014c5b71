package runs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// pushed returns the run of a push.
func (s *shop) pushed() landfall.Run {
	s.T.Helper()
	s.AcceptAll(s.MoveRef(s.Commit("pushed"))...)
	return testkit.Must(s.Receiver.DB.UnfinishedOfApp(s.T.Context(), accepttest.AppID))(s.T)[0]
}

// ends ends a run.
func (s *shop) ends(run landfall.Run) {
	s.T.Helper()
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(s.T.Context(), run.App)
		if err != nil {
			return err
		}
		return s.Receiver.Runs.End(s.T.Context(), tx, app, run)
	})
}

// reported returns what the forge is owed of a run, in order: state, text and target.
func (s *shop) reported(run landfall.Run) (all []string) {
	s.T.Helper()
	for _, r := range testkit.Must(s.Receiver.DB.ReportsOf(s.T.Context(), run.App, run.Commit))(s.T) {
		testkit.Equal(s.T, "context", r.Context, "landfall/shop")
		all = append(all, fmt.Sprintf("%s %q %s", r.State, r.Description, strings.ReplaceAll(r.Target, run.ID, "RUN")))
	}
	return all
}

// A run is reported as pending, and once as what it came to; its log ends with the same.
func TestRunIsReported(t *testing.T) {
	t.Parallel()
	for state, test := range map[landfall.RunState]struct {
		reason, release, report string
		log                     []string
	}{
		landfall.RunSucceeded: {"", "aaaaaaaa", `success "" http://shop--aaaaaaaa`, []string{"succeeded"}},
		landfall.RunSkipped: {"nothing to do", "", `success "Skipped: nothing to do" RUN`,
			[]string{"skipped: nothing to do"}},
		landfall.RunFailed:     {"first\nsecond", "", `failure "first second" RUN`, []string{"first", "second", "failed"}},
		landfall.RunError:      {"a disk is full", "", `error "a disk is full" RUN`, []string{"error: a disk is full"}},
		landfall.RunSuperseded: {"a newer push", "", `error "a newer push" RUN`, []string{"superseded: a newer push"}},
		landfall.RunCancelled: {"Cancelled by ada", "", `error "Cancelled by ada" RUN`,
			[]string{"cancelled: Cancelled by ada"}},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.Receiver.Runs.ReleaseURL = func(app string, of landfall.UID) string { return "http://" + app + "--" + string(of) }
			run := s.pushed()
			before := s.reported(run)
			if len(before) != 1 || !strings.HasPrefix(before[0], "pending ") || !strings.HasSuffix(before[0], " RUN") {
				t.Errorf("got the reports %q of a run that waits, want that it is pending", before)
			}
			run.State, run.Reason, run.Release = state, test.reason, landfall.UID(test.release)
			s.ends(run)
			testkit.EqualList(t, "reports", s.reported(run), append(before, test.report))
			var log []string
			for _, line := range testkit.Must(s.Receiver.DB.Log(t.Context(), run.ID, 0, 100))(t) {
				log = append(log, line.Text)
			}
			testkit.EqualList(t, "the end of the log", log[max(0, len(log)-len(test.log)):], test.log)
		})
	}
}

// Nothing is owed where nobody is to hear of it.
func TestNobodyIsToHear(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.Receiver.Runs.Reporting = false
	run := s.pushed()
	run.State = landfall.RunFailed
	s.ends(run)
	testkit.EqualList(t, "reports", s.reported(run), nil)
	app := testkit.Must(s.Receiver.DB.App(t.Context(), accepttest.AppID))(t)
	owed := func(app landfall.App) (owed bool) {
		s.Update(func(tx *store.Tx) (err error) {
			owed, err = s.Receiver.Runs.CommentsEnabled(t.Context(), tx, app)
			return err
		})
		return owed
	}
	testkit.Equal(t, "whether comments are owed", owed(app), false)
	s.Update(func(tx *store.Tx) error {
		return tx.PutGitHubApp(t.Context(), landfall.GitHubApp{ID: 1, Slug: "landfall"})
	})
	testkit.Equal(t, "whether comments are owed with a GitHub App", owed(app), true)
	s.Receiver.Runs.Reporting = true
	testkit.Equal(t, "whether comments are owed", owed(app), true)
	app.GitHub = landfall.GitHubRepository{}
	testkit.Equal(t, "whether comments of no repository are owed", owed(app), false)
}

// A run that made a release is at its swap for people, and its report is not due, until gateways show the release, or
// until it is long over.
func TestShown(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	run := s.pushed()
	outbox := runs.Outbox{Outbox: store.Outbox{DB: s.Receiver.DB}, Runs: s.Receiver.Runs}
	pending := testkit.Must(outbox.Due(t.Context(), time.Now(), 10))(t)
	testkit.Equal(t, "reports that are due at first", len(pending), 1)
	if err := outbox.Sent(t.Context(), time.Now(), pending[0].ID); err != nil {
		t.Fatal(err)
	}
	gate := accepttest.Gate{Release: make(chan struct{})}
	s.Receiver.Rollout.Gateways = gate
	run.State, run.Release, run.Change = landfall.RunSucceeded, "aaaaaaaa", 1
	s.ends(run)
	want := func(what string, state landfall.RunState, due int) {
		t.Helper()
		shown := s.Receiver.Runs.View(t.Context(), testkit.Must(s.Receiver.DB.Run(t.Context(), run.ID))(t))
		testkit.Equal(t, what+": state", shown.State, state)
		testkit.Equal(t, what+": whether it has a release", shown.Release != "", state.Final())
		testkit.Equal(t, what+": whether it is over", !shown.Finished.IsZero(), state.Final())
		testkit.Equal(t, what+": reports that are due", len(testkit.Must(outbox.Due(t.Context(), time.Now(), 10))(t)), due)
	}
	want("gateways do not show it", landfall.RunRunning, 0)
	s.Receiver.Runs.Now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	want("long after", landfall.RunSucceeded, 1)
	s.Receiver.Runs.Now = time.Now
	want("gateways do not show it still", landfall.RunRunning, 0)
	close(gate.Release)
	want("gateways show it", landfall.RunSucceeded, 1)
}

// Runs are deserted when this process works none, and no process that does is alive.
func TestDeserted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	now := time.Now()
	r := &runs.Runs{DB: s.Receiver.DB, Now: func() time.Time { return now }}
	want := func(what string, want bool) {
		t.Helper()
		testkit.Equal(t, what, testkit.Must(r.NoWorker(t.Context()))(t), want)
	}
	want("this process works them", false)
	r.RemoteWorkers = true
	want("nobody does", true)
	s.Update(func(tx *store.Tx) error { return tx.RecordWorker(t.Context(), "other", now.Add(time.Minute)) })
	want("another one does", false)
	now = now.Add(2 * time.Minute)
	want("it was not heard of for long", true)
}

// A commit runs again once its run is over, and a run ends once.
func TestRetryAndCancel(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	run, ledger := s.pushed(), s.Receiver.Runs
	_, err := ledger.Retry(t.Context(), run.ID, "ada", false)
	testkit.Kind(t, "to retry a run that waits", err, landfall.Conflict, run.ID, "is still queued")
	cancelled := testkit.Must(ledger.Cancel(t.Context(), run.ID, "ada"))(t)
	testkit.Equal(t, "reason", cancelled.Reason, "Cancelled by ada")
	_, err = ledger.Cancel(t.Context(), run.ID, "ada")
	testkit.Kind(t, "to cancel it again", err, landfall.Conflict, "the run is over: cancelled")
	again := testkit.Must(ledger.Retry(t.Context(), run.ID, "bob", true))(t)
	if again.ID == run.ID || again.Commit != run.Commit || !again.Rebuild || again.State != landfall.RunQueued {
		t.Errorf("got %+v, want a new run of the commit that builds again", again)
	}
	refs := testkit.Must(s.Receiver.DB.RunRefs(t.Context(), again.ID))(t)
	if len(refs) != 1 || refs[0].Ref != s.Ref {
		t.Errorf("it is wanted by %+v, want the branch whose head it is", refs)
	}
	if all := s.reported(run); !strings.HasPrefix(all[len(all)-1], `pending "Queued again by bob"`) {
		t.Errorf("got the reports %q, want that it is pending again at last", all)
	}
}
