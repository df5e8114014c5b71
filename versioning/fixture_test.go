package versioning_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/versioning"
)

// tester is a test, or one check of a property.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

const commit landfall.CommitSHA = "1111111111111111111111111111111111111111"

// shop is an app whose commits are applied.
type shop struct {
	db  *store.DB
	app landfall.App
}

// newShop makes an app in a database of its own.
func newShop(t *testing.T) *shop {
	t.Helper()
	return openShop(t, storetest.Open(t, storetest.SQLite(t)), "shop")
}

// openShop makes an app in a database, and the run that reserves what its applies store.
func openShop(t tester, db *store.DB, name string) *shop {
	t.Helper()
	s := &shop{db, landfall.App{ID: "app-" + name, Namespace: "default", Name: name, Branch: "main", UIDSpace: uuid.New(),
		Created: noon}}
	s.update(t, func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), "default", 0); err != nil {
			return err
		}
		if err := tx.CreateApp(t.Context(), s.app); err != nil {
			return err
		}
		return tx.CreateRun(t.Context(), landfall.Run{ID: s.app.ID, App: s.app.ID, Commit: commit, State: landfall.RunQueued,
			Created: noon})
	})
	return s
}

func (s *shop) update(t tester, f func(tx *store.Tx) error) {
	t.Helper()
	if err := s.db.Update(t.Context(), f); err != nil {
		t.Fatalf("%v", err)
	}
}

// change is one commit on its way into the store.
type change struct {
	uid       landfall.UID
	line      landfall.Line // empty: production
	noRelease bool
	units     []versioning.Declared
}

// apply does with a commit what the pipeline's transaction does, and returns what is in force after it.
func (s *shop) apply(ctx context.Context, c change) ([]store.GroupUnit, error) {
	units, err := versioning.Resolve(c.units)
	if err != nil {
		return nil, err
	}
	if c.line == "" {
		c.line = landfall.Production
	}
	var inForce []store.GroupUnit
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		a := versioning.Apply{App: s.app, UID: c.uid, Commit: commit, Production: c.line == landfall.Production,
			Units: units, At: noon}
		if a.Stored, err = s.stored(ctx, tx, c.uid, units); err != nil {
			return err
		}
		if inForce, err = a.Versions(ctx, tx); err != nil {
			return err
		}
		return s.point(ctx, tx, c, inForce)
	})
	return inForce, err
}

// point makes the group version, its apply and its release, and retires what left the spec.
func (s *shop) point(ctx context.Context, tx *store.Tx, c change, inForce []store.GroupUnit) error {
	g := landfall.Group{UID: c.uid, App: s.app.ID, Digest: versioning.GroupDigest(plain(inForce)), Commit: commit,
		Created: noon}
	if err := tx.CreateGroup(ctx, g, inForce); err != nil {
		return err
	}
	if err := tx.CreateApply(ctx, landfall.Apply{App: s.app.ID, Group: c.uid, Line: c.line, Created: noon}); err != nil {
		return err
	}
	if !c.noRelease {
		err := tx.PutRelease(ctx, landfall.Release{ID: c.uid, App: s.app.ID, Line: c.line, Digest: g.Digest, Commit: commit,
			Created: noon})
		if err != nil {
			return err
		}
	}
	if err := tx.DropReservations(ctx, s.app.ID); err != nil || c.line != landfall.Production {
		return err
	}
	if err := tx.MarkProduction(ctx, s.app.ID, c.uid); err != nil {
		return err
	}
	_, err := versioning.Retire(ctx, tx, s.app, inForce, nil)
	return err
}

// stored says where the content of those units lies that have none yet.
func (s *shop) stored(ctx context.Context, tx *store.Tx, uid landfall.UID,
	units []versioning.Unit) (map[landfall.UnitID]versioning.Stored, error) {
	all := map[landfall.UnitID]versioning.Stored{}
	for _, u := range units {
		if u.Content == nil {
			continue
		}
		if row, err := tx.Unit(ctx, s.app, u.Unit); err == nil {
			if v, err := tx.VersionByDigest(ctx, row.ID, u.Digest); err == nil && v.Content != nil {
				continue
			}
		}
		at := storedAt(u.Unit, uid)
		if _, err := tx.Reserve(ctx, s.app.ID, s.app.ID, at.Prefixes, noon); err != nil {
			return nil, err
		}
		all[u.Unit] = at
	}
	return all, nil
}

// storedAt is where an apply stores a unit's content.
func storedAt(u landfall.UnitID, uid landfall.UID) versioning.Stored {
	prefix := fmt.Sprintf("%s/%s/%s/", u.Kind, u.Name, uid)
	return versioning.Stored{Content: json.RawMessage(fmt.Sprintf("{%q:%q}", "key", prefix)), Prefixes: []string{prefix}}
}

// must applies a commit that is right.
func (s *shop) must(t tester, c change) []store.GroupUnit {
	t.Helper()
	inForce, err := s.apply(t.Context(), c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return inForce
}

// versions returns all versions of a unit, retired ones too.
func (s *shop) versions(t tester, id landfall.UnitID) []landfall.Version {
	t.Helper()
	row, err := s.db.Unit(t.Context(), s.app, id)
	if err != nil {
		t.Fatalf("%v", err)
	}
	versions, err := s.db.Versions(t.Context(), row.ID, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return versions
}

// tracker returns the uids of a unit's tracker, separated by blanks.
func (s *shop) tracker(t tester, id landfall.UnitID) string {
	t.Helper()
	var uids []string
	for _, v := range s.versions(t, id) {
		if !v.Retired {
			uids = append(uids, string(v.UID))
		}
	}
	return strings.Join(uids, " ")
}

// group returns the units of a group version as lines "kind name uid number".
func (s *shop) group(t tester, uid landfall.UID) (lines []string) {
	t.Helper()
	units, err := s.db.GroupUnits(t.Context(), s.app.ID, uid)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, u := range units {
		lines = append(lines, fmt.Sprintf("%s %s %d", u.Unit, u.UID, u.Number))
	}
	return lines
}

// find resolves a reference as the API does.
func (s *shop) find(t tester, kind landfall.UnitKind, text string) (landfall.Version, error) {
	t.Helper()
	ref, err := landfall.ParseReference(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return versioning.Find(t.Context(), s.db, s.app.Namespace, kind, ref)
}

// found is the uid of the version that a reference means, or the error's kind.
func (s *shop) found(t tester, kind landfall.UnitKind, text string) string {
	t.Helper()
	v, err := s.find(t, kind, text)
	if err != nil {
		return landfall.KindOf(err).String()
	}
	return string(v.UID)
}

// expire lets go of a release.
func (s *shop) expire(t tester, uid landfall.UID) {
	t.Helper()
	s.update(t, func(tx *store.Tx) error {
		r, err := tx.Release(t.Context(), s.app.ID, uid)
		if err != nil {
			return err
		}
		r.Expired = noon
		return tx.PutRelease(t.Context(), r)
	})
}

// collect does what a collection does to the store.
func (s *shop) collect(ctx context.Context) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		unheld, err := tx.UnheldVersions(ctx, s.app.ID, store.UnitNumber{}, 1000)
		if err != nil {
			return err
		}
		for _, v := range unheld {
			if err := tx.DeleteVersion(ctx, v.Unit, v.Number); err != nil {
				return err
			}
		}
		prefixes, err := tx.MarkDeleting(ctx, s.app.ID)
		if err != nil {
			return err
		}
		for _, p := range prefixes {
			if err := tx.DropPrefix(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// plain returns units as people see them.
func plain(units []store.GroupUnit) []landfall.GroupUnit {
	all := make([]landfall.GroupUnit, 0, len(units))
	for _, u := range units {
		all = append(all, u.GroupUnit)
	}
	return all
}

func unit(kind landfall.UnitKind, name string) landfall.UnitID {
	return landfall.UnitID{Kind: kind, Name: name}
}

func fn(name string) landfall.UnitID  { return unit(landfall.FunctionUnit, name) }
func pkg(name string) landfall.UnitID { return unit(landfall.PackageUnit, name) }

// The declarations that tests make: what a room that reads specs would say of these units.

func declarePackage(name, code string) versioning.Declared {
	return versioning.Declared{Unit: pkg(name), Spec: []byte(`{"env":"py"}`), Content: []byte(code),
		Where: "specs/a.yaml:1"}
}

func declareFunction(name, entry, of string) versioning.Declared {
	return versioning.Declared{Unit: fn(name), Spec: fmt.Appendf(nil, `{"entry":%q,"package":%q}`, entry, of),
		Refs: []landfall.UnitID{pkg(of), unit(landfall.EnvironmentUnit, "py")}, Where: "specs/a.yaml:2"}
}

func declareEnvironment(image string) versioning.Declared {
	return versioning.Declared{Unit: unit(landfall.EnvironmentUnit, "py"), Spec: fmt.Appendf(nil, `{"image":%q}`, image),
		Where: "specs/a.yaml:3"}
}

func declareTrigger(name, of string, pinned ...landfall.Digest) versioning.Declared {
	return versioning.Declared{Unit: unit(landfall.HTTPTrigger, name), Spec: fmt.Appendf(nil, `{"function":%q}`, of),
		Pinned: pinned, Where: "specs/a.yaml:4"}
}

func declareConfig(values string) versioning.Declared {
	return versioning.Declared{Unit: unit(landfall.ConfigUnit, "config"), Spec: []byte(values), Where: "specs/a.yaml:5"}
}

func declareStatic(path, files string) versioning.Declared {
	return versioning.Declared{Unit: unit(landfall.StaticUnit, path), Spec: []byte(`{}`), Content: []byte(files),
		Where: "specs/a.yaml:6"}
}

// byUnit finds a unit among others.
func byUnit(t tester, units []store.GroupUnit, id landfall.UnitID) store.GroupUnit {
	t.Helper()
	i := slices.IndexFunc(units, func(u store.GroupUnit) bool { return u.Unit == id })
	if i < 0 {
		t.Fatalf("%s is not in force", id)
	}
	return units[i]
}
