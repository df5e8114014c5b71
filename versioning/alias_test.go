package versioning_test

import (
	"fmt"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// Aliases hold versions, and every move is a row: who makes them without end comes to one.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must(t, change{uid: uid, units: without("1")})
	ctx := t.Context()
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(ctx, s.app, fn("bar"))
		if err != nil {
			return err
		}
		set := func(i int) error {
			_, err := versioning.SetAlias(ctx, tx, row, versioning.NewAlias{
				Name: fmt.Sprint("a", i), To: []versioning.Weight{{Selector: string(uid), Percent: 100}}, Create: true, At: noon,
			})
			return err
		}
		const most, moves = 100, 1000
		for i := range most {
			if err := set(i); err != nil {
				return err
			}
		}
		if err := set(most); landfall.KindOf(err) != landfall.Conflict {
			t.Errorf("one alias more: got %v", err)
		}
		_, err = versioning.Select(ctx, tx, row, "b0")
		testkit.Kind(t, "an alias that is not there", err, landfall.NotFound, `no version or alias "b0"`,
			"aliases are a0, a1, a10, a11, a12 and 95 more")
		if err := versioning.RemoveAlias(ctx, tx, row, "a0", store.AliasMove{At: noon}); err != nil {
			return err
		}
		if err := set(most); err != nil {
			t.Errorf("in place of another one: got %v", err)
		}
		for range moves + 1 {
			if err := tx.CreateAliasMove(ctx, row.ID, store.AliasMove{Alias: "flag", From: "1", To: "2", At: noon}); err != nil {
				return err
			}
		}
		kept, err := tx.AliasMoves(ctx, row.ID, "flag", 0, 2*moves)
		testkit.Same(t, "moves that are kept", len(kept), moves)
		return err
	})
}

// A version whose package was deleted is held by nobody any more: neither an alias nor a function tag names it.
func TestNamesOfWhatIsWhole(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must(t, change{uid: uid, units: without("1")})
	ctx := t.Context()
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(ctx, s.app, fn("bar"))
		if err != nil {
			return err
		}
		v, err := versioning.Select(ctx, tx, row, landfall.Latest)
		if err != nil {
			return err
		}
		pkg, runs, err := versioning.PackageOf(ctx, tx, v)
		if err == nil {
			err = tx.DeleteVersion(ctx, pkg.ID, runs.Number)
		}
		if err != nil {
			return err
		}
		const says = "function bar no. 1 cannot run any more: the version of its package was deleted"
		_, err = versioning.SetAlias(ctx, tx, row, versioning.NewAlias{Name: "prod", Create: true, At: noon,
			To: []versioning.Weight{{Selector: "1", Percent: 100}}})
		testkit.Kind(t, "an alias", err, landfall.NotFound, says)
		_, _, err = versioning.SetFunctionTag(ctx, tx, versioning.NewFunctionTag{Namespace: row.Namespace, Name: "nightly",
			Create: true, At: noon, Functions: []landfall.Reference{{Name: "bar", Selector: "1"}}})
		testkit.Kind(t, "a function tag", err, landfall.NotFound, says)
		return nil
	})
}

// A name under which lists print a version stays that version's.
func TestPrintedNamesAreTaken(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must(t, change{uid: uid, units: without("1")})
	ctx, printed := t.Context(), "bar-"+string(uid)
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(ctx, s.app, fn("bar"))
		if err != nil {
			return err
		}
		v := s.versions(t, fn("bar"))[0]
		v.Number, v.UID, v.Label = 2, aub, "v1"
		if err := tx.CreateVersion(ctx, row.ID, v); err != nil {
			return err
		}
		testkit.Kind(t, "as a label", versioning.CheckLabel(ctx, tx, row, printed), landfall.Conflict,
			`function bar has a version "bar-uidaaaaa" already`)
		testkit.Kind(t, "as an alias", versioning.CheckNewAlias(ctx, tx, row, printed), landfall.Invalid,
			`"bar-uidaaaaa" cannot be an alias: a version of the function is called so`)
		testkit.Same(t, "what is like one with a label", versioning.CheckLabel(ctx, tx, row, "bar-v1"), nil)
		return versioning.CheckNewAlias(ctx, tx, row, "bar-v1")
	})
	testkit.Same(t, "what it means", s.found(t, landfall.FunctionUnit, "bar:"+printed), string(uid))
}
