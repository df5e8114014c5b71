package versioning

import (
	"cmp"
	"context"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Share is a version that gets some of the calls of a reference.
type Share struct {
	Version landfall.Version
	Percent int
}

// FindShares returns the versions of a function that ref means in a namespace: two with their weights when ref names an
// alias with two, else the one that Find returns. Its errors are those of Find.
func FindShares(ctx context.Context, r Reader, namespace string, ref landfall.Reference) ([]Share, error) {
	namespace = cmp.Or(ref.Namespace, namespace)
	alias, err := FindAlias(ctx, r, namespace, ref)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return nil, err
	}
	if err != nil {
		const all = 100
		v, err := Find(ctx, r, namespace, landfall.FunctionUnit, ref)
		return []Share{{v, all}}, err
	}
	var shares []Share
	for _, s := range alias.Shares {
		v, err := Find(ctx, r, namespace, landfall.FunctionUnit, landfall.Reference{Name: ref.Name, Selector: string(s.UID)})
		if err != nil {
			return nil, err
		}
		shares = append(shares, Share{v, s.Percent})
	}
	return shares, nil
}

// FindAlias returns the alias that ref names. NotFound when it names something else, or nothing.
func FindAlias(ctx context.Context, r Reader, namespace string, ref landfall.Reference) (landfall.Alias, error) {
	row, err := r.UnitInNamespace(ctx, cmp.Or(ref.Namespace, namespace),
		landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	if err != nil {
		return landfall.Alias{}, err
	}
	return r.Alias(ctx, row.ID, ref.Selector)
}

// AliasOf returns an alias of a function. NotFound, with the command that lists the existing ones, when there is none
// with the name.
func AliasOf(ctx context.Context, r aliasReader, row store.Unit, name string) (landfall.Alias, error) {
	a, err := r.Alias(ctx, row.ID, name)
	switch {
	case name == landfall.Latest && landfall.Is(err, landfall.NotFound):
		err = landfall.Wrapf("versioning.AliasOf", landfall.Invalid, err,
			"\"latest\" is reserved: it moves by itself, to the newest version of %s; give your alias another name", row.Unit)
	case landfall.Is(err, landfall.NotFound):
		err = landfall.Wrapf("versioning.AliasOf", landfall.NotFound, err,
			"there is no alias %q of %s; there are: landfall function alias list %s%s", name, row.Unit, row.Unit.Name,
			InNamespace(row.Namespace))
	}
	return a, err
}

// checkAlias returns an Invalid error unless name may be an alias of a function.
func checkAlias(name string) error {
	if why := landfall.UnfitName(name); why != "" {
		return invalidAlias("%q cannot be an alias: %s", name, why)
	}
	return nil
}

// MaxAliases is how many aliases a function may have, because each holds the versions that it points to.
const MaxAliases = 100

// CheckAliasCount returns a Conflict unless a function can have so many more aliases; fewer is always right.
func CheckAliasCount(ctx context.Context, tx *store.Tx, row store.Unit, more int) error {
	aliases, err := tx.Aliases(ctx, row.ID)
	if err == nil && more > 0 && len(aliases)+more > MaxAliases {
		err = landfall.Errorf("versioning.SetAlias", landfall.Conflict,
			"%s would have %d aliases, and %d are as many as may be: remove one first", row.Unit, len(aliases)+more, MaxAliases)
	}
	return err
}

func invalidAlias(format string, args ...any) error {
	return landfall.Errorf("versioning.SetAlias", landfall.Invalid, format, args...)
}

// Weight is a version of a function, by any of its names, and its percentage of the calls.
type Weight struct {
	Selector string
	Percent  int
}

// NewAlias says how an alias is set.
type NewAlias struct {
	Name   string
	To     []Weight         // one or two; their percents sum to 100
	Create bool             // Conflict when it exists; without Create, NotFound when it does not
	Sticky *landfall.Sticky // nil: as it is
	Actor  string
	Reason string
	At     time.Time
}

// SetAlias makes an alias of a function, or moves it. Invalid when the name or the weights are wrong; NotFound, with
// the nearest name, when the function has no such version.
func SetAlias(ctx context.Context, tx *store.Tx, row store.Unit, p NewAlias) (landfall.Alias, error) {
	old, err := AliasOf(ctx, tx, row, p.Name)
	switch {
	case err == nil && p.Create:
		return old, landfall.Errorf("versioning.SetAlias", landfall.Conflict, "%s has the alias %q already: update moves it",
			row.Unit, p.Name)
	case err != nil && (landfall.KindOf(err) != landfall.NotFound || !p.Create):
		return old, err
	}
	if err := CheckUndeclaredAlias(row, old); err != nil {
		return old, err
	}
	if p.Create {
		if err := CheckNewAlias(ctx, tx, row, p.Name); err != nil {
			return old, err
		}
	}
	a := landfall.Alias{Name: p.Name, Moved: p.At, Sticky: old.Sticky}
	if p.Sticky != nil {
		a.Sticky = *p.Sticky
	}
	if err := landfall.CheckSticky(a.Sticky); err != nil {
		return a, err
	}
	if a.Shares, err = shares(ctx, tx, row, p.To); err != nil {
		return a, err
	}
	if err := tx.PutAlias(ctx, row.ID, a); err != nil || old.String() == a.String() {
		return a, err
	}
	return a, tx.CreateAliasMove(ctx, row.ID,
		store.AliasMove{Alias: a.Name, From: old.String(), To: a.String(), Actor: p.Actor, Reason: p.Reason, At: p.At})
}

// CheckNewAlias returns an Invalid error when a function cannot have an alias with a name, and a Conflict when it has
// as many as may be.
func CheckNewAlias(ctx context.Context, tx *store.Tx, row store.Unit, name string) error {
	if err := checkAlias(name); err != nil {
		return err
	}
	if err := checkFree(ctx, tx, row, name); err != nil {
		return err
	}
	return CheckAliasCount(ctx, tx, row, 1)
}

// CheckUndeclaredAlias returns a Conflict, with the place, for an alias that a spec declares: its pushes alone move it.
func CheckUndeclaredAlias(row store.Unit, a landfall.Alias) error {
	if a.Declared == "" {
		return nil
	}
	return landfall.Errorf("versioning.SetAlias", landfall.Conflict,
		"the alias %s of %s is declared %s", a.Name, row.Unit, changedAt(a.Declared))
}

// InNamespace is what a command says of a namespace that is not the default.
func InNamespace(name string) string {
	if name == landfall.DefaultNamespace {
		return ""
	}
	return " --namespace " + name
}

// changedAt says where a name that is declared at a place is changed; an archive that was imported has no lines.
func changedAt(place string) string {
	if !strings.Contains(place, ":") {
		return "by the release that was imported: import another one, or push to production"
	}
	return "at " + place + ": change it there, and push to production"
}

// versionNames is what CheckAliasName reads; a store's database and its transactions have it.
type versionNames interface {
	namedReader

	Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (store.Unit, error)
}

// CheckAliasName returns an Invalid error unless name may be an alias of a function of an app, which may be new.
func CheckAliasName(ctx context.Context, r versionNames, app landfall.App, function, name string) error {
	if err := checkAlias(name); err != nil {
		return err
	}
	row, err := r.Unit(ctx, app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: function})
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	return checkFree(ctx, r, row, name)
}

// checkFree returns an Invalid error when a version of a function has a name, or is printed so.
func checkFree(ctx context.Context, r namedReader, row store.Unit, name string) error {
	_, err := versionCalled(ctx, r, row, name)
	if err == nil {
		return invalidAlias("%q cannot be an alias: a version of the function is called so", name)
	}
	return landfall.Ignore(err, landfall.NotFound)
}

// shares finds the versions to which an alias will point.
func shares(ctx context.Context, tx *store.Tx, row store.Unit, to []Weight) ([]landfall.AliasShare, error) {
	sum := 0
	var found []landfall.AliasShare
	for _, w := range to {
		const all = 100
		if w.Percent < 1 || w.Percent > all {
			return nil, invalidAlias("%s has %d percent; a weight is from 1 to 100", w.Selector, w.Percent)
		}
		v, err := Find(ctx, tx, row.Namespace, row.Unit.Kind, landfall.Reference{Name: row.Unit.Name, Selector: w.Selector})
		if err == nil {
			err = CheckWhole(ctx, tx, v)
		}
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && found[0].Number == v.Number {
			return nil, invalidAlias("%s and %s are the same version; name two, or one alone", to[0].Selector, w.Selector)
		}
		sum += w.Percent
		found = append(found, landfall.AliasShare{UID: v.UID, Number: v.Number, Percent: w.Percent})
	}
	const most, all = 2, 100
	if len(found) == 0 || len(found) > most || sum != all {
		plural := "s"
		if len(found) == 1 {
			plural = ""
		}
		return nil,
			invalidAlias("the weights name %d version%s with %d percent; right are one or two versions with 100 percent in all",
				len(found), plural, sum)
	}
	return found, nil
}

// RemoveAlias removes an alias of a function. Its versions stay. NotFound when there is none. by says who does, why and
// when.
func RemoveAlias(ctx context.Context, tx *store.Tx, row store.Unit, name string, by store.AliasMove) error {
	old, err := AliasOf(ctx, tx, row, name)
	if err != nil {
		return err
	}
	if err := tx.DeleteAlias(ctx, row.ID, name); err != nil {
		return err
	}
	by.Alias, by.From, by.To = name, old.String(), ""
	return tx.CreateAliasMove(ctx, row.ID, by)
}

// Unpublish takes the functions and packages of a deleted app out of its namespace, and removes the aliases of its
// functions and what function tags name of them, which it notes in was.
func Unpublish(ctx context.Context, tx *store.Tx, app landfall.App, actor string,
	at time.Time, was *store.Tombstone) error {
	by := store.AliasMove{Actor: actor, Reason: "the app was deleted", At: at}
	owned, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, row := range owned {
		if row.Unit.Kind != landfall.FunctionUnit {
			continue
		}
		entries, err := Untag(ctx, tx, row, by)
		if err != nil {
			return err
		}
		was.Entries = append(was.Entries, entries...)
		found, err := tx.Aliases(ctx, row.ID)
		if err != nil {
			return err
		}
		for _, a := range found {
			if err := RemoveAlias(ctx, tx, row, a.Name, by); err != nil {
				return err
			}
			was.Aliases = append(was.Aliases, store.DeletedAlias{Unit: row.ID, Alias: a})
		}
	}
	declared, err := tx.DeclaredFunctionTags(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, name := range declared { // of functions that it had
		if err := tx.DeleteFunctionTag(ctx, app.Namespace, name, by); err != nil {
			return err
		}
	}
	return tx.FreeNames(ctx, app.ID)
}
