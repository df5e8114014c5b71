package store_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testPulse(t *testing.T, open opener) {
	t.Helper()
	t.Run("nothing ever happened", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		testkit.Same(t, "Pulse", testkit.Must(db.Stats(t.Context(), noon))(t), store.Stats{
			Unfinished: map[landfall.RunState]int{}, Totals: store.Totals{Runs: map[landfall.RunState]int64{}}})
	})
	t.Run("runs wait, are worked on, and end", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		for i, id := range []string{"r0", "r1", "r2", "r3"} {
			newRun(t, db, app, id, sha1, after(i))
		}
		pulse := func(at time.Time) store.Stats { return testkit.Must(db.Stats(ctx, at))(t) }
		testkit.Same(t, "all wait", pulse(after(10)).Unfinished, map[landfall.RunState]int{landfall.RunQueued: 4})
		testkit.Same(t, "the oldest commit", pulse(after(10)).Oldest, noon)
		testkit.Same(t, "what waits longest", pulse(after(10)).Waiting, noon)

		var leased landfall.Run
		update(t, db, func(tx *store.Tx) error {
			var err error
			leased, err = tx.Lease(ctx, "r0", "w", after(10), after(40), 4)
			return err
		})
		testkit.Same(t, "one is worked on", pulse(after(10)).Unfinished,
			map[landfall.RunState]int{landfall.RunQueued: 3, landfall.RunRunning: 1})
		testkit.Same(t, "the oldest commit is still that one", pulse(after(10)).Oldest, noon)
		testkit.Same(t, "what waits longest is the next", pulse(after(10)).Waiting, after(1))

		for _, id := range []string{"r1", "r2", "r3"} {
			end(t, db, id, after(11))
		}
		update(t, db, func(tx *store.Tx) error { return tx.GiveBack(ctx, "r0", leased.Attempt, after(60), true, "down") })
		testkit.Same(t, "what is to be tried later does not wait yet", pulse(after(59)).Waiting, time.Time{})
		testkit.Same(t, "it waits from its time on", pulse(after(70)).Waiting, after(60))
		testkit.Same(t, "but its commit is as old as it is", pulse(after(70)).Oldest, noon)

		done := leased
		done.State, done.Release, done.Finished = landfall.RunSucceeded, "abcdefgh", after(80)
		done.Stats = landfall.RunStats{Bytes: 100, BytesUploaded: 30, Built: 2, Cached: 1}
		update(t, db, func(tx *store.Tx) error { return tx.FinishRun(ctx, done) })
		testkit.Kind(t, "a second end", db.Update(ctx, func(tx *store.Tx) error {
			return tx.FinishRun(ctx, done)
		}), landfall.Conflict)
		got := pulse(after(90))
		testkit.Same(t, "nothing is unfinished", got.Unfinished, map[landfall.RunState]int{})
		testkit.Same(t, "no oldest commit", got.Oldest, time.Time{})
		testkit.Same(t, "each end counts once", got.Totals, store.Totals{
			Runs:          map[landfall.RunState]int64{landfall.RunSucceeded: 1, landfall.RunSuperseded: 3},
			BytesUploaded: 30, BytesUnchanged: 70, BuildsRun: 2, BuildsCached: 1,
		})
	})
	t.Run("reports are owed and end", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		box, comments := store.Outbox{DB: db}, store.Comments{DB: db}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		pulse := func() store.Stats { return testkit.Must(db.Stats(ctx, after(99)))(t) }
		for i := range 3 {
			update(t, db, func(tx *store.Tx) error {
				return tx.CreateReport(ctx, landfall.Report{App: "a", Commit: sha1, Context: "landfall/a", NextAt: after(i)})
			})
		}
		do(box.Postpone(ctx, 1, after(50), "down"))
		testkit.Same(t, "a postponed status is as old as before", pulse().Statuses, store.Backlog{Count: 3, Since: noon})
		do(box.Sent(ctx, after(51), 1))
		do(box.Drop(ctx, 2, "gone"))
		testkit.Same(t, "what is left", pulse().Statuses, store.Backlog{Count: 1, Since: after(2)})

		shop := landfall.GitHubRepository{ID: 1, Owner: "o", Name: "shop"}
		want := func(at time.Time) {
			update(t, db, func(tx *store.Tx) error { return tx.WantComment(ctx, shop, 12, at) })
		}
		want(after(1))
		want(after(2))
		testkit.Same(t, "a comment is owed since the first of what it is to say", pulse().Comments,
			store.Backlog{Count: 1, Since: after(1)})
		comment := testkit.Must(db.Comment(ctx, shop, 12))(t)
		do(comments.MarkWritten(ctx, comment))
		testkit.Same(t, "a comment that was told is not owed", pulse().Comments, store.Backlog{})
		want(after(7))
		testkit.Same(t, "owed again", pulse().Comments, store.Backlog{Count: 1, Since: after(7)})
		do(comments.Drop(ctx, comment, "gone"))
		testkit.Same(t, "a dropped comment is not owed", pulse().Comments, store.Backlog{})
		want(after(8))
		testkit.Same(t, "owed once more", pulse().Comments, store.Backlog{Count: 1, Since: after(8)})
		testkit.Same(t, "all in all", pulse().Totals, store.Totals{Runs: map[landfall.RunState]int64{},
			StatusesSent: 1, StatusesDropped: 1, CommentsWritten: 1, CommentsDropped: 1})
	})
}
