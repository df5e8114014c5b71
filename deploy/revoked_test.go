package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// nobody visits these gateways.
type nobody struct{}

func (nobody) RefreshApp(context.Context, string) error     { return nil }
func (nobody) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// editor is one of an installation that has a key of secrets.
func (s *shop) editor(t *testing.T) *deploy.Editor {
	t.Helper()
	return &deploy.Editor{
		DB: s.db, Secrets: testkit.Must(secret.ParseKey(testkit.Must(secret.NewKey())(t)))(t),
		ReleaseURL: func(string, landfall.UID) string { return "" },
		Rollout:    &deploy.Rollout{DB: s.db, Gateways: nobody{}, Logger: slog.New(slog.DiscardHandler)},
		Now:        s.clock,
	}
}

// A release whose secret was revoked cannot become live. When the secret gets the same value again, the release has that,
// and becomes live as after a push.
func TestRevokedValueIsSetAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	ctx, name := t.Context(), landfall.UnitID{Kind: landfall.SecretUnit, Name: "KEY"}
	editor := s.editor(t)
	set := func() deploy.SetSecretResult {
		t.Helper()
		return testkit.Must(editor.SetSecret(ctx, s.app, deploy.NewSecret{Name: name.Name, Value: "a-value", Actor: "ada"}))(t)
	}
	first := set().Version
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(ctx, s.app, name)
		g := landfall.Group{UID: "release1", App: s.app.ID, Commit: "1111", Branch: "main", Created: noon}
		units := []store.GroupUnit{{UnitID: row.ID,
			GroupUnit: landfall.GroupUnit{Unit: name, UID: first.UID, Number: first.Number, Digest: first.Digest}}}
		g.Digest = versioning.GroupDigest(versioning.InForce(units))
		err = errors.Join(err, tx.CreateGroup(ctx, g, units),
			tx.CreateApply(ctx, landfall.Apply{App: s.app.ID, Group: g.UID, Line: landfall.Production, Created: noon}))
		_, made := deploy.Create(ctx, tx, g, landfall.Production, noon)
		return errors.Join(err, made)
	})
	testkit.Must(editor.RevokeSecret(ctx, s.app, name.Name, "1", "ada"))(t)
	testkit.Kind(t, "what needs a revoked value", s.promote(t, "release1"), landfall.Conflict, "was revoked")
	testkit.Equal(t, "the release with the value again", set().Release, "release1")
	s.app = testkit.Must(s.db.App(ctx, s.app.ID))(t)
	testkit.Equal(t, "live", s.app.Live, "release1")
	units := testkit.Must(s.db.GroupUnits(ctx, s.app.ID, "release1"))(t)
	testkit.Equal(t, "the number of its secret", units[0].Number, 2)
}

// What reads a secret holds its own app's: a function that another app has by now holds none of the app whose trigger
// still names it.
func TestFunctionsOfOthersHoldNoSecret(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	ctx, editor := t.Context(), s.editor(t)
	cart := landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"}
	trigger := landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "old"}
	other := landfall.App{ID: "other", Namespace: s.app.Namespace, Name: "other", Branch: "main", Created: noon}
	remove := func() error { return editor.DeleteSecret(ctx, s.app, "KEY") }
	set := deploy.NewSecret{Name: "KEY", Value: "a-value", Actor: "ada"}
	testkit.Must(editor.SetSecret(ctx, s.app, set))(t)
	s.update(t, func(tx *store.Tx) error {
		put := func(id landfall.UnitID, spec string) (store.Unit, error) {
			row, err := tx.CreateUnit(ctx, s.app, id)
			return row, errors.Join(err, tx.CreateVersion(ctx, row.ID, landfall.Version{Number: 1, UID: "release1",
				Spec: []byte(spec), Created: noon}))
		}
		_, err := put(cart, `{"secrets":[{"name":"KEY"}]}`)
		row, made := put(trigger, `{"functionref":{"type":"name","name":"cart:1"}}`)
		g := landfall.Group{UID: "release1", App: s.app.ID, Created: noon}
		err = errors.Join(err, made, tx.CreateApp(ctx, other), tx.CreateGroup(ctx, g, []store.GroupUnit{{UnitID: row.ID,
			GroupUnit: landfall.GroupUnit{Unit: trigger, UID: "release1", Number: 1}}}))
		_, made = deploy.Create(ctx, tx, g, landfall.Preview, noon)
		return errors.Join(err, made)
	})
	testkit.Kind(t, "while the app has the function", remove(), landfall.Conflict, "secret KEY is used by cart:1")
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(ctx, s.app, cart)
		row.App = other.ID
		return errors.Join(err, tx.UpdateUnit(ctx, row))
	})
	testkit.Same(t, "when another app has it", remove(), nil)
}
