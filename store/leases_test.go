package store_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// lease leases a run, or returns why not.
func lease(t testing.TB, db *store.DB, id, worker string, now, until time.Time) (run landfall.Run, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		run, err = tx.Lease(t.Context(), id, worker, now, until, 2)
		return err
	})
	return run, err
}

func testLeases(t *testing.T, open opener) {
	t.Helper()
	t.Run("a run belongs to one worker until its lease is over", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		created := newRun(t, db, newApp(t, db, "shop"), "r1", sha1, noon)
		first := testkit.Must(lease(t, db, "r1", "w1", after(1), after(10)))(t)
		want := created
		want.State, want.Attempt, want.Started = landfall.RunRunning, 1, after(1)
		testkit.Same(t, "the leased run", first, want)
		_, err := lease(t, db, "r1", "w2", after(9), after(20))
		testkit.Kind(t, "another worker before its end", err, landfall.Conflict, "another worker")
		_, err = lease(t, db, "r1", "w1", after(9), after(20))
		testkit.Kind(t, "the same worker again", err, landfall.Conflict)
		_, err = lease(t, db, "r9", "w1", after(9), after(20))
		testkit.Kind(t, "no run", err, landfall.Conflict)
		second := testkit.Must(lease(t, db, "r1", "w2", after(10), after(20)))(t)
		if second.Attempt != 2 || !second.Started.Equal(after(1)) {
			t.Errorf("the second lease: got attempt %d, started %s, want 2 and the first start", second.Attempt, second.Started)
		}
		// Whatever the first worker writes now is refused, and the second's is not.
		for what, write := range map[string]func(tx *store.Tx, run landfall.Run) error{
			"Fence": func(tx *store.Tx, run landfall.Run) error { return tx.Fence(ctx, "r1", run.Attempt) },
			"Renew": func(tx *store.Tx, run landfall.Run) error { return tx.Renew(ctx, "r1", run.Attempt, after(30)) },
			"StartStep": func(tx *store.Tx, run landfall.Run) error {
				return tx.StartStep(ctx, "r1", run.Attempt, landfall.StepFetch, after(11))
			},
		} {
			err := db.Update(ctx, func(tx *store.Tx) error { return write(tx, first) })
			testkit.Kind(t, what+" of the first worker", err, landfall.Conflict, "another worker")
			if err := db.Update(ctx, func(tx *store.Tx) error { return write(tx, second) }); err != nil {
				t.Errorf("%s of the second worker: %v", what, err)
			}
		}
		err = db.Update(ctx, func(tx *store.Tx) error { return tx.GiveBack(ctx, "r1", first.Attempt, after(12), true, "no") })
		testkit.Kind(t, "GiveBack of the first worker", err, landfall.Conflict)
		testkit.Same(t, "failures after that", testkit.Must(db.Failures(ctx, "r1"))(t), 0)
		_, err = lease(t, db, "r1", "w1", after(29), after(40))
		testkit.Kind(t, "a lease while the second worker's is renewed", err, landfall.Conflict)
	})
	t.Run("a run that is given back waits for its time", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		newRun(t, db, newApp(t, db, "shop"), "r1", sha1, noon)
		give := func(run landfall.Run, next time.Time, failed bool, reason string) {
			update(t, db, func(tx *store.Tx) error { return tx.GiveBack(t.Context(), "r1", run.Attempt, next, failed, reason) })
		}
		run := testkit.Must(lease(t, db, "r1", "w1", after(1), after(10)))(t)
		give(run, after(5), true, "It is down.")
		back := testkit.Must(db.Run(ctx, "r1"))(t)
		if back.State != landfall.RunQueued || back.Reason != "It is down." || back.Attempt != 1 {
			t.Errorf("the run: got %+v, want it queued again with the reason", back)
		}
		testkit.Same(t, "failures", testkit.Must(db.Failures(ctx, "r1"))(t), 1)
		_, err := lease(t, db, "r1", "w1", after(4), after(10))
		testkit.Kind(t, "a lease before its time", err, landfall.Conflict)
		run = testkit.Must(lease(t, db, "r1", "w1", after(5), after(10)))(t)
		give(run, after(6), false, "")
		testkit.Same(t, "failures after an interruption", testkit.Must(db.Failures(ctx, "r1"))(t), 1)
	})
	t.Run("which workers are alive", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		working := func(worker string, until time.Time) {
			update(t, db, func(tx *store.Tx) error { return tx.RecordWorker(ctx, worker, until) })
		}
		testkit.Same(t, "before any", testkit.Must(db.Workers(ctx, after(1)))(t), 0)
		working("w1", after(5))
		working("w2", after(3))
		testkit.Same(t, "two", testkit.Must(db.Workers(ctx, after(1)))(t), 2)
		testkit.Same(t, "when one gave no sign of life", testkit.Must(db.Workers(ctx, after(3)))(t), 1)
		working("w2", after(9))
		testkit.Same(t, "when it is back", testkit.Must(db.Workers(ctx, after(3)))(t), 2)
		working("w2", time.Time{})
		testkit.Same(t, "when it has left", testkit.Must(db.Workers(ctx, after(3)))(t), 1)
		working("w3", after(5).Add(25*time.Hour))
		testkit.Same(t, "when one was killed a day ago", testkit.Must(db.Workers(ctx, noon))(t), 1)
	})
	t.Run("which runs are due", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		for i, id := range []string{"old", "leased", "later", "over", "young"} {
			newRun(t, db, app, id, sha1, after(i))
		}
		waiting := landfall.Run{ID: "waiting", App: app.ID, Commit: sha1, State: landfall.RunWaiting, Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.CreateRun(ctx, waiting) })
		testkit.Must(lease(t, db, "leased", "w", after(10), after(20)))(t)
		later := testkit.Must(lease(t, db, "later", "w", after(10), after(20)))(t)
		update(t, db, func(tx *store.Tx) error { return tx.GiveBack(ctx, "later", later.Attempt, after(15), true, "") })
		end(t, db, "over", after(10))
		testkit.Same(t, "now", ids(testkit.Must(db.DueRuns(ctx, "", after(11), 2, 10))(t)), []string{"old", "young"})
		testkit.Same(t, "one", ids(testkit.Must(db.DueRuns(ctx, "", after(11), 2, 1))(t)), []string{"old"})
		testkit.Same(t, "when it is tried again", ids(testkit.Must(db.DueRuns(ctx, "", after(15), 2, 10))(t)),
			[]string{"old", "later", "young"})
		testkit.Same(t, "when the lease is over", ids(testkit.Must(db.DueRuns(ctx, "", after(20), 2, 10))(t)),
			[]string{"old", "leased", "later", "young"})
		_, err := lease(t, db, "waiting", "w", after(30), after(40))
		testkit.Kind(t, "a lease of a run that waits for people", err, landfall.Conflict)
		_, err = lease(t, db, "over", "w", after(30), after(40))
		testkit.Kind(t, "a lease of a run that is over", err, landfall.Conflict)
	})
	t.Run("an app has its share of the workers", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		shop, bakery := newApp(t, db, "shop"), newApp(t, db, "bakery")
		for i, id := range []string{"a", "b", "c"} {
			newRun(t, db, shop, id, sha1, after(i))
		}
		newRun(t, db, bakery, "d", sha1, after(4))
		for _, id := range []string{"a", "b"} {
			testkit.Must(lease(t, db, id, "w", after(5), after(20)))(t)
		}
		_, err := lease(t, db, "c", "w", after(5), after(20))
		testkit.Kind(t, "the app's third run", err, landfall.Conflict)
		testkit.Same(t, "due", ids(testkit.Must(db.DueRuns(ctx, "", after(6), 2, 10))(t)), []string{"d"})
		testkit.Must(lease(t, db, "d", "w", after(6), after(20)))(t)
		testkit.Same(t, "failures of the run that waits", testkit.Must(db.Failures(ctx, "c"))(t), 0)
		end(t, db, "a", after(7))
		testkit.Same(t, "due when one has ended", ids(testkit.Must(db.DueRuns(ctx, shop.ID, after(7), 2, 10))(t)),
			[]string{"c"})
		testkit.Same(t, "due of the other app", ids(testkit.Must(db.DueRuns(ctx, bakery.ID, after(7), 2, 10))(t)),
			[]string(nil))
		testkit.Must(lease(t, db, "c", "w", after(7), after(20)))(t)
	})
	t.Run("a worker's earlier life is over", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		for _, id := range []string{"mine", "other"} {
			newRun(t, db, app, id, sha1, noon)
			testkit.Must(lease(t, db, id, "worker of "+id, after(1), after(100)))(t)
		}
		update(t, db, func(tx *store.Tx) error { return tx.FreeLeases(ctx, "worker of mine") })
		testkit.Same(t, "due", ids(testkit.Must(db.DueRuns(ctx, "", after(2), 2, 10))(t)), []string{"mine"})
	})
	t.Run("an end that came from elsewhere fences the worker", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		newRun(t, db, newApp(t, db, "shop"), "r1", sha1, noon)
		run := testkit.Must(lease(t, db, "r1", "w1", after(1), after(10)))(t)
		end(t, db, "r1", after(2)) // superseded by a newer push
		for what, write := range map[string]func(tx *store.Tx) error{
			"Fence":     func(tx *store.Tx) error { return tx.Fence(ctx, "r1", run.Attempt) },
			"Renew":     func(tx *store.Tx) error { return tx.Renew(ctx, "r1", run.Attempt, after(30)) },
			"GiveBack":  func(tx *store.Tx) error { return tx.GiveBack(ctx, "r1", run.Attempt, after(30), true, "") },
			"FinishRun": func(tx *store.Tx) error { return tx.FinishRun(ctx, run) },
		} {
			testkit.Kind(t, what, db.Update(ctx, write), landfall.Conflict)
		}
		testkit.Same(t, "the run's state", testkit.Must(db.Run(ctx, "r1"))(t).State, landfall.RunSuperseded)
	})
	t.Run("of many workers one gets the run", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		newRun(t, db, newApp(t, db, "shop"), "r1", sha1, noon)
		const workers = 8
		won := make(chan int64, workers)
		var group errgroup.Group
		for range workers {
			group.Go(func() error {
				run, err := lease(t, db, "r1", "w", after(1), after(10))
				if err == nil {
					won <- run.Attempt
					return nil
				}
				if landfall.KindOf(err) != landfall.Conflict {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(won) != 1 || <-won != 1 {
			t.Errorf("got %d workers with a lease, want one, under attempt 1", len(won)+1)
		}
	})
}

// ids returns what runs are called.
func ids(runs []store.DueRun) (all []string) {
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return all
}
