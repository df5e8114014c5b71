package accept_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// What comes to the installation's hook of a renamed repository is an app's when its id is confirmed. An id that only
// the app's own hook named is not enough, even with the same names at another host; then the answer says what to do.
func TestSharedDeliveryOfARenamedRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.Hooked()
	s.Update(func(tx *store.Tx) error {
		return tx.CreateApp(t.Context(), landfall.App{
			ID: "forged", Namespace: landfall.DefaultNamespace, Name: "forged", Branch: "main",
			Repository: "https://evil.example.com/harbor/vault",
			GitHub:     landfall.GitHubRepository{ID: 2, Owner: "harbor", Name: "vault"},
		})
	})
	commit := s.Commit("one")
	renamed := s.Opens("one", commit)
	renamed.Repository.Name, renamed.Repository.URLs = "store", []string{"https://github.com/harbor/store.git"}
	if stored, _, err := in.Accept(t.Context(), renamed); err != nil || len(stored.Runs) != 1 {
		t.Errorf("the renamed repository: got %+v and %v, want a run", stored, err)
	}
	foreign := s.Opens("two", commit)
	foreign.Repository = webhook.Repository{ID: 2, Owner: "harbor", Name: "vault",
		URLs: []string{"https://github.com/harbor/vault.git"}}
	stored, _, err := in.Accept(t.Context(), foreign)
	if err != nil || len(stored.Runs) != 0 || !stored.Unmatched ||
		!strings.Contains(stored.Decision, "landfall app hook forged") {
		t.Errorf("a foreign repository: got %+v and %v, want no run, and what to do", stored, err)
	}
}
