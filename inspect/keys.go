package inspect

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"landfall.dev/landfall"
)

// keyChanges lists the keys that differ in the spec of a unit, by name: every key of the configuration and of triggers,
// and of functions that were there before. Nothing for other units, and for a deleted version: what it had is not
// known.
func keyChanges(c landfall.UnitChange, before, after Side) ([]landfall.KeyChange, error) {
	whole := c.Unit.Kind == landfall.ConfigUnit || c.Unit.Kind.IsTrigger()
	if c.Change == landfall.Unchanged ||
		!whole && (c.Unit.Kind != landfall.FunctionUnit || c.Change != landfall.Changed) {
		return nil, nil
	}
	var sides [2]map[string]json.RawMessage
	for i, side := range []Side{before, after} {
		stored, err := side(c.Unit)
		if err != nil {
			return nil, landfall.Ignore(err, landfall.NotFound)
		}
		if len(stored) == 0 {
			continue
		}
		if err := json.Unmarshal(stored, &sides[i]); err != nil {
			return nil, err
		}
	}
	keys := maps.Clone(sides[1])
	if keys == nil {
		keys = map[string]json.RawMessage{}
	}
	maps.Copy(keys, sides[0])
	var changes []landfall.KeyChange
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if was, is := sides[0][key], sides[1][key]; !bytes.Equal(was, is) {
			changes = append(changes, landfall.KeyChange{Key: key, Before: was, After: is})
		}
	}
	return changes, nil
}
