package pipeline

import (
	"context"
	"regexp"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// handPlace is a place in the file of a version by hand. People did not write it, so errors do not name it.
var handPlace = regexp.MustCompile(`(^|\n|; )\S*` + regexp.QuoteMeta(spec.HandFile) + `:\d+: `)

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

// onLatest returns the units of the plan with functions as a person said them, on their latest versions: these may be
// others than when it was said.
func (k storedPlan) onLatest(ctx context.Context, tx *store.Tx, base []store.GroupUnit) ([]versioning.Unit, error) {
	units := slices.Clone(k.units)
	for i, u := range units {
		said, ok := k.byHand[u.Unit]
		at := slices.IndexFunc(base, func(b store.GroupUnit) bool { return b.Unit == u.Unit })
		if !ok || at < 0 || u.Unit.Kind != landfall.FunctionUnit {
			continue
		}
		latest, err := tx.VersionByNumber(ctx, base[at].UnitID, base[at].Number)
		if err != nil {
			return nil, err
		}
		fields, err := spec.WithCode(latest.Spec, spec.ReadPackage(u.Spec), said.Environment, said.Entrypoint)
		if err != nil {
			return nil, err
		}
		units[i], err = deploy.ResolveFunction(u.Unit, fields, u.Where,
			append(versioning.InForce(base), groupUnits(k.units)...))
		if err != nil {
			return nil, err
		}
	}
	return units, nil
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
