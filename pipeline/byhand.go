package pipeline

import (
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// newVersions returns the versions that pushes make by hand, by their units.
func newVersions(pushes []landfall.Push) map[landfall.UnitID]landfall.NewVersion {
	all := map[landfall.UnitID]landfall.NewVersion{}
	for _, push := range pushes {
		if push.Apply == nil {
			continue
		}
		for _, v := range push.Apply.Versions {
			all[v.Unit] = v
		}
	}
	return all
}

// over returns units with others laid over them: each takes the place of the one of its name.
func over(units []store.GroupUnit, layers ...[]store.GroupUnit) []store.GroupUnit {
	all := slices.Clone(units)
	for _, layer := range layers {
		for _, u := range layer {
			if at := slices.IndexFunc(all, func(below store.GroupUnit) bool { return below.Unit == u.Unit }); at >= 0 {
				all[at] = u
				continue
			}
			all = append(all, u)
		}
	}
	return all
}

func groupUnitsOf(units []landfall.GroupUnit) []store.GroupUnit {
	all := make([]store.GroupUnit, 0, len(units))
	for _, u := range units {
		all = append(all, store.GroupUnit{GroupUnit: u})
	}
	return all
}
