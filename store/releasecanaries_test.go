package store_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testReleaseCanaries(t *testing.T, open opener) {
	t.Helper()
	ctx, db := t.Context(), open(t)
	app := newApp(t, db, "shop")
	other := newApp(t, db, "zoo")
	first := landfall.ReleaseCanary{ID: "one", App: app.ID, Release: "b", Weight: 10, Step: 20, Interval: 5 * time.Minute,
		Threshold: 1, Key: "key", Actor: "ada", Started: noon, Next: noon.Add(5 * time.Minute),
		State: landfall.ReleaseCanaryRunning, Reason: "started"}
	second := first
	second.ID = "two"
	put := func(c landfall.ReleaseCanary) error {
		return db.Update(ctx, func(tx *store.Tx) error { return tx.PutReleaseCanary(ctx, c) })
	}
	_, err := db.LastReleaseCanary(ctx, app.ID)
	testkit.Kind(t, "before the first one", err, landfall.NotFound)
	testkit.Must(0, put(first))(t)
	testkit.Same(t, "what runs", testkit.Must(db.RunningReleaseCanary(ctx, app.ID))(t), first)
	_, err = db.RunningReleaseCanary(ctx, other.ID)
	testkit.Kind(t, "of another app", err, landfall.NotFound)
	if err := put(second); err == nil {
		t.Error("two canaries of an app run, want one")
	}

	update(t, db, func(tx *store.Tx) error {
		for _, c := range []struct {
			canary, process string
			newer           bool
			figures         landfall.CanaryFigures
		}{
			{"one", "x", true, landfall.CanaryFigures{Requests: 5, Failures: 1}},
			{"one", "x", true, landfall.CanaryFigures{Requests: 5}},
			{"one", "y", true, landfall.CanaryFigures{Requests: 1, Failures: 1}},
			{"one", "y", false, landfall.CanaryFigures{Requests: 90}},
			{"gone", "y", false, landfall.CanaryFigures{Requests: 90}},
		} {
			if err := tx.AddReleaseCanaryCounts(ctx, c.canary, c.process, c.newer, c.figures); err != nil {
				return err
			}
		}
		return nil
	})
	newer, live, err := db.ReleaseCanaryFigures(ctx, "one")
	testkit.Must(0, err)(t)
	testkit.Same(t, "what two processes counted", newer, landfall.CanaryFigures{Requests: 11, Failures: 2})
	testkit.Same(t, "of live", live, landfall.CanaryFigures{Requests: 90})

	steps := []landfall.ReleaseCanaryStep{
		{At: noon.Add(time.Minute), Weight: 0, State: landfall.ReleaseCanaryReturned, Reason: "it fails", Canary: newer, Live: live},
		{At: noon, Weight: 10, State: landfall.ReleaseCanaryRunning, Reason: "started", Actor: "ada"},
	}
	update(t, db, func(tx *store.Tx) error {
		if err := tx.CreateReleaseCanaryStep(ctx, "one", steps[1]); err != nil {
			return err
		}
		return tx.CreateReleaseCanaryStep(ctx, "one", steps[0])
	})
	testkit.Same(t, "what happened", testkit.Must(db.ReleaseCanarySteps(ctx, "one"))(t), steps)

	first.Weight, first.State, first.Reason = 0, landfall.ReleaseCanaryReturned, "it fails"
	first.Next, first.Ended = time.Time{}, noon.Add(time.Minute)
	testkit.Must(0, put(first))(t)
	testkit.Same(t, "what was last", testkit.Must(db.LastReleaseCanary(ctx, app.ID))(t), first)
	testkit.Same(t, "how many run", len(testkit.Must(db.RunningReleaseCanaries(ctx))(t)), 0)
	update(t, db, func(tx *store.Tx) error {
		return tx.PutRelease(ctx, landfall.Release{ID: "b", App: app.ID, Created: noon})
	})
	testkit.Same(t, "until when visitors got it", testkit.Must(db.ReleaseCanaryUntil(ctx, app.ID))(t),
		map[landfall.UID]time.Time{"b": first.Ended})
	second.Started = noon.Add(time.Hour)
	testkit.Must(0, put(second))(t)
	testkit.Same(t, "what was last then", testkit.Must(db.LastReleaseCanary(ctx, app.ID))(t), second)
}
