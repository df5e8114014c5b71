package versioning_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// without is a commit of bar alone: foo and its package left the spec.
func without(code string) []versioning.Declared {
	return []versioning.Declared{declareFunction("bar", "main", "src"), declarePackage("src", code)}
}

// with is a commit of both.
func with(code, fooCode string) []versioning.Declared {
	return append(without(code), declareFunction("foo", "main", "foo-pkg"), declarePackage("foo-pkg", fooCode),
		declareTrigger("t", "foo:latest"))
}

func TestRetire(t *testing.T) {
	t.Parallel()
	trigger := unit(landfall.HTTPTrigger, "t")
	t.Run("what left the spec goes with all its versions", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1"), noRelease: true})
		s.must(t, change{uid: aub, units: with("1", "2"), noRelease: true})
		record := s.group(t, aub)
		s.must(t, change{uid: cua, units: without("1"), noRelease: true})
		// B-075: what was there before and is no longer in the spec is deleted
		testkit.Same(t, "the group", s.group(t, cua), []string{"function bar uidaaaaa 1", "package src uidaaaaa 1"})
		// B-076: a function with all its versions
		testkit.Same(t, "the function's versions", len(s.versions(t, fn("foo"))), 0)
		// B-077: a package too
		testkit.Same(t, "the package's versions", len(s.versions(t, pkg("foo-pkg"))), 0)
		// B-100: the function has no tracker
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("foo")), "")
		// B-101: nor has the package
		testkit.Same(t, "the package's tracker", s.tracker(t, pkg("foo-pkg")), "")
		// B-103: and any other item is deleted as well
		testkit.Same(t, "the trigger's versions", len(s.versions(t, trigger)), 0)
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), "not-found")
		testkit.Same(t, "what its uid means", s.found(t, landfall.FunctionUnit, "foo:"+string(uid)), "not-found")
		testkit.Same(t, "the record of the old group", s.group(t, aub), record)
		s.must(t, change{uid: dua, units: with("1", "1"), noRelease: true})
		// V3: a name that comes back goes on with its numbers
		testkit.Same(t, "when it comes back", s.group(t, dua),
			[]string{"function bar uidaaaaa 1", "function foo duaaaaaa 3", "package foo-pkg duaaaaaa 3",
				"package src uidaaaaa 1", "http-trigger t duaaaaaa 2"})
	})
	t.Run("what a release holds stays reachable by its uid, in no list", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1")})
		s.must(t, change{uid: aub, units: with("1", "2"), noRelease: true})
		s.must(t, change{uid: cua, units: without("1")})
		testkit.Same(t, "the tracker", s.tracker(t, fn("foo")), "")
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), "not-found")
		// V2: what an accessible release points at is not deleted
		testkit.Same(t, "what the uid of the held version means", s.found(t, landfall.FunctionUnit, "foo:"+string(uid)),
			string(uid))
		testkit.Same(t, "what the uid of the other means", s.found(t, landfall.FunctionUnit, "foo:"+string(aub)), "not-found")
		rows, err := s.db.UnitsInNamespace(t.Context(), "default", landfall.FunctionUnit)
		if err != nil || len(rows) != 1 {
			t.Errorf("functions in force: got %v and the error %v, want bar alone", rows, err)
		}
		s.expire(t, uid)
		if err := s.collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "what the uid means when its last holder is gone",
			s.found(t, landfall.FunctionUnit, "foo:"+string(uid)), "not-found")
	})
	t.Run("what comes back is in its tracker again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1")})
		s.must(t, change{uid: aub, units: without("1")})
		s.must(t, change{uid: cua, units: with("1", "1")})
		testkit.Same(t, "the tracker", s.tracker(t, fn("foo")), string(uid))
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), string(uid))
		testkit.Same(t, "the group", s.group(t, cua), s.group(t, uid))
	})
	t.Run("another branch retires nothing", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1"), noRelease: true})
		s.must(t, change{uid: aub, line: landfall.Preview, units: without("2")})
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("foo")), string(uid))
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), string(uid))
	})
	t.Run("a unit that only another branch has is that branch's own", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: without("1")})
		s.must(t, change{uid: aub, line: landfall.Preview, units: with("1", "1")})
		s.must(t, change{uid: cua, units: without("2")})
		testkit.Same(t, "its tracker", s.tracker(t, fn("foo")), string(aub))
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), "not-found")
	})
	t.Run("a branch that still has what production retired does not bring latest back", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1")})
		s.must(t, change{uid: aub, units: without("1")})
		s.must(t, change{uid: cua, line: landfall.Preview, units: with("1", "1")})
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "foo"), "not-found")
		testkit.Same(t, "what the uid means", s.found(t, landfall.FunctionUnit, "foo:"+string(uid)), string(uid))
	})
	t.Run("a branch that still has what production retired does not bring it back to be retired again",
		func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.must(t, change{uid: uid, units: with("1", "1")})
			bar := s.must(t, change{uid: aub, units: without("1")})
			retire := func(what string) {
				s.update(t, func(tx *store.Tx) error {
					retired, err := versioning.Retire(t.Context(), tx, s.app, bar, nil)
					testkit.Same(t, what, retired, nil)
					return err
				})
			}
			s.must(t, change{uid: cua, line: landfall.Preview, units: with("1", "1")})
			retire("Retire after the branch had the same")
			testkit.Same(t, "the tracker of what only the branch's release holds", s.tracker(t, fn("foo")), "")
			s.must(t, change{uid: dua, line: landfall.Preview, units: with("1", "2")})
			retire("Retire after the branch had another")
			testkit.Same(t, "the tracker of what is the branch's own", s.tracker(t, fn("foo")), string(dua))
			s.expire(t, uid)
			s.expire(t, cua)
			if err := s.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			testkit.Same(t, "all versions when what held the retired one is gone", len(s.versions(t, fn("foo"))), 1)
		})
	t.Run("what a version in a tracker needs to run stays for it", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		needed := []landfall.UnitID{pkg("foo-pkg"), unit(landfall.EnvironmentUnit, "py"), unit(landfall.ConfigUnit, "config")}
		s.must(t, change{uid: uid, noRelease: true, units: []versioning.Declared{declareFunction("foo", "main", "foo-pkg"),
			declarePackage("foo-pkg", "1"), declareEnvironment("python"), declareConfig(`{}`)}})
		s.must(t, change{uid: aub, units: []versioning.Declared{declareFunction("foo", "main", "src"),
			declarePackage("src", "1")}})
		collected := func(want int) {
			t.Helper()
			if err := s.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, id := range needed {
				testkit.Same(t, "the tracker of the "+id.String(), s.tracker(t, id), "")
				testkit.Same(t, "versions of the "+id.String(), len(s.versions(t, id)), want)
			}
		}
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("foo")), "uidaaaaa aubaaaaa")
		// every number can be called
		collected(1)
		s.update(t, func(tx *store.Tx) error {
			row, err := tx.Unit(t.Context(), s.app, fn("foo"))
			if err != nil {
				return err
			}
			return tx.DeleteVersion(t.Context(), row.ID, 1)
		})
		collected(0)
	})
	t.Run("it says what it retired, once", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: with("1", "1")})
		bar := s.must(t, change{uid: aub, line: landfall.Preview, units: without("1")})
		for _, want := range [][]landfall.UnitID{{fn("foo"), pkg("foo-pkg"), trigger}, nil} {
			s.update(t, func(tx *store.Tx) error {
				retired, err := versioning.Retire(t.Context(), tx, s.app, bar, nil)
				testkit.Same(t, "Retire", retired, want)
				return err
			})
		}
	})
	t.Run("one specific version cannot be deleted by a spec", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		for i, uid := range []landfall.UID{uid, aub, cua} {
			s.must(t, change{uid: uid, units: without(string(rune('1' + i))), noRelease: true})
		}
		s.must(t, change{uid: dua, units: without("1"), noRelease: true})
		// B-074: as long as the unit is in the spec, no apply takes one of its versions away
		testkit.Same(t, "the tracker", s.tracker(t, pkg("src")), "uidaaaaa aubaaaaa cuaaaaaa")
	})
	t.Run("an app retires its own units only", func(t *testing.T) {
		t.Parallel()
		first := newShop(t)
		second := openShop(t, first.db, "zoo")
		first.must(t, change{uid: uid, units: with("1", "1"), noRelease: true})
		second.must(t, change{uid: aub, units: []versioning.Declared{declareConfig(`{}`)}})
		testkit.Same(t, "the other's tracker", first.tracker(t, fn("foo")), string(uid))
	})
}
