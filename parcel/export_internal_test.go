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

// A release of a fork is in no archive: an import would forget whose it is, and could make it live.
func TestNoExportOfForks(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), storetest.Open(t, storetest.SQLite(t))
	app := landfall.App{ID: "shop-id", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main",
		Created: time.Now()}
	g := landfall.Group{App: app.ID, UID: landfall.NewUID(), Created: time.Now(), Fork: 12}
	err := db.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.EnsureNamespace(ctx, app.Namespace, 0), tx.CreateApp(ctx, app), tx.CreateGroup(ctx, g, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	x := &Exporter{DB: db}
	_, err = x.Prepare(ctx, app, g.UID)
	// S18: what a fork made never becomes live
	testkit.Kind(t, "an export", err, landfall.Conflict, "fork of pull request 12", "merge the pull request")
}
