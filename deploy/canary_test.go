package deploy_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// start starts a canary of a release: 10 percent, 20 more every 5 minutes, and at most 1 percent worse than live.
func (s *shop) start(t *testing.T, release landfall.UID) {
	t.Helper()
	if err := s.tryCanary(t, plan(release)); err != nil {
		t.Fatal(err)
	}
}

func plan(release landfall.UID) landfall.ReleaseCanary {
	return landfall.ReleaseCanary{Release: release, Weight: 10, Step: 20, Interval: 5 * time.Minute, Threshold: 1}
}

func (s *shop) tryCanary(t *testing.T, c landfall.ReleaseCanary) error {
	t.Helper()
	return s.db.Update(t.Context(), func(tx *store.Tx) error {
		return deploy.StartCanary(t.Context(), tx, s.stored(t), c, s.by("started"))
	})
}

// answer counts requests at one of two gateways: of the canary and of live, and how many of them failed.
func (s *shop) answer(t *testing.T, gateway string, canary, failed, live, liveFailed int64) {
	t.Helper()
	c := testkit.Must(s.db.LastReleaseCanary(t.Context(), s.app.ID))(t)
	s.update(t, func(tx *store.Tx) error {
		err := tx.AddReleaseCanaryCounts(t.Context(), c.ID, gateway, true,
			landfall.CanaryFigures{Requests: canary, Failures: failed})
		if err != nil {
			return err
		}
		return tx.AddReleaseCanaryCounts(t.Context(), c.ID, gateway, false,
			landfall.CanaryFigures{Requests: live, Failures: liveFailed})
	})
}

// after lets time pass, has the canary driven, and returns it. A new transaction reads all anew, as after a restart.
func (s *shop) after(t *testing.T, d time.Duration) landfall.ReleaseCanary {
	t.Helper()
	s.now = s.now.Add(d)
	s.update(t, func(tx *store.Tx) error {
		_, err := deploy.DriveCanary(t.Context(), tx, s.app.ID, s.now)
		return err
	})
	s.app = testkit.Must(s.db.App(t.Context(), s.app.ID))(t)
	return testkit.Must(s.db.LastReleaseCanary(t.Context(), s.app.ID))(t)
}

// two makes a shop in which a is live, and b can be.
func two(t *testing.T) *shop {
	t.Helper()
	s := newShop(t, 2)
	s.push(t, "b", "a")
	return s
}

// A canary grows by a step each time its interval is over, and becomes live at the end, as by a promotion.
func TestCanaryBecomesLive(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.start(t, "b")
	testkit.Same(t, "before the interval is over", s.after(t, 5*time.Minute-time.Second).Weight, 10)
	s.answer(t, "one", 99, 0, 900, 9)
	testkit.Same(t, "with too few requests", s.after(t, time.Minute).Weight, 10)
	s.answer(t, "two", 1, 1, 90, 0)
	want := []int{30, 50, 70, 90, 100}
	for _, weight := range want {
		testkit.Same(t, "after an interval", s.after(t, 5*time.Minute).Weight, weight)
	}
	c := s.after(t, time.Hour)
	testkit.Same(t, "the state", c.State, landfall.ReleaseCanaryLive)
	testkit.Same(t, "live", s.stored(t).Live, "b")
	move := testkit.Must(s.db.Moves(t.Context(), "app", landfall.LivePointer, 1))(t)[0]
	testkit.Same(t, "why live moved", move.Actor+": "+move.Reason, "ada: canary")
	steps := testkit.Must(s.db.ReleaseCanarySteps(t.Context(), c.ID))(t)
	testkit.Same(t, "the steps", len(steps), 1+len(want))
	testkit.Same(t, "the figures that decided", steps[0].Canary, landfall.CanaryFigures{Requests: 100, Failures: 1})
	testkit.Same(t, "those of live", steps[0].Live, landfall.CanaryFigures{Requests: 990, Failures: 9})
}

// A canary returns as soon as it fails too often, and not because live does.
func TestCanaryReturns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		newer, failed, live, liveFailed int64
		want                            landfall.ReleaseCanaryState
	}{
		"more than a percent worse":     {1000, 31, 1000, 20, landfall.ReleaseCanaryReturned},
		"a percent worse":               {1000, 30, 1000, 20, landfall.ReleaseCanaryRunning},
		"as bad as live":                {100, 100, 900, 900, landfall.ReleaseCanaryRunning},
		"few requests say nothing":      {99, 99, 1000, 0, landfall.ReleaseCanaryRunning},
		"as many as are needed":         {100, 2, 1000, 0, landfall.ReleaseCanaryReturned},
		"nobody asks for live":          {100, 2, 0, 0, landfall.ReleaseCanaryReturned},
		"better than live, which fails": {100, 0, 100, 50, landfall.ReleaseCanaryRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := two(t)
			s.start(t, "b")
			s.answer(t, "one", c.newer, c.failed, c.live, c.liveFailed)
			got := s.after(t, time.Second)
			testkit.Same(t, "the state", got.State, c.want)
			testkit.Same(t, "live", s.stored(t).Live, "a")
			if c.want == landfall.ReleaseCanaryReturned {
				testkit.Same(t, "the weight", got.Weight, 0)
				testkit.Same(t, "the end", got.Ended, s.now)
				testkit.Same(t, "it stays so", s.after(t, time.Hour), got)
			}
		})
	}
}

// A push, a rollback and a promotion end a canary, with what they are in its history; so does a deletion of the app.
func TestCanaryEnds(t *testing.T) {
	t.Parallel()
	for reason, end := range map[string]func(t *testing.T, s *shop, tx *store.Tx) error{
		"promoted": func(t *testing.T, s *shop, tx *store.Tx) error {
			return deploy.Promote(t.Context(), tx, &s.app, "b", s.by("promoted"))
		},
		"live stays": func(t *testing.T, s *shop, tx *store.Tx) error {
			return deploy.Promote(t.Context(), tx, &s.app, "a", s.by("live stays"))
		},
		"rolled back": func(t *testing.T, s *shop, tx *store.Tx) error {
			return deploy.Rollback(t.Context(), tx, &s.app, "", s.by("rolled back"))
		},
		"push of 1111111": func(t *testing.T, s *shop, tx *store.Tx) error {
			push := landfall.Push{Ref: "refs/heads/main", After: "1111111111111111111111111111111111111111", Actor: "ada"}
			update := deploy.RefUpdate{Tx: tx, App: &s.app, Group: landfall.Group{UID: "b", App: "app",
				Policy: &landfall.ReleasePolicy{Live: landfall.LiveManual}}, Release: true,
				ReleaseURL: func(string, landfall.UID) string { return "" }, Now: func() time.Time { return s.now }}
			return update.Point(t.Context(), push)
		},
		"deleted": func(t *testing.T, s *shop, tx *store.Tx) error {
			_, err := deploy.Unpublish(t.Context(), tx, &s.app, s.by("deleted"))
			return err
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := two(t)
			s.start(t, "b")
			s.answer(t, "one", 7, 1, 70, 2)
			s.update(t, func(tx *store.Tx) error { return end(t, s, tx) })
			c := testkit.Must(s.db.LastReleaseCanary(t.Context(), "app"))(t)
			testkit.Same(t, "the state", c.State, landfall.ReleaseCanaryEnded)
			testkit.Same(t, "the reason", c.Reason, reason)
			step := testkit.Must(s.db.ReleaseCanarySteps(t.Context(), c.ID))(t)[0]
			testkit.Same(t, "who", step.Actor, "ada")
			testkit.Same(t, "the figures", step.Canary, landfall.CanaryFigures{Requests: 7, Failures: 1})
			testkit.Same(t, "it does not go on", s.after(t, time.Hour), c)
		})
	}
}

// While live is held a canary does not grow, and still returns.
func TestCanaryOfHeldApp(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.start(t, "b")
	hold := func(held bool) {
		s.update(t, func(tx *store.Tx) error { return deploy.Hold(t.Context(), tx, &s.app, held) })
	}
	hold(true)
	s.answer(t, "one", 100, 0, 100, 0)
	testkit.Same(t, "the weight while live is held", s.after(t, time.Hour).Weight, 10)
	hold(false)
	testkit.Same(t, "the weight after that", s.after(t, time.Second).Weight, 30)
	hold(true)
	s.answer(t, "one", 0, 100, 0, 0)
	testkit.Same(t, "the state when it fails", s.after(t, time.Second).State, landfall.ReleaseCanaryReturned)
}

// A canary that cannot be is refused with what to do, and changes nothing.
func TestCanaryRefused(t *testing.T) {
	t.Parallel()
	s := two(t)
	for _, c := range []struct {
		change func(c *landfall.ReleaseCanary)
		kind   landfall.Kind
		words  string
	}{
		{func(c *landfall.ReleaseCanary) { c.Weight = 0 }, landfall.Invalid, "the weight is 0"},
		{func(c *landfall.ReleaseCanary) { c.Weight = 100 }, landfall.Invalid, "between 1 and 99"},
		{func(c *landfall.ReleaseCanary) { c.Step = 0 }, landfall.Invalid, "the step is 0"},
		{func(c *landfall.ReleaseCanary) { c.Threshold = 101 }, landfall.Invalid, "the threshold is 101"},
		{func(c *landfall.ReleaseCanary) { c.Interval = time.Millisecond }, landfall.Invalid, "the interval is 1ms"},
		{func(c *landfall.ReleaseCanary) { c.Release = "a" }, landfall.Conflict, "is live"},
		{func(c *landfall.ReleaseCanary) { c.Release = "c" }, landfall.NotFound, "c"},
	} {
		asked := plan("b")
		c.change(&asked)
		testkit.Kind(t, c.words, s.tryCanary(t, asked), c.kind, c.words)
	}
	s.update(t, func(tx *store.Tx) error { return deploy.Hold(t.Context(), tx, &s.app, true) })
	testkit.Kind(t, "while live is held", s.tryCanary(t, plan("b")), landfall.Conflict, "landfall release resume shop")
	s.update(t, func(tx *store.Tx) error { return deploy.Hold(t.Context(), tx, &s.app, false) })
	if running := testkit.Must(s.db.RunningReleaseCanaries(t.Context()))(t); len(running) != 0 {
		t.Errorf("got %v, want that none runs", running)
	}

	s.start(t, "b")
	testkit.Kind(t, "a second one", s.tryCanary(t, plan("b")), landfall.Conflict, "landfall release canary shop --stop")
	// A canary holds its release: it is not expired by hand, or by newer ones
	testkit.Kind(t, "expiry by hand", s.expire(t, "b"), landfall.Conflict, "a canary holds release b")
	s.now = s.now.Add(day)
	s.update(t, func(tx *store.Tx) error {
		for _, name := range []string{"c", "d", "e"} {
			g := landfall.Group{UID: landfall.UID(name), App: "app", Digest: landfall.DigestOf([]byte(name)), Created: s.now}
			if err := tx.CreateGroup(t.Context(), g, nil); err != nil {
				return err
			}
			if _, err := deploy.Create(t.Context(), tx, g, landfall.Production, s.now); err != nil {
				return err
			}
		}
		_, err := deploy.ExpireSurplus(t.Context(), tx, s.app, s.now)
		return err
	})
	testkit.Same(t, "the release of the canary is accessible", s.release(t, "b").Expired.IsZero(), true)
}
