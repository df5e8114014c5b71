package versioning

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// CheckLabel fails unless a new version of a unit can have a label: with Invalid when none could, with Conflict when a
// version or an alias of the unit is called so, or lists print a version so. No label is always right.
func CheckLabel(ctx context.Context, r Reader, row store.Unit, label string) error {
	const op landfall.Op = "versioning.CheckLabel"
	if label == "" {
		return nil
	}
	if why := landfall.UnfitName(label); why != "" {
		return landfall.Errorf(op, landfall.Invalid, "%q cannot be the label of a version: %s", label, why)
	}
	taken := func(by string) error {
		return landfall.Errorf(op, landfall.Conflict, "%s has %s %q already: choose another label", row.Unit, by, label)
	}
	_, err := versionCalled(ctx, r, row, label)
	if err == nil {
		return taken("a version")
	}
	if landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	_, err = r.Alias(ctx, row.ID, label)
	if err == nil {
		return taken("the alias")
	}
	return landfall.Ignore(err, landfall.NotFound)
}

// CheckNew fails with Conflict when a unit has a version.
func CheckNew(ctx context.Context, r Reader, row store.Unit) error {
	if _, err := Select(ctx, r, row, landfall.Latest); err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	return landfall.Errorf("versioning.CheckNew", landfall.Conflict,
		"there is a %s in the namespace %q already: landfall %s version create makes another version of it", row.Unit,
		row.Namespace, row.Unit.Kind)
}
