package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// HandVersion is a version that a person makes of what is stored already. Where a field is empty, the new version is as
// the latest one.
type HandVersion struct {
	landfall.NewVersion

	Package    landfall.Version // of a function: what it runs
	Unreleased bool             // no release of the app is made with it
	Key        string           // from which the UID of the group version follows; empty: from nothing
}

// MakeVersion makes a version of a function or package of an app, and a release with it unless none is wanted. Conflict
// when nothing of the app was applied yet, the label is taken, or tests are required and the function is another than
// before; NotFound when the unit is not there, and nothing says
// what a new function runs.
func (editor *Editor) MakeVersion(ctx context.Context, app landfall.App, n HandVersion,
	actor string) (made landfall.Version, result EditResult, err error) {
	result, err = editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		e.unreleased, e.again = e.unreleased || n.Unreleased, true
		if n.Key != "" {
			e.uid, err = e.tx.FreeUID(ctx, e.app.ID, "", func(try int) landfall.UID { return KeyUID(e.app, n.Key, try) })
			if err != nil {
				return "", false, err
			}
		}
		at := e.index(n.Unit)
		var latest landfall.Version
		if at >= 0 {
			if latest, err = e.version(ctx, e.units[at]); err != nil {
				return "", false, err
			}
		} else if n.Package.Number == 0 {
			return "", false, landfall.Errorf("deploy.MakeVersion", landfall.NotFound, "%s has no %s: say what it runs",
				app.Name, n.Unit)
		}
		if err := e.owns(ctx, n.Package); err != nil {
			return "", false, err
		}
		unit, beside, err := e.handMade(ctx, n, latest)
		if err != nil {
			return "", false, err
		}
		if editor.RequireTests && n.Unit.Kind == landfall.FunctionUnit && unit.Digest != latest.Digest {
			return "", false, ErrUntested
		}
		u, err := e.apply(ctx, unit, beside, map[landfall.UnitID]landfall.NewVersion{n.Unit: n.NewVersion})
		if err != nil {
			return "", false, err
		}
		made, err = e.version(ctx, u)
		return fmt.Sprintf("Made no. %d of the %s", u.Number, n.Unit), at < 0, err
	})
	return made, result, err
}

// KeyUID returns the UID of the group version that MakeVersion makes for a key, at first for a try of 0, and when it is
// taken for the next one.
func KeyUID(app landfall.App, key string, try int) landfall.UID {
	return landfall.CommitUID(app.UIDSpace, landfall.CommitSHA("key "+key), try)
}

// owns fails with Conflict when a package's version is another app's, or is gone.
func (e *edit) owns(ctx context.Context, pkg landfall.Version) error {
	if pkg.Number == 0 {
		return nil
	}
	row, err := e.tx.Unit(ctx, e.app, pkg.Unit)
	if err != nil {
		return err
	}
	if _, err := e.tx.VersionByNumber(ctx, row.ID, pkg.Number); err != nil || row.App == e.app.ID {
		return err
	}
	return landfall.Errorf("deploy.MakeVersion", landfall.Conflict,
		"%s belongs to an app: a function that is made by hand runs a package that is made by hand; name another "+
			"package, or declare the function in the specs of that app and push", pkg.Unit)
}

// handMade returns the unit that a version is to be of, and the versions that it refers to.
func (e *edit) handMade(ctx context.Context, n HandVersion, latest landfall.Version) (versioning.Unit,
	[]store.GroupUnit, error) {
	unit := versioning.Unit{Declared: versioning.Declared{Unit: n.Unit, Spec: latest.Spec}, Digest: latest.Digest}
	if n.Unit.Kind != landfall.FunctionUnit {
		return unit, nil, nil
	}
	changed, err := spec.WithCode(latest.Spec, n.Package.Unit.Name, n.Environment, n.Entrypoint)
	if err != nil {
		return unit, nil, err
	}
	pkg := landfall.UnitID{Kind: landfall.PackageUnit, Name: spec.ReadPackage(changed)}
	used := store.GroupUnit{GroupUnit: landfall.GroupUnit{Unit: pkg, UID: n.Package.UID, Number: n.Package.Number,
		Digest: n.Package.Digest}}
	if n.Package.Number == 0 {
		if used, err = e.packageOf(ctx, latest); err != nil {
			return unit, nil, err
		}
	}
	beside := []store.GroupUnit{used}
	others := append(versioning.InForce(e.units), used.GroupUnit) // the package, instead of the one in force
	unit, err = ResolveFunction(n.Unit, changed, e.app.Name, others)
	return unit, beside, err
}

// ResolveFunction returns the unit of a function with a spec, given the other units; of two with one name the last one
// counts.
func ResolveFunction(id landfall.UnitID, fields json.RawMessage, where string,
	others []landfall.GroupUnit) (versioning.Unit, error) {
	f, err := spec.ReadFunctionVersion(fields)
	if err != nil {
		return versioning.Unit{}, err
	}
	return versioning.ResolveAmong(versioning.Declared{
		Unit: id, Spec: fields, Where: where, Refs: []landfall.UnitID{
			{Kind: landfall.PackageUnit, Name: spec.ReadPackage(fields)},
			{Kind: landfall.EnvironmentUnit, Name: f.Environment.Name},
		},
	}, others)
}

// packageOf returns the version of a package that a function's version runs.
func (e *edit) packageOf(ctx context.Context, f landfall.Version) (store.GroupUnit, error) {
	row, v, err := versioning.PackageOf(ctx, e.tx, f)
	return store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: row.Unit, UID: v.UID, Number: v.Number,
		Digest: v.Digest}}, err
}

// CarryOver returns the units of an app of a namespace that are in force: those of its last group version that are
// still its own, each with the newest version that is there. It has none before its first apply.
func CarryOver(ctx context.Context, tx *store.Tx, app landfall.App) ([]store.GroupUnit, error) {
	last, err := tx.LastApply(ctx, app.ID, "", time.Time{})
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	units, err := tx.GroupUnits(ctx, app.ID, last.Group)
	if err != nil {
		return nil, err
	}
	var still []store.GroupUnit
	for _, u := range units {
		row, err := tx.Unit(ctx, app, u.Unit)
		if err == nil && row.App != app.ID { // another app has taken it over
			continue
		}
		var number int64
		if err == nil {
			number, err = tx.LatestNumber(ctx, u.UnitID)
		}
		if err == nil && number != u.Number {
			var v landfall.Version
			if v, err = tx.VersionByNumber(ctx, u.UnitID, number); err == nil {
				u.UID, u.Number, u.Digest = v.UID, v.Number, v.Digest
			}
		}
		switch {
		case landfall.Is(err, landfall.NotFound): // all versions were deleted
			continue
		case err != nil:
			return nil, err
		}
		still = append(still, u)
	}
	return still, nil
}
