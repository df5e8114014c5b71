package jobs_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

func (s *shop) update(f func(tx *store.Tx) error) {
	s.t.Helper()
	if err := s.doors.DB.Update(s.t.Context(), f); err != nil {
		s.t.Fatal(err)
	}
}

// wantComments fails the test unless so many comments are due, and returns them.
func (s *shop) wantComments(what string, n int) []landfall.Comment {
	s.t.Helper()
	comments := runs.Comments{Comments: store.Comments{DB: s.doors.DB}, Runs: s.doors.Runs}
	due, err := comments.Due(s.t.Context(), time.Now(), 10)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(due) != n {
		s.t.Errorf("%s: the comments %+v are due, want %d", what, due, n)
	}
	return due
}

// opens is a delivery that opens pull request 12 at a commit.
func (s *shop) opens(id string, commit landfall.CommitSHA) webhook.Intake {
	return webhook.Intake{
		Delivery:   landfall.Delivery{ID: id, Event: "pull_request"},
		Repository: webhook.Repository{ID: 1, Owner: "harbor", Name: "shop"},
		PullRequest: &webhook.PullRequest{
			PullRequest: landfall.PullRequest{Number: 12, Base: "main"}, Head: "refs/heads/feature", Commit: commit, Actor: "ada"},
	}
}

// hooked makes an app of a repository elsewhere.
func (s *shop) hooked() accept.Intake {
	s.t.Helper()
	s.update(func(tx *store.Tx) error {
		own, err := tx.App(s.t.Context(), appID)
		if err != nil {
			return err
		}
		app := own
		own.GitHub = landfall.GitHubRepository{}
		app.ID, app.Name, app.Repository, app.GitHubConfirmed = "hooked", "hooked", "https://github.com/harbor/shop.git", true
		if err := tx.UpdateApp(s.t.Context(), own); err != nil {
			return err
		}
		return tx.CreateApp(s.t.Context(), app)
	})
	return accept.Intake{Acceptor: s.doors.Acceptor}
}

// What a delivery moves is said when the gateways show it, and not before.
func TestCommentWaitsForTheGateways(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.hooked()
	commit := s.commit("one")
	if _, _, err := in.Accept(t.Context(), s.opens("one", commit)); err != nil {
		t.Fatal(err)
	}
	gateways := gate{make(chan struct{}), make(chan struct{})}
	s.doors.Rollout.Gateways = gateways
	ended := make(chan error, 1)
	closed := s.opens("two", commit)
	closed.PullRequest.Closed = true
	go func() {
		_, _, err := in.Accept(t.Context(), closed)
		ended <- err
	}()
	select {
	case <-gateways.asked:
	case err := <-ended:
		t.Fatalf("the delivery was accepted without the gateways, with the error %v", err)
	}
	s.wantComments("while the gateways take the table", 0)
	close(gateways.let)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	due := s.wantComments("when they have it", 1)
	if len(due) == 1 && (due[0].Number != 12 || len(due[0].Says.Apps) != 1 || !due[0].Says.Closed) {
		t.Errorf("got %+v, want it closed", due)
	}
}

// A comment is for the apps of its very repository: another one's that has the same id by mistake or malice has no part in it.
func TestCommentIsOfOneRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.hooked()
	commit := s.commit("one")
	if _, _, err := in.Accept(t.Context(), s.opens("one", commit)); err != nil {
		t.Fatal(err)
	}
	s.update(func(tx *store.Tx) error {
		other := landfall.App{
			ID: "other", Namespace: landfall.DefaultNamespace, Name: "other", Branch: "main", Repository: "https://github.com/evil/shop.git",
			GitHub: landfall.GitHubRepository{ID: 1, Owner: "evil", Name: "shop"},
		}
		if err := tx.CreateApp(t.Context(), other); err != nil {
			return err
		}
		if err := tx.WantComment(t.Context(), other.GitHub, 12, time.Now()); err != nil {
			return err
		}
		return tx.PutPullRequest(t.Context(), other.ID, store.PullRequest{Number: 12, Base: "main", HeadRef: "refs/heads/x", HeadSHA: commit, Open: true}, time.Now())
	})
	for _, c := range s.wantComments("two repositories of one id", 2) {
		if len(c.Says.Apps) != 1 || (c.Says.Apps[0].App == "other") != (c.Repository.Owner == "evil") {
			t.Errorf("the comment of %s/%s says %+v, want its own app alone", c.Repository.Owner, c.Repository.Name, c.Says.Apps)
		}
	}
	s.update(func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), "other")
		if err != nil {
			return err
		}
		app.Deleted = time.Now()
		return tx.UpdateApp(t.Context(), app)
	})
	s.wantComments("one app was deleted", 1)
	if c, err := s.doors.DB.Comment(t.Context(), landfall.GitHubRepository{ID: 1, Owner: "evil", Name: "shop"}, 12); err != nil || c.Told != c.Wanted {
		t.Errorf("got %+v and the error %v, want nothing owed for a deleted app", c, err)
	}
}
