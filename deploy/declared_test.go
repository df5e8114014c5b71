package deploy_test

import (
	"fmt"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// declaring returns a group version in which a function has so many declared aliases, whose names begin with a letter.
func (s *shop) declaring(t *testing.T, tx *store.Tx, letter string, count int) (landfall.Group, []store.GroupUnit) {
	t.Helper()
	g := landfall.Group{UID: landfall.NewUID(), App: s.app.ID, Digest: landfall.DigestOf([]byte(letter)), Created: s.now}
	var units []store.GroupUnit
	add := func(kind landfall.UnitKind, name, spec string) {
		id := landfall.UnitID{Kind: kind, Name: name}
		row, err := tx.Unit(t.Context(), s.app, id)
		if err != nil {
			row = testkit.Must(tx.CreateUnit(t.Context(), s.app, id))(t)
			v := landfall.Version{Unit: id, Number: 1, UID: g.UID, Spec: []byte(spec), Created: s.now, Production: true}
			if err := tx.CreateVersion(t.Context(), row.ID, v); err != nil {
				t.Fatal(err)
			}
		}
		units = append(units, store.GroupUnit{UnitID: row.ID, Declared: "specs/app.yaml:1",
			GroupUnit: landfall.GroupUnit{Unit: id, UID: g.UID, Number: 1}})
	}
	add(landfall.FunctionUnit, "hello", `{}`)
	for i := range count {
		add(landfall.AliasUnit, fmt.Sprint("hello:", letter, i), `{"function":"hello","version":"latest"}`)
	}
	if err := tx.CreateGroup(t.Context(), g, units); err != nil {
		t.Fatal(err)
	}
	return g, units
}

// A push that declares other aliases has room for as many as a function may have.
func TestAliasesAreReplaced(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	const most = 100
	for _, letter := range []string{"a", "b"} {
		s.update(t, func(tx *store.Tx) error {
			g, units := s.declaring(t, tx, letter, most)
			if err := deploy.CheckNewAliases(t.Context(), tx, s.app, units); err != nil {
				return err
			}
			u := deploy.RefUpdate{Tx: tx, App: &s.app, Group: g, Units: units, Now: s.clock}
			return u.Point(t.Context(), landfall.Push{App: s.app.ID, Ref: "refs/heads/main"})
		})
	}
	s.update(t, func(tx *store.Tx) error {
		_, units := s.declaring(t, tx, "b", most+1)
		testkit.Kind(t, "one more", deploy.CheckNewAliases(t.Context(), tx, s.app, units), landfall.Conflict,
			"function hello would have 101 aliases, and 100 are as many as may be")
		row, err := tx.Unit(t.Context(), s.app, units[0].Unit)
		if err != nil {
			return err
		}
		aliases, err := tx.Aliases(t.Context(), row.ID)
		testkit.Same(t, "aliases", len(aliases), most)
		testkit.Same(t, "the first one", aliases[0].Name, "b0")
		return err
	})
}
