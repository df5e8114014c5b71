package deploy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// plan sets a plan of the namespace.
func (s *shop) plan(t *testing.T, p landfall.Plan) {
	t.Helper()
	s.update(t, func(tx *store.Tx) error { return tx.SetPlan(t.Context(), "default", p) })
}

// function makes a group version whose one function has a spec.
func (s *shop) function(t *testing.T, uid landfall.UID, spec string) landfall.Group {
	t.Helper()
	s.now = s.now.Add(time.Second)
	g := landfall.Group{UID: uid, App: s.app.ID, Digest: landfall.DigestOf([]byte(spec)), Branch: "main", Created: s.now}
	s.update(t, func(tx *store.Tx) error {
		id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"}
		row, err := tx.Unit(t.Context(), s.app, id)
		if landfall.Is(err, landfall.NotFound) {
			row, err = tx.CreateUnit(t.Context(), s.app, id)
		}
		if err != nil {
			return err
		}
		row.LastNumber++
		unit := store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: id, Number: row.LastNumber, UID: uid}}
		return errors.Join(tx.UpdateUnit(t.Context(), row), tx.CreateVersion(t.Context(), row.ID,
			landfall.Version{Number: row.LastNumber, UID: uid, Digest: g.Digest, Spec: []byte(spec), Created: s.now}),
			tx.CreateGroup(t.Context(), g, []store.GroupUnit{unit}))
	})
	return g
}

// goTo makes a group version accessible and live.
func (s *shop) goTo(t *testing.T, g landfall.Group) error {
	t.Helper()
	return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
		if _, err := deploy.Create(ctx, tx, g, landfall.Production, s.now); err != nil {
			return err
		}
		return deploy.MoveLive(ctx, tx, app, g.UID, s.by("pushed"))
	})
}

const (
	small = `{"environment":{"name":"python"}}`
	large = `{"environment":{"name":"python"},"concurrency":20,"resources":{"limits":{"memory":"512Mi","cpu":"3"}}}`
)

// What functions ask for is compared with the plan of the namespace, when a release is made and when live moves.
func TestPlanOfFunctions(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	a, b := s.function(t, "smallone", small), s.function(t, "largeone", large)
	for _, g := range []landfall.Group{b, a} {
		if err := s.goTo(t, g); err != nil {
			t.Fatal(err)
		}
	}
	used := testkit.Must(deploy.Usage(t.Context(), s.db, "default"))(t)
	// D-013: what a user has in all is compared with what the apps use
	testkit.Same(t, "what is used", used,
		landfall.Usage{Apps: 1, Releases: 2, Memory: 128 << 20, MilliCPU: 1000, Executions: 16})
	rollback := func(uid landfall.UID) error {
		return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
			return deploy.Rollback(ctx, tx, app, uid, s.by("rolled back"))
		})
	}
	// D-016, D-017: the plan is no part of a version: going back to one that asks for more than the plan is refused
	for name, test := range map[string]struct {
		plan landfall.Plan
		says string
	}{
		"memory":     {landfall.Plan{Memory: new(int64(256 << 20))}, "memory 512MiB of 256MiB"},
		"cpu":        {landfall.Plan{MilliCPU: new(int64(2000))}, "cpu 3000m of 2000m"},
		"executions": {landfall.Plan{Executions: new(int64(16))}, "executions 20 of 16"},
	} {
		s.plan(t, test.plan)
		testkit.Kind(t, name, rollback("largeone"), landfall.Conflict,
			"release largeone of shop asks for more than the plan of the namespace default has", test.says)
		testkit.Same(t, "live", s.stored(t).Live, "smallone")
		testkit.Same(t, "the plan after that", testkit.Must(s.db.Plan(t.Context(), "default"))(t), test.plan)
	}
	bigger := s.function(t, "another1", large)
	testkit.Kind(t, "a new release", s.goTo(t, bigger), landfall.Conflict, "release another1")
	s.plan(t, landfall.Plan{Memory: new(int64(512 << 20)), MilliCPU: new(int64(3000)), Executions: new(int64(20))})
	// D-017: what the plan has can be used
	if err := rollback("largeone"); err != nil {
		t.Fatal(err)
	}
	s.plan(t, landfall.Plan{Memory: new(int64(1))})
	// lowering takes nothing away
	testkit.Same(t, "live after the plan was lowered", s.stored(t).Live, "largeone")
	testkit.Same(t, "accessible after that", s.accessible(t), "smallone largeone")
	if err := rollback("smallone"); err != nil {
		t.Fatal("what asks for less, and still for more than the plan has:", err)
	}
	testkit.Kind(t, "what asks for more again", rollback("largeone"), landfall.Conflict, "memory 512MiB of 1")
}

// Releases and bytes may grow to what the plan has. What was there before may stay, and be replaced.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	s.push(t, "a")
	s.plan(t, landfall.Plan{Releases: new(int64(2)), Bytes: new(int64(100))})
	grow := func(name string, bytes int64) error {
		g := s.group(t, name)
		return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
			budget, err := deploy.NewBudget(ctx, tx, *app)
			if err != nil {
				return err
			}
			if bytes > 0 {
				if _, err := tx.Reserve(ctx, "run", app.ID, []string{name + "/"}, s.now); err != nil {
					return err
				}
				if err := tx.SizePrefix(ctx, name+"/", bytes); err != nil {
					return err
				}
			}
			_, created := deploy.Create(ctx, tx, g, landfall.Production, s.now)
			moved := deploy.MoveLive(ctx, tx, app, g.UID, s.by("pushed"))
			_, expired := deploy.ExpireSurplus(ctx, tx, *app, s.now)
			return errors.Join(created, moved, expired, budget.Check(ctx))
		})
	}
	s.update(t, func(tx *store.Tx) error {
		return tx.CreateRun(t.Context(), landfall.Run{ID: "run", App: s.app.ID, State: landfall.RunRunning, Created: noon})
	})
	for _, name := range []string{"b", "c", "d"} { // each but the first lets one expire
		if err := grow(name, 30); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Kind(t, "more bytes", grow("e", 20), landfall.Conflict, "shop asks for more than the plan", "bytes 110 of 100")
	testkit.Same(t, "accessible", s.accessible(t), "c d")
	s.app.Policy.Keep = 10
	s.update(t, func(tx *store.Tx) error { return tx.UpdateApp(t.Context(), s.app) })
	testkit.Kind(t, "more releases", grow("f", 0), landfall.Conflict, "releases 3 of 2")
	s.plan(t, landfall.Plan{Releases: new(int64(1)), Bytes: new(int64(1))})
	s.app.Policy.Keep = 2
	s.update(t, func(tx *store.Tx) error { return tx.UpdateApp(t.Context(), s.app) })
	if err := grow("g", 0); err != nil { // one goes, one comes
		t.Errorf("what does not grow is refused: %v", err)
	}
	testkit.Same(t, "accessible when the plan was lowered", s.accessible(t), "d g")
}

// An app more than the plan has is not made.
func TestPlanOfApps(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	s.plan(t, landfall.Plan{Apps: new(int64(1))})
	err := s.db.Update(t.Context(), func(tx *store.Tx) error {
		second := landfall.App{ID: "second", Namespace: "default", Name: "second", Created: noon}
		if err := tx.CreateApp(t.Context(), second); err != nil {
			return err
		}
		return deploy.CheckNewApp(t.Context(), tx, second)
	})
	testkit.Kind(t, "a second app", err, landfall.Conflict, "the app second asks for more", "apps 2 of 1")
	_, err = s.db.AppByName(t.Context(), "second")
	testkit.Kind(t, "it", err, landfall.NotFound)
}
