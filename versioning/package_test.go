package versioning_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// A function runs the version of its package with which it was made. When a person has made the same package again,
// releases have the new one beside the old function: both versions stay as long as such a release does.
func TestPackageThatAFunctionRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	units := []versioning.Declared{declarePackage("p", "1"), declareFunction("f", "main", "p")}
	s.must(t, change{uid: "aaaaaaaa", units: units})
	s.update(t, func(tx *store.Tx) error {
		again := versioning.Apply{App: s.app, UID: "bbbbbbbb", Commit: commit, Production: true, At: noon,
			New: map[landfall.UnitID]landfall.NewVersion{pkg("p"): {Unit: pkg("p")}}}
		var err error
		if again.Units, err = versioning.Resolve(units[:1]); err != nil {
			return err
		}
		_, err = again.Versions(t.Context(), tx)
		return err
	})
	s.must(t, change{uid: "cccccccc", units: units})
	testkit.Same(t, "what the release has", s.group(t, "cccccccc"),
		[]string{"function f aaaaaaaa 1", "package p bbbbbbbb 2"})
	s.expire(t, "aaaaaaaa")
	s.must(t, change{uid: "dddddddd", units: []versioning.Declared{declareConfig("{}")}})
	count := func() int { return len(s.versions(t, pkg("p"))) }
	testkit.Same(t, "versions of the package, while a release has the function", count(), 2)
	if err := s.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	// V2: what an accessible release runs is there
	testkit.Same(t, "versions of the package after a collection", count(), 2)
	s.expire(t, "cccccccc")
	if err := s.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Same(t, "versions of the package that nothing needs", count(), 0)
}
