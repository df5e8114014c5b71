package upkeep_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// page is the object of a prefix.
const page = "index.html"

// race is an app to which branches push, whose releases expire and are rolled back to, and which is collected, all at the
// same time.
type race struct {
	*shop

	unit store.Unit
}

// Collection beside pushes that share what earlier versions stored: whatever a release points into is there, at every
// moment, because what holds it is checked in the transaction that marks it. So does a release that was rolled back to.
func TestCollectionRace(t *testing.T) {
	t.Parallel()
	const branches, variable = 4, "LANDFALL_RACE_ROUNDS"
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv(variable), "100"))
	if err != nil || rounds < branches {
		t.Fatalf("%s is %q; right would be a number from %d", variable, os.Getenv(variable), branches)
	}
	r := &race{shop: newShop(t)}
	r.Update(func(tx *store.Tx) error {
		var err error
		r.unit, err = tx.CreateUnit(t.Context(), r.app(), landfall.UnitID{Kind: landfall.StaticUnit, Name: "/"})
		return err
	})
	var deleted atomic.Int64
	r.objects.before = func() error {
		deleted.Add(1)
		return nil
	}
	done := make(chan struct{})
	var work, sweep errgroup.Group
	for branch := range branches {
		work.Go(func() error {
			for i := range rounds / branches {
				if err := r.pushOne(t.Context(), fmt.Sprintf("b%dr%d", branch, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	sweep.Go(func() error {
		for {
			if err := r.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
				return err
			}
			select {
			case <-done:
				return nil
			default:
			}
		}
	})
	sweep.Go(func() error {
		for {
			// L-031: what is accessible is never deleted under it
			if err := r.check(t.Context()); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return nil
			default:
			}
		}
	})
	var moved, expired atomic.Int64
	for count, change := range map[*atomic.Int64]func(context.Context, *store.Tx) error{&moved: r.rollback, &expired: r.expire} {
		sweep.Go(func() error {
			for {
				switch err := r.Receiver.DB.Update(t.Context(), func(tx *store.Tx) error { return change(t.Context(), tx) }); {
				case err == nil:
					count.Add(1)
				case !landfall.Is(err, landfall.Conflict):
					return err
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		})
	}
	err = work.Wait()
	close(done)
	if err != nil {
		t.Error(err)
	}
	if err := sweep.Wait(); err != nil {
		t.Error(err)
	}
	beside := deleted.Load()
	if err := r.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
		t.Error(err)
	}
	if err := r.check(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d pushes, %d rollbacks, %d releases expired by hand, %d looks and deletions of collections", rounds,
		moved.Load(), expired.Load(), beside)
	if beside == 0 || moved.Load() == 0 || expired.Load() == 0 {
		t.Error("nothing was collected, rolled back or expired beside the pushes")
	}
	// What nothing reaches is gone: of all that was stored, only what accessible releases point into is left.
	reached, err := r.reached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range r.objects.keys("") {
		if prefix := strings.TrimSuffix(key, page); !slices.Contains(reached, prefix) {
			t.Errorf("the prefix %s is left, and no accessible release points into it", prefix)
		}
	}
}

// pushOne makes a release whose static unit has files of its own, and shares those of the newest version that it knows.
func (r *race) pushOne(ctx context.Context, name string) error {
	own, run := "static/"+name+"/", "run-"+name
	var known []string
	versions, err := r.Receiver.DB.Versions(ctx, r.unit.ID, true)
	if err != nil {
		return err
	}
	if len(versions) > 0 { // it may be collected from here on
		if known, err = r.Receiver.DB.PrefixesOf(ctx, r.unit.ID, versions[len(versions)-1].Number); err != nil {
			return err
		}
	}
	known = known[:min(len(known), 3)]
	var refused []string
	err = r.Receiver.DB.Update(ctx, func(tx *store.Tx) error {
		err := tx.CreateRun(ctx, landfall.Run{ID: run, App: accepttest.AppID, State: landfall.RunRunning, Created: noon})
		if err != nil {
			return err
		}
		if _, err := tx.Reserve(ctx, run, accepttest.AppID, []string{own}, noon); err != nil {
			return err
		}
		refused, err = tx.Share(ctx, run, known)
		return err
	})
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(p string) bool { return slices.Contains(refused, p) })
	r.objects.put(own + page)
	return r.Receiver.DB.Update(ctx, func(tx *store.Tx) error {
		if err := release(ctx, tx, r.app(), name, map[landfall.UnitID][]string{r.unit.Unit: append(known, own)}); err != nil {
			return err
		}
		if _, err := deploy.ExpireSurplus(ctx, tx, r.app(), noon); err != nil {
			return err
		}
		return tx.DropReservations(ctx, run)
	})
}

// rollback makes one of the accessible releases live. Conflict when there is none.
func (r *race) rollback(ctx context.Context, tx *store.Tx) error {
	to, err := r.any(ctx, tx)
	if err != nil {
		return err
	}
	app, err := tx.App(ctx, accepttest.AppID)
	if err != nil {
		return err
	}
	return deploy.Rollback(ctx, tx, &app, to, deploy.Mover{Actor: "admin", At: noon})
}

// expire expires one of the accessible releases. Conflict when there is none, or it is live.
func (r *race) expire(ctx context.Context, tx *store.Tx) error {
	uid, err := r.any(ctx, tx)
	if err != nil {
		return err
	}
	app, err := tx.App(ctx, accepttest.AppID)
	if err != nil {
		return err
	}
	return deploy.Expire(ctx, tx, app, uid, noon)
}

// any returns the UID of one of the accessible releases. Conflict when there is none.
func (r *race) any(ctx context.Context, tx *store.Tx) (landfall.UID, error) {
	all, err := tx.AccessibleReleases(ctx, accepttest.AppID)
	if err == nil && len(all) == 0 {
		err = landfall.Errorf("test", landfall.Conflict, "there is no release")
	}
	if err != nil {
		return "", err
	}
	return all[rand.IntN(len(all))].ID, nil
}

// check fails when an accessible release lacks its version, or a prefix that it points into. It looks in a transaction,
// beside which nothing expires.
func (r *race) check(ctx context.Context) error {
	return r.Receiver.DB.Update(ctx, func(tx *store.Tx) error {
		releases, err := tx.AccessibleReleases(ctx, accepttest.AppID)
		if err != nil {
			return err
		}
		app, err := tx.App(ctx, accepttest.AppID)
		if err != nil {
			return err
		}
		if app.Live != "" && !slices.ContainsFunc(releases, func(x landfall.Release) bool { return x.ID == app.Live }) {
			return fmt.Errorf("the release %s is live and not accessible", app.Live)
		}
		for _, release := range releases {
			units, err := tx.GroupUnits(ctx, accepttest.AppID, release.ID)
			if err != nil {
				return err
			}
			for _, u := range units {
				v, err := tx.VersionByNumber(ctx, u.UnitID, u.Number)
				if err != nil || v.Content == nil {
					return fmt.Errorf("the release %s has version %d as %+v: %w", release.ID, u.Number, v, err)
				}
				prefixes, err := tx.PrefixesOf(ctx, u.UnitID, u.Number)
				if err != nil {
					return err
				}
				for _, p := range prefixes {
					if len(r.objects.keys(p)) == 0 {
						return fmt.Errorf("the release %s points into %s, which is deleted", release.ID, p)
					}
				}
			}
		}
		return nil
	})
}

// reached returns the prefixes that accessible releases point into.
func (r *race) reached(ctx context.Context) (all []string, err error) {
	releases, err := r.Receiver.DB.AccessibleReleases(ctx, accepttest.AppID)
	if err != nil {
		return nil, err
	}
	for _, release := range releases {
		units, err := r.Receiver.DB.GroupUnits(ctx, accepttest.AppID, release.ID)
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			prefixes, err := r.Receiver.DB.PrefixesOf(ctx, u.UnitID, u.Number)
			if err != nil {
				return nil, err
			}
			all = append(all, prefixes...)
		}
	}
	return all, nil
}
