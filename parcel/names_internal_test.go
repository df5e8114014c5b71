package parcel

import (
	"encoding/json"
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

// An app version that is there keeps the versions that are there: the one of a secret that was revoked does not become
// another one with the same value.
func TestImportKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), storetest.Open(t, storetest.SQLite(t))
	app := landfall.App{ID: "shop-id", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main",
		Created: time.Now()}
	id := landfall.UnitID{Kind: landfall.SecretUnit, Name: "KEY"}
	g := landfall.Group{App: app.ID, UID: landfall.NewUID(), Created: time.Now()}
	err := db.Update(ctx, func(tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(ctx, app.Namespace, 0), tx.CreateApp(ctx, app))
		row, made := tx.CreateUnit(ctx, app, id)
		err = errors.Join(err, made)
		var values []store.GroupUnit
		for _, number := range []int64{1, 2} {
			v := landfall.Version{Unit: id, UID: landfall.NewUID(), Number: number, Digest: "sha256:1",
				Spec: json.RawMessage("{}")}
			err = errors.Join(err, tx.CreateVersion(ctx, row.ID, v))
			values = append(values, store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: id, UID: v.UID,
				Number: number, Digest: v.Digest}})
		}
		err = errors.Join(err, tx.CreateGroup(ctx, g, values[:1]))
		w := &installation{parcel: &Parcel{}, beside: []*beside{{uid: g.UID}}}
		return errors.Join(err, w.makeGroups(ctx, tx, landfall.Group{App: app.ID, UID: landfall.NewUID()}, values[1:]))
	})
	if err != nil {
		t.Fatal(err)
	}
	units := testkit.Must(db.GroupUnits(ctx, app.ID, g.UID))(t)
	testkit.Equal(t, "the number of its secret", units[0].Number, int64(1))
}
