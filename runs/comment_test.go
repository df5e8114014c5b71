package runs_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
)

// shop is an app with its repository in the built-in remote. Nobody works its runs.
type shop struct{ *accepttest.Shop }

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{accepttest.New(t)}
}

// What a delivery moves is said when the gateways show it, and not before.
func TestCommentWaitsForTheGateways(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.Hooked()
	commit := s.Commit("one")
	if _, _, err := in.Accept(t.Context(), s.Opens("one", commit)); err != nil {
		t.Fatal(err)
	}
	gateways := accepttest.Gate{Waiting: make(chan struct{}), Release: make(chan struct{})}
	s.Receiver.Rollout.Gateways = gateways
	ended := make(chan error, 1)
	closed := s.Opens("two", commit)
	closed.PullRequest.Closed = true
	go func() {
		_, _, err := in.Accept(t.Context(), closed)
		ended <- err
	}()
	select {
	case <-gateways.Waiting:
	case err := <-ended:
		t.Fatalf("the delivery was accepted without the gateways, with the error %v", err)
	}
	s.WantComments("while the gateways take the table", 0)
	close(gateways.Release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	due := s.WantComments("when they have it", 1)
	if len(due) == 1 && (due[0].Number != 12 || len(due[0].Report.Apps) != 1 || !due[0].Report.Closed) {
		t.Errorf("got %+v, want it closed", due)
	}
}

// A comment is for the apps of its very repository: another one's that has the same id by mistake or malice has no part
// in it.
func TestCommentIsOfOneRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.Hooked()
	commit := s.Commit("one")
	if _, _, err := in.Accept(t.Context(), s.Opens("one", commit)); err != nil {
		t.Fatal(err)
	}
	s.Update(func(tx *store.Tx) error {
		other := landfall.App{
			ID: "other", Namespace: landfall.DefaultNamespace, Name: "other", Branch: "main",
			Repository: "https://github.com/evil/shop.git",
			GitHub:     landfall.GitHubRepository{ID: 1, Owner: "evil", Name: "shop"},
		}
		if err := tx.CreateApp(t.Context(), other); err != nil {
			return err
		}
		if err := tx.WantComment(t.Context(), other.GitHub, 12, time.Now()); err != nil {
			return err
		}
		return tx.PutPullRequest(t.Context(), other.ID,
			store.PullRequest{Number: 12, Base: "main", HeadRef: "refs/heads/x", HeadSHA: commit, Open: true}, time.Now())
	})
	for _, c := range s.WantComments("two repositories of one id", 2) {
		if len(c.Report.Apps) != 1 || (c.Report.Apps[0].App == "other") != (c.Repository.Owner == "evil") {
			t.Errorf("the comment of %s/%s says %+v, want its own app alone", c.Repository.Owner, c.Repository.Name,
				c.Report.Apps)
		}
	}
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), "other")
		if err != nil {
			return err
		}
		app.Deleted = time.Now()
		return tx.UpdateApp(t.Context(), app)
	})
	s.WantComments("one app was deleted", 1)
	if c, err := s.Receiver.DB.Comment(t.Context(), landfall.GitHubRepository{ID: 1, Owner: "evil", Name: "shop"},
		12); err != nil || c.Covered != c.Wanted {
		t.Errorf("got %+v and the error %v, want nothing owed for a deleted app", c, err)
	}
}
