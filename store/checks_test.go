package store_test

import (
	"errors"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testChecks(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	box, app := store.NewChecks(db), fullApp("shop")
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(tx.EnsureNamespace(ctx, "default", noon.UnixMicro()), tx.CreateApp(ctx, app))
	})
	want := func(commit landfall.CommitSHA, seconds int) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return tx.WantCheck(ctx, app.ID, commit, after(seconds)) })
	}
	due := func(seconds int) (commits []landfall.CommitSHA) {
		t.Helper()
		for _, c := range testkit.Must(box.Due(ctx, after(seconds), 10))(t) {
			commits = append(commits, c.Commit)
		}
		return commits
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.Check(ctx, app.ID, sha1)
	testkit.Kind(t, "none", err, landfall.NotFound)
	want(sha1, 1)
	want(sha2, 2)
	want(sha1, 0)
	one := testkit.Must(db.Check(ctx, app.ID, sha1))(t)
	testkit.Same(t, "as stored", one, landfall.Check{App: app.ID, Commit: sha1,
		Owed: landfall.Owed{Wanted: 2, NextAt: after(1)}})
	testkit.Same(t, "due before their time", due(0), nil)
	testkit.Same(t, "due", due(2), []landfall.CommitSHA{sha1, sha2})
	one.Repository, one.Run, one.ID, one.Body = 7, "r1", 41, "sha256:x"
	do(box.Record(ctx, one, false))
	testkit.Same(t, "as recorded in part", testkit.Must(db.Check(ctx, app.ID, sha1))(t), one)
	do(box.Record(ctx, one, true))
	one.Covered = 2
	testkit.Same(t, "as recorded", testkit.Must(db.Check(ctx, app.ID, sha1))(t), one)
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(
			tx.PutRelease(ctx, landfall.Release{App: app.ID, ID: "aaaaaaaa", Commit: sha1}),
			tx.PutRelease(ctx, landfall.Release{App: app.ID, ID: "bbbbbbbb", Commit: sha3}),
			tx.RenewChecks(ctx, app.ID, "aaaaaaaa", "bbbbbbbb"))
	})
	testkit.Same(t, "due when another release is live", due(2), []landfall.CommitSHA{sha1, sha2})
	_, err = db.Check(ctx, app.ID, sha3)
	testkit.Kind(t, "of the commit that has none", err, landfall.NotFound)
	one.Wanted = 3
	do(box.Record(ctx, one, true))
	other := testkit.Must(db.Check(ctx, app.ID, sha2))(t)
	do(box.Postpone(ctx, other, after(60), "down"))
	testkit.Same(t, "due while it waits", due(59), nil)
	do(box.Drop(ctx, other, "refused"))
	testkit.Same(t, "due when it was given up", due(60), nil)
	want(sha2, 3)
	testkit.Same(t, "due when something happened again", due(60), []landfall.CommitSHA{sha2})
}
