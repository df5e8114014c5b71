package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// What the specs of production declare of aliases and function tags stands beside what people make by hand: the applies
// of production move it. A release that declares one of them itself does not look there.

// names are the aliases and function tags that the units of a group version declare.
type names struct {
	aliases map[string]bool // "hello:prod"
	tags    map[string]bool
}

func namesOf(units []landfall.UnitID) names {
	n := names{map[string]bool{}, map[string]bool{}}
	for _, id := range units {
		if id.Kind == landfall.AliasUnit {
			n.aliases[id.Name] = true
		}
		if id.Kind == landfall.FunctionTagUnit {
			n.tags[id.Name] = true
		}
	}
	return n
}

func idsOf(units []store.GroupUnit) []landfall.UnitID {
	ids := make([]landfall.UnitID, 0, len(units))
	for _, u := range units {
		ids = append(ids, u.Unit)
	}
	return ids
}

// dropped is an alias or a function tag that production declared, and declares no more.
type dropped struct {
	row   store.Unit // of an alias's function
	alias landfall.Alias
	tag   landfall.FunctionTag // with a name when it is one
	held  string               // which trigger still needs it, as a sentence says it; empty: none
}

// what returns what was declared, and where.
func (d dropped) what() (name, place string) {
	if d.tag.Name != "" {
		return "the function tag " + d.tag.Name, d.tag.Declared
	}
	return fmt.Sprintf("the alias %s of %s", d.alias.Name, d.row.Unit), d.alias.Declared
}

// droppedBy returns what an app declared until now, and units do not.
func droppedBy(ctx context.Context, tx *store.Tx, app landfall.App, declared names) ([]dropped, error) {
	owned, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	var all []dropped
	for _, row := range owned {
		if row.Unit.Kind != landfall.FunctionUnit {
			continue
		}
		aliases, err := tx.Aliases(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		for _, a := range aliases {
			if a.Declared != "" && !declared.aliases[row.Unit.Name+":"+a.Name] {
				all = append(all, dropped{row: row, alias: a})
			}
		}
	}
	tags, err := tx.DeclaredFunctionTags(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, name := range tags {
		if declared.tags[name] {
			continue
		}
		t, err := tx.FunctionTag(ctx, app.Namespace, name)
		if err != nil {
			return nil, err
		}
		all = append(all, dropped{tag: t})
	}
	for i := range all {
		if all[i].held, err = heldBy(ctx, tx, app, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// heldBy returns the trigger that would lead nowhere without a name: one of an accessible release that does not declare
// the name itself.
func heldBy(ctx context.Context, tx *store.Tx, app landfall.App, d dropped) (string, error) {
	unit := landfall.UnitID{Kind: landfall.AliasUnit, Name: d.row.Unit.Name + ":" + d.alias.Name}
	if d.tag.Name != "" {
		unit = landfall.UnitID{Kind: landfall.FunctionTagUnit, Name: d.tag.Name}
	}
	led, err := ledTo(ctx, tx, app, d)
	if err != nil {
		return "", err
	}
	for _, s := range led {
		units, err := tx.GroupUnits(ctx, s.App, s.Release)
		if err != nil {
			return "", err
		}
		if !slices.Contains(idsOf(units), unit) {
			return fmt.Sprintf("the %s of the release %s", s.Unit, s.Release), nil
		}
	}
	return "", nil
}

// ledTo returns the triggers of accessible releases that name what is dropped.
func ledTo(ctx context.Context, tx *store.Tx, app landfall.App, d dropped) ([]store.ServedTrigger, error) {
	if d.tag.Name != "" {
		return ledBy(ctx, tx, app.Namespace, d.tag.Name)
	}
	var led []store.ServedTrigger
	for _, kind := range landfall.TriggerKinds() {
		served, err := tx.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, err
		}
		for _, s := range served {
			if d.ledToBy(s.Unit, s.Spec) {
				led = append(led, store.ServedTrigger{ServedUnit: s, App: app.ID})
			}
		}
	}
	return led, nil
}

// CheckDeclared fails with Invalid unless production of an app can declare the aliases and function tags of units, and
// no others: while a trigger of an accessible release needs one that is not among them, it stays declared; and a
// function tag is one app's.
func CheckDeclared(ctx context.Context, tx *store.Tx, app landfall.App, units []versioning.Unit) error {
	const op landfall.Op = "deploy.CheckDeclared"
	ids := make([]landfall.UnitID, 0, len(units))
	for _, u := range units {
		ids = append(ids, u.Unit)
		if u.Unit.Kind != landfall.FunctionTagUnit {
			continue
		}
		t, err := tx.FunctionTag(ctx, app.Namespace, u.Unit.Name)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
		if other := othersTag(t, app); other != "" {
			return landfall.Errorf(op, landfall.Invalid, "%s: the function tag %s %s: choose another name", u.Where, u.Unit.Name,
				other)
		}
	}
	all, err := droppedBy(ctx, tx, app, namesOf(ids))
	if err != nil {
		return err
	}
	for _, d := range all {
		name, place := d.what()
		for _, u := range units {
			if u.Unit.Kind.IsTrigger() && d.ledToBy(u.Unit, u.Spec) {
				return landfall.Errorf(op, landfall.Invalid,
					"%s: the %s names %s, declared at %s until now, which is not declared any more", u.Where, u.Unit, name, place)
			}
		}
		if d.held != "" {
			return landfall.Errorf(op, landfall.Invalid, "%s, declared at %s until now, is not declared any more, and %s needs "+
				"it: keep it, or let the release expire first", name, place, d.held)
		}
	}
	return nil
}

// ledToBy reports whether a trigger names what is dropped. What cannot be read leads nowhere.
func (d dropped) ledToBy(trigger landfall.UnitID, stored json.RawMessage) bool {
	t, _ := spec.ReadTriggerVersion(trigger, stored)
	if d.tag.Name != "" {
		return t.Tag == d.tag.Name
	}
	return slices.ContainsFunc(t.References(), func(ref landfall.Reference) bool {
		return ref.Name == d.row.Unit.Name && ref.Selector == d.alias.Name
	})
}

// othersTag says why a function tag is not an app's to declare; empty when it is.
func othersTag(t landfall.FunctionTag, app landfall.App) string {
	if t.App != "" && t.App != app.ID {
		return "is declared by another app of the namespace, at " + t.Declared
	}
	for _, f := range t.Functions {
		if t.App == "" && f.App != app.ID {
			return "was made by hand, and names the function " + f.Name + ", which is not this app's"
		}
	}
	return ""
}

// declare lets the aliases and function tags of an app be as production declares them from now on. One that is not
// declared any more goes first, but stays as one that people made while a trigger needs it.
func (u *RefUpdate) declare(ctx context.Context, by Mover) error {
	all, err := droppedBy(ctx, u.Tx, *u.App, namesOf(idsOf(u.Units)))
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := u.drop(ctx, d, by); err != nil {
			return err
		}
	}
	for _, unit := range u.Units {
		var err error
		if unit.Unit.Kind == landfall.AliasUnit {
			err = u.declareAlias(ctx, unit, by)
		}
		if unit.Unit.Kind == landfall.FunctionTagUnit {
			err = u.declareTag(ctx, unit, by)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop takes a name away that is not declared any more.
func (u *RefUpdate) drop(ctx context.Context, d dropped, by Mover) (err error) {
	name, place := d.what()
	note := fmt.Sprintf("%s (%s) is not declared any more", name, place)
	if d.held != "" {
		note += "; it stays for " + d.held
	}
	u.notes = append(u.notes, note)
	switch {
	case d.tag.Name != "" && d.held != "":
		d.tag.Declared, d.tag.App, d.tag.Reason = "", "", by.Reason
		return u.Tx.PutFunctionTag(ctx, d.tag)
	case d.tag.Name != "":
		return u.Tx.DeleteFunctionTag(ctx, u.App.Namespace, d.tag.Name, by.ofName())
	case d.held != "":
		d.alias.Declared = ""
		return u.Tx.PutAlias(ctx, d.row.ID, d.alias)
	}
	return versioning.RemoveAlias(ctx, u.Tx, d.row, d.alias.Name, by.ofName())
}

// CheckNewAliases fails with Invalid or Conflict when a function of an app cannot have the aliases that units of it
// declare, and that it does not have, in place of those that they do not declare any more.
func CheckNewAliases(ctx context.Context, tx *store.Tx, app landfall.App, units []store.GroupUnit) error {
	more := map[store.Unit]int{} // of each function; fewer when negative
	for _, u := range units {
		if u.Unit.Kind != landfall.AliasUnit {
			continue
		}
		function, name, _ := strings.Cut(u.Unit.Name, ":")
		row, err := tx.Unit(ctx, app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: function})
		if err == nil {
			_, err = tx.Alias(ctx, row.ID, name)
		}
		if landfall.Is(err, landfall.NotFound) && row.ID != "" {
			more[row]++
			err = versioning.CheckAliasName(ctx, tx, app, function, name)
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
	}
	all, err := droppedBy(ctx, tx, app, namesOf(idsOf(units)))
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.alias.Name != "" && d.held == "" {
			more[d.row]--
		}
	}
	for row, n := range more {
		if err := versioning.CheckAliasCount(ctx, tx, row, n); err != nil {
			return err
		}
	}
	return nil
}

// declareAlias lets an alias be as a unit declares it.
func (u *RefUpdate) declareAlias(ctx context.Context, unit store.GroupUnit, by Mover) error {
	v, err := u.Tx.VersionByNumber(ctx, unit.UnitID, unit.Number)
	if err != nil {
		return err
	}
	declared, err := spec.ReadAliasVersion(unit.Unit, v.Spec)
	if err != nil {
		return err
	}
	a := landfall.Alias{Name: declared.Name, Declared: unit.Declared, Moved: by.At}
	var function string
	for _, w := range declared.To {
		f, err := u.meant(ctx, w.Function)
		if err != nil {
			return err
		}
		function = f.Unit
		if len(a.Shares) > 0 && a.Shares[0].Number == f.Number { // both are one version by now
			a.Shares[0].Percent += w.Percent
			continue
		}
		a.Shares = append(a.Shares, landfall.AliasShare{UID: f.UID, Number: f.Number, Percent: w.Percent})
	}
	old, err := u.Tx.Alias(ctx, function, a.Name)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if old.Name == "" {
		id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: declared.Function}
		err := versioning.CheckNewAlias(ctx, u.Tx, store.Unit{ID: function, Unit: id}, a.Name)
		if landfall.Is(err, landfall.Invalid, landfall.Conflict) {
			err = landfall.Wrapf("deploy.declare", landfall.KindOf(err), err, "%s: %s", unit.Declared, landfall.MessageOf(err))
		}
		if err != nil {
			return err
		}
	}
	a.Sticky = old.Sticky
	if old.String() == a.String() {
		a.Moved = old.Moved
		if old.Declared == a.Declared {
			return nil
		}
		return u.Tx.PutAlias(ctx, function, a)
	}
	if err := u.Tx.PutAlias(ctx, function, a); err != nil {
		return err
	}
	move := by.ofName()
	move.Alias, move.From, move.To = a.Name, old.String(), a.String()
	return u.Tx.CreateAliasMove(ctx, function, move)
}

// declareTag lets a function tag be as a unit declares it, unless it is another app's.
func (u *RefUpdate) declareTag(ctx context.Context, unit store.GroupUnit, by Mover) error {
	v, err := u.Tx.VersionByNumber(ctx, unit.UnitID, unit.Number)
	if err != nil {
		return err
	}
	declared, err := spec.ReadFunctionTagVersion(unit.Unit, v.Spec)
	if err != nil {
		return err
	}
	t := landfall.FunctionTag{Namespace: u.App.Namespace, Name: declared.Name, Declared: unit.Declared, App: u.App.ID,
		Moved: by.At, Actor: by.Actor, Reason: by.Reason}
	for _, ref := range declared.Functions {
		f, err := u.meant(ctx, ref)
		if err != nil {
			return err
		}
		t.Functions = append(t.Functions, f)
	}
	old, err := u.Tx.FunctionTag(ctx, t.Namespace, t.Name)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if other := othersTag(old, *u.App); other != "" {
		u.notes = append(u.notes, fmt.Sprintf("the function tag %s %s: it stays as it is", t.Name, other))
		return nil
	}
	if err := u.Tx.PutFunctionTag(ctx, t); err != nil {
		return err
	}
	_, err = ShowFunctionTags(ctx, u.Tx, t.Namespace, t.Name)
	return err
}

// meant returns the version of a function that a declared name means: for latest the one that the group version has.
func (u *RefUpdate) meant(ctx context.Context, ref landfall.Reference) (f landfall.TaggedFunction, err error) {
	at := slices.IndexFunc(u.Units, func(unit store.GroupUnit) bool {
		return unit.Unit == landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}
	})
	if at < 0 {
		return f, landfall.Errorf("deploy.declare", landfall.NotFound, "%s has no function %q", u.App.Name, ref.Name)
	}
	unit := u.Units[at]
	f = landfall.TaggedFunction{Name: ref.Name, UID: unit.UID, Number: unit.Number, Unit: unit.UnitID, App: u.App.ID}
	if ref.Selector == landfall.Latest {
		return f, nil
	}
	v, err := versioning.Find(ctx, u.Tx, u.App.Namespace, landfall.FunctionUnit, ref)
	if err == nil {
		err = versioning.CheckWhole(ctx, u.Tx, v)
	}
	f.UID, f.Number = v.UID, v.Number
	return f, err
}

// DeclaredPins returns the digests of the versions that a declared alias or function tag names by a selector other than
// latest, and the versions. Its errors have a sentence without a place.
func DeclaredPins(ctx context.Context, r versioning.Reader, app landfall.App,
	refs []landfall.Reference) (digests []landfall.Digest, versions []store.UnitNumber, err error) {
	for _, ref := range refs {
		if ref.Selector == landfall.Latest {
			continue
		}
		_, err := versioning.FindAlias(ctx, r, app.Namespace, ref)
		if err == nil {
			return nil, nil, landfall.Errorf("deploy.DeclaredPins", landfall.Invalid,
				"%s is an alias: a declared name says which version, or latest for the one of this commit", ref)
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return nil, nil, err
		}
		v, err := versioning.Find(ctx, r, app.Namespace, landfall.FunctionUnit, ref)
		if err != nil {
			return nil, nil, err
		}
		if v.App != app.ID {
			return nil, nil, landfall.Errorf("deploy.DeclaredPins", landfall.NotFound, "%s has no function %q", app.Name,
				ref.Name)
		}
		row, err := r.UnitInNamespace(ctx, app.Namespace, v.Unit)
		if err != nil {
			return nil, nil, err
		}
		digests, versions = append(digests, v.Digest), append(versions, store.UnitNumber{Unit: row.ID, Number: v.Number})
	}
	return digests, versions, nil
}
