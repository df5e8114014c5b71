package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testVersions(t *testing.T, open opener) {
	t.Helper()
	t.Run("where names of units are unique", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		f := newUnit(t, db, app, function("f"))
		testkit.Same(t, "as stored", testkit.Must(db.Unit(ctx, app, function("f")))(t),
			store.Unit{ID: f.ID, Unit: function("f"), Namespace: "default", App: app.ID})
		testkit.Same(t, "in its namespace", testkit.Must(db.UnitInNamespace(ctx, "default", function("f")))(t), f)
		testkit.Same(t, "a function as another app of the namespace sees it",
			testkit.Must(db.Unit(ctx, other, function("f")))(t), f)
		err := db.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.CreateUnit(ctx, other, function("f"))
			return err
		})
		testkit.Kind(t, "the same function of another app", err, landfall.Conflict)
		_, err = db.UnitInNamespace(ctx, "other", function("f"))
		testkit.Kind(t, "in another namespace", err, landfall.NotFound)
		newUnit(t, db, app, landfall.UnitID{Kind: landfall.PackageUnit, Name: "f"}) // another kind
		mine, theirs := newUnit(t, db, app, static("/")), newUnit(t, db, other, static("/"))
		testkit.Same(t, "a static unit", testkit.Must(db.Unit(ctx, app, static("/")))(t), mine)
		testkit.Same(t, "another app's", testkit.Must(db.Unit(ctx, other, static("/")))(t), theirs)
		_, err = db.Unit(ctx, app, static("/x"))
		testkit.Kind(t, "no unit", err, landfall.NotFound)
	})
	t.Run("lists of units", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		f, c, a := newUnit(t, db, app, function("f")), newUnit(t, db, app, static("/")), newUnit(t, db, app, function("a"))
		a.LastNumber, a.Retired = 4, true
		update(t, db, func(tx *store.Tx) error { return tx.UpdateUnit(ctx, a) })
		testkit.Same(t, "of the app", testkit.Must(db.UnitsOf(ctx, app.ID))(t), []store.Unit{a, f, c})
		testkit.Same(t, "in force", testkit.Must(db.UnitsInNamespace(ctx, "default", landfall.FunctionUnit))(t),
			[]store.Unit{f})
		f.App = ""
		update(t, db, func(tx *store.Tx) error { return tx.UpdateUnit(ctx, f) })
		testkit.Same(t, "of the app, without one that was let go", testkit.Must(db.UnitsOf(ctx, app.ID))(t),
			[]store.Unit{a, c})
	})
	t.Run("a version is what was stored", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		u := newUnit(t, db, app, function("f"))
		v := landfall.Version{Unit: u.Unit, Namespace: "default", App: app.ID, Number: 1, UID: "aaaaaaaa", Label: "v1",
			Description: "It's the first.", Digest: landfall.DigestOf([]byte("1")), Spec: json.RawMessage(`{"a": 1}`),
			Content: json.RawMessage(`{"b": 2}`), Commit: sha1, Created: noon,
			Production: true}
		bare := landfall.Version{Unit: u.Unit, Namespace: "default", App: app.ID, Number: 2, UID: "bbbbbbbb",
			Digest: v.Digest, Spec: json.RawMessage(`{}`)}
		for _, v := range []landfall.Version{v, bare} {
			update(t, db, func(tx *store.Tx) error { return tx.CreateVersion(ctx, u.ID, v) })
		}
		testkit.Same(t, "a full one", testkit.Must(db.VersionByNumber(ctx, u.ID, 1))(t), v)
		testkit.Same(t, "a bare one", testkit.Must(db.VersionByNumber(ctx, u.ID, 2))(t), bare)
		testkit.Same(t, "the newest of a digest", testkit.Must(db.VersionByDigest(ctx, u.ID, v.Digest))(t), bare)
		testkit.Same(t, "the tracker", testkit.Must(db.Versions(ctx, u.ID, false))(t), []landfall.Version{v, bare})
		testkit.Same(t, "its first page", testkit.Must(db.VersionsAfter(ctx, u.ID, 0, 1))(t), []landfall.Version{v})
		testkit.Same(t, "its second page", testkit.Must(db.VersionsAfter(ctx, u.ID, 1, 1))(t), []landfall.Version{bare})
		_, err := db.VersionByNumber(ctx, u.ID, 3)
		testkit.Kind(t, "no such number", err, landfall.NotFound)
		_, err = db.VersionByDigest(ctx, u.ID, landfall.DigestOf([]byte("2")))
		testkit.Kind(t, "no such digest", err, landfall.NotFound)
		for what, twin := range map[string]landfall.Version{"number": {Number: 1, UID: "cccccccc"},
			"uid": {Number: 3, UID: "aaaaaaaa"}} {
			err := db.Update(ctx, func(tx *store.Tx) error { return tx.CreateVersion(ctx, u.ID, twin) })
			// V3: no two versions of a unit have one number or one uid
			testkit.Kind(t, "a second version with the "+what, err, landfall.Conflict)
		}
	})
	t.Run("what changes of a version", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		u := newUnit(t, db, newApp(t, db, "shop"), static("/"))
		v, other := newVersion(t, db, u, "aaaaaaaa", false), newVersion(t, db, u, "bbbbbbbb", false)
		want := v
		want.Content, want.Production, want.Retired = json.RawMessage(`{"key":"x"}`), true, true
		changed := want
		changed.Spec, changed.Digest, changed.UID, changed.Commit, changed.Created = json.RawMessage(`{"a":2}`), "sha256:0",
			"cccccccc", sha2, after(1)
		update(t, db, func(tx *store.Tx) error { return tx.MarkVersion(ctx, u.ID, changed) })
		// V1: a version's spec and what it is never change
		testkit.Same(t, "the marked version", testkit.Must(db.VersionByNumber(ctx, u.ID, v.Number))(t), want)
		testkit.Same(t, "the other", testkit.Must(db.VersionByNumber(ctx, u.ID, other.Number))(t), other)
		testkit.Same(t, "the tracker", testkit.Must(db.Versions(ctx, u.ID, false))(t), []landfall.Version{other})
		testkit.Same(t, "with retired ones", testkit.Must(db.Versions(ctx, u.ID, true))(t), []landfall.Version{want, other})
		testkit.Same(t, "a page of the tracker", testkit.Must(db.VersionsAfter(ctx, u.ID, 0, 10))(t),
			[]landfall.Version{other})
		testkit.Same(t, "how many it has", testkit.Must(db.CountVersions(ctx, u.ID))(t), 1)
		has := func() [2]bool {
			tracked, held, err := db.HasVersions(ctx, u.ID)
			return [2]bool{tracked, held || err != nil}
		}
		testkit.Same(t, "a tracker, and versions", has(), [2]bool{true, true})
		other.Retired = true
		update(t, db, func(tx *store.Tx) error { return tx.MarkVersion(ctx, u.ID, other) })
		testkit.Same(t, "no tracker, but versions", has(), [2]bool{false, true})
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(tx.DeleteVersion(ctx, u.ID, v.Number), tx.DeleteVersion(ctx, u.ID, other.Number))
		})
		testkit.Same(t, "neither", has(), [2]bool{false, false})
	})
	t.Run("a deleted version takes its pointers along", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "run", sha1, noon)
		u := newUnit(t, db, app, static("/"))
		v, other := newVersion(t, db, u, "aaaaaaaa", true, "a/", "b/"), newVersion(t, db, u, "bbbbbbbb", true, "b/")
		testkit.Same(t, "where it points", testkit.Must(db.PrefixesOf(ctx, u.ID, v.Number))(t), []string{"a/", "b/"})
		update(t, db, func(tx *store.Tx) error { return tx.DeleteVersion(ctx, u.ID, v.Number) })
		_, err := db.VersionByNumber(ctx, u.ID, v.Number)
		testkit.Kind(t, "the deleted version", err, landfall.NotFound)
		testkit.Same(t, "where it pointed", testkit.Must(db.PrefixesOf(ctx, u.ID, v.Number))(t), nil)
		testkit.Same(t, "where the other points", testkit.Must(db.PrefixesOf(ctx, u.ID, other.Number))(t), []string{"b/"})
		// V3: the unit remembers its numbers
		testkit.Same(t, "the unit's last number", testkit.Must(db.Unit(ctx, app, u.Unit))(t).LastNumber, int64(2))
	})
}

func testGroups(t *testing.T, open opener) {
	t.Helper()
	t.Run("a group version is what was stored", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		full := landfall.Group{UID: "aaaaaaaa", App: app.ID, Digest: landfall.DigestOf(nil), Commit: sha1, Branch: "main",
			Clean: true, Message: "It's new", Actor: "ada", Policy: &landfall.ReleasePolicy{Keep: 3, Branches: []string{"f*"}},
			Created: noon}
		bare := landfall.Group{UID: "bbbbbbbb", App: app.ID, Commit: sha2, Created: after(1)}
		for _, g := range []landfall.Group{full, bare} {
			update(t, db, func(tx *store.Tx) error { return tx.CreateGroup(ctx, g, nil) })
		}
		testkit.Same(t, "a full one", testkit.Must(db.Group(ctx, app.ID, full.UID))(t), full)
		testkit.Same(t, "a bare one", testkit.Must(db.Group(ctx, app.ID, bare.UID))(t), bare)
		testkit.Same(t, "newest first", testkit.Must(db.Groups(ctx, app.ID, time.Time{}, 10))(t),
			[]store.GroupEntry{{Group: bare}, {Group: full}})
		testkit.Same(t, "one", testkit.Must(db.Groups(ctx, app.ID, time.Time{}, 1))(t), []store.GroupEntry{{Group: bare}})
		newRelease(t, db, bare, false)
		newRelease(t, db, full, true)
		testkit.Same(t, "one with a release", testkit.Must(db.Groups(ctx, app.ID, time.Time{}, 1))(t),
			[]store.GroupEntry{{Group: bare, Released: true}})
		testkit.Same(t, "the next page", testkit.Must(db.Groups(ctx, app.ID, after(1), 10))(t),
			[]store.GroupEntry{{Group: full, Released: true, Expired: true}})
		testkit.Same(t, "of a commit", testkit.Must(db.GroupsOfCommit(ctx, app.ID, string(sha1)))(t), []landfall.Group{full})
		testkit.Same(t, "of its first digits", testkit.Must(db.GroupsOfCommit(ctx, app.ID, "2222222"))(t),
			[]landfall.Group{bare})
		testkit.Same(t, "of other digits", testkit.Must(db.GroupsOfCommit(ctx, app.ID, "1111112"))(t), nil)
		_, err := db.Group(ctx, app.ID, "cccccccc")
		testkit.Kind(t, "no group version", err, landfall.NotFound, "cccccccc")
		err = db.Update(ctx, func(tx *store.Tx) error { return tx.CreateGroup(ctx, full, nil) })
		testkit.Kind(t, "the same uid again", err, landfall.Conflict)
	})
	t.Run("the last digit of a commit may be an f", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		g := landfall.Group{UID: "aaaaaaaa", App: app.ID, Commit: "ffffffffffffffffffffffffffffffffffffffff", Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.CreateGroup(ctx, g, nil) })
		testkit.Same(t, "by its first digits", testkit.Must(db.GroupsOfCommit(ctx, app.ID, "fffffff"))(t),
			[]landfall.Group{g})
	})
	t.Run("the units of a group version stand in the order of the kinds, then by name", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		var want, units []store.GroupUnit
		for _, k := range landfall.UnitKinds() {
			for _, name := range []string{"a", "b"} {
				u := newUnit(t, db, app, landfall.UnitID{Kind: k, Name: name})
				want = append(want, inForce(u, newVersion(t, db, u, "aaaaaaaa", true)))
			}
		}
		for i := range want {
			units = append(units, want[len(want)-1-i])
		}
		g := newGroup(t, db, app, "aaaaaaaa", "", units...)
		testkit.Same(t, "GroupUnits", testkit.Must(db.GroupUnits(ctx, app.ID, g.UID))(t), want)
	})
	t.Run("a group version whose versions are gone is not complete, and can be made whole", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		u, w := newUnit(t, db, app, function("f")), newUnit(t, db, app, function("g"))
		v, x := newVersion(t, db, u, "aaaaaaaa", true), newVersion(t, db, w, "aaaaaaaa", true)
		g := newGroup(t, db, app, "aaaaaaaa", "", inForce(u, v), inForce(w, x))
		other := newGroup(t, db, app, "bbbbbbbb", "", inForce(w, x))
		testkit.Same(t, "at first", testkit.Must(db.GroupComplete(ctx, app.ID, g.UID))(t), true)
		update(t, db, func(tx *store.Tx) error { return tx.DeleteVersion(ctx, u.ID, v.Number) })
		testkit.Same(t, "without a version", testkit.Must(db.GroupComplete(ctx, app.ID, g.UID))(t), false)
		testkit.Same(t, "another without it", testkit.Must(db.GroupComplete(ctx, app.ID, other.UID))(t), true)
		again := newVersion(t, db, u, "cccccccc", true)
		foreign := inForce(u, again) // its digest is another
		update(t, db, func(tx *store.Tx) error { return tx.ReplaceGroupUnits(ctx, g, []store.GroupUnit{foreign}) })
		testkit.Same(t, "with a version of another digest", testkit.Must(db.GroupComplete(ctx, app.ID, g.UID))(t), false)
		made := foreign
		made.Digest = v.Digest
		update(t, db, func(tx *store.Tx) error {
			return tx.ReplaceGroupUnits(ctx, g, []store.GroupUnit{made, inForce(w, x)})
		})
		testkit.Same(t, "whole again", testkit.Must(db.GroupComplete(ctx, app.ID, g.UID))(t), true)
		testkit.Same(t, "its units", testkit.Must(db.GroupUnits(ctx, app.ID, g.UID))(t),
			[]store.GroupUnit{made, inForce(w, x)})
	})
	t.Run("the log of applies", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		apply := func(group landfall.UID, ref landfall.RefName, line landfall.Line, at time.Time) landfall.Apply {
			a := landfall.Apply{App: app.ID, Group: group, Ref: ref, Line: line, Actor: "ada", Created: at}
			update(t, db, func(tx *store.Tx) error { return tx.CreateApply(t.Context(), a) })
			a.ID = testkit.Must(db.LastApply(t.Context(), app.ID, ref, time.Time{}))(t).ID
			return a
		}
		_, err := db.LastApply(ctx, app.ID, "", time.Time{})
		testkit.Kind(t, "no apply", err, landfall.NotFound)
		first := apply("aaaaaaaa", mainRef, landfall.Production, after(1))
		second := apply("bbbbbbbb", mainRef, landfall.Production, after(2))
		preview := apply("aaaaaaaa", "refs/heads/f", landfall.Preview, after(3))
		last := func(ref landfall.RefName, until time.Time) landfall.Apply {
			return testkit.Must(db.LastApply(ctx, app.ID, ref, until))(t)
		}
		testkit.Same(t, "of production", last("", time.Time{}), second)
		testkit.Same(t, "of a reference", last("refs/heads/f", time.Time{}), preview)
		testkit.Same(t, "of production then", last("", after(1)), first)
		_, err = db.LastApply(ctx, app.ID, "", noon)
		testkit.Kind(t, "before the first", err, landfall.NotFound)
		_, err = db.LastApply(ctx, app.ID, "refs/heads/g", time.Time{})
		testkit.Kind(t, "of another reference", err, landfall.NotFound)
		testkit.Same(t, "of a group version", testkit.Must(db.AppliesOf(ctx, app.ID, "aaaaaaaa"))(t),
			[]landfall.Apply{first, preview})
		testkit.Same(t, "of none", testkit.Must(db.AppliesOf(ctx, app.ID, "cccccccc"))(t), nil)
	})
	t.Run("production marks what it has", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		u, w := newUnit(t, db, app, function("f")), newUnit(t, db, app, function("g"))
		v, older, x := newVersion(t, db, u, "aaaaaaaa", false), newVersion(t, db, u, "bbbbbbbb", false),
			newVersion(t, db, w, "aaaaaaaa", false)
		v.Retired, u.Retired, u.LastNumber = true, true, 2
		w.Retired, w.LastNumber = true, 1
		update(t, db, func(tx *store.Tx) error { return tx.MarkVersion(ctx, u.ID, v) })
		update(t, db, func(tx *store.Tx) error { return tx.UpdateUnit(ctx, u) })
		update(t, db, func(tx *store.Tx) error { return tx.UpdateUnit(ctx, w) })
		g := newGroup(t, db, app, "aaaaaaaa", "", inForce(u, v))
		update(t, db, func(tx *store.Tx) error { return tx.MarkProduction(ctx, app.ID, g.UID) })
		v.Production, v.Retired, u.Retired = true, false, false
		testkit.Same(t, "the versions of one unit", testkit.Must(db.Versions(ctx, u.ID, true))(t),
			[]landfall.Version{v, older})
		testkit.Same(t, "of the other", testkit.Must(db.Versions(ctx, w.ID, true))(t), []landfall.Version{x})
		testkit.Same(t, "the units", testkit.Must(db.UnitsOf(ctx, app.ID))(t), []store.Unit{u, w})
	})
	t.Run("the commit of a group version is the one that its run worked on", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		g := newGroup(t, db, app, "aaaaaaaa", "")
		testkit.Same(t, "without a run", testkit.Must(db.CommitOf(ctx, app.ID, g.UID))(t), sha1)
		run := landfall.Run{ID: "r1", App: app.ID, Commit: sha3, UID: g.UID, State: landfall.RunSucceeded, Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.CreateRun(ctx, run) })
		testkit.Same(t, "with one", testkit.Must(db.CommitOf(ctx, app.ID, g.UID))(t), sha3)
		_, err := db.CommitOf(ctx, app.ID, "bbbbbbbb")
		testkit.Kind(t, "of none", err, landfall.NotFound)
	})
}

func testLatest(t *testing.T, open opener) {
	t.Helper()
	type scene struct {
		db   *store.DB
		app  landfall.App
		unit store.Unit
	}
	start := func(t *testing.T) scene {
		t.Helper()
		db := open(t)
		app := newApp(t, db, "shop")
		return scene{db, app, newUnit(t, db, app, function("f"))}
	}
	apply := func(t *testing.T, s scene, uid landfall.UID, line landfall.Line, v landfall.Version) landfall.Group {
		t.Helper()
		return newGroup(t, s.db, s.app, uid, line, inForce(s.unit, v))
	}
	t.Run("latest is what production applied last, new or not", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t), t.Context()
		_, err := s.db.LatestNumber(ctx, s.unit.ID)
		testkit.Kind(t, "before the first apply", err, landfall.NotFound)
		v1 := newVersion(t, s.db, s.unit, "aaaaaaaa", true)
		apply(t, s, "aaaaaaaa", landfall.Production, v1)
		v2 := newVersion(t, s.db, s.unit, "bbbbbbbb", true)
		apply(t, s, "bbbbbbbb", landfall.Production, v2)
		testkit.Same(t, "after two", testkit.Must(s.db.LatestNumber(ctx, s.unit.ID))(t), v2.Number)
		v3 := newVersion(t, s.db, s.unit, "cccccccc", false)
		apply(t, s, "cccccccc", landfall.Preview, v3)
		testkit.Same(t, "after another branch's", testkit.Must(s.db.LatestNumber(ctx, s.unit.ID))(t), v2.Number)
		apply(t, s, "dddddddd", landfall.Production, v1)
		testkit.Same(t, "after a revert", testkit.Must(s.db.LatestNumber(ctx, s.unit.ID))(t), v1.Number)
		update(t, s.db, func(tx *store.Tx) error { return tx.DeleteVersion(ctx, s.unit.ID, v1.Number) })
		testkit.Same(t, "when that is deleted", testkit.Must(s.db.LatestNumber(ctx, s.unit.ID))(t), v2.Number)
	})
	t.Run("what production retired has no latest, whatever another branch applies", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t), t.Context()
		v1 := newVersion(t, s.db, s.unit, "aaaaaaaa", true)
		apply(t, s, "aaaaaaaa", landfall.Production, v1)
		newGroup(t, s.db, s.app, "bbbbbbbb", landfall.Production) // without the function
		apply(t, s, "cccccccc", landfall.Preview, v1)
		_, err := s.db.LatestNumber(ctx, s.unit.ID)
		testkit.Kind(t, "LatestNumber", err, landfall.NotFound)
		apply(t, s, "dddddddd", landfall.Production, v1)
		testkit.Same(t, "when production has it again", testkit.Must(s.db.LatestNumber(ctx, s.unit.ID))(t), v1.Number)
	})
	t.Run("live is what the live release has", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t), t.Context()
		v1, v2 := newVersion(t, s.db, s.unit, "aaaaaaaa", true), newVersion(t, s.db, s.unit, "bbbbbbbb", true)
		apply(t, s, "aaaaaaaa", landfall.Production, v1)
		apply(t, s, "bbbbbbbb", landfall.Production, v2)
		_, err := s.db.LiveNumber(ctx, s.unit.ID)
		testkit.Kind(t, "before live moved", err, landfall.NotFound)
		s.app.Live = "aaaaaaaa"
		update(t, s.db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, s.app) })
		testkit.Same(t, "LiveNumber", testkit.Must(s.db.LiveNumber(ctx, s.unit.ID))(t), v1.Number)
	})
}
