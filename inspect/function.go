package inspect

import (
	"context"
	"encoding/json"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Side finds the specs of one side of a diff; nothing for a unit that is not in force there.
type Side func(id landfall.UnitID) (json.RawMessage, error)

// NoteFunctions marks the functions of a diff that may reach the network after the change and could not before, and
// those with another contract.
func NoteFunctions(changes []landfall.UnitChange, before, after Side) error {
	for i, c := range changes {
		if c.Unit.Kind != landfall.FunctionUnit || c.Change == landfall.Unchanged || c.Change == landfall.Removed {
			continue
		}
		var err error
		if changes[i].Contract, err = otherContract(c, before, after); err != nil {
			return err
		}
		has, err := after.network(c.Unit.Name)
		if err != nil || !has {
			if landfall.Ignore(err, landfall.NotFound) != nil {
				return err
			}
			continue
		}
		had, err := before.network(c.Unit.Name)
		if landfall.Ignore(err, landfall.NotFound) != nil { // a deleted version has no contract
			return err
		}
		changes[i].Network = !had
	}
	return nil
}

// otherContract reports whether a changed function takes or returns other data than before. For a deleted version it is
// not known.
func otherContract(c landfall.UnitChange, before, after Side) (bool, error) {
	var promises [2]string
	for i, side := range []Side{before, after} {
		stored, err := side(c.Unit)
		if err != nil || stored == nil {
			return false, landfall.Ignore(err, landfall.NotFound)
		}
		f, err := spec.ReadFunctionVersion(stored)
		if err != nil {
			return false, err
		}
		var promise struct {
			Input  json.RawMessage `json:"input"`
			Output json.RawMessage `json:"output"`
		}
		if len(f.Contract) > 0 {
			if err := json.Unmarshal(f.Contract, &promise); err != nil {
				return false, err
			}
		}
		promises[i] = string(promise.Input) + "\n" + string(promise.Output) // canonical, so without line ends
	}
	return promises[0] != promises[1], nil
}

// network reports whether a function may reach the network, by its own spec or its environment's.
func (s Side) network(function string) (bool, error) {
	stored, err := s(landfall.UnitID{Kind: landfall.FunctionUnit, Name: function})
	if err != nil || stored == nil {
		return false, err
	}
	f, err := spec.ReadFunctionVersion(stored)
	if err != nil {
		return false, err
	}
	environment, err := s(landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: f.Environment.Name})
	if err != nil {
		return false, err
	}
	return spec.ReadNetwork(stored, environment)
}

// Stored returns the side of versions that are in force.
func Stored(ctx context.Context, db *store.DB, units []store.GroupUnit) Side {
	return func(id landfall.UnitID) (json.RawMessage, error) {
		i := slices.IndexFunc(units, func(u store.GroupUnit) bool { return u.Unit == id })
		if i < 0 {
			return nil, nil
		}
		v, err := db.VersionByNumber(ctx, units[i].UnitID, units[i].Number)
		return v.Spec, err
	}
}

// Declared returns the side of the units that a commit declares.
func Declared(units []versioning.Unit) Side {
	return func(id landfall.UnitID) (json.RawMessage, error) {
		i := slices.IndexFunc(units, func(u versioning.Unit) bool { return u.Unit == id })
		if i < 0 {
			return nil, nil
		}
		return units[i].Spec, nil
	}
}
