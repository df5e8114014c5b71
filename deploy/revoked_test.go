package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

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

// A release whose secret was revoked cannot become live. When the secret gets the same value again, the release has that,
// and becomes live as after a push.
func TestRevokedValueIsSetAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	ctx, name := t.Context(), landfall.UnitID{Kind: landfall.SecretUnit, Name: "KEY"}
	editor := &deploy.Editor{
		DB: s.db, Secrets: testkit.Must(secret.ParseKey(testkit.Must(secret.NewKey())(t)))(t),
		ReleaseURL: func(string, landfall.UID) string { return "" },
		Rollout:    &deploy.Rollout{DB: s.db, Gateways: nobody{}, Logger: slog.New(slog.DiscardHandler)},
		Now:        func() time.Time { return s.now },
	}
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
