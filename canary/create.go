package canary

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

const op landfall.Op = "canary.Create"

// New describes a canary: of an alias of a function, which a version is to get, or of an HTTP trigger with weights.
type New struct {
	landfall.CanaryRule

	Name string

	Function, Alias, Version string

	Trigger      string
	Newer, Older string // functions, as the trigger names them

	Declared string // what the specs say; empty: it is made by hand
	Actor    string
	At       time.Time
}

// Create begins a canary of an app. Its first step, when the new version has no calls yet, is taken at once. Invalid
// when the rule or the name is wrong; NotFound when what it names is not there; Conflict when there is one of the name,
// or one that moves the same, or when there is nothing to move.
func Create(ctx context.Context, tx *store.Tx, app landfall.App, n New) (landfall.Canary, error) {
	c := landfall.Canary{ID: uuid.NewString(), AppID: app.ID, App: app.Name, Namespace: app.Namespace, Name: n.Name,
		Alias: n.Alias, Trigger: n.Trigger, CanaryRule: n.CanaryRule, State: landfall.CanaryRunning, Declared: n.Declared,
		Actor: n.Actor, Created: n.At, Since: n.At, Next: n.At.Add(n.Interval)}
	if err := spec.CheckName(n.Name); err != nil {
		return c, err
	}
	if err := landfall.CheckCanaryRule(n.CanaryRule); err != nil {
		return c, err
	}
	var err error
	switch {
	case (n.Alias == "") == (n.Trigger == ""):
		return c, landfall.Errorf(op, landfall.Invalid, "a canary is of an alias of a function, or of an HTTP trigger")
	case n.Alias != "":
		err = fromAlias(ctx, tx, &c, n)
	default:
		err = fromTrigger(ctx, tx, app, &c, n)
	}
	if err != nil {
		return c, err
	}
	if err := checkFree(ctx, tx, c); err != nil {
		return c, err
	}
	first := Decision{Verdict: Start, Weight: c.Weight, Reason: "it begins with the weights that there were"}
	if c.Weight == 0 {
		first.Weight, first.Reason = min(c.Step, all), "the first step"
	}
	if c.Weight == all {
		return c, landfall.Errorf(op, landfall.Conflict, "%s gets all calls already, so there is nothing to move",
			c.Newer.Ref)
	}
	if err := tx.PutCanary(ctx, c); err != nil {
		return c, err
	}
	err = settle(ctx, tx, &c, first, n.At)
	return c, err
}

// checkFree fails with Conflict when the app has a canary of the name, or one that moves the same.
func checkFree(ctx context.Context, tx *store.Tx, c landfall.Canary) error {
	const most = 100
	others, err := tx.Canaries(ctx, c.AppID)
	if len(others) >= most {
		return landfall.Errorf(op, landfall.Conflict, "%s has %d canaries, which is as many as may be: delete one first",
			c.App, len(others))
	}
	for _, other := range others {
		if other.Name == c.Name {
			return landfall.Errorf(op, landfall.Conflict, "%s has a canary %s already, which is %s: landfall canary delete %s",
				c.App, c.Name, other.State, c.Name)
		}
		if other.State == landfall.CanaryRunning && other.Alias == c.Alias && other.Trigger == c.Trigger &&
			(c.Alias == "" || other.Newer.Function == c.Newer.Function) {
			return landfall.Errorf(op, landfall.Conflict, "the canary %s moves the same: landfall canary delete %s ends it",
				other.Name, other.Name)
		}
	}
	return err
}

// fromAlias finds the versions of a canary of an alias.
func fromAlias(ctx context.Context, tx *store.Tx, c *landfall.Canary, n New) error {
	row, alias, err := findAlias(ctx, tx, *c, n.Function)
	if err == nil {
		err = versioning.CheckUndeclaredAlias(row, alias)
	}
	if err != nil {
		return err
	}
	to, err := versioning.Find(ctx, tx, c.Namespace, landfall.FunctionUnit,
		landfall.Reference{Name: n.Function, Selector: n.Version})
	if err != nil {
		return err
	}
	older := alias.Shares[0]
	if len(alias.Shares) > 1 {
		i := slices.IndexFunc(alias.Shares, func(s landfall.AliasShare) bool { return s.Number == to.Number })
		if i < 0 {
			return landfall.Errorf(op, landfall.Conflict, "%s:%s points to two versions already, of which %s is none: %s",
				n.Function, n.Alias, to.UID, alias)
		}
		older, c.Weight = alias.Shares[1-i], alias.Shares[i].Percent
	} else if older.Number == to.Number {
		return landfall.Errorf(op, landfall.Conflict, "%s:%s points to %s already", n.Function, n.Alias, to.UID)
	}
	c.Older = landfall.CanarySide{Ref: string(older.UID), Function: n.Function, Number: older.Number}
	c.Newer = landfall.CanarySide{Ref: string(to.UID), Function: n.Function, Number: to.Number}
	return nil
}

// findAlias returns a function and its alias that a canary moves.
func findAlias(ctx context.Context, tx *store.Tx, c landfall.Canary, function string) (row store.Unit, a landfall.Alias,
	err error) {
	row, err = tx.UnitInNamespace(ctx, c.Namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: function})
	if landfall.Is(err, landfall.NotFound) || err == nil && row.App != c.AppID {
		err = landfall.Errorf(op, landfall.NotFound, "%s has no function %q", c.App, function)
	}
	if err == nil {
		a, err = versioning.AliasOf(ctx, tx, row, c.Alias)
	}
	return row, a, err
}

// fromTrigger finds the versions of a canary of an HTTP trigger of the live release.
func fromTrigger(ctx context.Context, tx *store.Tx, app landfall.App, c *landfall.Canary, n New) error {
	served, err := findTrigger(ctx, tx, app, n.Trigger)
	if err != nil {
		return err
	}
	t, err := spec.ReadTriggerVersion(served.Unit, served.Spec)
	if err != nil {
		return err
	}
	moved, err := tx.TriggerWeights(ctx, app.ID)
	if err != nil {
		return err
	}
	MoveWeights(&t, served.Version, moved)
	for _, side := range []struct {
		to      *landfall.CanarySide
		written string
		newer   bool
	}{{&c.Older, n.Older, false}, {&c.Newer, n.Newer, true}} {
		w, err := weightOf(t, side.written)
		if err != nil {
			return err
		}
		side.to.Ref = w.Function.String()
		if side.newer {
			c.Weight = w.Percent
		}
	}
	if c.Newer.Ref == c.Older.Ref {
		return landfall.Errorf(op, landfall.Invalid, "the old and the new function are the same: %s", c.Newer.Ref)
	}
	c.TriggerVersion = served.Version
	err = resolve(ctx, tx, app, c)
	if err == nil && c.Newer.Function == c.Older.Function && c.Newer.Number == c.Older.Number {
		err = landfall.Errorf(op, landfall.Conflict, "%s and %s are the same version now", c.Older.Ref, c.Newer.Ref)
	}
	return err
}

// weightOf returns the weight of a function that a trigger names.
func weightOf(t spec.Trigger, written string) (w spec.Weight, err error) {
	ref, err := landfall.ParseReference(written)
	if err != nil {
		return w, err
	}
	i := slices.IndexFunc(t.Weights, func(w spec.Weight) bool { return w.Function == ref })
	if len(t.Weights) == 0 {
		return w, landfall.Errorf(op, landfall.Conflict, "the trigger %s leads to %s alone; a canary moves the weights of "+
			"two functions: --function OLD --weight 100 --function NEW --weight 0", t.Name, t.Function)
	}
	if i < 0 {
		var names []string
		for _, w := range t.Weights {
			names = append(names, w.Function.String())
		}
		return w, landfall.Errorf(op, landfall.NotFound, "the trigger %s does not lead to %s, but to %s", t.Name, ref,
			strings.Join(names, " and "))
	}
	return t.Weights[i], nil
}

// findTrigger returns an HTTP trigger of an app's live release. NotFound when there is none.
func findTrigger(ctx context.Context, tx *store.Tx, app landfall.App, name string) (store.ServedUnit, error) {
	units, err := tx.ServedUnits(ctx, app.ID, landfall.HTTPTrigger)
	if err != nil {
		return store.ServedUnit{}, err
	}
	for _, u := range units {
		if u.Release == app.Live && u.Unit.Name == name {
			return u, nil
		}
	}
	return store.ServedUnit{}, landfall.Errorf(op, landfall.NotFound, "the live release of %s has no HTTP trigger %q",
		app.Name, name)
}

// MoveWeights gives a trigger of that version the weights that moved since it was declared, if they did.
func MoveWeights(t *spec.Trigger, version landfall.UID, moved []store.TriggerWeight) {
	for _, m := range moved {
		if t.Kind != landfall.HTTPTrigger || m.Trigger != t.Name || m.Version != version {
			continue
		}
		for i, w := range t.Weights {
			if t.Weights[i].Percent = all - m.Percent; w.Function.String() == m.Newer {
				t.Weights[i].Percent = m.Percent
			}
		}
	}
}

// resolve sets which versions the functions of a canary of a trigger mean in the live release.
func resolve(ctx context.Context, tx *store.Tx, app landfall.App, c *landfall.Canary) error {
	units, err := tx.GroupUnits(ctx, app.ID, app.Live)
	if err != nil {
		return err
	}
	for _, side := range []*landfall.CanarySide{&c.Older, &c.Newer} {
		ref, err := landfall.ParseReference(side.Ref)
		if err != nil {
			return err
		}
		side.Function, side.Number = ref.Name, 0
		for _, u := range units {
			if u.Unit.Kind == landfall.FunctionUnit && u.Unit.Name == ref.Name {
				side.Number = u.Number
			}
		}
		if ref.MeansRelease() && app.OfNamespace() {
			ref.Selector = landfall.Latest
		}
		if !ref.MeansRelease() {
			v, err := versioning.Find(ctx, tx, app.Namespace, landfall.FunctionUnit, ref)
			if err != nil {
				return err
			}
			side.Number = v.Number
		}
	}
	return nil
}
