package versioning

import (
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Diff compares two sets of units in force by their digests. It lists every unit of both, in the order of
// landfall.UnitKinds, then by name; Diff(x, x) has only unchanged ones.
func Diff(before, after []landfall.GroupUnit) []landfall.UnitChange {
	old := make(map[landfall.UnitID]landfall.GroupUnit, len(before))
	for _, u := range before {
		old[u.Unit] = u
	}
	changes := make([]landfall.UnitChange, 0, max(len(before), len(after)))
	for _, u := range after {
		c := landfall.UnitChange{Unit: u.Unit, Change: landfall.Added, After: u.UID, Number: u.Number}
		if b, ok := old[u.Unit]; ok {
			delete(old, u.Unit)
			c.Before, c.Change = b.UID, landfall.Changed
			if b.Digest == u.Digest {
				c.Change = landfall.Unchanged
			}
		}
		changes = append(changes, c)
	}
	for _, u := range old {
		changes = append(changes, landfall.UnitChange{Unit: u.Unit, Change: landfall.Removed, Before: u.UID,
			Number: u.Number})
	}
	slices.SortFunc(changes, func(a, b landfall.UnitChange) int { return compareUnits(a.Unit, b.Unit) })
	return changes
}

// GroupDigest returns the digest of a group version, computed from the names and digests of its units.
func GroupDigest(units []landfall.GroupUnit) landfall.Digest {
	sorted := slices.Clone(units)
	slices.SortFunc(sorted, func(a, b landfall.GroupUnit) int { return compareUnits(a.Unit, b.Unit) })
	parts := make([][]byte, 0, 1+3*len(sorted))
	parts = append(parts, []byte(ruleSet))
	for _, u := range sorted {
		parts = append(parts, []byte(u.Unit.Kind), []byte(u.Unit.Name), []byte(u.Digest))
	}
	return hashParts(parts)
}

// InForce returns the units of a group version in the form that Diff and GroupDigest take.
func InForce(units []store.GroupUnit) []landfall.GroupUnit {
	all := make([]landfall.GroupUnit, 0, len(units))
	for _, u := range units {
		all = append(all, u.GroupUnit)
	}
	return all
}
