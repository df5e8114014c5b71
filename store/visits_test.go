package store_test

import (
	"fmt"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testVisits(t *testing.T, open opener) {
	t.Helper()
	ada := landfall.Token{Hash: landfall.DigestOf([]byte("ada's token")), Name: "ada", Scope: landfall.ScopeRead,
		Created: noon}
	ask := store.Visit{Host: "shop.releases.test", Challenge: landfall.DigestOf([]byte("nonce")), Path: "/cart"}
	ends := noon.Add(time.Hour)
	coded := func(t *testing.T) *store.DB {
		t.Helper()
		db := open(t)
		update(t, db, func(tx *store.Tx) error {
			if err := tx.PutToken(t.Context(), ada); err != nil {
				return err
			}
			if err := tx.CreateSession(t.Context(), "session", ada, noon, ends); err != nil {
				return err
			}
			return tx.CreateVisit(t.Context(), "code", "session", ask, noon, noon.Add(time.Minute))
		})
		return db
	}
	begin := func(t *testing.T, db *store.DB, code, host, nonce string, at time.Time) (path string, expires time.Time,
		err error) {
		t.Helper()
		err = db.Update(t.Context(), func(tx *store.Tx) error {
			path, expires, err = tx.BeginVisit(t.Context(), code, host, nonce, "visit", at)
			return err
		})
		return path, expires, err
	}
	gone := func(t *testing.T, db *store.DB, secret, host string, at time.Time) {
		t.Helper()
		_, err := db.VisitToken(t.Context(), secret, host, at)
		testkit.Kind(t, secret+" at "+host, err, landfall.NotFound)
	}
	t.Run("a code begins one visit, at its host, of its browser, until the session ends", func(t *testing.T) {
		t.Parallel()
		db := coded(t)
		for _, wrong := range []struct {
			code, host, nonce string
			at                time.Time
		}{
			{"code", "zoo.releases.test", "nonce", noon},
			{"code", ask.Host, "another nonce", noon},
			{"code", ask.Host, "", noon},
			{"another code", ask.Host, "nonce", noon},
			{"code", ask.Host, "nonce", noon.Add(time.Minute)},
			{string(landfall.DigestOf([]byte("code"))), ask.Host, "nonce", noon},
		} {
			_, _, err := begin(t, db, wrong.code, wrong.host, wrong.nonce, wrong.at)
			testkit.Kind(t, wrong.code, err, landfall.NotFound)
		}
		gone(t, db, "code", ask.Host, noon) // a code is no visit
		path, expires, err := begin(t, db, "code", ask.Host, "nonce", noon.Add(time.Minute-1))
		testkit.Same(t, "error", err, nil)
		testkit.Same(t, "path", path, ask.Path)
		testkit.Same(t, "end", expires, ends)
		_, _, err = begin(t, db, "code", ask.Host, "nonce", noon)
		testkit.Kind(t, "the code again", err, landfall.NotFound)
		_, _, err = begin(t, db, "visit", ask.Host, "", noon)
		testkit.Kind(t, "the visit as a code", err, landfall.NotFound)
		testkit.Same(t, "token", testkit.Must(db.VisitToken(t.Context(), "visit", ask.Host, ends.Add(-1)))(t), ada)
		gone(t, db, "visit", ask.Host, ends)
		gone(t, db, "visit", "zoo.releases.test", noon)
		gone(t, db, "code", ask.Host, noon)
	})
	for name, end := range map[string]func(*testing.T, *store.Tx) error{
		"its session": func(t *testing.T, tx *store.Tx) error {
			t.Helper()
			return tx.DeleteSession(t.Context(), "session")
		},
		"the token that is gone": func(t *testing.T, tx *store.Tx) error {
			t.Helper()
			return tx.ForgetToken(t.Context(), "ada")
		},
	} {
		t.Run("a visit ends with "+name, func(t *testing.T) {
			t.Parallel()
			db := coded(t)
			_, _, err := begin(t, db, "code", ask.Host, "nonce", noon)
			testkit.Same(t, "error", err, nil)
			update(t, db, func(tx *store.Tx) error { return end(t, tx) })
			gone(t, db, "visit", ask.Host, noon)
		})
	}
	t.Run("a session has some hundred visits at most, and takes none from others", func(t *testing.T) {
		t.Parallel()
		db, ctx := coded(t), t.Context()
		_, _, err := begin(t, db, "code", ask.Host, "nonce", noon)
		testkit.Same(t, "error", err, nil)
		const tries = 300
		update(t, db, func(tx *store.Tx) error {
			err := tx.CreateSession(ctx, "busy", ada, noon, ends)
			for i := 0; i < tries && err == nil; i++ {
				code := fmt.Sprint("code ", i)
				if err = tx.CreateVisit(ctx, code, "busy", ask, noon, noon.Add(time.Minute)); err == nil {
					_, _, err = tx.BeginVisit(ctx, code, ask.Host, "nonce", fmt.Sprint("visit ", i), noon)
				}
			}
			return err
		})
		known := 0
		for i := range tries {
			if _, err := db.VisitToken(ctx, fmt.Sprint("visit ", i), ask.Host, noon); err == nil {
				known++
			}
		}
		testkit.Same(t, "visits of the session", known, 200)
		db.Noted()
		want := ada
		want.Used = noon
		testkit.Same(t, "of the other one", testkit.Must(db.VisitToken(ctx, "visit", ask.Host, noon))(t), want)
	})
	t.Run("no visit begins after its session", func(t *testing.T) {
		t.Parallel()
		db := coded(t)
		update(t, db, func(tx *store.Tx) error { return tx.DeleteSession(t.Context(), "session") })
		_, _, err := begin(t, db, "code", ask.Host, "nonce", noon)
		testkit.Kind(t, "code", err, landfall.NotFound)
	})
}
