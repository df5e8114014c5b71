package upkeep_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// shop is an app that keeps two releases of each line, and what is to be kept in order of it.
type shop struct {
	*accepttest.Shop

	upkeep  *upkeep.Upkeep
	objects *objects
	builds  builds
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopIn(t, storetest.Open(t, storetest.SQLite(t)))
}

// newShopIn is newShop in a database.
func newShopIn(t *testing.T, db *store.DB) *shop {
	t.Helper()
	s := &shop{Shop: accepttest.NewIn(t, db), objects: &objects{there: map[string]bool{}, before: func() error {
		return nil
	}}, builds: builds{}}
	a := s.Receiver.Acceptor
	s.upkeep = &upkeep.Upkeep{
		DB: db, Runs: a.Runs, Rollout: a.Rollout, Objects: s.objects, Mirrors: &builder.Mirrors{Root: t.TempDir()},
		Repositories: s.Repos, Builds: s.builds, Now: time.Now, Logger: a.Logger,
	}
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), accepttest.AppID)
		app.Policy.Keep, app.Objects = 2, "apps/shop-id/"
		if err == nil {
			err = tx.UpdateApp(t.Context(), app)
		}
		return err
	})
	return s
}

// app returns the app as it is stored.
func (s *shop) app() landfall.App {
	s.T.Helper()
	return testkit.Must(s.Receiver.DB.App(s.T.Context(), accepttest.AppID))(s.T)
}

// release makes a preview release, with a version of each unit that points into prefixes.
func release(ctx context.Context, tx *store.Tx, app landfall.App, name string,
	content map[landfall.UnitID][]string) error {
	digest, at := landfall.DigestOf([]byte(name)), noon
	var units []store.GroupUnit
	for id, prefixes := range content {
		row, err := tx.Unit(ctx, app, id)
		if err != nil {
			return err
		}
		row.LastNumber++
		if err := tx.UpdateUnit(ctx, row); err != nil {
			return err
		}
		v := landfall.Version{Number: row.LastNumber, UID: landfall.UID(name), Digest: digest, Spec: json.RawMessage(`{}`),
			Content: json.RawMessage(`{}`), Created: noon}
		if err := tx.CreateVersion(ctx, row.ID, v); err != nil {
			return err
		}
		if err := tx.PointInto(ctx, row.ID, v.Number, prefixes); err != nil {
			return err
		}
		at = noon.Add(time.Duration(row.LastNumber) * time.Second)
		units = append(units, store.GroupUnit{UnitID: row.ID,
			GroupUnit: landfall.GroupUnit{Unit: id, UID: v.UID, Number: v.Number, Digest: digest}})
	}
	g := landfall.Group{UID: landfall.UID(name), App: app.ID, Digest: digest, Created: at}
	if err := tx.CreateGroup(ctx, g, units); err != nil {
		return err
	}
	_, err := deploy.Create(ctx, tx, g, landfall.Preview, at)
	return err
}

// objects is a store of keys, of which a collection sees all that it does.
type objects struct {
	assets.Store // nobody uses anything else of it

	mu     sync.Mutex
	there  map[string]bool
	before func() error // each look and each deletion, whose error it is
}

func (o *objects) put(keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		o.there[key] = true
	}
}

// keys returns what is there below a prefix, sorted.
func (o *objects) keys(prefix string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var keys []string
	for key := range o.there {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (o *objects) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := o.before(); err != nil {
			yield("", err)
			return
		}
		for _, key := range o.keys(prefix) {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// Open returns an object of one byte, of which only the size is asked.
func (o *objects) Open(context.Context, string) (assets.Object, error) { return oneByte{}, nil }

type oneByte struct{ assets.Object }

func (oneByte) Size() int64  { return 1 }
func (oneByte) Close() error { return nil }

func (o *objects) Delete(_ context.Context, key string) error {
	if err := o.before(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.there, key)
	return nil
}

// builds counts how often what the builds of an app made was dropped.
type builds map[string]int

func (b builds) Drop(app string) error {
	b[app]++
	return nil
}
