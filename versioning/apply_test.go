package versioning_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// The UIDs of the applies, as the second seed document calls them.
const (
	uid landfall.UID = "uidaaaaa"
	aub landfall.UID = "aubaaaaa"
	cua landfall.UID = "cuaaaaaa"
	dua landfall.UID = "duaaaaaa"
)

// shopUnits is a commit of everything: two functions that share a package, one with its own.
func shopUnits(shared, own string) []versioning.Declared {
	return []versioning.Declared{
		declareFunction("foo", "foo.main", "src"), declareFunction("bar", "bar.main", "src"),
		declareFunction("hello", "main", "hello"), declarePackage("src", shared), declarePackage("hello", own),
		declareEnvironment("python:3"),
		declareTrigger("home", "hello:latest"), declareConfig(`{"title":"Shop"}`), declareStatic("/", "index.html 1"),
		declareStatic("/docs", "a.html 1"),
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	t.Run("the first apply makes a version of everything, all under its uid", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		units := s.must(t, change{uid: uid, units: shopUnits("1", "1")})
		for _, u := range units {
			// B-085: every version of an apply carries the apply's own uid
			testkit.Same(t, u.Unit.String(), u.GroupUnit,
				landfall.GroupUnit{Unit: u.Unit, UID: uid, Number: 1, Digest: u.Digest})
			testkit.Same(t, "its tracker", s.tracker(t, u.Unit), string(uid))
		}
		// D-029: the app version is the collection of the versions of all units
		testkit.Same(t, "the group", s.group(t, uid), []string{
			"function bar uidaaaaa 1", "function foo uidaaaaa 1", "function hello uidaaaaa 1", "package hello uidaaaaa 1",
			"package src uidaaaaa 1", "environment py uidaaaaa 1", "http-trigger home uidaaaaa 1", "config config uidaaaaa 1",
			"static / uidaaaaa 1", "static /docs uidaaaaa 1"})
	})
	t.Run("an apply of the same makes no version", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: shopUnits("1", "1")})
		again := shopUnits("1", "1")
		slices.Reverse(again)
		s.must(t, change{uid: aub, units: again})
		testkit.Same(t, "the group", s.group(t, aub), s.group(t, uid))
		for _, d := range again {
			testkit.Same(t, "the tracker of "+d.Unit.String(), s.tracker(t, d.Unit), string(uid))
		}
	})
	t.Run("a changed package versions the functions that use it, and nothing else", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: shopUnits("1", "1")})
		s.must(t, change{uid: aub, units: shopUnits("1", "2")})
		// B-091: the changed package has a new object, in its tracker and in the group
		testkit.Same(t, "the package's tracker", s.tracker(t, pkg("hello")), "uidaaaaa aubaaaaa")
		// B-089: it was compared with what its tracker had
		testkit.Same(t, "the package's numbers", byUnit(t, s.units(t, aub), pkg("hello")).Number, int64(2))
		// B-098: so has its function
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("hello")), "uidaaaaa aubaaaaa")
		// D-027: however small the change of its code
		testkit.Same(t, "the function's number", byUnit(t, s.units(t, aub), fn("hello")).Number, int64(2))
		// D-035: deploying a function gives a new version of that function
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "hello"), string(aub))
		// B-090: an unchanged package stands in the group with its last version
		testkit.Same(t, "the other package", s.group(t, aub)[4], "package src uidaaaaa 1")
		// B-097: an unchanged function too
		testkit.Same(t, "the other functions", s.group(t, aub)[:2],
			[]string{"function bar uidaaaaa 1", "function foo uidaaaaa 1"})
		// B-099: and whatever else did not change
		testkit.Same(t, "the rest", s.group(t, aub)[5:], s.group(t, uid)[5:])
	})
	t.Run("each unit changes by itself", func(t *testing.T) {
		t.Parallel()
		for what, c := range map[string]struct {
			change func(units []versioning.Declared)
			want   []landfall.UnitID
		}{
			"one value of the tenant configuration": {
				func(u []versioning.Declared) {
					u[7] = declareConfig(`{"title":"Shop!"}`)
				}, []landfall.UnitID{unit(landfall.ConfigUnit, "config")}},
			"one function": {
				func(u []versioning.Declared) { u[0] = declareFunction("foo", "foo.other", "src") }, []landfall.UnitID{fn("foo")}},
			"one static unit": {
				func(u []versioning.Declared) {
					u[9] = declareStatic("/docs", "a.html 2")
				}, []landfall.UnitID{unit(landfall.StaticUnit, "/docs")}},
			"one trigger": {
				func(u []versioning.Declared) {
					u[6] = declareTrigger("home", "hello:2", "sha256:1")
				}, []landfall.UnitID{unit(landfall.HTTPTrigger, "home")}},
			"one package": {
				func(u []versioning.Declared) {
					u[3] = declarePackage("src", "2")
				}, []landfall.UnitID{fn("bar"), fn("foo"), pkg("src")}},
			"the environment of all functions": {
				func(u []versioning.Declared) { u[5] = declareEnvironment("python:4") },
				[]landfall.UnitID{fn("bar"), fn("foo"), fn("hello"), unit(landfall.EnvironmentUnit, "py")}},
		} {
			s := newShop(t)
			s.must(t, change{uid: uid, units: shopUnits("1", "1")})
			units := shopUnits("1", "1")
			c.change(units)
			var got []landfall.UnitID
			for _, u := range s.must(t, change{uid: aub, units: units}) {
				if u.UID == aub {
					got = append(got, u.Unit)
				}
			}
			// D-033: a unit that changes gets a new version, and only then
			testkit.Same(t, "what changed with "+what, got, c.want)
		}
	})
	t.Run("the tenant configuration, a function, a static unit are one unit each", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: []versioning.Declared{
			declareConfig(`{"a":1,"b":2}`), declareStatic("/", "a 1 b 1"), declareFunction("f", "main", "p"),
			declarePackage("p", "a 1 b 1")}})
		s.must(t, change{uid: aub, units: []versioning.Declared{
			declareConfig(`{"a":1,"b":3}`), declareStatic("/", "a 1 b 1"), declareFunction("f", "main", "p"),
			declarePackage("p", "a 1 b 1")}})
		config := s.versions(t, unit(landfall.ConfigUnit, "config"))
		// D-023: the tenant configuration is one unit
		testkit.Same(t, "its versions", len(config), 2)
		// D-026: of which one changed value makes all of it another version
		testkit.Same(t, "its content", string(config[1].Spec), `{"a":1,"b":3}`)
		s.must(t, change{uid: cua, units: []versioning.Declared{
			declareConfig(`{"a":1,"b":3}`), declareStatic("/", "a 1 b 2"), declareFunction("f", "main", "p"),
			declarePackage("p", "a 1 b 1")}})
		// D-025: one static entry is one unit, however many files it has
		testkit.Same(t, "the static unit's tracker", s.tracker(t, unit(landfall.StaticUnit, "/")), "uidaaaaa cuaaaaaa")
		s.must(t, change{uid: dua, units: []versioning.Declared{
			declareConfig(`{"a":1,"b":3}`), declareStatic("/", "a 1 b 2"), declareFunction("f", "main", "p"),
			declarePackage("p", "a 1 b 2")}})
		// D-024: one function's configuration is one unit, its code base included
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("f")), "uidaaaaa duaaaaaa")
	})
	t.Run("a revert goes back to the old version, and so does another branch with its content", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: shopUnits("1", "1")})
		s.must(t, change{uid: aub, units: shopUnits("1", "2")})
		s.must(t, change{uid: cua, units: shopUnits("1", "1")})
		testkit.Same(t, "the group of the revert", s.group(t, cua), s.group(t, uid))
		testkit.Same(t, "the tracker", s.tracker(t, pkg("hello")), "uidaaaaa aubaaaaa")
		// B-054: which version is newer is not what its number says
		testkit.Same(t, "what latest means", s.found(t, landfall.FunctionUnit, "hello"), string(uid))
		s.must(t, change{uid: dua, line: landfall.Preview, units: shopUnits("1", "2")})
		testkit.Same(t, "the group of the branch", s.group(t, dua), s.group(t, aub))
	})
	t.Run("what was previewed is what production gets", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: shopUnits("1", "1")})
		s.must(t, change{uid: aub, line: landfall.Preview, units: shopUnits("1", "2")})
		v := s.versions(t, fn("hello"))[1]
		if v.Production {
			t.Errorf("the previewed version: got it as production's")
		}
		testkit.Same(t, "what latest means while it is previewed", s.found(t, landfall.FunctionUnit, "hello"), string(uid))
		s.must(t, change{uid: cua, units: shopUnits("1", "2")})
		v.Production = true
		testkit.Same(t, "the version after the merge", s.versions(t, fn("hello"))[1:], []landfall.Version{v})
		testkit.Same(t, "the group of the merge", s.group(t, cua), s.group(t, aub))
		s.must(t, change{uid: dua, line: landfall.Preview, units: shopUnits("1", "2")})
		testkit.Same(t, "the version after another branch had it", s.versions(t, fn("hello"))[1:], []landfall.Version{v})
	})
}

// units returns the units of a group version.
func (s *shop) units(t tester, group landfall.UID) []store.GroupUnit {
	t.Helper()
	units, err := s.db.GroupUnits(t.Context(), s.app.ID, group)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return units
}

// packageOf is the package version that a function's newest version runs from.
func (s *shop) packageOf(t tester, name string) landfall.PackageRef {
	t.Helper()
	versions := s.versions(t, fn(name))
	var content landfall.FunctionContent
	if err := json.Unmarshal(versions[len(versions)-1].Content, &content); err != nil {
		t.Fatalf("%v", err)
	}
	return content.Package
}

func TestFunctionsNameTheirPackage(t *testing.T) {
	t.Parallel()
	t.Run("the package version of the same apply", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: []versioning.Declared{declareFunction("hello", "main", "hello-pkg"),
			declarePackage("hello-pkg", "1")}})
		// B-087: packages are applied before the functions that name them, in whatever order they are declared
		testkit.Same(t, "the function's package", s.packageOf(t, "hello"),
			landfall.PackageRef{Name: "hello-pkg-uidaaaaa", Namespace: "default", ResourceVersion: "1"})
		s.must(t, change{uid: aub, units: []versioning.Declared{declareFunction("hello", "main", "hello-pkg"),
			declarePackage("hello-pkg", "2")}})
		// B-095: the same package with a later version: the reference follows, and the function has changed
		testkit.Same(t, "after a change of the package", s.packageOf(t, "hello"),
			landfall.PackageRef{Name: "hello-pkg-aubaaaaa", Namespace: "default", ResourceVersion: "2"})
	})
	t.Run("the last version of an unchanged package", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t,
			change{uid: uid, units: []versioning.Declared{declareFunction("hello", "main", "p"), declarePackage("p", "1")}})
		s.must(t, change{uid: aub, units: []versioning.Declared{declareFunction("hello", "main.other", "p"),
			declarePackage("p", "1")}})
		// B-096: other fields differ: the function has changed
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("hello")), "uidaaaaa aubaaaaa")
		// B-093: field by field: what did not change is as before
		testkit.Same(t, "the function's package", s.packageOf(t, "hello"),
			landfall.PackageRef{Name: "p-uidaaaaa", Namespace: "default", ResourceVersion: "1"})
		// B-092: it was compared with the last of its tracker
		testkit.Same(t, "its specs", []string{string(s.versions(t, fn("hello"))[0].Spec),
			string(s.versions(t, fn("hello"))[1].Spec)},
			[]string{`{"entry":"main","package":"p"}`, `{"entry":"main.other","package":"p"}`})
	})
	t.Run("another package", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		both := []versioning.Declared{declarePackage("p", "1"), declarePackage("q", "1")}
		s.must(t, change{uid: uid, units: append(both, declareFunction("hello", "main", "p"))})
		s.must(t, change{uid: aub, units: append(both, declareFunction("hello", "main", "q"))})
		// B-094: the name of the package changed: the function has, and refers to the new one's latest version
		testkit.Same(t, "the function's package", s.packageOf(t, "hello"),
			landfall.PackageRef{Name: "q-uidaaaaa", Namespace: "default", ResourceVersion: "1"})
		testkit.Same(t, "the function's tracker", s.tracker(t, fn("hello")), "uidaaaaa aubaaaaa")
		testkit.Same(t, "the package's tracker", s.tracker(t, pkg("q")), "uidaaaaa")
	})
	t.Run("no package", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.must(t, change{uid: uid, units: []versioning.Declared{declareFunction("hello", "main", "none")}})
		if got := s.versions(t, fn("hello"))[0].Content; got != nil {
			t.Errorf("the content of a function without a package: got %s, want none", got)
		}
	})
}

// A version shows for ever what it was made of.
func TestVersionsNeverChange(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must(t, change{uid: uid, units: shopUnits("1", "1")})
	var before []landfall.Version
	for _, d := range shopUnits("1", "1") {
		before = append(before, s.versions(t, d.Unit)...)
	}
	s.must(t, change{uid: aub, units: shopUnits("2", "2")})
	s.must(t, change{uid: cua, line: landfall.Preview, units: shopUnits("3", "1")})
	s.must(t, change{uid: dua, units: shopUnits("1", "1")})
	for _, v := range before {
		got := s.versions(t, v.Unit)[0]
		// V1: the content and the spec of a version never change
		testkit.Same(t, v.ObjectName(), got, v)
		// D-028: a version is a snapshot of its unit
		testkit.Same(t, "its spec", string(got.Spec), string(specOf(v.Unit, shopUnits("1", "1"))))
	}
}

func specOf(id landfall.UnitID, declared []versioning.Declared) []byte {
	for _, d := range declared {
		if d.Unit == id {
			return d.Spec
		}
	}
	return nil
}

// Content is stored before a version says that it is.
func TestContent(t *testing.T) {
	t.Parallel()
	root := unit(landfall.StaticUnit, "/")
	// run applies one static unit or package with what a run stored of it.
	run := func(t *testing.T, s *shop, uid landfall.UID, d versioning.Declared,
		stored map[landfall.UnitID]versioning.Stored, unreleased bool) error {
		t.Helper()
		units, err := versioning.Resolve([]versioning.Declared{d})
		if err != nil {
			t.Fatal(err)
		}
		return s.db.Update(t.Context(), func(tx *store.Tx) error {
			for _, at := range stored {
				if _, err := tx.Reserve(t.Context(), s.app.ID, s.app.ID, at.Prefixes, noon); err != nil {
					return err
				}
			}
			a := versioning.Apply{App: s.app, UID: uid, Commit: commit, Units: units, Stored: stored, At: noon,
				Unreleased: unreleased}
			if _, err := a.Versions(t.Context(), tx); err != nil {
				return err
			}
			return tx.DropReservations(t.Context(), s.app.ID)
		})
	}
	prefixes := func(t *testing.T, s *shop, id landfall.UnitID) []string {
		t.Helper()
		row, err := s.db.Unit(t.Context(), s.app, id)
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.db.PrefixesOf(t.Context(), row.ID, 1)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	with := func(id landfall.UnitID, uid landfall.UID) map[landfall.UnitID]versioning.Stored {
		return map[landfall.UnitID]versioning.Stored{id: storedAt(id, uid)}
	}
	t.Run("what nobody stored is planned again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		for _, d := range []versioning.Declared{declareStatic("/", "1"), declarePackage("p", "1")} {
			err := run(t, s, uid, d, nil, false)
			if !errors.Is(err, versioning.ErrPlanAgain) || landfall.KindOf(err) != landfall.Unavailable {
				t.Errorf("%s: got the error %v, want one to try again", d.Unit, err)
			}
			if _, err := s.db.Unit(t.Context(), s.app, d.Unit); landfall.KindOf(err) != landfall.NotFound {
				t.Errorf("%s: got the error %v, want nothing of it stored", d.Unit, err)
			}
		}
	})
	t.Run("what was collected meanwhile is planned again, and then restored", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		d := declareStatic("/", "1")
		if err := run(t, s, uid, d, with(root, uid), false); err != nil {
			t.Fatal(err)
		}
		made := s.versions(t, root)[0]
		s.update(t, func(tx *store.Tx) error { // nothing holds it
			_, err := tx.MarkDeleting(t.Context(), s.app.ID)
			return err
		})
		testkit.Same(t, "its prefixes when they are being deleted", len(prefixes(t, s, root)), 0)
		if err := run(t, s, aub, d, nil, false); !errors.Is(err, versioning.ErrPlanAgain) {
			t.Errorf("an apply that counts on it: got the error %v, want one to plan again", err)
		}
		if err := run(t, s, aub, d, with(root, aub), false); err != nil {
			t.Fatal(err)
		}
		made.Content = storedAt(root, aub).Content
		testkit.Same(t, "the version that was restored", s.versions(t, root), []landfall.Version{made})
		testkit.Same(t, "its prefixes", prefixes(t, s, root), storedAt(root, aub).Prefixes)
	})
	t.Run("what is stored already stays where it is", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		d := declarePackage("p", "1")
		for _, uid := range []landfall.UID{uid, aub} { // two runs at once, of which both stored it
			if err := run(t, s, uid, d, with(pkg("p"), uid), false); err != nil {
				t.Fatal(err)
			}
		}
		// V1: not even where its content lies
		testkit.Same(t, "the version's content", string(s.versions(t, pkg("p"))[0].Content),
			string(storedAt(pkg("p"), uid).Content))
		testkit.Same(t, "its prefixes", prefixes(t, s, pkg("p")), storedAt(pkg("p"), uid).Prefixes)
	})
	t.Run("what nobody can reach needs no static content yet", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		d := declareStatic("/", "1")
		if err := run(t, s, uid, d, nil, true); err != nil {
			t.Fatal(err)
		}
		v := s.versions(t, root)[0]
		if v.Content != nil || v.UID != uid {
			t.Errorf("the version: got %+v, want one of %s without content", v, uid)
		}
		if err := run(t, s, aub, declarePackage("p", "1"), nil, true); !errors.Is(err, versioning.ErrPlanAgain) {
			t.Errorf("a package: got the error %v, want one to plan again", err)
		}
		if err := run(t, s, cua, d, with(root, cua), false); err != nil {
			t.Fatal(err)
		}
		v.Content = storedAt(root, cua).Content
		testkit.Same(t, "the version when it is reached", s.versions(t, root), []landfall.Version{v})
	})
}

func TestOwners(t *testing.T) {
	t.Parallel()
	units := func(code string) []versioning.Declared {
		return []versioning.Declared{declareFunction("hello", "main", "p"), declarePackage("p", code),
			declareStatic("/", "1")}
	}
	t.Run("a function belongs to the app that made it", func(t *testing.T) {
		t.Parallel()
		first := newShop(t)
		second := openShop(t, first.db, "zoo")
		first.must(t, change{uid: uid, units: units("1")})
		_, err := second.apply(t.Context(), change{uid: aub, units: units("2")})
		// N-012: a unit that another app owns is refused, with the place and the owner
		testkit.Kind(t, "another app", err, landfall.Invalid, "specs/a.yaml:1", "package p", `"shop"`, "--namespace")
		owned, err := second.db.UnitsOf(t.Context(), second.app.ID)
		if err != nil || len(owned) != 0 {
			t.Errorf("what the other app owns: got %v and the error %v, want nothing", owned, err)
		}
		testkit.Same(t, "the owner's tracker", first.tracker(t, fn("hello")), string(uid))
	})
	t.Run("until the app is deleted", func(t *testing.T) {
		t.Parallel()
		first := newShop(t)
		second := openShop(t, first.db, "zoo")
		first.must(t, change{uid: uid, units: units("1")})
		first.update(t, func(tx *store.Tx) error {
			return versioning.Unpublish(t.Context(), tx, first.app, "me", noon, &store.Tombstone{})
		})
		second.must(t, change{uid: aub, units: units("2")})
		// V3: a number means one version for ever, also where the name is another app's by now
		testkit.Same(t, "the versions of the new owner", second.tracker(t, fn("hello")), string(aub))
		testkit.Same(t, "the number of its first version", second.versions(t, fn("hello"))[0].Number, 2)
	})
	t.Run("until its last version is gone", func(t *testing.T) {
		t.Parallel()
		first := newShop(t)
		second := openShop(t, first.db, "zoo")
		first.must(t, change{uid: uid, units: units("1"), noRelease: true})
		first.update(t, func(tx *store.Tx) error {
			row, err := tx.Unit(t.Context(), first.app, fn("hello"))
			use := landfall.FunctionUse{ID: "use", Unit: row.ID, Created: noon, Updated: noon}
			return errors.Join(err, tx.PutFunctionHook(t.Context(), landfall.FunctionHook{FunctionUse: use, Key: "key"}),
				tx.PutJob(t.Context(), landfall.Job{FunctionUse: use, State: landfall.JobRunning}))
		})
		first.must(t, change{uid: aub, units: []versioning.Declared{declareStatic("/", "1")}, noRelease: true})
		second.must(t, change{uid: cua, units: units("1")})
		// the first owner's job and webhook do not call what is the second's
		row := testkit.Must(second.db.Unit(t.Context(), second.app, fn("hello")))(t)
		testkit.Same(t, "uses", testkit.Must(second.db.FunctionUses(t.Context(), row.ID))(t), nil)
		// V3: the numbers of a name go on, whoever owns it
		testkit.Same(t, "the group", second.group(t, cua),
			[]string{"function hello cuaaaaaa 2", "package p cuaaaaaa 2", "static / cuaaaaaa 1"})
		if _, err := first.apply(t.Context(), change{uid: dua, units: units("1")}); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("the first owner: got the error %v, want it refused", err)
		}
	})
	t.Run("what was made by hand is adopted", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.update(t, func(tx *store.Tx) error {
			u, err := tx.CreateUnit(t.Context(), s.app, fn("hello"))
			if err != nil {
				return err
			}
			u.App, u.LastNumber = "", 2
			if err := tx.UpdateUnit(t.Context(), u); err != nil {
				return err
			}
			return tx.CreateVersion(t.Context(), u.ID,
				landfall.Version{Number: 2, UID: uid, Spec: json.RawMessage(`{}`), Digest: "sha256:0", Created: noon})
		})
		s.must(t, change{uid: aub, units: units("1")})
		testkit.Same(t, "the tracker", s.tracker(t, fn("hello")), "uidaaaaa aubaaaaa")
		testkit.Same(t, "the group", s.group(t, aub)[0], "function hello aubaaaaa 3")
	})
	t.Run("static units are each app's own", func(t *testing.T) {
		t.Parallel()
		first := newShop(t)
		second := openShop(t, first.db, "zoo")
		first.must(t, change{uid: uid, units: []versioning.Declared{declareStatic("/", "1")}})
		second.must(t, change{uid: aub, units: []versioning.Declared{declareStatic("/", "1")}})
		testkit.Same(t, "the group", second.group(t, aub), []string{"static / aubaaaaa 1"})
	})
}
