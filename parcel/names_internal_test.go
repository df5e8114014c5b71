package parcel

import (
	"errors"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// A version beside a release that is there already runs with the environment that an import brings back.
func TestImportBringsBackAnEnvironment(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), storetest.Open(t, storetest.SQLite(t))
	app := landfall.App{ID: "shop-id", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main",
		Created: time.Now()}
	id := landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: "python"}
	err := db.Update(ctx, func(tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(ctx, app.Namespace, 0), tx.CreateApp(ctx, app))
		row, made := tx.CreateUnit(ctx, app, id)
		env := func(number int64) store.GroupUnit {
			return store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: id, UID: landfall.NewUID(),
				Number: number, Digest: "sha256:1"}}
		}
		g := landfall.Group{App: app.ID, UID: landfall.NewUID(), Created: time.Now()}
		err = errors.Join(err, made, tx.CreateGroup(ctx, g, []store.GroupUnit{env(1)})) // no. 1 was collected since
		w := &installation{parcel: &Parcel{}, beside: []*beside{{uid: g.UID, parts: []store.GroupUnit{env(2)}}}}
		return errors.Join(err, w.makeGroups(ctx, tx, landfall.Group{App: app.ID, UID: landfall.NewUID()}, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range testkit.Must(db.Groups(ctx, app.ID, time.Time{}, 1))(t) {
		units := testkit.Must(db.GroupUnits(ctx, app.ID, g.UID))(t)
		testkit.Equal(t, "the number of its environment", units[0].Number, int64(2))
	}
}
