package versioning_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// world is an app and all that was ever seen of it.
type world struct {
	*shop

	seen     map[string]landfall.Version // by unit and number
	declared map[landfall.UID][]versioning.Declared
	releases []landfall.UID
	latest   []versioning.Declared // what production has
	applies  int
}

// Whatever is applied, expired and collected in whatever order, versions stay what they are, numbers and uids are given
// once, and what can be reached is there.
func TestInvariants(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	var apps atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		w := &world{shop: openShop(t, db, fmt.Sprintf("shop-%d", apps.Add(1))), seen: map[string]landfall.Version{},
			declared: map[landfall.UID][]versioning.Declared{}}
		w.app.Namespace = w.app.Name // functions of other checks are other functions
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"apply", "apply", "apply", "apply", "expire", "collect"}).Draw(t, "step") {
			case "apply":
				w.step(t)
			case "expire":
				if len(w.releases) > 0 {
					i := rapid.IntRange(0, len(w.releases)-1).Draw(t, "release")
					w.expire(t, w.releases[i])
					w.releases = slices.Delete(w.releases, i, i+1)
				}
			case "collect":
				if err := w.collect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.check(t)
		}
	})
}

// step applies some commit of few possible contents, so that the same comes back often.
func (w *world) step(t *rapid.T) {
	t.Helper()
	var units []versioning.Declared
	content := rapid.SampledFrom([]string{"", "1", "2"}) // empty: not in the spec
	if code := content.Draw(t, "package"); code != "" {
		units = append(units, declarePackage("p", code))
		for _, name := range []string{"f", "g"} {
			if entry := content.Draw(t, name); entry != "" {
				units = append(units, declareFunction(name, entry, "p"))
			}
		}
	}
	if files := content.Draw(t, "static"); files != "" {
		units = append(units, declareStatic("/", files))
	}
	if values := content.Draw(t, "config"); values != "" {
		units = append(units, declareConfig(values))
	}
	w.applies++
	c := change{
		uid: landfall.UID(fmt.Sprintf("u%07d", w.applies)), noRelease: rapid.Bool().Draw(t, "no release"), units: units,
		line: rapid.SampledFrom([]landfall.Line{landfall.Production, landfall.Preview}).Draw(t, "line"),
	}
	inForce := w.must(t, c)
	w.declared[c.uid] = units
	if !c.noRelease {
		w.releases = append(w.releases, c.uid)
	}
	if c.line == landfall.Production {
		w.latest = units
	}
	// The app version is what the commit declares, digest for digest.
	digest := digests(t, units)
	for _, u := range inForce {
		if u.Digest != digest[u.Unit] {
			t.Fatalf("%s: got the digest %s in force, want %s", u.Unit, u.Digest, digest[u.Unit])
		}
	}
	if len(inForce) != len(units) {
		t.Fatalf("got %d units in force of %d declared", len(inForce), len(units))
	}
}

// check compares all that is there with all that was there before.
func (w *world) check(t *rapid.T) {
	t.Helper()
	rows, err := w.db.UnitsOf(t.Context(), w.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		uids, digests, last := map[landfall.UID]bool{}, map[landfall.Digest]bool{}, int64(0)
		for _, v := range w.versions(t, row.Unit) {
			// V3: numbers ascend, and two versions of a unit share neither uid nor digest
			if v.Number <= last || v.Number > row.LastNumber || uids[v.UID] || digests[v.Digest] {
				t.Fatalf("%s: got number %d of %s after number %d, where the unit's last is %d", row.Unit, v.Number, v.UID, last,
					row.LastNumber)
			}
			uids[v.UID], digests[v.Digest], last = true, true, v.Number
			w.remember(t, v)
		}
	}
	for _, uid := range w.releases {
		complete, err := w.db.GroupComplete(t.Context(), w.app.ID, uid)
		// V2: a release points at nothing that is deleted
		if err != nil || !complete {
			t.Fatalf("the release %s lacks versions (%v): %s", uid, err, strings.Join(w.group(t, uid), ", "))
		}
		for _, u := range w.units(t, uid) {
			v, err := w.db.VersionByNumber(t.Context(), u.UnitID, u.Number)
			if err != nil || v.Digest != u.Digest || (v.Content == nil && u.Unit.Kind == landfall.StaticUnit) {
				t.Fatalf("the release %s has %s as %+v (%v)", uid, u.Unit, v, err)
			}
		}
	}
	w.checkLatest(t)
}

// remember compares a version with how it was seen before: with the same number it is the same. Only where its content
// lies may change: static content goes with its last release, and comes back elsewhere.
func (w *world) remember(t *rapid.T, v landfall.Version) {
	t.Helper()
	v.Production, v.Retired = false, false
	if v.Unit.Kind == landfall.StaticUnit {
		v.Content = nil
	}
	key := fmt.Sprintf("%s %d", v.Unit, v.Number)
	if was, ok := w.seen[key]; ok {
		// V1: a version's spec and content never change, and its number is never given again
		testkit.Same(t, key, v, was)
	}
	w.seen[key] = v
}

// checkLatest compares what latest means with what production applied last.
func (w *world) checkLatest(t *rapid.T) {
	t.Helper()
	digest := digests(t, w.latest)
	for _, id := range []landfall.UnitID{fn("f"), fn("g"), pkg("p")} {
		v, err := versioning.Find(t.Context(), w.db, w.app.Namespace, id.Kind,
			landfall.Reference{Name: id.Name, Selector: landfall.Latest})
		want, ok := digest[id]
		switch {
		case !ok && (err == nil || landfall.KindOf(err) != landfall.NotFound):
			t.Fatalf("%s:latest, which production does not have: got %s and the error %v", id, v.UID, err)
		case ok && (err != nil || v.Digest != want):
			t.Fatalf("%s:latest: got %s and the error %v, want what production has", id, v.Digest, err)
		}
	}
}

// Branches that apply at the same time: each gets its own versions, and each number and uid is given once.
func TestConcurrentApplies(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const branches, commits = 6, 8
	var mu sync.Mutex
	given := map[string]landfall.UID{} // by unit and number
	var group errgroup.Group
	for branch := range branches {
		group.Go(func() error {
			for i := range commits {
				c := change{uid: landfall.UID(fmt.Sprintf("b%d%06d", branch, i)), line: landfall.Preview,
					units: []versioning.Declared{
						declareFunction("f", "main", "p"), declarePackage("p", fmt.Sprintf("%d of %d", i, branch)),
						declareStatic("/", fmt.Sprintf("page %d", i)), // the same on every branch
					}}
				if branch == 0 {
					c.line = landfall.Production
				}
				inForce, err := s.apply(t.Context(), c)
				if err != nil {
					return err
				}
				mu.Lock()
				for _, u := range inForce {
					key := fmt.Sprintf("%s %d", u.Unit, u.Number)
					if uid, taken := given[key]; taken && uid != u.UID {
						t.Errorf("%s: got it for %s and for %s", key, uid, u.UID)
					}
					given[key] = u.UID
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[landfall.UnitID]int{fn("f"): branches * commits, pkg("p"): branches * commits,
		unit(landfall.StaticUnit, "/"): commits} {
		versions := s.versions(t, id)
		// B-054: applies of many branches at the same time each get a version of their own, numbered as they came
		if len(versions) != want || versions[len(versions)-1].Number != int64(want) {
			t.Errorf("%s: got %d versions up to number %d, want %d", id, len(versions), versions[len(versions)-1].Number, want)
		}
		uids := map[landfall.UID]bool{}
		for _, v := range versions {
			uids[v.UID] = true
		}
		// V3: uids never collide
		testkit.Same(t, "different uids of "+id.String(), len(uids), want)
	}
	// B-054: and what is latest does not follow from the numbers
	testkit.Same(t, "what latest means", s.found(t, landfall.PackageUnit, "p"), fmt.Sprintf("b0%06d", commits-1))
}

// Applies, retirements and collections at the same time: what was deleted is not pointed at, and no number comes twice.
func TestConcurrentRetirement(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const rounds = 15
	var group errgroup.Group
	worker := func(prefix string, line landfall.Line, units func(i int) []versioning.Declared) {
		group.Go(func() error {
			for i := range rounds {
				c := change{uid: landfall.UID(fmt.Sprintf("%s%06d", prefix, i)), line: line, noRelease: i%3 == 0, units: units(i)}
				inForce, err := s.apply(t.Context(), c)
				if err != nil {
					return err
				}
				complete, err := s.db.GroupComplete(t.Context(), s.app.ID, c.uid)
				// V2: a release that was just made lacks nothing, whoever retires and collects beside it
				if err != nil || (!complete && !c.noRelease) {
					t.Errorf("the release %s of %d units: complete %t, error %v", c.uid, len(inForce), complete, err)
				}
			}
			return nil
		})
	}
	worker("pa", landfall.Production, func(i int) []versioning.Declared {
		if i%2 == 0 {
			return without("1")
		}
		return with("1", fmt.Sprint(i%3))
	})
	worker("fa", landfall.Preview, func(i int) []versioning.Declared { return with("2", fmt.Sprint(i%3)) })
	worker("fb", landfall.Preview, func(i int) []versioning.Declared { return without(fmt.Sprint(i % 2)) })
	group.Go(func() error {
		for range rounds {
			if err := s.collect(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	releases, err := s.db.AccessibleReleases(context.WithoutCancel(t.Context()), s.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		if complete, err := s.db.GroupComplete(t.Context(), s.app.ID, r.ID); err != nil || !complete {
			t.Errorf("the release %s at the end: complete %t, error %v", r.ID, complete, err)
		}
	}
	row, err := s.db.Unit(t.Context(), s.app, fn("foo"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[int64]bool{}
	for _, v := range s.versions(t, fn("foo")) {
		// V3: no number is above the unit's last, or given twice
		if v.Number > row.LastNumber || numbers[v.Number] {
			t.Errorf("number %d: got it twice, or above the last number %d", v.Number, row.LastNumber)
		}
		numbers[v.Number] = true
	}
}
