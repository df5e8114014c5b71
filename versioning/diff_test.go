package versioning_test

import (
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	at := func(id landfall.UnitID, uid landfall.UID, number int64, digest landfall.Digest) landfall.GroupUnit {
		return landfall.GroupUnit{Unit: id, UID: uid, Number: number, Digest: digest}
	}
	before := []landfall.GroupUnit{
		at(pkg("p"), "aaaaaaaa", 1, "sha256:p1"), at(fn("same"), "aaaaaaaa", 1, "sha256:s"),
		at(fn("gone"), "aaaaaaaa", 4, "sha256:g"), at(fn("f"), "aaaaaaaa", 1, "sha256:f1"),
	}
	after := []landfall.GroupUnit{
		at(unit(landfall.StaticUnit, "/"), "bbbbbbbb", 1, "sha256:/"), at(fn("f"), "bbbbbbbb", 2, "sha256:f2"),
		at(fn("same"), "aaaaaaaa", 1, "sha256:s"), at(pkg("p"), "bbbbbbbb", 2, "sha256:p2"),
	}
	// D-022: each unit is compared, and changes, by itself
	testkit.Same(t, "Diff", versioning.Diff(before, after), []landfall.UnitChange{
		{Unit: fn("f"), Change: landfall.Changed, Before: "aaaaaaaa", After: "bbbbbbbb", Number: 2},
		{Unit: fn("gone"), Change: landfall.Removed, Before: "aaaaaaaa", Number: 4},
		{Unit: fn("same"), Change: landfall.Unchanged, Before: "aaaaaaaa", After: "aaaaaaaa", Number: 1},
		{Unit: pkg("p"), Change: landfall.Changed, Before: "aaaaaaaa", After: "bbbbbbbb", Number: 2},
		{Unit: unit(landfall.StaticUnit, "/"), Change: landfall.Added, After: "bbbbbbbb", Number: 1},
	})
	testkit.Same(t, "Diff of nothing", len(versioning.Diff(nil, nil)), 0)
}

// Every unit of either side is listed once, with what happened to it; the other way round it is the other way round.
func TestDiffProperty(t *testing.T) {
	t.Parallel()
	opposite := map[landfall.ChangeKind]landfall.ChangeKind{landfall.Added: landfall.Removed,
		landfall.Removed: landfall.Added, landfall.Changed: landfall.Changed, landfall.Unchanged: landfall.Unchanged}
	rapid.Check(t, func(t *rapid.T) {
		before, after := inForce(t, commits().Draw(t, "before")), inForce(t, commits().Draw(t, "after"))
		was, is := map[landfall.UnitID]landfall.Digest{}, map[landfall.UnitID]landfall.Digest{}
		for _, u := range before {
			was[u.Unit] = u.Digest
		}
		for _, u := range after {
			is[u.Unit] = u.Digest
		}
		back := map[landfall.UnitID]landfall.ChangeKind{}
		for _, c := range versioning.Diff(after, before) {
			back[c.Unit] = c.Change
		}
		listed := map[landfall.UnitID]bool{}
		for _, c := range versioning.Diff(before, after) {
			old, had := was[c.Unit]
			now, has := is[c.Unit]
			want := landfall.Changed
			switch {
			case !had:
				want = landfall.Added
			case !has:
				want = landfall.Removed
			case old == now:
				want = landfall.Unchanged
			}
			// V4: what changed is a function of the digests, and of nothing else
			if c.Change != want || back[c.Unit] != opposite[want] || listed[c.Unit] {
				t.Fatalf("%s: got %s, %s back, listed before %t, want %s once", c.Unit, c.Change, back[c.Unit],
					listed[c.Unit], want)
			}
			listed[c.Unit] = true
		}
		for u := range was {
			is[u] = ""
		}
		if len(listed) != len(is) {
			t.Fatalf("got %d units, want %d", len(listed), len(is))
		}
	})
}
