package stored_test

import (
	"fmt"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/registry/stored"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// A tag that moves from release to release answers all the time: what gateways read of an app is of one moment,
// whatever is committed while they read.
func TestTablesAreOfOneMoment(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{"SQLite": storetest.SQLite,
		"PostgreSQL": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const moves = 100
			db := storetest.Open(t, database(t))
			err := db.Update(t.Context(), func(tx *store.Tx) error {
				if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 1); err != nil {
					return err
				}
				return tx.CreateApp(t.Context(), landfall.App{ID: "1", Namespace: landfall.DefaultNamespace, Name: "shop",
					Created: time.Now()})
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := moveTag(t, db, 0); err != nil {
				t.Fatal(err)
			}
			moved := make(chan error, 1)
			go func() {
				var err error
				for n := 1; n <= moves && err == nil; n++ {
					err = moveTag(t, db, n)
				}
				moved <- err
			}()
			for over := false; !over; {
				select {
				case err := <-moved:
					if err != nil {
						t.Fatal(err)
					}
					over = true
				default:
				}
				app, err := stored.Source{DB: db}.App(t.Context(), "1")
				if err != nil {
					t.Fatal(err)
				}
				if got := registry.New([]registry.App{app}).Resolve("shop", "feature", true); got.Outcome != registry.Found {
					t.Fatalf("the tag leads to %v of change %d, want a release that is accessible", got.Outcome, app.Changed)
				}
			}
		})
	}
}

// moveTag makes one more release of the app 1, and moves its tag there.
func moveTag(t *testing.T, db *store.DB, n int) error {
	ctx, id := t.Context(), landfall.UID(fmt.Sprintf("aaaaa%03d", n))
	return db.Update(ctx, func(tx *store.Tx) error {
		if err := tx.PutRelease(ctx, landfall.Release{App: "1", ID: id, Line: landfall.Production,
			Created: time.Now()}); err != nil {
			return err
		}
		if err := tx.PutTag(ctx, landfall.Tag{App: "1", Name: "feature", Release: id}); err != nil {
			return err
		}
		_, err := tx.Changed(ctx, "1")
		return err
	})
}
