package store_test

import (
	"testing"
	"time"

	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testMessages(t *testing.T, open opener) {
	t.Helper()
	db := open(t)
	set := func(message string, o store.MessageOutcome, at time.Time) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error {
			return tx.SetMessageOutcome(t.Context(), "shop", "bill", message, o, at)
		})
	}
	want := func(app, message string, want store.MessageOutcome) {
		t.Helper()
		testkit.Same(t, message, testkit.Must(db.MessageOutcome(t.Context(), app, "bill", message))(t), want)
	}
	want("shop", "1", store.MessageOutcome{})
	set("1", store.MessageOutcome{Failures: 1}, noon)
	want("shop", "1", store.MessageOutcome{Failures: 1})
	want("zoo", "1", store.MessageOutcome{})
	set("1", store.MessageOutcome{Failures: 2}, noon)
	set("2", store.MessageOutcome{Done: true}, noon)
	set("3", store.MessageOutcome{Done: true}, noon.Add(time.Hour))
	update(t, db, func(tx *store.Tx) error { return tx.ForgetMessages(t.Context(), noon.Add(time.Minute), noon) })
	want("shop", "1", store.MessageOutcome{Failures: 2})
	want("shop", "2", store.MessageOutcome{})
	want("shop", "3", store.MessageOutcome{Done: true})
	update(t, db, func(tx *store.Tx) error { return tx.ForgetMessages(t.Context(), noon, noon.Add(time.Minute)) })
	want("shop", "1", store.MessageOutcome{})
	want("shop", "3", store.MessageOutcome{Done: true})
}
