package versioning

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Stored says where a run has stored the content of a unit that it applies.
type Stored struct {
	Content  json.RawMessage // what a version keeps of it
	Prefixes []string        // the folders of the object store that it uses
	Own      string          // the one of them that is new; empty: none is
	Bytes    int64           // in Own
}

// record records what a version uses of the object store.
func (s Stored) record(ctx context.Context, tx *store.Tx, row store.Unit, number int64) error {
	if s.Own != "" {
		if err := tx.SizePrefix(ctx, s.Own, s.Bytes); err != nil {
			return err
		}
	}
	return tx.PointInto(ctx, row.ID, number, s.Prefixes)
}

// Apply makes the versions in force that a commit declares: it creates a version only for a digest that the unit does
// not have yet.
type Apply struct {
	App        landfall.App
	UID        landfall.UID // shared by every version that the apply makes
	Commit     landfall.CommitSHA
	Production bool
	Units      []Unit
	Stored     map[landfall.UnitID]Stored // of the units whose content the run stored; the others must be stored already
	At         time.Time

	// Beside are versions in force that the units refer to and that the apply leaves as they are.
	Beside []store.GroupUnit
	// New are the versions that a person makes by hand, by their units.
	New map[landfall.UnitID]landfall.NewVersion

	// StoreAgain says that what the run stored replaces what was stored before, which is damaged.
	StoreAgain bool
	// Declares says which units the app declares in all; nil: those of Units.
	Declares func(landfall.UnitID) bool
	// Unreleased says that nobody can reach the result of the apply; then static units need no stored content.
	Unreleased bool
}

// ErrPlanAgain is what Versions returns when a version on which the plan relied was deleted meanwhile.
var ErrPlanAgain = landfall.Errorf("versioning.Apply", landfall.Unavailable,
	"a version that this commit shares was deleted meanwhile; planning again")

// Versions makes the versions, and returns all units in force in the order of a.Units. It must run in the transaction
// that makes the rest of the apply visible. Conflict when another app owns a unit.
func (a *Apply) Versions(ctx context.Context, tx *store.Tx) ([]store.GroupUnit, error) {
	owned, err := tx.UnitsOf(ctx, a.App.ID)
	if err != nil {
		return nil, err
	}
	byID := make(map[landfall.UnitID]store.Unit, len(owned))
	for _, u := range owned {
		byID[u.Unit] = u
	}
	inForce := map[landfall.UnitID]store.GroupUnit{}
	for _, u := range a.Beside {
		inForce[u.Unit] = u
	}
	ordered := slices.Clone(a.Units)
	// Packages come first: a function's version names the version of its package.
	slices.SortStableFunc(ordered, func(x, y Unit) int { return applyOrder(x.Unit.Kind) - applyOrder(y.Unit.Kind) })
	for _, u := range ordered {
		row, ok := byID[u.Unit]
		if !ok {
			if row, err = a.adopt(ctx, tx, u); err != nil {
				return nil, err
			}
		}
		v, err := a.version(ctx, tx, row, u, inForce)
		if err != nil {
			return nil, err
		}
		made := store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: u.Unit, UID: v.UID, Number: v.Number,
			Digest: v.Digest}}
		if u.Unit.Kind == landfall.AliasUnit || u.Unit.Kind == landfall.FunctionTagUnit {
			made.Declared = u.Where
			if err := tx.PinVersions(ctx, row.ID, v.Number, u.Holds); err != nil {
				return nil, err
			}
		}
		inForce[u.Unit] = made
	}
	units := make([]store.GroupUnit, 0, len(a.Units))
	for _, u := range a.Units {
		units = append(units, inForce[u.Unit])
	}
	return units, nil
}

// applyOrder is the order in which kinds are applied: packages, functions, environments, triggers, the rest.
func applyOrder(k landfall.UnitKind) int {
	if k == landfall.PackageUnit {
		return -1
	}
	return kindOrder(k)
}

// adopt returns the row of a unit that the app does not own yet: a new row, or one that nobody owns. What the app that
// had it before lets call it, its jobs and webhooks, goes: they would call what is this app's now.
func (a *Apply) adopt(ctx context.Context, tx *store.Tx, u Unit) (store.Unit, error) {
	row, err := tx.Unit(ctx, a.App, u.Unit)
	if landfall.Is(err, landfall.NotFound) {
		return tx.CreateUnit(ctx, a.App, u.Unit)
	}
	if err != nil {
		return row, err
	}
	if err := checkOwner(ctx, tx, a.App, row, u.Where, a.Production, a.declares); err != nil {
		return row, err
	}
	if row.App != "" {
		owner, err := tx.App(ctx, row.App)
		switch {
		case err != nil:
		case owner.OfNamespace(): // its triggers may have led to the unit
			_, err = tx.Changed(ctx, row.App)
		default:
			err = tx.DropUses(ctx, row.ID)
		}
		if err != nil {
			return row, err
		}
	}
	row.App = a.App.ID
	return row, tx.UpdateUnit(ctx, row)
}

func (a *Apply) declares(id landfall.UnitID) bool {
	if a.Declares != nil {
		return a.Declares(id)
	}
	return slices.ContainsFunc(a.Units, func(u Unit) bool { return u.Unit == id })
}

// Owners is what a search for the owner of a unit reads; a store's database and its transactions are Owners.
type Owners interface {
	App(ctx context.Context, id string) (landfall.App, error)
	Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (store.Unit, error)
	Versions(ctx context.Context, unit string, retired bool) ([]landfall.Version, error)
	FunctionsRunning(ctx context.Context, pkg store.Unit) ([]string, error)
}

// CheckOwner fails with Invalid, and names the owner, when another app owns the unit that an app declares at where, or
// when it is a package that was made by hand and a function runs that was, too, and that the app does not declare. On
// another line than production it also fails for whatever was made by hand.
func CheckOwner(ctx context.Context, r Owners, app landfall.App, id landfall.UnitID, where string, production bool,
	declares func(landfall.UnitID) bool) error {
	row, err := r.Unit(ctx, app, id)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	return checkOwner(ctx, r, app, row, where, production, declares)
}

// checkOwner fails while another app that owns the unit still has a version of it. Production takes over what was made
// by hand.
func checkOwner(ctx context.Context, r Owners, app landfall.App, row store.Unit, where string, production bool,
	declares func(landfall.UnitID) bool) error {
	if row.App == "" || row.App == app.ID {
		return nil
	}
	versions, err := r.Versions(ctx, row.ID, true)
	if err != nil || len(versions) == 0 {
		return err
	}
	owner, err := r.App(ctx, row.App)
	if err != nil {
		return err
	}
	if owner.OfNamespace() && production {
		return checkUsers(ctx, r, row, where, declares)
	}
	if owner.OfNamespace() {
		return landfall.Errorf("versioning.CheckOwner", landfall.Invalid,
			"%s: %s was made by hand in the namespace %q: only a push to production takes it over", where, row.Unit,
			app.Namespace)
	}
	return landfall.Errorf("versioning.CheckOwner", landfall.Invalid, "%s: %s belongs to the app %q in the namespace %q: "+
		"rename it, or give this app a namespace of its own (app create --namespace)", where, row.Unit, owner.Name,
		app.Namespace)
}

// checkUsers fails when a function that was made by hand runs a package that was, and an app declares the package
// alone: the function would end with what the app does to its package.
func checkUsers(ctx context.Context, r Owners, pkg store.Unit, where string,
	declares func(landfall.UnitID) bool) error {
	if pkg.Unit.Kind != landfall.PackageUnit {
		return nil
	}
	functions, err := r.FunctionsRunning(ctx, pkg)
	if err != nil {
		return err
	}
	for _, name := range functions {
		if !declares(landfall.UnitID{Kind: landfall.FunctionUnit, Name: name}) {
			return landfall.Errorf("versioning.CheckOwner", landfall.Invalid, "%s: the %s was made by hand in the namespace "+
				"%q, and so was the function %s, which runs it: declare the function, too, or give this package another name",
				where, pkg.Unit, pkg.Namespace, name)
		}
	}
	return nil
}

// version returns the version of a unit with its digest, and makes it if there is none.
func (a *Apply) version(ctx context.Context, tx *store.Tx, row store.Unit, u Unit,
	inForce map[landfall.UnitID]store.GroupUnit) (landfall.Version, error) {
	stored, have := a.Stored[u.Unit]
	missing := u.Content != nil && !have && (!a.Unreleased || u.Unit.Kind != landfall.StaticUnit)
	v, err := tx.VersionByDigest(ctx, row.ID, u.Digest)
	made, byHand := a.New[u.Unit]
	switch {
	case err == nil && missing && v.Content == nil:
		return v, ErrPlanAgain
	case err == nil && byHand && !have: // what is stored of the same content is shared
		if stored.Prefixes, err = tx.PrefixesOf(ctx, row.ID, v.Number); err != nil {
			return v, err
		}
		stored.Content = v.Content
	case err == nil && byHand:
	case err == nil:
		return v, a.reuse(ctx, tx, row, v, u, stored, have && a.StoreAgain)
	case landfall.KindOf(err) != landfall.NotFound:
		return v, err
	case missing:
		return v, ErrPlanAgain
	}
	row.LastNumber++
	row.Retired = false
	if err := tx.UpdateUnit(ctx, row); err != nil {
		return v, err
	}
	v = landfall.Version{
		Unit: u.Unit, Namespace: a.App.Namespace, App: a.App.ID, Number: row.LastNumber, UID: a.UID, Digest: u.Digest,
		Spec: u.Spec, Content: stored.Content, Commit: a.Commit, Created: a.At, Production: a.Production, Label: made.Label,
		Description: made.Description,
	}
	if byHand {
		if v.UID, err = a.uidOf(ctx, tx, row, made); err != nil {
			return v, err
		}
	}
	if u.Unit.Kind == landfall.FunctionUnit {
		if v.Content, err = functionContent(u, a.App.Namespace, inForce); err != nil {
			return v, err
		}
	}
	if err := tx.CreateVersion(ctx, row.ID, v); err != nil {
		return v, err
	}
	return v, stored.record(ctx, tx, row, v.Number)
}

// uidOf returns the UID of a version that a person makes. Invalid or Conflict when it cannot have its label, Conflict
// when the unit was to be new and is there.
func (a *Apply) uidOf(ctx context.Context, tx *store.Tx, row store.Unit,
	made landfall.NewVersion) (landfall.UID, error) {
	if made.New {
		if err := CheckNew(ctx, tx, row); err != nil {
			return "", err
		}
	}
	if err := CheckLabel(ctx, tx, row, made.Label); err != nil {
		return "", err
	}
	if made.UID == "" {
		return a.UID, nil
	}
	_, err := tx.VersionByUID(ctx, row.ID, made.UID)
	if landfall.Is(err, landfall.NotFound) {
		return made.UID, nil
	}
	return a.UID, err
}

// reuse notes that an apply uses an existing version again. Only production brings back what it retired; a branch that
// still has the version holds it by its release.
func (a *Apply) reuse(ctx context.Context, tx *store.Tx, row store.Unit, v landfall.Version, u Unit, stored Stored,
	again bool) error {
	if row.Retired && a.Production {
		row.Retired = false
		if err := tx.UpdateUnit(ctx, row); err != nil {
			return err
		}
	}
	restored := u.Content != nil && (v.Content == nil || again)
	if !restored && (!a.Production || (v.Production && !v.Retired)) {
		return nil
	}
	if restored {
		v.Content = stored.Content
	}
	v.Production, v.Retired = v.Production || a.Production, v.Retired && !a.Production
	if err := tx.MarkVersion(ctx, row.ID, v); err != nil || !restored {
		return err
	}
	return stored.record(ctx, tx, row, v.Number)
}

func functionContent(u Unit, namespace string, inForce map[landfall.UnitID]store.GroupUnit) (json.RawMessage, error) {
	for _, ref := range u.Refs {
		if p, ok := inForce[ref]; ok && ref.Kind == landfall.PackageUnit {
			return json.Marshal(landfall.FunctionContent{Package: landfall.PackageRef{
				Name: ref.Name + "-" + string(p.UID), Namespace: namespace, ResourceVersion: strconv.FormatInt(p.Number, 10)}})
		}
	}
	return nil, nil
}

// Retire takes the units of an app that are not in force out of the app. Their versions are deleted, except those that
// something holds, or a trigger names (pinned): these leave their tracker, and are deleted with their last holder. It
// returns the retired units.
func Retire(ctx context.Context, tx *store.Tx, app landfall.App, inForce []store.GroupUnit,
	pinned map[store.UnitNumber]bool) ([]landfall.UnitID, error) {
	keep := make(map[string]bool, len(inForce))
	for _, u := range inForce {
		keep[u.UnitID] = true
	}
	owned, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	// functions first: those that stay hold what they need to run
	slices.SortStableFunc(owned, func(x, y store.Unit) int { return kindOrder(x.Unit.Kind) - kindOrder(y.Unit.Kind) })
	var retired []landfall.UnitID
	for _, row := range owned {
		if keep[row.ID] || row.Retired || row.Unit.Kind == landfall.SecretUnit { // no spec names a secret
			continue
		}
		had, err := retireUnit(ctx, tx, row, pinned)
		if err != nil {
			return nil, err
		}
		if had {
			retired = append(retired, row.Unit)
		}
	}
	return retired, nil
}

// retireUnit retires one unit, and reports whether production had it until now. A unit that only another branch has
// belongs to that branch, and stays.
func retireUnit(ctx context.Context, tx *store.Tx, row store.Unit, pinned map[store.UnitNumber]bool) (bool, error) {
	versions, err := tx.Versions(ctx, row.ID, true)
	if err != nil || !slices.ContainsFunc(versions, func(v landfall.Version) bool { return v.Production && !v.Retired }) {
		return false, err
	}
	held, err := tx.HeldVersions(ctx, row.ID)
	if err != nil {
		return false, err
	}
	for _, v := range versions {
		if !slices.Contains(held, v.Number) && !pinned[store.UnitNumber{Unit: row.ID, Number: v.Number}] {
			if err := tx.DeleteVersion(ctx, row.ID, v.Number); err != nil {
				return false, err
			}
			continue
		}
		v.Retired = true
		if err := tx.MarkVersion(ctx, row.ID, v); err != nil {
			return false, err
		}
	}
	row.Retired = true
	return true, tx.UpdateUnit(ctx, row)
}
