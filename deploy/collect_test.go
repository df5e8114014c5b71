package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// objects is an object store of prefixes alone.
type objects struct {
	mu    sync.Mutex
	there map[string]bool
}

func (o *objects) put(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.there[prefix] = true
}

func (o *objects) remove(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.there, prefix)
}

func (o *objects) missing(prefixes []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return o.there[p] })
}

// race is an app to which branches push, whose releases expire, and which is collected, all at the same time.
type race struct {
	*shop

	objects objects
	unit    store.Unit
}

// Collection beside pushes that share what earlier versions stored: whatever a release points into is there, at every
// moment, because what holds it is checked in the transaction that marks it.
func TestCollectionRace(t *testing.T) {
	t.Parallel()
	const branches, pushes = 4, 25
	r := &race{shop: newShop(t, 2), objects: objects{there: map[string]bool{}}}
	r.update(t, func(tx *store.Tx) error {
		var err error
		r.unit, err = tx.CreateUnit(t.Context(), r.app, landfall.UnitID{Kind: landfall.StaticUnit, Name: "/"})
		return err
	})
	done := make(chan struct{})
	var work, sweep errgroup.Group
	for branch := range branches {
		work.Go(func() error {
			for i := range pushes {
				if err := r.pushOne(t.Context(), fmt.Sprintf("b%dr%d", branch, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	collected := 0
	sweep.Go(func() error {
		for {
			n, err := r.collect(t.Context())
			if err != nil {
				return err
			}
			collected += n
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
	err := work.Wait()
	close(done)
	if err != nil {
		t.Error(err)
	}
	if err := sweep.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := r.collect(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.check(t.Context()); err != nil {
		t.Error(err)
	}
	if collected == 0 {
		t.Error("nothing was collected beside the pushes")
	}
	// What nothing reaches is gone: of all that was stored, only what accessible releases point into is left.
	reached, err := r.reached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for prefix := range r.objects.there {
		if !slices.Contains(reached, prefix) {
			t.Errorf("the prefix %s is left, and no accessible release points into it", prefix)
		}
	}
}

// pushOne makes a release whose static unit has files of its own, and shares those of the newest version that it knows.
func (r *race) pushOne(ctx context.Context, name string) error {
	own, run := "static/"+name+"/", "run-"+name
	var known []string
	versions, err := r.db.Versions(ctx, r.unit.ID, true)
	if err != nil {
		return err
	}
	if len(versions) > 0 { // it may be collected from here on
		if known, err = r.db.PrefixesOf(ctx, r.unit.ID, versions[len(versions)-1].Number); err != nil {
			return err
		}
	}
	known = known[:min(len(known), 3)]
	var refused []string
	err = r.db.Update(ctx, func(tx *store.Tx) error {
		err := tx.CreateRun(ctx, landfall.Run{ID: run, App: r.app.ID, State: landfall.RunRunning, Created: noon})
		if err != nil {
			return err
		}
		if _, err := tx.Reserve(ctx, run, r.app.ID, []string{own}, noon); err != nil {
			return err
		}
		refused, err = tx.Share(ctx, run, known)
		return err
	})
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(p string) bool { return slices.Contains(refused, p) })
	r.objects.put(own)
	return r.db.Update(ctx, func(tx *store.Tx) error {
		if err := r.release(ctx, tx, name, append(known, own)); err != nil {
			return err
		}
		return tx.DropReservations(ctx, run)
	})
}

// release makes a version that points into prefixes, its group version and its release; older ones expire.
func (r *race) release(ctx context.Context, tx *store.Tx, name string, prefixes []string) error {
	row, err := tx.Unit(ctx, r.app, r.unit.Unit)
	if err != nil {
		return err
	}
	row.LastNumber++
	if err := tx.UpdateUnit(ctx, row); err != nil {
		return err
	}
	digest := landfall.DigestOf([]byte(name))
	v := landfall.Version{Number: row.LastNumber, UID: landfall.UID(name), Digest: digest, Spec: json.RawMessage(`{}`),
		Content: json.RawMessage(`{}`), Created: noon}
	if err := tx.CreateVersion(ctx, row.ID, v); err != nil {
		return err
	}
	if err := tx.PointInto(ctx, row.ID, v.Number, prefixes); err != nil {
		return err
	}
	at := noon.Add(time.Duration(row.LastNumber) * time.Second)
	g := landfall.Group{UID: v.UID, App: r.app.ID, Digest: digest, Created: at}
	units := []store.GroupUnit{{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: row.Unit, UID: v.UID, Number: v.Number, Digest: digest}}}
	if err := tx.CreateGroup(ctx, g, units); err != nil {
		return err
	}
	if _, err := deploy.Create(ctx, tx, g, landfall.Preview, at); err != nil {
		return err
	}
	_, err = deploy.ExpireSurplus(ctx, tx, r.app, at)
	return err
}

// collect deletes what nothing holds, as the pipeline does, and returns how many prefixes that were.
func (r *race) collect(ctx context.Context) (int, error) {
	var prefixes []string
	err := r.db.Update(ctx, func(tx *store.Tx) error {
		unheld, err := tx.Unheld(ctx, r.app.ID)
		if err != nil {
			return err
		}
		for _, v := range unheld {
			if err := tx.DeleteVersion(ctx, v.Unit, v.Number); err != nil {
				return err
			}
		}
		prefixes, err = tx.MarkDeleting(ctx, r.app.ID)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, p := range prefixes {
		r.objects.remove(p)
		if err := r.db.Update(ctx, func(tx *store.Tx) error { return tx.DropPrefix(ctx, p) }); err != nil {
			return 0, err
		}
	}
	return len(prefixes), nil
}

// check fails when an accessible release lacks its version, or a prefix that it points into. It looks in a transaction,
// beside which nothing expires.
func (r *race) check(ctx context.Context) error {
	return r.db.Update(ctx, func(tx *store.Tx) error {
		releases, err := tx.AccessibleReleases(ctx, r.app.ID)
		if err != nil {
			return err
		}
		for _, release := range releases {
			units, err := tx.GroupUnits(ctx, r.app.ID, release.ID)
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
				if gone := r.objects.missing(prefixes); len(gone) > 0 {
					return fmt.Errorf("the release %s points into %s, which is deleted", release.ID, gone)
				}
			}
		}
		return nil
	})
}

// reached returns the prefixes that accessible releases point into.
func (r *race) reached(ctx context.Context) (all []string, err error) {
	releases, err := r.db.AccessibleReleases(ctx, r.app.ID)
	if err != nil {
		return nil, err
	}
	for _, release := range releases {
		units, err := r.db.GroupUnits(ctx, r.app.ID, release.ID)
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			prefixes, err := r.db.PrefixesOf(ctx, u.UnitID, u.Number)
			if err != nil {
				return nil, err
			}
			all = append(all, prefixes...)
		}
	}
	return all, nil
}
