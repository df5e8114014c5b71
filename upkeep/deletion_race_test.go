package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// rivals are a shop whose function has two versions, of which nothing holds the first one, and what people do to it.
type rivals struct {
	*shop

	editor *deploy.Editor
	row    store.Unit
	during func() // is called in the transaction that deletes, when it is known what goes
}

func newRivals(t *testing.T, db *store.DB) *rivals {
	t.Helper()
	r := &rivals{shop: newShopIn(t, db), during: func() {}}
	a := r.Receiver.Acceptor
	r.editor = &deploy.Editor{DB: db, Rollout: a.Rollout, Now: func() time.Time {
		r.during()
		return noon
	}}
	r.Update(func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), accepttest.AppID)
		if err != nil {
			return err
		}
		if r.row, err = tx.CreateUnit(t.Context(), app, function); err != nil {
			return err
		}
		_, err = tx.CreateUnit(t.Context(), app, static)
		err = errors.Join(err, tx.CreateRun(t.Context(),
			landfall.Run{ID: "run", App: app.ID, State: landfall.RunRunning, Created: noon}))
		for _, name := range []string{"first", "second"} {
			pages := []string{"pages/" + name + "/"}
			_, reserved := tx.Reserve(t.Context(), "run", app.ID, pages, noon)
			err = errors.Join(err, reserved,
				release(t.Context(), tx, app, name, map[landfall.UnitID][]string{function: nil, static: pages}))
			r.objects.put(pages[0] + page)
		}
		err = errors.Join(err, tx.DropReservations(t.Context(), "run"))
		return errors.Join(err, deploy.Expire(t.Context(), tx, app, "first", noon))
	})
	return r
}

func (r *rivals) remove() error {
	_, err := r.editor.DeleteVersions(r.T.Context(), r.row, "1", false)
	return err
}

// rival is something that begins to need the first version.
type rival struct {
	name   string
	refuse landfall.Kind // what it comes to when the version is gone
	win    string        // what keeps the version, as a person reads it who deletes it
	needs  func(ctx context.Context, r *rivals, tx *store.Tx) error
}

func allRivals() []rival {
	return []rival{
		{"alias", landfall.NotFound, "the alias stable", func(ctx context.Context, r *rivals, tx *store.Tx) error {
			_, err := versioning.SetAlias(ctx, tx, r.row, versioning.NewAlias{Name: "stable", Create: true,
				To: []versioning.Weight{{Selector: "1", Percent: 100}}, At: noon})
			return err
		}},
		{"function tag", landfall.NotFound, "the function tag nightly",
			func(ctx context.Context, r *rivals, tx *store.Tx) error {
				_, _, err := versioning.SetFunctionTag(ctx, tx, versioning.NewFunctionTag{Namespace: r.row.Namespace,
					Name: "nightly", Create: true, At: noon,
					Functions: []landfall.Reference{{Name: r.row.Unit.Name, Selector: "1"}}})
				return err
			}},
		{"release", landfall.Conflict, "the release first", func(ctx context.Context, r *rivals, tx *store.Tx) error {
			g, err := tx.Group(ctx, accepttest.AppID, "first")
			if err != nil {
				return err
			}
			whole, err := deploy.MakeReachable(ctx, tx, r.app(), g, noon)
			if err == nil && !whole { // a run makes it again, with a version of another number
				err = landfall.Errorf("test", landfall.Conflict, "a part of it is gone")
			}
			return err
		}},
	}
}

// A version is deleted while somebody begins to need it: one of the two wins, and the other one hears of it. Nothing
// ever points at a version that is gone.
func TestDeletionRace(t *testing.T) {
	t.Parallel()
	for engine, open := range map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for _, with := range allRivals() {
				t.Run(with.name, func(t *testing.T) {
					t.Parallel()
					t.Run("the deletion was first", func(t *testing.T) {
						t.Parallel()
						r := newRivals(t, storetest.Open(t, open(t)))
						needed := make(chan error, 1)
						r.during = func() { // between the look at what holds the version, and its end
							r.during = func() {}
							go func() {
								needed <- r.Receiver.DB.Update(t.Context(), func(tx *store.Tx) error {
									return with.needs(t.Context(), r, tx)
								})
							}()
						}
						if err := r.remove(); err != nil {
							t.Errorf("the deletion: %v", err)
						}
						// N-037: what came between the look and the deletion waited for it
						testkit.Kind(t, "what came after", <-needed, with.refuse)
						r.wantNothingDangles()
					})
					t.Run("the deletion was second", func(t *testing.T) {
						t.Parallel()
						r := newRivals(t, storetest.Open(t, open(t)))
						removed := make(chan error, 1)
						r.Update(func(tx *store.Tx) error {
							if err := with.needs(t.Context(), r, tx); err != nil {
								return err
							}
							go func() { removed <- r.remove() }() // before that is committed
							return nil
						})
						// N-037: it sees what was committed while it waited
						testkit.Kind(t, "the deletion", <-removed, landfall.Conflict, with.win)
						r.wantNothingDangles()
					})
				})
			}
		})
	}
}

// A collection deletes objects after its transaction. Who begins to need a version then hears that it is gone, and what
// somebody needed before stays.
func TestCollectionMeanwhile(t *testing.T) {
	t.Parallel()
	for _, with := range allRivals() {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s before it %t", with.name, before), func(t *testing.T) {
				t.Parallel()
				r := newRivals(t, storetest.Open(t, storetest.SQLite(t)))
				needs := func() error {
					return r.Receiver.DB.Update(t.Context(), func(tx *store.Tx) error { return with.needs(t.Context(), r, tx) })
				}
				if before {
					if err := needs(); err != nil {
						t.Error(err)
					}
				}
				var needed error
				r.objects.before = sync.OnceValue(func() error { // the version is gone, and the object is not
					if !before {
						needed = needs()
					}
					return nil
				})
				if err := r.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
					t.Fatal(err)
				}
				if !before {
					testkit.Kind(t, "what came meanwhile", needed, with.refuse) // N-037
				}
				r.wantNothingDangles()
			})
		}
	}
}

// wantNothingDangles fails the test when an alias, a function tag or an accessible release points at a version that is not there.
func (r *rivals) wantNothingDangles() {
	r.T.Helper()
	db, ctx := r.Receiver.DB, r.T.Context()
	there := testkit.Must(db.Versions(ctx, r.row.ID, true))(r.T)
	has := func(number int64) bool {
		return slices.ContainsFunc(there, func(v landfall.Version) bool { return v.Number == number })
	}
	for _, a := range testkit.Must(db.Aliases(ctx, r.row.ID))(r.T) {
		if !has(a.Shares[0].Number) {
			r.T.Errorf("the alias %s is at a version that is gone", a) // V2
		}
	}
	for _, name := range testkit.Must(db.TagsOfUnit(ctx, r.row.ID))(r.T) {
		if tag := testkit.Must(db.FunctionTag(ctx, r.row.Namespace, name))(r.T); len(tag.Functions) == 0 {
			r.T.Errorf("the function tag %s names a version that is gone", name) // V2
		}
	}
	for _, of := range testkit.Must(db.AccessibleReleases(ctx, accepttest.AppID))(r.T) {
		complete := testkit.Must(db.GroupComplete(ctx, accepttest.AppID, of.ID))(r.T)
		if pages := r.objects.keys("pages/" + string(of.ID) + "/"); !complete || len(pages) == 0 {
			r.T.Errorf("the release %s has the pages %q, and all its versions: %t", of.ID, pages, complete) // V2
		}
	}
}

// A function that another app owns by the time it is deleted stays: the person was asked about the app before.
func TestDeletionAfterANewOwner(t *testing.T) {
	t.Parallel()
	r := newRivals(t, storetest.Open(t, storetest.SQLite(t)))
	asked := r.row
	r.row.App = "another"
	testkit.Kind(t, "deleting it", r.remove(), landfall.Conflict, "another app owns function cart since the request came")
	r.row = asked
	if err := r.remove(); err != nil {
		t.Errorf("by its owner: %v", err)
	}
}
