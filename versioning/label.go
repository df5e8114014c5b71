package versioning

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// CheckLabel fails unless a new version of a unit can have a label: with Invalid when none could, with Conflict when a
// version or an alias of the unit is called so. No label is always right.
func CheckLabel(ctx context.Context, r Reader, row store.Unit, label string) error {
	const op landfall.Op = "versioning.CheckLabel"
	if label == "" {
		return nil
	}
	if why := unfit(label); why != "" {
		return landfall.Errorf(op, landfall.Invalid, "%q cannot be the label of a version: %s", label, why)
	}
	taken := func(by string) error {
		return landfall.Errorf(op, landfall.Conflict, "%s has %s %q already: choose another label", row.Unit, by, label)
	}
	_, err := r.VersionNamed(ctx, row.ID, label)
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

// unfit says why a text cannot name a version, as a label or an alias; empty when it can.
func unfit(name string) string {
	switch {
	case strings.Trim(name, ".") == "":
		return "it has no letter"
	case slices.Contains([]string{landfall.LivePointer, landfall.Latest, "all"}, name):
		return fmt.Sprintf("%q is reserved", name)
	case strings.Trim(name, "0123456789") == "":
		return "digits alone are the number of a version"
	case strings.HasPrefix(name, "sha256:"):
		return "it would be taken for a digest"
	case utf8.RuneCountInString(name) > maxAlias || !utf8.ValidString(name) || strings.ContainsFunc(name, isAliasSyntax):
		return fmt.Sprintf("it has at most %d characters, without spaces, slashes, commas, = and control characters",
			maxAlias)
	}
	return ""
}
