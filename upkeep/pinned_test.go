package upkeep_test

import (
	"encoding/json"
	"errors"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// A version that a trigger of an accessible release names by its number stays with its package, though no release has
// it, for as long as the release can be reached.
func TestPinnedVersionStays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, trigger := t.Context(), landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "hello"}
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(ctx, accepttest.AppID)
		for _, id := range []landfall.UnitID{packaged, function, trigger} {
			_, made := tx.CreateUnit(ctx, app, id)
			err = errors.Join(err, made)
		}
		err = errors.Join(err, release(ctx, tx, app, "pinnable", map[landfall.UnitID][]string{packaged: nil}))
		row, found := tx.Unit(ctx, app, function)
		row.LastNumber = 1
		runs := landfall.FunctionContent{Package: landfall.PackageRef{Name: "cart-pinnable", Namespace: app.Namespace,
			ResourceVersion: "1"}}
		err = errors.Join(err, found, tx.UpdateUnit(ctx, row), tx.CreateVersion(ctx, row.ID, landfall.Version{Number: 1,
			UID: "pinnable", Digest: "sha256:1", Spec: json.RawMessage(`{}`), Content: testkit.Encode(t, runs), Created: noon}))
		named, read := spec.ReadTrigger(trigger.Kind, trigger.Name, map[string]any{"relativeurl": "/hello",
			"methods": []any{"GET"}, "functionref": map[string]any{"type": "name", "name": "cart:1"}}, nil, spec.Limits{})
		row, found = tx.Unit(ctx, app, trigger)
		row.LastNumber = 1
		v := landfall.Version{Number: 1, UID: "pinning", Digest: "sha256:2", Spec: named.Spec, Created: noon}
		g := landfall.Group{UID: "pinning", App: app.ID, Digest: "sha256:3", Created: noon}
		err = errors.Join(err, read, found, tx.UpdateUnit(ctx, row), tx.CreateVersion(ctx, row.ID, v),
			tx.CreateGroup(ctx, g, []store.GroupUnit{{UnitID: row.ID,
				GroupUnit: landfall.GroupUnit{Unit: trigger, UID: v.UID, Number: 1, Digest: v.Digest}}}))
		_, made := deploy.Create(ctx, tx, g, landfall.Preview, noon)
		return errors.Join(err, made, deploy.Expire(ctx, tx, app, "pinnable", noon))
	})
	collected := func(what string, want int) {
		t.Helper()
		if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []landfall.UnitID{packaged, function} {
			row := testkit.Must(s.Receiver.DB.Unit(ctx, s.app(), id))(t)
			there := testkit.Must(s.Receiver.DB.Versions(ctx, row.ID, true))(t)
			testkit.Equal(t, what+": versions of the "+id.String(), len(there), want)
		}
	}
	// V2: a trigger never points at something deleted
	collected("while a trigger names it", 1)
	s.Update(func(tx *store.Tx) error { return deploy.Expire(ctx, tx, s.app(), "pinning", noon) })
	collected("when its release has expired", 0)
}
