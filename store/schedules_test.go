package store_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// switchTo makes a release live at a time.
func switchTo(t *testing.T, db *store.DB, app *landfall.App, release landfall.UID, at time.Time) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		err := tx.CreateMove(t.Context(), landfall.Move{App: app.ID, Pointer: landfall.LivePointer, From: app.Live,
			To: release, At: at})
		app.Live = release
		if err != nil {
			return err
		}
		return tx.UpdateApp(t.Context(), *app)
	})
}

// keep keeps the schedules of an app's release, and returns since when each counts.
func keep(t *testing.T, db *store.DB, app landfall.App, release landfall.UID,
	expressions map[string]string) (map[string]time.Time, error) {
	t.Helper()
	var since map[string]time.Time
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		kept, err := tx.KeepSchedules(t.Context(), app.ID, release, expressions)
		since = map[string]time.Time{}
		for name, s := range kept {
			since[name] = s.Since
		}
		return err
	})
	return since, err
}

// claim claims a firing. Its error is a Conflict also when there is one already.
func claim(t testing.TB, db *store.DB, f store.Firing) (store.Firing, error) {
	t.Helper()
	claimed := false
	err := db.Update(t.Context(), func(tx *store.Tx) (err error) {
		f, claimed, err = tx.ClaimFiring(t.Context(), f)
		return err
	})
	if err == nil && !claimed {
		err = &landfall.Error{Kind: landfall.Conflict}
	}
	return f, err
}

func testSchedules(t *testing.T, open opener) {
	t.Helper()
	const first, second, third landfall.UID = "aaaaaaa2", "bbbbbbb2", "ccccccc2"
	t.Run("a schedule counts from the switch, and the same one goes on", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		app := newApp(t, db, "shop")
		switchTo(t, db, &app, first, after(0))
		since := testkit.Must(keep(t, db, app, first,
			map[string]string{"same": "@daily", "other": "@hourly", "gone": "@daily"}))(t)
		testkit.Same(t, "at first", since, map[string]time.Time{"same": after(0), "other": after(0), "gone": after(0)})
		switchTo(t, db, &app, second, after(10))
		_, err := keep(t, db, app, first, nil)
		testkit.Kind(t, "a release that is not live", err, landfall.Conflict)
		expressions := map[string]string{"same": "@daily", "other": "@daily", "new": "@daily"}
		want := map[string]time.Time{"same": after(0), "other": after(10), "new": after(10)}
		// The scheduler stores its own schedules.
		testkit.Same(t, "after a switch", testkit.Must(keep(t, db, app, second, expressions))(t), want)
		testkit.Same(t, "once more", testkit.Must(keep(t, db, app, second, expressions))(t), want)
		switchTo(t, db, &app, first, after(20)) // back
		switchTo(t, db, &app, third, after(30))
		since = testkit.Must(keep(t, db, app, third, map[string]string{"same": "@daily"}))(t)
		testkit.Same(t, "after a release that nobody kept the schedules of", since, map[string]time.Time{"same": after(30)})
		switchTo(t, db, &app, second, after(40)) // which has no schedule
		switchTo(t, db, &app, third, after(50))
		since = testkit.Must(keep(t, db, app, third, map[string]string{"same": "@daily"}))(t)
		testkit.Same(t, "after a release without it", since, map[string]time.Time{"same": after(50)})
	})
	t.Run("a time is fired once", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		app := newApp(t, db, "shop")
		switchTo(t, db, &app, first, after(0))
		var group errgroup.Group
		claims := make(chan store.Firing, 10)
		for i := range cap(claims) {
			group.Go(func() error {
				f, err := claim(t, db, store.Firing{App: app.ID, Trigger: "t", Due: after(1), Release: first,
					Process: fmt.Sprint(i), Fired: after(2)})
				if err == nil {
					claims <- f
				} else if landfall.KindOf(err) != landfall.Conflict {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		close(claims)
		testkit.Same(t, "the claims", len(claims), 1)
		testkit.Same(t, "the firings", testkit.Must(db.OpenFirings(t.Context()))(t), []store.Firing{<-claims})
		_, err := claim(t, db, store.Firing{App: app.ID, Trigger: "t", Due: after(9), Release: second, Process: "p",
			Fired: after(9)})
		testkit.Kind(t, "a release that is not live", err, landfall.Conflict)
	})
	t.Run("one runs at a time", testFiringStates(open))
	t.Run("a firing outlives its process", testTakenFiring(open))
	t.Run("old firings are forgotten", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		switchTo(t, db, &app, first, after(0))
		testkit.Must(keep(t, db, app, first, map[string]string{"kept": "@daily"}))(t)
		for _, name := range []string{"kept", "gone"} {
			for i := range 4 {
				f := testkit.Must(claim(t, db, store.Firing{App: app.ID, Trigger: name, Due: after(i), Release: first, Process: "p",
					Fired: after(i)}))(t)
				if i == 1 {
					continue // is not over
				}
				f.State, f.Finished = store.FiringSucceeded, after(i)
				if i == 0 { // those behind the one that is not over are skipped
					update(t, db, func(tx *store.Tx) error { return tx.MoveFiring(ctx, f) })
				}
			}
		}
		update(t, db, func(tx *store.Tx) error { return tx.ForgetFirings(ctx, after(100)) })
		last := testkit.Must(db.LastFirings(ctx, app.ID))(t)
		testkit.Same(t, "the last one of a schedule", last["kept"].Due, after(3))
		testkit.Same(t, "the last one of what is no schedule any more", last["gone"].Due, after(1))
		testkit.Same(t, "those that are not over", len(testkit.Must(db.OpenFirings(ctx))(t)), 2)
	})
}

func testFiringStates(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		switchTo(t, db, &app, "aaaaaaa2", after(0))
		at := func(seconds int) store.Firing {
			return store.Firing{App: app.ID, Trigger: "t", Due: after(seconds), Release: "aaaaaaa2", Process: "p",
				Fired: after(seconds)}
		}
		move := func(f store.Firing, to store.FiringState, finished time.Time) error {
			f.State, f.Finished = to, finished
			return db.Update(ctx, func(tx *store.Tx) error { return tx.MoveFiring(ctx, f) })
		}
		one := testkit.Must(claim(t, db, at(1)))(t)
		testkit.Same(t, "the first", one.State, store.FiringRunning)
		two := testkit.Must(claim(t, db, at(2)))(t)
		testkit.Same(t, "one while it runs", two.State, store.FiringSkipped)
		if err := move(one, store.FiringWaiting, time.Time{}); err != nil {
			t.Fatal(err)
		}
		three := testkit.Must(claim(t, db, at(3)))(t)
		testkit.Same(t, "one while it waits", three.State, store.FiringRunning)
		testkit.Kind(t, "the one that waited", move(one, store.FiringRunning, time.Time{}), landfall.Conflict)
		if err := move(three, store.FiringSucceeded, after(4)); err != nil {
			t.Fatal(err)
		}
		testkit.Kind(t, "one that is over", move(three, store.FiringFailed, after(5)), landfall.Conflict)
		four := testkit.Must(claim(t, db, at(4)))(t)
		testkit.Same(t, "one after that", four.State, store.FiringRunning)
		testkit.Same(t, "what is open", testkit.Must(db.OpenFirings(ctx))(t), []store.Firing{four})
		testkit.Same(t, "the last one", testkit.Must(db.LastFirings(ctx, app.ID))(t), map[string]store.Firing{"t": four})
	}
}

func testTakenFiring(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		switchTo(t, db, &app, "aaaaaaa2", after(0))
		f := testkit.Must(claim(t, db, store.Firing{App: app.ID, Trigger: "t", Due: after(1), Release: "aaaaaaa2",
			Process: "p", Fired: after(1)}))(t)
		update(t, db, func(tx *store.Tx) error { return tx.RenewFirings(ctx, "p") })
		take := func(f store.Firing) (taken store.Firing, err error) {
			err = db.Update(ctx, func(tx *store.Tx) error {
				taken, err = tx.TakeFiring(ctx, f, "q")
				return err
			})
			return taken, err
		}
		testkit.Kind(t, "one that lives", second(take(f)), landfall.Conflict)
		f.Heartbeat++
		taken := testkit.Must(take(f))(t)
		testkit.Same(t, "who has it", testkit.Must(db.OpenFirings(ctx))(t), []store.Firing{taken})
		testkit.Same(t, "which time it is run", taken.Attempt, 2)
		testkit.Kind(t, "one that was taken", second(take(f)), landfall.Conflict)
		f.State, f.Finished = store.FiringSucceeded, after(3)
		testkit.Kind(t, "its end by whom it was taken from", db.Update(ctx, func(tx *store.Tx) error {
			return tx.MoveFiring(ctx, f)
		}), landfall.Conflict)
	}
}
