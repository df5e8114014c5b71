package jobs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// commitOf makes a commit of one file.
func (s *shop) commitOf(name, text string) landfall.CommitSHA {
	s.T.Helper()
	folder := s.T.TempDir()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
	s.Git("--work-tree", folder, "add", "--all")
	return s.CommitTree(s.Git("write-tree"), "one file")
}

// wantState fails the test unless people see the run in this state, and the forge is owed so many reports of its end.
func (s *shop) wantState(what string, run landfall.Run, state landfall.RunState, reports int) {
	s.T.Helper()
	run, err := s.Receiver.DB.Run(s.T.Context(), run.ID)
	if err != nil || run.State != landfall.RunSucceeded || run.Release == "" {
		s.T.Errorf("%s: got %+v and the error %v, want it stored as succeeded with a release", what, run, err)
	}
	shown := s.Receiver.Runs.View(s.T.Context(), run)
	if over := state.Final(); shown.State != state || (shown.Release != "") != over || shown.Finished.IsZero() == over {
		s.T.Errorf("%s: people see %+v, want it %s", what, shown, state)
	}
	outbox := runs.Outbox{Outbox: store.Outbox{DB: s.Receiver.DB}, Runs: s.Receiver.Runs}
	due, err := outbox.Due(s.T.Context(), time.Now(), 10)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, r := range due {
		if r.State == landfall.StatusPending {
			s.T.Errorf("%s: %+v is owed still", what, r)
		}
	}
	if len(due) != reports {
		s.T.Errorf("%s: %d reports are due, want %d", what, len(due), reports)
	}
	for _, c := range s.WantComments(what, reports) {
		if app := c.Report.Apps[0]; app.State != state || app.Commit != run.Commit || c.Report.Closed {
			s.T.Errorf("%s: the comment says %+v, want %s", what, c.Report, state)
		}
	}
}

// Nobody is told that a run is over before its release answers.
func TestRunIsOverAfterTheSwap(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AcceptAll(s.MoveRef(s.commitOf("specs/env.yaml",
		"apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec: {runtime: {image: "+
			"fission/python-env}}\n"))...)
	unfinished, err := s.Receiver.DB.UnfinishedOfApp(t.Context(), accepttest.AppID)
	if err != nil || len(unfinished) != 1 {
		t.Fatalf("got the runs %+v and the error %v, want one", unfinished, err)
	}
	outbox := runs.Outbox{Outbox: store.Outbox{DB: s.Receiver.DB}, Runs: s.Receiver.Runs}
	s.Update(func(tx *store.Tx) error {
		return tx.PutPullRequest(t.Context(), accepttest.AppID,
			store.PullRequest{Number: 12, Base: "main", HeadRef: s.Ref, HeadSHA: unfinished[0].Commit, Open: true}, time.Now())
	})
	pending, err := outbox.Due(t.Context(), time.Now(), 10)
	if err != nil || len(pending) != 1 {
		t.Fatalf("got the reports %+v and the error %v, want one", pending, err)
	}
	if err := outbox.Sent(t.Context(), time.Now(), pending[0].ID); err != nil {
		t.Fatal(err)
	}

	gateways := accepttest.Gate{Waiting: make(chan struct{}), Release: make(chan struct{})}
	s.Receiver.Rollout.Gateways = gateways
	s.pipeline.Mirrors = &builder.Mirrors{Root: t.TempDir(), Dialer: &builder.Dialer{}}
	s.pipeline.Scratch = filepath.Join(t.TempDir(), "scratch")
	s.pipeline.Worker = "worker"
	s.jobs.Scratch, s.jobs.Process = s.pipeline.Scratch, s.pipeline.Worker
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.jobs.Run(ctx, jobs.Duties{Work: true, Keep: true}) }()
	select {
	case <-gateways.Waiting:
	case <-time.After(testkit.Patience):
		t.Fatal("the gateways were not asked to take the release")
	}
	// P-008: no comment says that it is over before the release answers
	s.wantState("before the swap", unfinished[0], landfall.RunRunning, 0)
	close(gateways.Release)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// P-007: the address in the final status answers
	s.wantState("after the swap", unfinished[0], landfall.RunSucceeded, 1)
}
