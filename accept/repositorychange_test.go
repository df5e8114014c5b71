package accept_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// What happens to a repository itself is followed by its app, or said.
func TestRepositoryChanges(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := s.Hooked()
	const id = "hooked"
	app := func() landfall.App {
		t.Helper()
		return testkit.Must(r.DB.App(t.Context(), id))(t)
	}
	set := func(change func(*landfall.App)) {
		t.Helper()
		now := app()
		change(&now)
		s.Update(func(tx *store.Tx) error { return tx.UpdateApp(t.Context(), now) })
	}
	tell := func(delivery string, change *webhook.RepositoryChange) string {
		t.Helper()
		stored, _, err := r.Accept(t.Context(), webhook.Event{
			Delivery: landfall.Delivery{ID: delivery, Event: "repository"}, RepositoryChange: change,
			Repository: webhook.Repository{ID: 1, Owner: "harbor", Name: "shop",
				URLs: []string{"https://github.com/harbor/shop.git"}}})
		if err != nil {
			t.Fatal(err)
		}
		return stored.Decision
	}
	contains := func(said string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("got %q, want %q in it", said, part)
			}
		}
	}
	renamed := &webhook.RepositoryChange{Action: "edited", From: "main", To: "trunk"}
	set(func(app *landfall.App) { app.Branch = "main" })
	// What somebody chose stays, and what to do is said.
	contains(tell("1", renamed), "stays main", "landfall app set hooked --branch trunk")
	testkit.Equal(t, "the branch that was chosen", app().Branch, "main")
	set(func(app *landfall.App) { app.BranchFound = true })
	contains(tell("2", renamed), "So is the production branch")
	// What was found as the default branch follows it.
	testkit.Equal(t, "the branch that was found", app().Branch, "trunk")

	gate := accepttest.Gate{Waiting: make(chan struct{}, 1), Release: make(chan struct{})}
	close(gate.Release)
	r.Rollout.Gateways = gate
	contains(tell("3", &webhook.RepositoryChange{Action: "privatized"}), "landfall app set hooked --previews public")
	// S35: what is private now is not shown to everybody any more
	testkit.Equal(t, "who sees previews", app().Previews, landfall.PreviewsSignedIn)
	// S35: and gateways hear that at once
	testkit.Equal(t, "gateways that heard it", len(gate.Waiting), 1)
	r.Rollout.Gateways = accepttest.NoGateways{}

	contains(tell("4", &webhook.RepositoryChange{Action: "deleted"}), "was deleted", "landfall app set hooked --repo harbor/shop")
	opened := s.Opens("5", landfall.CommitSHA(strings.Repeat("a", 40)))
	stored, _, err := r.Accept(t.Context(), opened)
	// S35: nothing of a deleted repository runs
	if err != nil || !stored.Unmatched || len(stored.Runs) != 0 || !strings.Contains(stored.Decision, "was deleted") {
		t.Errorf("got %v %+v, want that nothing runs, and why", err, stored)
	}
	s.Update(func(tx *store.Tx) error {
		_, err := r.ConfirmTransfer(t.Context(), tx, app(), "harbor/shop")
		return err
	})
	testkit.Equal(t, "whether it is stopped after it was confirmed", app().Stopped(), false)
}

// Another default branch of which no delivery told is found in the repository.
func TestDefaultBranchIsFollowed(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.line(1)
	l := f.listener()
	l.pushes(c[0])
	l.Git("update-ref", "refs/heads/trunk", string(c[0]))
	l.Git("symbolic-ref", "HEAD", "refs/heads/trunk")
	l.catchesUp()
	branch := func() string { return testkit.Must(l.Receiver.DB.App(t.Context(), l.app))(t).Branch }
	testkit.Equal(t, "the branch that was chosen", branch(), "main")
	l.Update(func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), l.app)
		if err != nil {
			return err
		}
		app.BranchFound = true
		return tx.UpdateApp(t.Context(), app)
	})
	l.catchesUp()
	// L-018: what no delivery told is found
	testkit.Equal(t, "the branch that was found", branch(), "trunk")
}
