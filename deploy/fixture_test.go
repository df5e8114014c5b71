package deploy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// shop is an app whose releases are made one after the other.
type shop struct {
	db  *store.DB
	app landfall.App
	now time.Time // one second later with each release
}

// newShop makes an app that keeps so many releases of each line.
func newShop(t *testing.T, keep int) *shop {
	t.Helper()
	db := storetest.Open(t, storetest.SQLite(t))
	s := &shop{db, landfall.App{ID: "app", Namespace: "default", Name: "shop", Branch: "main", UIDSpace: uuid.New(),
		Created: noon, Objects: "apps/app/", Policy: landfall.ReleasePolicy{Keep: keep}}, noon}
	s.update(t, func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), "default", 0); err != nil {
			return err
		}
		return tx.CreateApp(t.Context(), s.app)
	})
	return s
}

func (s *shop) update(t testing.TB, f func(tx *store.Tx) error) {
	t.Helper()
	if err := s.db.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) clock() time.Time { return s.now }

// by is somebody who moves pointers now.
func (s *shop) by(reason string) deploy.Mover {
	return deploy.Mover{Actor: "ada", Reason: reason, At: s.now}
}

// group makes a group version whose content is what its name begins with, up to a "-".
func (s *shop) group(t testing.TB, name string) landfall.Group {
	t.Helper()
	s.now = s.now.Add(time.Second)
	content, _, _ := strings.Cut(name, "-")
	g := landfall.Group{UID: landfall.UID(name), App: s.app.ID, Digest: landfall.DigestOf([]byte(content)), Branch: "main",
		Created: s.now}
	s.update(t, func(tx *store.Tx) error { return tx.CreateGroup(t.Context(), g, nil) })
	return g
}

// push makes a release of each name, as pushes to production with the policy auto do.
func (s *shop) push(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		g := s.group(t, name)
		s.update(t, func(tx *store.Tx) error {
			if _, err := deploy.Create(t.Context(), tx, g, landfall.Production, s.now); err != nil {
				return err
			}
			if !s.app.Held {
				if err := deploy.MoveLive(t.Context(), tx, &s.app, g.UID, s.by("push of "+name)); err != nil {
					return err
				}
			}
			_, err := deploy.ExpireSurplus(t.Context(), tx, s.app, s.now)
			return err
		})
	}
}

// preview makes a release of each name, as pushes to a branch do.
func (s *shop) preview(t testing.TB, branch string, names ...string) {
	t.Helper()
	for _, name := range names {
		g := s.group(t, name)
		g.Branch = branch
		s.update(t, func(tx *store.Tx) error {
			if _, err := deploy.Create(t.Context(), tx, g, landfall.Preview, s.now); err != nil {
				return err
			}
			tag := landfall.Tag{App: s.app.ID, Name: deploy.BranchTag(branch), Kind: landfall.BranchTag, Release: g.UID,
				Ref: landfall.RefName(landfall.BranchPrefix + branch)}
			if err := deploy.SetTag(t.Context(), tx, tag, s.by("push of "+name)); err != nil {
				return err
			}
			_, err := deploy.ExpireSurplus(t.Context(), tx, s.app, s.now)
			return err
		})
	}
}

// tag makes a tag by hand.
func (s *shop) tag(t testing.TB, name string, release landfall.UID) {
	t.Helper()
	s.update(t, func(tx *store.Tx) error {
		return deploy.SetTag(t.Context(), tx, landfall.Tag{App: s.app.ID, Name: name, Kind: landfall.HandTag,
			Release: release}, s.by("tagged"))
	})
}

// accessible returns the ids of the accessible releases, oldest first, separated by blanks.
func (s *shop) accessible(t testing.TB) string {
	t.Helper()
	releases, err := s.db.AccessibleReleases(t.Context(), s.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(releases))
	for i, r := range releases {
		ids[len(releases)-1-i] = string(r.ID)
	}
	return strings.Join(ids, " ")
}

// stored is the app as the store has it: what was changed in place must be there too.
func (s *shop) stored(t testing.TB) landfall.App {
	t.Helper()
	app, err := s.db.App(t.Context(), s.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Same(t, "the app in place", s.app, app)
	return app
}

// release returns a release.
func (s *shop) release(t testing.TB, id landfall.UID) landfall.Release {
	t.Helper()
	r, err := s.db.Release(t.Context(), s.app.ID, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// moves returns the moves of a pointer, oldest first, as "from>to reason".
func (s *shop) moves(t testing.TB, pointer string) (lines []string) {
	t.Helper()
	moves, err := s.db.Moves(t.Context(), s.app.ID, pointer, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moves {
		if m.Actor != "ada" || m.At.IsZero() {
			t.Errorf("the move %+v: want who and when", m)
		}
		lines = append([]string{string(m.From) + ">" + string(m.To) + " " + m.Reason}, lines...)
	}
	return lines
}

// try does something with the app in a transaction of its own. The app in place is as the store has it afterwards.
func (s *shop) try(t testing.TB, f func(ctx context.Context, tx *store.Tx, app *landfall.App) error) error {
	t.Helper()
	app := s.app
	err := s.db.Update(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx, &app) })
	if err == nil {
		s.app = app
	}
	return err
}

func (s *shop) rollback(t testing.TB, to landfall.UID) error {
	t.Helper()
	return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
		return deploy.Rollback(ctx, tx, app, to, s.by("rolled back"))
	})
}

// goesBack rolls back as often as releases are given, which must then be live.
func (s *shop) goesBack(t testing.TB, to ...landfall.UID) {
	t.Helper()
	for _, want := range to {
		if err := s.rollback(t, ""); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live after a rollback", s.stored(t).Live, want)
	}
}

func (s *shop) promote(t testing.TB, to landfall.UID) error {
	t.Helper()
	return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
		return deploy.Promote(ctx, tx, app, to, s.by("promoted"))
	})
}

func (s *shop) hold(t testing.TB, held bool) {
	t.Helper()
	err := s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
		return deploy.Hold(ctx, tx, app, held)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *shop) expire(t testing.TB, id landfall.UID) error {
	t.Helper()
	return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
		return deploy.Expire(ctx, tx, *app, id, s.now)
	})
}
