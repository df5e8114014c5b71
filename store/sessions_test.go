package store_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testSessions(t *testing.T, open opener) {
	t.Helper()
	ada := landfall.Token{Hash: landfall.DigestOf([]byte("ada's token")), Name: "ada", Scope: landfall.ScopeRead,
		Created: noon}
	signIn := func(t *testing.T) *store.DB {
		t.Helper()
		db := open(t)
		update(t, db, func(tx *store.Tx) error {
			if err := tx.PutToken(t.Context(), ada); err != nil {
				return err
			}
			return tx.CreateSession(t.Context(), "cookie", ada, noon, noon.Add(time.Hour))
		})
		return db
	}
	gone := func(t *testing.T, db *store.DB, secret string, at time.Time) {
		t.Helper()
		_, err := db.SessionToken(t.Context(), secret, at)
		testkit.Kind(t, secret, err, landfall.NotFound)
	}
	t.Run("a session is its token's until it is over", func(t *testing.T) {
		t.Parallel()
		db := signIn(t)
		testkit.Same(t, "token", testkit.Must(db.SessionToken(t.Context(), "cookie", noon.Add(time.Hour-1)))(t), ada)
		gone(t, db, "cookie", noon.Add(time.Hour))
		gone(t, db, "another cookie", noon)
		gone(t, db, string(landfall.DigestOf([]byte("cookie"))), noon) // what is stored opens nothing
	})
	t.Run("it ends when its holder leaves", func(t *testing.T) {
		t.Parallel()
		db := signIn(t)
		update(t, db, func(tx *store.Tx) error { return tx.DeleteSession(t.Context(), "cookie") })
		gone(t, db, "cookie", noon)
	})
	t.Run("it ends with its token", func(t *testing.T) {
		t.Parallel()
		db := signIn(t)
		next := landfall.Token{Hash: landfall.DigestOf([]byte("ada's next token")), Name: "ada", Scope: landfall.ScopeRead,
			Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.ReplaceToken(t.Context(), next) })
		gone(t, db, "cookie", noon)
	})
	t.Run("the next one to sign in clears away what is over", func(t *testing.T) {
		t.Parallel()
		db := signIn(t)
		later := noon.Add(2 * time.Hour)
		update(t, db, func(tx *store.Tx) error {
			return tx.CreateSession(t.Context(), "second", ada, later, later.Add(time.Hour))
		})
		gone(t, db, "cookie", noon)
		testkit.Same(t, "token", testkit.Must(db.SessionToken(t.Context(), "second", later))(t), ada)
	})
}
