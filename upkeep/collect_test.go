package upkeep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// A collection waits while a backup is made: it neither goes on beside it, nor asks for itself over and over.
func TestCollectionWaits(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	collected := make(chan error, 1)
	err := s.upkeep.WithoutCollection(t.Context(), func() error {
		go func() { collected <- s.upkeep.Collect(t.Context(), accepttest.AppID) }()
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.upkeep.Collect(impatient, accepttest.AppID); landfall.KindOf(err) != landfall.Canceled {
			t.Errorf("got %v from a collection meanwhile, want one that waited as long as it could", err)
		}
		if err := s.upkeep.WithoutCollection(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("an import during the backup: %v", err)
		}
		select {
		case err := <-collected:
			t.Errorf("a collection ended meanwhile: %v", err)
		default:
		}
		return nil
	})
	if err := errors.Join(err, <-collected); err != nil {
		t.Error(err)
	}
}

var (
	static   = landfall.UnitID{Kind: landfall.StaticUnit, Name: "/"}
	packaged = landfall.UnitID{Kind: landfall.PackageUnit, Name: "cart"}
	function = landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"}
)

// newHoldings returns a shop with releases of which some are held, each with pages and with a package and its function:
// one that was live and the live one, one with a tag, one that an alias points to, one with an execution that is not
// over, an old one, one whose pages a run reserves, one whose pages the newest has too, and the newest.
func newHoldings(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	ctx := t.Context()
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(ctx, accepttest.AppID)
		for _, id := range []landfall.UnitID{static, packaged, function} {
			_, made := tx.CreateUnit(ctx, app, id)
			err = errors.Join(err, made)
		}
		err = errors.Join(err, tx.CreateRun(ctx,
			landfall.Run{ID: "run", App: app.ID, State: landfall.RunRunning, Created: noon}))
		for _, name := range []string{"waslive", "live", "tagged", "aliased", "called", "old", "reserved", "shared",
			"newest"} {
			pages, archive := []string{"pages/" + name + "/"}, "packages/"+name+"/"
			if name == "newest" {
				pages = append(pages, "pages/shared/")
			}
			_, reserved := tx.Reserve(ctx, "run", app.ID, append(pages, archive), noon)
			err = errors.Join(err, reserved, release(ctx, tx, app, name,
				map[landfall.UnitID][]string{static: pages, packaged: {archive}, function: nil}))
			s.objects.put(pages[0]+page, pages[0]+"style.css", archive+"deploy.zip")
		}
		err = errors.Join(err, tx.DropReservations(ctx, "run"))
		_, reserved := tx.Reserve(ctx, "run", app.ID, []string{"pages/reserved/"}, noon)
		by := deploy.Mover{Actor: "ada", At: noon}
		err = errors.Join(err, reserved, deploy.MoveLive(ctx, tx, &app, "waslive", by),
			deploy.MoveLive(ctx, tx, &app, "live", by),
			deploy.SetTag(ctx, tx, landfall.Tag{App: app.ID, Name: "spare", Kind: landfall.HandTag, Release: "tagged"}, by))
		row, found := tx.Unit(ctx, app, function)
		_, aliased := versioning.SetAlias(ctx, tx, row,
			versioning.NewAlias{Name: "stable", Create: true, To: []versioning.Weight{{Selector: "4", Percent: 100}}, At: noon})
		called := landfall.Execution{ID: "called", AppID: app.ID, Namespace: app.Namespace, Function: function.Name,
			Number: 5, Group: "called", State: landfall.ExecutionQueued, Async: true, Created: noon}
		return errors.Join(err, found, aliased,
			tx.AcceptExecution(ctx, called, []byte("{}"), store.WaitingLimit{Count: 1, Bytes: 10}))
	})
	return s
}

// wantHeld fails the test unless what is held is there, and nothing else.
func (s *shop) wantHeld(what string, pages, packages []string) {
	s.T.Helper()
	var keys []string
	for _, name := range packages {
		keys = append(keys, "packages/"+name+"/deploy.zip")
	}
	for _, name := range pages {
		keys = append(keys, "pages/"+name+"/"+page, "pages/"+name+"/style.css")
	}
	slices.Sort(keys)
	testkit.EqualList(s.T, what+": objects", s.objects.keys(""), keys)
	row := testkit.Must(s.Receiver.DB.Unit(s.T.Context(), s.app(), packaged))(s.T)
	var versions []string
	for _, v := range testkit.Must(s.Receiver.DB.Versions(s.T.Context(), row.ID, true))(s.T) {
		versions = append(versions, string(v.UID))
	}
	slices.Sort(versions)
	testkit.EqualList(s.T, what+": versions of the package", versions, packages)
	testkit.Equal(s.T, what+": prefixes that are known", len(testkit.Must(s.Receiver.DB.Prefixes(s.T.Context()))(s.T)),
		len(pages)+len(packages))
}

// A collection leaves what is live or was, what has a tag, what an alias or a call still needs, what a run reserves,
// and what is shared with any of it; the rest goes.
func TestCollect(t *testing.T) {
	t.Parallel()
	s := newHoldings(t)
	collect := func() {
		t.Helper()
		if err := s.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
			t.Fatal(err)
		}
	}
	packages := []string{"aliased", "called", "live", "newest", "tagged", "waslive"}
	pages := []string{"live", "newest", "reserved", "shared", "tagged", "waslive"}
	collect()
	s.wantHeld("one run is at work", pages, packages)
	collect()
	s.wantHeld("again", pages, packages)
	s.Update(func(tx *store.Tx) error {
		row, err := tx.Unit(t.Context(), s.app(), function)
		removed := versioning.RemoveAlias(t.Context(), tx, row, "stable", store.AliasMove{Actor: "ada", At: noon})
		return errors.Join(err, removed, tx.DropReservations(t.Context(), "run"))
	})
	collect()
	s.wantHeld("the run is over, and the alias gone", []string{"live", "newest", "shared", "tagged", "waslive"},
		[]string{"called", "live", "newest", "tagged", "waslive"})
}

// Wherever a collection is broken off, it has taken nothing of what is held; what it was about to delete cannot be held
// again; and the next one ends as if it was the first.
func TestCollectionIsBrokenOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("the power is gone")
	for at := int64(1); ; at++ {
		s := newHoldings(t)
		var calls atomic.Int64
		s.objects.before = func() error {
			if calls.Add(1) >= at {
				return broken
			}
			return nil
		}
		err := s.upkeep.Collect(t.Context(), accepttest.AppID)
		if calls.Load() < at {
			if err != nil || at == 1 {
				t.Errorf("got %v from a collection of %d steps that nothing broke off", err, at-1)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Fatalf("step %d: got %v, want what broke it off", at, err)
		}
		for _, name := range []string{"live", "newest", "reserved", "shared", "tagged", "waslive"} {
			testkit.Equal(t, "objects of "+name, len(s.objects.keys("pages/"+name+"/")), 2)
		}
		for _, key := range s.objects.keys("pages/old/") {
			s.Update(func(tx *store.Tx) error {
				refused, err := tx.Share(t.Context(), "run", []string{"pages/old/"})
				testkit.EqualList(t, key+" is there, and cannot be held", refused, []string{"pages/old/"})
				return err
			})
		}
		s.objects.before = func() error { return nil }
		if err := s.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
			t.Fatal(err)
		}
		s.wantHeld("in the end", []string{"live", "newest", "reserved", "shared", "tagged", "waslive"},
			[]string{"aliased", "called", "live", "newest", "tagged", "waslive"})
	}
}

// A reference of an apply goes once it is a day old, unless a run or a group version is of its commit; the commit of
// one that goes stays, and so do branches.
func TestCollectDropsApplies(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	now := time.Now()
	s.upkeep.Now = func() time.Time { return now }
	commits := map[string]landfall.CommitSHA{}
	push := func(name string) {
		t.Helper()
		commits[name] = s.Commit(name)
		ref := landfall.ApplyPrefix + name
		s.Git("update-ref", ref, string(commits[name]))
		s.age(ref)
	}
	for _, name := range []string{"nobody-asked", "failed-long-ago", "ran", "released"} {
		push(name)
	}
	s.Git("update-ref", landfall.ApplyPrefix+"just-pushed", string(commits["nobody-asked"]))
	s.Git("update-ref", "refs/heads/main", string(commits["released"]))
	s.age("refs/heads/main")
	s.Update(func(tx *store.Tx) error {
		ran := landfall.Run{ID: "ran", App: accepttest.AppID, Commit: commits["ran"], State: landfall.RunFailed,
			Created: noon, Finished: noon}
		released := landfall.Group{UID: "aaaaaaaa", App: accepttest.AppID, Commit: commits["released"], Created: noon}
		return errors.Join(tx.CreateRun(ctx, ran), tx.CreateGroup(ctx, released, nil))
	})
	want := func(what string, refs ...string) {
		t.Helper()
		if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
			t.Fatal(err)
		}
		testkit.EqualList(t, what, strings.Fields(s.Git("for-each-ref", "--format=%(refname:lstrip=-1)")), refs)
	}
	want("references that are left", "main", "just-pushed", "ran", "released")
	s.Git("cat-file", "-e", string(commits["failed-long-ago"]))
	push("again")
	want("at once afterwards", "main", "again", "just-pushed", "ran", "released")
	s.Git("pack-refs", "--all")
	now = now.Add(day)
	want("while the file of packed references is young", "main", "again", "just-pushed", "ran", "released")
	s.age("packed-refs")
	now = now.Add(day)
	want("a day later", "main", "ran", "released")
}

// age lets a file of the shop's repository be of two days ago.
func (s *shop) age(name string) {
	s.T.Helper()
	at := time.Now().Add(-2 * day)
	if err := os.Chtimes(filepath.Join(s.Repos.Path(accepttest.AppID), name), at, at); err != nil {
		s.T.Fatal(err)
	}
}
