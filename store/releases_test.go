package store_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testReleases(t *testing.T, open opener) {
	t.Helper()
	t.Run("releases", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		r := landfall.Release{ID: "aaaaaaaa", App: app.ID, Line: landfall.Preview, Digest: landfall.DigestOf(nil),
			Commit: sha1, Branch: "f", Created: noon}
		put := func(r landfall.Release) {
			update(t, db, func(tx *store.Tx) error { return tx.PutRelease(t.Context(), r) })
		}
		put(r)
		testkit.Same(t, "as stored", testkit.Must(db.Release(ctx, app.ID, r.ID))(t), r)
		_, err := db.Release(ctx, app.ID, "bbbbbbbb")
		testkit.Kind(t, "no release", err, landfall.NotFound, "bbbbbbbb")
		want := r
		want.Line, want.Created, want.Expired, want.WasLive = landfall.Production, after(1), after(2), true
		changed := want
		changed.Digest, changed.Commit, changed.Branch = "sha256:0", sha2, "g"
		put(changed)
		// V1: what a release shows never changes
		testkit.Same(t, "put again", testkit.Must(db.Release(ctx, app.ID, r.ID))(t), want)
		younger := landfall.Release{ID: "bbbbbbbb", App: app.ID, Line: landfall.Production, Created: after(5)}
		older := landfall.Release{ID: "cccccccc", App: app.ID, Line: landfall.Production, Created: noon}
		put(younger)
		put(older)
		testkit.Same(t, "newest first", testkit.Must(db.Releases(ctx, app.ID))(t), []landfall.Release{younger, want, older})
		testkit.Same(t, "accessible", testkit.Must(db.AccessibleReleases(ctx, app.ID))(t), []landfall.Release{younger, older})
		expired := func(id landfall.UID, at int, commit landfall.CommitSHA) landfall.Release {
			r := landfall.Release{ID: id, App: app.ID, Line: landfall.Production, Created: after(at), Expired: after(at + 1),
				Commit: commit}
			put(r)
			return r
		}
		earlier, later := expired("dddddddd", 6, sha2), expired("eeeeeeee", 7, sha2)
		byID := expired("cafecafe", 1, sha1)
		expired("ffffffff", 9, "cafecafe00000000000000000000000000000000")
		for idOrDigits, want := range map[string]landfall.Release{
			"dddddddd": earlier, string(sha2): later, string(sha2[:7]): later, "cafecafe": byID, string(want.ID): want,
		} {
			testkit.Same(t, "expired "+idOrDigits, testkit.Must(db.ExpiredRelease(ctx, app.ID, idOrDigits))(t), want)
		}
		for _, none := range []string{"bbbbbbbb", "zzzzzzzz", "9999999"} {
			if _, err := db.ExpiredRelease(ctx, app.ID, none); landfall.KindOf(err) != landfall.NotFound {
				t.Errorf("expired %s: got %v, want none", none, err)
			}
		}
	})
	t.Run("tags", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		put := func(tag landfall.Tag) landfall.Tag {
			tag.App = app.ID
			update(t, db, func(tx *store.Tx) error { return tx.PutTag(t.Context(), tag) })
			return tag
		}
		put(landfall.Tag{Name: "v1", Kind: landfall.HandTag, Release: "aaaaaaaa", Moved: noon})
		v1 := put(landfall.Tag{Name: "v1", Kind: landfall.GitTag, Release: "bbbbbbbb", Ref: "refs/tags/v1", Moved: after(1)})
		branch := put(landfall.Tag{Name: "branch-f", Kind: landfall.BranchTag, Release: "aaaaaaaa", Ref: "refs/heads/f",
			Moved: after(2)})
		put(landfall.Tag{Name: "branch-g", Kind: landfall.BranchTag, Release: "aaaaaaaa", Ref: "refs/heads/g",
			Moved: after(3)})
		testkit.Same(t, "one", testkit.Must(db.Tag(ctx, app.ID, "v1"))(t), v1)
		update(t, db, func(tx *store.Tx) error { return tx.DeleteTag(ctx, app.ID, "branch-g") })
		testkit.Same(t, "all", testkit.Must(db.Tags(ctx, app.ID))(t), []landfall.Tag{branch, v1})
		_, err := db.Tag(ctx, app.ID, "branch-g")
		testkit.Kind(t, "no tag", err, landfall.NotFound, "branch-g")
		update(t, db, func(tx *store.Tx) error { return tx.DeleteTag(ctx, app.ID, "branch-g") })
	})
	t.Run("moves", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		for i, m := range []landfall.Move{
			{App: app.ID, Pointer: landfall.LivePointer, To: "aaaaaaaa", Actor: "ada", Reason: "It's new", At: noon},
			{App: app.ID, Pointer: "tag beta", From: "aaaaaaaa", To: "bbbbbbbb", At: after(1)},
			{App: other.ID, Pointer: landfall.LivePointer, To: "aaaaaaaa", At: after(1)},
			{App: app.ID, Pointer: landfall.LivePointer, From: "aaaaaaaa", At: noon, Back: true},
		} {
			m.ID = int64(i + 1)
			update(t, db, func(tx *store.Tx) error { return tx.CreateMove(ctx, m) })
		}
		last := landfall.Move{ID: 4, App: app.ID, Pointer: landfall.LivePointer, From: "aaaaaaaa", At: noon, Back: true}
		first := landfall.Move{ID: 1, App: app.ID, Pointer: landfall.LivePointer, To: "aaaaaaaa", Actor: "ada",
			Reason: "It's new", At: noon}
		testkit.Same(t, "of live, newest first", testkit.Must(db.Moves(ctx, app.ID, landfall.LivePointer, 10))(t),
			[]landfall.Move{last, first})
		testkit.Same(t, "the newest", testkit.Must(db.Moves(ctx, app.ID, landfall.LivePointer, 1))(t), []landfall.Move{last})
		if got := testkit.Must(db.Moves(ctx, app.ID, "", 10))(t); len(got) != 3 || got[1].Pointer != "tag beta" {
			t.Errorf("of all pointers: got %+v, want 3", got)
		}
	})
	t.Run("until when releases were live", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		for _, r := range []landfall.Release{
			{ID: "aaaaaaaa", App: app.ID, WasLive: true}, {ID: "bbbbbbbb", App: app.ID, WasLive: true},
			{ID: "cccccccc", App: app.ID}, {ID: "dddddddd", App: app.ID, WasLive: true, Expired: after(9)},
			{ID: "eeeeeeee", App: app.ID, WasLive: true},
			{ID: "bbbbbbbb", App: other.ID, WasLive: true},
		} {
			r.Created = noon
			update(t, db, func(tx *store.Tx) error { return tx.PutRelease(ctx, r) })
		}
		for i, m := range []landfall.Move{
			{To: "aaaaaaaa"}, {From: "aaaaaaaa", To: "bbbbbbbb"}, {From: "bbbbbbbb", To: "aaaaaaaa", Back: true},
			{From: "aaaaaaaa", To: "dddddddd"},
			{From: "dddddddd", To: "eeeeeeee"}, {Pointer: "tag beta", From: "cccccccc", To: "eeeeeeee"},
		} {
			m.App, m.At = app.ID, after(i)
			m.Pointer = cmp.Or(m.Pointer, landfall.LivePointer)
			update(t, db, func(tx *store.Tx) error { return tx.CreateMove(ctx, m) })
		}
		testkit.Same(t, "the last time of each", testkit.Must(db.LiveUntil(ctx, app.ID))(t),
			map[landfall.UID]time.Time{"aaaaaaaa": after(3), "bbbbbbbb": after(2)})
		testkit.Same(t, "of another app", testkit.Must(db.LiveUntil(ctx, other.ID))(t), map[landfall.UID]time.Time{})
	})
	t.Run("units that are served are those of accessible releases", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		root, docs, f := newUnit(t, db, app, static("/")), newUnit(t, db, app, static("/docs")),
			newUnit(t, db, app, function("f"))
		foreign := newUnit(t, db, other, static("/"))
		v1, v2, d := newVersion(t, db, root, "aaaaaaaa", true), newVersion(t, db, root, "bbbbbbbb", true),
			newVersion(t, db, docs, "aaaaaaaa", true)
		p := newUnit(t, db, app, landfall.UnitID{Kind: landfall.PackageUnit, Name: "p"})
		pv := newVersion(t, db, p, "aaaaaaaa", true)
		x, y := newVersion(t, db, f, "aaaaaaaa", true), newVersion(t, db, foreign, "aaaaaaaa", true)
		newRelease(t, db, newGroup(t, db, app, "aaaaaaaa", "", inForce(root, v1), inForce(docs, d), inForce(f, x),
			inForce(p, pv)), false)
		newRelease(t, db, newGroup(t, db, app, "bbbbbbbb", "", inForce(root, v2)), true)
		newGroup(t, db, app, "cccccccc", "", inForce(root, v2)) // without a release
		newRelease(t, db, newGroup(t, db, other, "aaaaaaaa", "", inForce(foreign, y)), false)
		served := func(release landfall.UID, v landfall.Version) store.ServedUnit {
			return store.ServedUnit{Release: release, Unit: v.Unit, Version: v.UID, Number: v.Number, Digest: v.Digest,
				Content: v.Content, Spec: v.Spec}
		}
		got := testkit.Must(db.ServedUnits(ctx, app.ID, landfall.StaticUnit))(t)
		slices.SortFunc(got, func(a, b store.ServedUnit) int { return cmp.Compare(a.Unit.Name, b.Unit.Name) })
		testkit.Same(t, "static units", got, []store.ServedUnit{served("aaaaaaaa", v1), served("aaaaaaaa", d)})
		testkit.Same(t, "what functions run with, of one group", testkit.Must(db.RunningUnits(ctx, app.ID, "aaaaaaaa"))(t),
			[]store.ServedUnit{served("aaaaaaaa", pv)})
		testkit.Same(t, "functions", testkit.Must(db.ServedUnits(ctx, app.ID, landfall.FunctionUnit))(t),
			[]store.ServedUnit{served("aaaaaaaa", x)})
	})
}

func testCollection(t *testing.T, open opener) {
	t.Helper()
	type scene struct {
		db   *store.DB
		app  landfall.App
		unit store.Unit
	}
	start := func(t *testing.T, id landfall.UnitID) scene {
		t.Helper()
		db := open(t)
		app := newApp(t, db, "shop")
		newRun(t, db, app, "run", sha1, noon)
		return scene{db, app, newUnit(t, db, app, id)}
	}
	mark := func(t *testing.T, s scene) (marked []string) {
		t.Helper()
		update(t, s.db, func(tx *store.Tx) error {
			var err error
			marked, err = tx.MarkDeleting(t.Context(), s.app.ID)
			return err
		})
		return marked
	}
	reserve := func(t *testing.T, s scene, prefixes ...string) (refused []string) {
		t.Helper()
		update(t, s.db, func(tx *store.Tx) error {
			var err error
			refused, err = tx.Reserve(t.Context(), "run", s.app.ID, prefixes, noon)
			return err
		})
		return refused
	}
	t.Run("what a run reserved is not deleted until the run is over", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, static("/")), t.Context()
		for range 2 {
			testkit.Same(t, "refused", reserve(t, s, "a/", "b/"), nil)
		}
		testkit.Same(t, "marked while reserved", mark(t, s), nil)
		update(t, s.db, func(tx *store.Tx) error { return tx.DropReservations(ctx, "run") })
		testkit.Same(t, "marked after that", mark(t, s), []string{"a/", "b/"})
		testkit.Same(t, "marked again: what was not deleted yet", mark(t, s), []string{"a/", "b/"})
		testkit.Same(t, "refused while it is deleted", reserve(t, s, "a/", "c/"), []string{"a/"})
		update(t, s.db, func(tx *store.Tx) error { return tx.DropPrefix(ctx, "a/") })
		update(t, s.db, func(tx *store.Tx) error { return tx.DropPrefix(ctx, "c/") }) // reserved: it stays
		testkit.Same(t, "refused when it is deleted", reserve(t, s, "a/"), nil)
		testkit.Same(t, "marked while some are reserved", mark(t, s), []string{"b/"})
		update(t, s.db, func(tx *store.Tx) error { return tx.DropReservations(ctx, "run") })
		testkit.Same(t, "marked at the end", mark(t, s), []string{"a/", "b/", "c/"})
	})
	t.Run("what is gone cannot be shared", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, static("/")), t.Context()
		newVersion(t, s.db, s.unit, "aaaaaaaa", false, "a/", "b/")
		share := func(prefixes ...string) (refused []string) {
			update(t, s.db, func(tx *store.Tx) error {
				var err error
				refused, err = tx.Share(t.Context(), "run", prefixes)
				return err
			})
			return refused
		}
		testkit.Same(t, "refused of what is there", share("a/"), nil)
		testkit.Same(t, "marked while it is shared", mark(t, s), []string{"b/"})
		update(t, s.db, func(tx *store.Tx) error { return tx.DropReservations(ctx, "run") })
		testkit.Same(t, "marked after that", mark(t, s), []string{"a/", "b/"})
		update(t, s.db, func(tx *store.Tx) error { return tx.DropPrefix(ctx, "b/") })
		// Nothing points into what is being deleted, or is deleted already
		testkit.Same(t, "refused then", share("a/", "b/", "c/"), []string{"a/", "b/", "c/"})
	})
	t.Run("static content goes with the last accessible release", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, static("/")), t.Context()
		v1 := newVersion(t, s.db, s.unit, "aaaaaaaa", true, "a/")
		v2 := newVersion(t, s.db, s.unit, "bbbbbbbb", true, "a/", "b/")
		v3 := newVersion(t, s.db, s.unit, "cccccccc", true, "b/", "c/")
		newRelease(t, s.db, newGroup(t, s.db, s.app, "aaaaaaaa", "", inForce(s.unit, v1)), true)
		newRelease(t, s.db, newGroup(t, s.db, s.app, "bbbbbbbb", "", inForce(s.unit, v2)), true)
		newRelease(t, s.db, newGroup(t, s.db, s.app, "cccccccc", "", inForce(s.unit, v3)), false)
		// What an accessible release reaches is not marked, and what none reaches is
		testkit.Same(t, "marked", mark(t, s), []string{"a/"})
		v1.Content, v2.Content = nil, nil
		testkit.Same(t, "versions without stored content have none", testkit.Must(s.db.Versions(ctx, s.unit.ID, true))(t),
			[]landfall.Version{v1, v2, v3})
		testkit.Same(t, "where the first points", testkit.Must(s.db.PrefixesOf(ctx, s.unit.ID, v1.Number))(t), nil)
		testkit.Same(t, "where the second points", testkit.Must(s.db.PrefixesOf(ctx, s.unit.ID, v2.Number))(t), nil)
		testkit.Same(t, "where the third points", testkit.Must(s.db.PrefixesOf(ctx, s.unit.ID, v3.Number))(t),
			[]string{"b/", "c/"})
	})
	t.Run("a package keeps its archives while its version exists", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, landfall.UnitID{Kind: landfall.PackageUnit, Name: "p"}), t.Context()
		v := newVersion(t, s.db, s.unit, "aaaaaaaa", true, "a/")
		testkit.Same(t, "marked while the version exists", mark(t, s), nil)
		update(t, s.db, func(tx *store.Tx) error { return tx.DeleteVersion(ctx, s.unit.ID, v.Number) })
		testkit.Same(t, "marked when it is deleted", mark(t, s), []string{"a/"})
	})
	t.Run("another app's prefixes are its own", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, static("/")), t.Context()
		other := newApp(t, s.db, "zoo")
		reserve(t, s, "a/")
		update(t, s.db, func(tx *store.Tx) error { return tx.DropReservations(ctx, "run") })
		testkit.Same(t, "marked of another app", mark(t, scene{db: s.db, app: other}), nil)
		testkit.Same(t, "marked of the app", mark(t, s), []string{"a/"})
	})
	t.Run("versions that nothing keeps", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, static("/")), t.Context()
		produced := newVersion(t, s.db, s.unit, "aaaaaaaa", true)
		preview := newVersion(t, s.db, s.unit, "bbbbbbbb", false)
		released := newVersion(t, s.db, s.unit, "cccccccc", false)
		expired := newVersion(t, s.db, s.unit, "dddddddd", false)
		retired := newVersion(t, s.db, s.unit, "eeeeeeee", true)
		heldRetired := newVersion(t, s.db, s.unit, "ffffffff", true)
		reserved := newVersion(t, s.db, s.unit, "gggggggg", false, "r/")
		for _, v := range []landfall.Version{retired, heldRetired} {
			v.Retired = true
			update(t, s.db, func(tx *store.Tx) error { return tx.MarkVersion(ctx, s.unit.ID, v) })
		}
		newRelease(t, s.db, newGroup(t, s.db, s.app, "cccccccc", "", inForce(s.unit, released)), false)
		newRelease(t, s.db, newGroup(t, s.db, s.app, "dddddddd", "", inForce(s.unit, expired)), true)
		newRelease(t, s.db, newGroup(t, s.db, s.app, "ffffffff", "", inForce(s.unit, heldRetired)), false)
		newGroup(t, s.db, s.app, "bbbbbbbb", "", inForce(s.unit, preview))
		reserve(t, s, "r/")
		unheld := func() (numbers []int64) {
			for _, v := range testkit.Must(s.db.UnheldVersions(ctx, s.app.ID, store.UnitNumber{}, 1000))(t) {
				if v.Unit != s.unit.ID {
					t.Errorf("Unheld: got the unit %s, want %s", v.Unit, s.unit.ID)
				}
				numbers = append(numbers, v.Number)
			}
			slices.Sort(numbers)
			return numbers
		}
		testkit.Same(t, "Unheld", unheld(), []int64{preview.Number, expired.Number, retired.Number})
		update(t, s.db, func(tx *store.Tx) error { return tx.DropReservations(ctx, "run") })
		testkit.Same(t, "when the run is over", unheld(),
			[]int64{preview.Number, expired.Number, retired.Number, reserved.Number})
		testkit.Same(t, "of another app", testkit.Must(s.db.UnheldVersions(ctx, "other", store.UnitNumber{}, 1000))(t), nil)
		for _, c := range []struct {
			v    landfall.Version
			want bool
		}{{produced, false}, {preview, false}, {released, true}, {expired, false}, {heldRetired, true}} {
			testkit.Same(t, "held by a release: "+string(c.v.UID),
				slices.Contains(testkit.Must(s.db.HeldVersions(ctx, s.unit.ID))(t), c.v.Number), c.want)
		}
	})
	t.Run("an alias and a function tag hold their versions, and what they run with", func(t *testing.T) {
		t.Parallel()
		s, ctx := start(t, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"}), t.Context()
		var packages, page store.Unit
		update(t, s.db, func(tx *store.Tx) (err error) {
			if packages, err = tx.CreateUnit(ctx, s.app,
				landfall.UnitID{Kind: landfall.PackageUnit, Name: "hello"}); err != nil {
				return err
			}
			page, err = tx.CreateUnit(ctx, s.app, static("/"))
			return err
		})
		var functions []landfall.Version
		for _, uid := range []landfall.UID{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
			f, p, site := newVersion(t, s.db, s.unit, uid, false), newVersion(t, s.db, packages, uid, false),
				newVersion(t, s.db, page, uid, false)
			newGroup(t, s.db, s.app, uid, "", inForce(s.unit, f), inForce(packages, p), inForce(page, site))
			functions = append(functions, f)
		}
		share := func(n, percent int) landfall.AliasShare {
			return landfall.AliasShare{UID: functions[n].UID, Number: functions[n].Number, Percent: percent}
		}
		put := func(shares ...landfall.AliasShare) landfall.Alias {
			a := landfall.Alias{Name: "prod", Shares: shares, Moved: s.app.Created}
			update(t, s.db, func(tx *store.Tx) error { return tx.PutAlias(ctx, s.unit.ID, a) })
			return a
		}
		held := func(u store.Unit) (numbers []int64) {
			numbers = testkit.Must(s.db.HeldVersions(ctx, u.ID))(t)
			for _, v := range testkit.Must(s.db.UnheldVersions(ctx, s.app.ID, store.UnitNumber{}, 1000))(t) {
				if v.Unit == u.ID && slices.Contains(numbers, v.Number) {
					t.Errorf("%s %d is held, and nothing keeps it", u.Unit, v.Number)
				}
			}
			return numbers
		}
		testkit.Same(t, "held without an alias", held(s.unit), nil)
		two := put(share(0, 90), share(2, 10))
		testkit.Same(t, "the alias", testkit.Must(s.db.Alias(ctx, s.unit.ID, "prod"))(t), two)
		testkit.Same(t, "held functions", held(s.unit), []int64{1, 3})
		testkit.Same(t, "held packages", held(packages), []int64{1, 3})
		testkit.Same(t, "held static units", held(page), nil)
		one := put(share(1, 100))
		testkit.Same(t, "the aliases", testkit.Must(s.db.Aliases(ctx, s.unit.ID))(t), []landfall.Alias{one})
		testkit.Same(t, "held functions after it moved", held(s.unit), []int64{2})
		update(t, s.db, func(tx *store.Tx) error { return tx.DeleteAlias(ctx, s.unit.ID, "prod") })
		testkit.Same(t, "held when it is gone", held(s.unit), nil)
		tag := landfall.FunctionTag{Namespace: s.app.Namespace, Name: "nightly", Moved: s.app.Created, Actor: "ada",
			Functions: []landfall.TaggedFunction{{Name: "hello", UID: functions[1].UID, Number: functions[1].Number,
				Unit: s.unit.ID, App: s.app.ID}}}
		update(t, s.db, func(tx *store.Tx) error { return tx.PutFunctionTag(ctx, tag) })
		testkit.Same(t, "the function tag", testkit.Must(s.db.FunctionTag(ctx, s.app.Namespace, "nightly"))(t), tag)
		testkit.Same(t, "functions that the tag holds", held(s.unit), []int64{2})
		testkit.Same(t, "packages that the tag holds", held(packages), []int64{2})
		testkit.Same(t, "static units that the tag holds", held(page), nil)
		holders := testkit.Must(s.db.VersionHolders(ctx, s.unit.ID, functions[1].Number))(t)
		testkit.Same(t, "holders", holders, []store.Holder{{Kind: "function tag", Name: "nightly"}})
		update(t, s.db, func(tx *store.Tx) error {
			return tx.DeleteFunctionTag(ctx, s.app.Namespace, "nightly",
				store.AliasMove{Actor: "bob", Reason: "not needed", At: s.app.Created})
		})
		var moves []string
		for _, m := range testkit.Must(s.db.FunctionTagMoves(ctx, s.app.Namespace, "nightly", 0, 10))(t) {
			testkit.Equal(t, "the app of the function", m.App, s.app.ID)
			moves = append(moves, fmt.Sprintf("%s %s>%s %s %s", m.Function, m.From, m.To, m.Actor, m.Reason))
		}
		testkit.Same(t, "moves of the tag", moves, []string{fmt.Sprintf("hello %s> bob not needed", functions[1].UID),
			fmt.Sprintf("hello >%s ada ", functions[1].UID)})
		testkit.Same(t, "held when the tag is gone", held(s.unit), nil)
		_, err := s.db.FunctionTag(ctx, s.app.Namespace, "nightly")
		testkit.Kind(t, "a function tag that is gone", err, landfall.NotFound)
		_, err = s.db.Alias(ctx, s.unit.ID, "prod")
		testkit.Kind(t, "an alias that is gone", err, landfall.NotFound)
	})
	t.Run("the first record of a build's input wins", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		input := landfall.DigestOf([]byte("input"))
		put := func(app, output string) (won json.RawMessage) {
			update(t, db, func(tx *store.Tx) error {
				var err error
				won, err = tx.PutBuild(t.Context(), app, input, "run", json.RawMessage(output), noon)
				return err
			})
			return won
		}
		_, err := db.Build(ctx, "a", input)
		testkit.Kind(t, "no build", err, landfall.NotFound)
		testkit.Same(t, "the first", put("a", `{"o":1}`), json.RawMessage(`{"o":1}`))
		testkit.Same(t, "the second", put("a", `{"o":2}`), json.RawMessage(`{"o":1}`))
		testkit.Same(t, "another app's", put("b", `{"o":3}`), json.RawMessage(`{"o":3}`))
		testkit.Same(t, "what is recorded", testkit.Must(db.Build(ctx, "a", input))(t), json.RawMessage(`{"o":1}`))
		update(t, db, func(tx *store.Tx) error { return tx.DeleteBuild(ctx, "a", input) })
		_, err = db.Build(ctx, "a", input)
		testkit.Kind(t, "when it is to be built again", err, landfall.NotFound)
		testkit.Same(t, "what is recorded of the other", testkit.Must(db.Build(ctx, "b", input))(t),
			json.RawMessage(`{"o":3}`))
	})
}
