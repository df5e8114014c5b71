package store_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testPullQuestions(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	box, app := store.PullQuestions{DB: db}, newApp(t, db, "shop")
	ask := func(commit landfall.CommitSHA, seconds int) landfall.PullQuestion {
		t.Helper()
		q := landfall.PullQuestion{App: app.ID, Repository: app.GitHub, Commit: commit, Ref: "refs/heads/x", Run: "r",
			NextAt: after(seconds)}
		update(t, db, func(tx *store.Tx) error { return tx.AskForPulls(ctx, q) })
		return q
	}
	due := func(seconds int) []landfall.PullQuestion {
		t.Helper()
		return testkit.Must(box.Due(ctx, after(seconds), 10))(t)
	}
	first, second := ask(sha1, 2), ask(sha2, 1)
	ask(sha1, 0)
	testkit.Same(t, "before its time", due(1), []landfall.PullQuestion{second})
	testkit.Same(t, "in order", due(2), []landfall.PullQuestion{second, first})
	if err := box.Postpone(ctx, second, after(60), "down"); err != nil {
		t.Fatal(err)
	}
	second.Attempts, second.NextAt = 1, after(60)
	testkit.Same(t, "one that waits", due(60), []landfall.PullQuestion{first, second})
	update(t, db, func(tx *store.Tx) error { return tx.EndPullQuestion(ctx, first) })
	testkit.Same(t, "one that is answered", due(60), []landfall.PullQuestion{second})
	update(t, db, func(tx *store.Tx) error {
		return tx.PutPullRequest(ctx, app.ID, store.PullRequest{Number: 7, Base: "main", Open: true}, noon)
	})
	testkit.Equal(t, "open into main", testkit.Must(db.OpenPullsInto(ctx, app.ID, "main"))(t), 1)
	testkit.Equal(t, "open into another", testkit.Must(db.OpenPullsInto(ctx, app.ID, "next"))(t), 0)
}
