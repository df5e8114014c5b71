package accept_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// The token for a repository is sealed where it is stored, and can be removed. What an earlier version of Landfall
// stored as it is works, and is sealed at the next start.
func TestTokensAreSealed(t *testing.T) {
	t.Parallel()
	s := accepttest.New(t)
	db, ctx, app := s.Receiver.DB, t.Context(), landfall.App{ID: accepttest.AppID, Name: "shop"}
	update := func(f func(tx *store.Tx) error) {
		t.Helper()
		if err := db.Update(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	const token = secret.Text("github_pat_of_the_test")
	has := func(want builder.Credential) {
		t.Helper()
		testkit.Same(t, "credential", testkit.Must(s.Receiver.Credential(ctx, app))(t), want)
	}
	has(builder.Credential{})
	update(func(tx *store.Tx) error {
		return tx.SetCredentials(ctx, app.ID, store.Credentials{Username: "ci", Password: token.Reveal()})
	})
	has(builder.Credential{Username: "ci", Password: token})
	if err := s.Receiver.SealCredentials(ctx); err != nil {
		t.Fatal(err)
	}
	has(builder.Credential{Username: "ci", Password: token})
	stored := testkit.Must(db.Credentials(ctx, app.ID))(t)
	// S32: the database does not have the token
	if stored.Password != "" || strings.Contains(string(stored.Token), token.Reveal()) || stored.TokenSet.IsZero() {
		t.Errorf("got %+v, want it sealed", stored)
	}

	key := s.Receiver.Secrets
	s.Receiver.Secrets = accepttest.Key(t)
	_, err := s.Receiver.Credential(ctx, app)
	testkit.Kind(t, "with another key", err, landfall.Conflict)
	// N-006: what to do is said
	if !strings.Contains(landfall.MessageOf(err), "landfall app set shop --repo-token-file") {
		t.Errorf("the error says %q, want what to do", landfall.MessageOf(err))
	}
	s.Receiver.Secrets = nil
	_, err = s.Receiver.Credential(ctx, app)
	testkit.Kind(t, "without a key", err, landfall.Unavailable)
	s.Receiver.Secrets = key
	update(func(tx *store.Tx) error { return s.Receiver.SetToken(ctx, tx, app.ID, new(string), "") })
	has(builder.Credential{})
}
