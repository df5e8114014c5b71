package canary_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/versioning"
)

// shop is an app with a function hello of two versions, an alias of it, and a route to both by weights.
type shop struct {
	t   *testing.T
	db  *store.DB
	app landfall.App
	now time.Time
	row store.Unit
}

func newShop(t *testing.T, db *store.DB) *shop {
	t.Helper()
	s := &shop{t: t, db: db, now: time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC), app: landfall.App{ID: "app",
		Namespace: "default", Name: "shop", Branch: "main", UIDSpace: uuid.New(), Objects: "apps/app/"}}
	s.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, "default", 0); err != nil {
			return err
		}
		return tx.CreateApp(ctx, s.app)
	})
	s.release("aaaaaaa2", "one", "")
	s.release("aaaaaaa3", "two", `{"hello:1":100,"hello:2":0}`)
	s.update(func(ctx context.Context, tx *store.Tx) (err error) {
		s.row, err = tx.UnitInNamespace(ctx, "default", landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"})
		if err != nil {
			return err
		}
		_, err = versioning.SetAlias(ctx, tx, s.row, versioning.NewAlias{Name: "prod", Create: true, Actor: "ada", At: s.now,
			To: []versioning.Weight{{Selector: "1", Percent: 100}}})
		return err
	})
	return s
}

func (s *shop) update(f func(ctx context.Context, tx *store.Tx) error) {
	s.t.Helper()
	if err := s.db.Update(s.t.Context(), func(tx *store.Tx) error { return f(s.t.Context(), tx) }); err != nil {
		s.t.Fatal(err)
	}
}

// release makes a release with a function of that text, and a route to its versions by weights, if there are any.
func (s *shop) release(uid landfall.UID, text, weights string) {
	s.t.Helper()
	declared := []versioning.Declared{{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"},
		Spec: json.RawMessage(fmt.Sprintf(`{"functionName":%q}`, text))}}
	if weights != "" {
		declared = append(declared, versioning.Declared{Unit: landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "route"},
			Spec: json.RawMessage(`{"functionref":{"functionweights":` + weights +
				`,"type":"function-weights"},"method":"GET","relativeurl":"/"}`)})
	}
	units, err := versioning.Resolve(declared)
	if err != nil {
		s.t.Fatal(err)
	}
	s.update(func(ctx context.Context, tx *store.Tx) error {
		a := versioning.Apply{App: s.app, UID: uid, Production: true, Units: units, At: s.now}
		inForce, err := a.Versions(ctx, tx)
		if err != nil {
			return err
		}
		g := landfall.Group{UID: uid, App: s.app.ID, Digest: landfall.DigestOf([]byte(uid)), Created: s.now}
		if err := tx.CreateGroup(ctx, g, inForce); err != nil {
			return err
		}
		if err := tx.CreateApply(ctx, landfall.Apply{App: s.app.ID, Group: uid, Line: landfall.Production,
			Created: s.now}); err != nil {
			return err
		}
		if _, err := deploy.Create(ctx, tx, g, landfall.Production, s.now); err != nil {
			return err
		}
		return deploy.MoveLive(ctx, tx, &s.app, uid, deploy.Mover{Actor: "ada", At: s.now})
	})
}

// rule is one that people choose.
func rule() landfall.CanaryRule {
	return landfall.CanaryRule{Step: 40, Interval: time.Minute, Threshold: 10, MinRequests: 1}
}

func (s *shop) create(n canary.New) (c landfall.Canary, err error) {
	s.t.Helper()
	n.Name, n.CanaryRule, n.Actor, n.At = "c", rule(), "ada", s.now
	err = s.db.Update(s.t.Context(), func(tx *store.Tx) error {
		c, err = canary.Create(s.t.Context(), tx, s.app, n)
		return err
	})
	return c, err
}

// both are the two kinds of canaries.
func both() map[string]canary.New {
	return map[string]canary.New{
		"alias":   {Function: "hello", Alias: "prod", Version: "2"},
		"trigger": {Trigger: "route", Newer: "hello:2", Older: "hello:1"},
	}
}

// turn lets time pass, and a new controller decide, as that of a server that was started again.
func (s *shop) turn(after time.Duration) landfall.Canary {
	s.t.Helper()
	s.now = s.now.Add(after)
	c := canary.Controller{DB: s.db, Now: func() time.Time { return s.now }}
	if err := c.Turn(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return s.canary()
}

func (s *shop) canary() landfall.Canary {
	s.t.Helper()
	c, err := s.db.Canary(s.t.Context(), s.app.ID, "c")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shop) count(c landfall.Canary, newer bool, requests, failures int64) {
	s.t.Helper()
	s.update(func(ctx context.Context, tx *store.Tx) error {
		return tx.CountCanary(ctx, c.ID, newer, requests, failures)
	})
}

// weight returns what percent of the calls the new version gets really.
func (s *shop) weight(c landfall.Canary) int {
	s.t.Helper()
	if c.Trigger != "" {
		moved, err := s.db.TriggerWeights(s.t.Context(), s.app.ID)
		if err != nil || len(moved) != 1 || moved[0].Newer != "hello:2" {
			s.t.Fatalf("the weights that moved are %+v, %v", moved, err)
		}
		return moved[0].Percent
	}
	a, err := s.db.Alias(s.t.Context(), s.row.ID, "prod")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, share := range a.Shares {
		if share.Number == 2 {
			return share.Percent
		}
	}
	return 0
}

// Step by step, the new version gets all calls, while few of them fail; each step is in the history with the
// figures that decided, and changes what gateways show.
func TestSucceeds(t *testing.T) {
	t.Parallel()
	for name, n := range both() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, storetest.Open(t, storetest.SQLite(t)))
			before, _ := s.db.Changes(t.Context())
			c, err := s.create(n)
			if err != nil || c.State != landfall.CanaryRunning || s.weight(c) != 40 {
				t.Fatalf("it begins as %+v with %d percent, %v", c, s.weight(c), err)
			}
			if c = s.turn(30 * time.Second); c.Weight != 40 {
				t.Errorf("it moved before the interval was over, to %d percent", c.Weight)
			}
			if c = s.turn(time.Minute); c.Weight != 40 || c.State != landfall.CanaryRunning {
				t.Errorf("without a request it moved to %d percent, %s", c.Weight, c.State)
			}
			s.count(c, true, 20, 2)
			s.count(c, false, 10, 9)
			if c = s.turn(time.Minute); s.weight(c) != 80 || c.Weight != 80 {
				t.Errorf("it moved to %d percent, and says %d", s.weight(c), c.Weight)
			}
			s.count(c, true, 10, 0)
			s.count(c, true, 10, 1)
			if c = s.turn(time.Hour); s.weight(c) != 100 || c.State != landfall.CanarySucceeded || c.Finished.IsZero() {
				t.Errorf("it ended with %d percent as %+v", s.weight(c), c)
			}
			// with the figures that decided each step
			want := "start 40 0/0 0/0, hold 40 0/0 0/0, advance 80 9/10 2/20, done 100 0/0 1/20"
			if got := s.history(c); got != want {
				t.Errorf("the history is %s, want %s", got, want)
			}
			if after, _ := s.db.Changes(t.Context()); after != before+3 {
				t.Errorf("gateways saw %d changes, want 3", after-before)
			}
			if name == "alias" {
				moves, err := s.db.AliasMoves(t.Context(), s.row.ID, "prod", 0, 10)
				if err != nil || len(moves) != 4 || moves[0].Actor != "canary c" ||
					moves[0].Reason != "1 of 20 failed (5.0%); the threshold is 10%" {
					t.Errorf("the alias moved as %+v, %v", moves, err)
				}
			}
			s.turn(time.Hour)
			if s.canary().Finished != c.Finished {
				t.Error("it went on after its end")
			}
		})
	}
}

func (s *shop) history(c landfall.Canary) string {
	s.t.Helper()
	steps, err := s.db.CanarySteps(s.t.Context(), c.ID, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for _, step := range steps {
		lines = append([]string{fmt.Sprintf("%s %d %d/%d %d/%d", step.Verdict, step.Weight, step.Older.Failures,
			step.Older.Requests, step.Newer.Failures, step.Newer.Requests)}, lines...)
	}
	return strings.Join(lines, ", ")
}

// When too many calls of the new version fail, the old one gets all again, by itself.
func TestReturns(t *testing.T) {
	t.Parallel()
	for name, n := range both() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, storetest.Open(t, storetest.SQLite(t)))
			c, err := s.create(n)
			if err != nil {
				t.Fatal(err)
			}
			s.count(c, true, 100, 11)
			c = s.turn(time.Minute)
			if s.weight(c) != 0 || c.State != landfall.CanaryReturned || c.Reason != "11 of 100 failed (11.0%); the threshold is 10%" {
				t.Errorf("it ended with %d percent as %+v", s.weight(c), c)
			}
			if f := c.Newer.Figures(); f.Requests != 100 || f.Failures != 11 {
				t.Errorf("the figures that decided are %+v", f)
			}
		})
	}
}

// Who moves by hand what a canary moves, or pushes another version of the trigger, ends it.
func TestStops(t *testing.T) {
	t.Parallel()
	for name, n := range both() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, storetest.Open(t, storetest.SQLite(t)))
			if _, err := s.create(n); err != nil {
				t.Fatal(err)
			}
			if name == "trigger" {
				s.release("aaaaaaa4", "two", `{"hello:1":90,"hello:2":10}`)
			} else {
				s.update(func(ctx context.Context, tx *store.Tx) error {
					_, err := versioning.SetAlias(ctx, tx, s.row, versioning.NewAlias{Name: "prod", Actor: "bob", At: s.now,
						To: []versioning.Weight{{Selector: "2", Percent: 100}}})
					return err
				})
			}
			c := s.turn(time.Second)
			if c.State != landfall.CanaryStopped || c.Reason == "" || s.weight(c) == 0 {
				t.Errorf("it is %s with %d percent: %s", c.State, s.weight(c), c.Reason)
			}
		})
	}
}

// What cannot be moved is refused, and changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Open(t, storetest.SQLite(t)))
	for name, c := range map[string]struct {
		n    canary.New
		kind landfall.Kind
		says string
	}{
		"neither":            {canary.New{}, landfall.Invalid, "of an alias of a function, or of an HTTP trigger"},
		"both":               {canary.New{Alias: "prod", Trigger: "route"}, landfall.Invalid, "or of an HTTP trigger"},
		"no function":        {canary.New{Function: "no", Alias: "prod", Version: "2"}, landfall.NotFound, `shop has no function "no"`},
		"no alias":           {canary.New{Function: "hello", Alias: "no", Version: "2"}, landfall.NotFound, `no alias "no"`},
		"no version":         {canary.New{Function: "hello", Alias: "prod", Version: "9"}, landfall.NotFound, `no version "9"`},
		"the same version":   {canary.New{Function: "hello", Alias: "prod", Version: "1"}, landfall.Conflict, "already"},
		"no trigger":         {canary.New{Trigger: "no", Newer: "hello:2", Older: "hello:1"}, landfall.NotFound, `no HTTP trigger "no"`},
		"none of the two":    {canary.New{Trigger: "route", Newer: "hello:3", Older: "hello:1"}, landfall.NotFound, "but to hello:1 and hello:2"},
		"the same functions": {canary.New{Trigger: "route", Newer: "hello:2", Older: "hello:2"}, landfall.Invalid, "are the same"},
		"nothing to move":    {canary.New{Trigger: "route", Newer: "hello:1", Older: "hello:2"}, landfall.Conflict, "all calls already"},
	} {
		_, err := s.create(c.n)
		if landfall.KindOf(err) != c.kind || !strings.Contains(landfall.MessageOf(err), c.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.kind, c.says)
		}
	}
	if _, err := s.create(both()["alias"]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(both()["trigger"]); landfall.KindOf(err) != landfall.Conflict {
		t.Errorf("a second canary of the name: %v", err)
	}
	for _, wrong := range []landfall.CanaryRule{{}, {Step: 101}, {Step: 1}, {Step: 1, Interval: time.Minute, Threshold: 101},
		{Step: 1, Interval: time.Minute}} {
		if err := landfall.CheckCanaryRule(wrong); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("the rule %+v: %v", wrong, err)
		}
	}
}

// What the specs declare begins once. It begins anew when it was changed, and goes when the specs drop it; what cannot
// begin is said, and holds nothing up.
func TestDeclare(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Open(t, storetest.SQLite(t)))
	declare := func(step int, names ...string) (notes []string) {
		t.Helper()
		var declared []landfall.DeclaredCanary
		for _, name := range names {
			d := landfall.DeclaredCanary{Name: name, Trigger: "route", Newer: "hello:2", Older: "hello:1", CanaryRule: rule()}
			d.Step = step
			declared = append(declared, d)
		}
		s.update(func(ctx context.Context, tx *store.Tx) (err error) {
			notes, err = canary.Declare(ctx, tx, s.app, declared, "ada", s.now)
			return err
		})
		return notes
	}
	if notes := declare(40, "c"); len(notes) != 0 || s.canary().Weight != 40 {
		t.Fatalf("it begins with %d percent, %q", s.canary().Weight, notes)
	}
	first := s.canary()
	if notes := declare(40, "c", "d"); s.canary().ID != first.ID || len(notes) != 1 ||
		!strings.Contains(notes[0], "the canary d does not begin: the canary c moves the same") {
		t.Errorf("said again it is %s, was %s; %q", s.canary().ID, first.ID, notes)
	}
	declare(30, "c")
	if s.canary().ID == first.ID || s.canary().Step != 30 {
		t.Errorf("changed, it is %+v", s.canary())
	}
	declare(30)
	if all, err := s.db.Canaries(t.Context(), s.app.ID); err != nil || len(all) != 0 {
		t.Errorf("dropped, there are %+v, %v", all, err)
	}
}

// Of several processes only the leader decides.
func TestOnlyTheLeaderDecides(t *testing.T) {
	t.Parallel()
	at := storetest.Postgres(t)
	s := newShop(t, storetest.Open(t, at))
	c, err := s.create(both()["alias"])
	if err != nil {
		t.Fatal(err)
	}
	s.count(c, true, 10, 0)
	s.now = s.now.Add(time.Hour)
	idle := canary.Controller{DB: s.db, Now: func() time.Time { return s.now }}
	if err := idle.Turn(t.Context()); landfall.KindOf(err) != landfall.Unavailable || s.weight(c) != 40 {
		t.Errorf("without leading it decided: %v, %d percent", err, s.weight(c))
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	leads := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.db.Lead(ctx, func() { leads <- struct{}{} }) }()
	<-leads
	if c = s.turn(0); s.weight(c) != 80 {
		t.Errorf("the leader moved it to %d percent", s.weight(c))
	}
	end()
	<-ended
}
