package store_test

import (
	"encoding/json"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testSecrets(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	app, gone := newApp(t, db, "shop"), newApp(t, db, "zoo")
	named := func(name string) landfall.UnitID { return landfall.UnitID{Kind: landfall.SecretUnit, Name: name} }
	key, token, foreign := newUnit(t, db, app, named("KEY")), newUnit(t, db, app, named("TOKEN")),
		newUnit(t, db, gone, named("KEY"))
	set := func(unit store.Unit, number int64, spec, content string) landfall.Version {
		v := landfall.Version{
			Unit: unit.Unit, Namespace: unit.Namespace, App: unit.App, Number: number, UID: landfall.NewUID(),
			Digest: landfall.DigestOf([]byte(content)),
			Spec:   json.RawMessage(spec), Content: json.RawMessage(content), Created: after(int(number)), Production: true}
		update(t, db, func(tx *store.Tx) error { return tx.CreateVersion(ctx, unit.ID, v) })
		return v
	}
	testkit.Kind(t, "no secret at all", second(db.NewestSecret(ctx)), landfall.NotFound)
	one := set(key, 1, `{}`, `{"sealed":"b25l"}`)
	two := set(key, 2, `{"preview":true}`, `{"sealed":"dHdv"}`)
	three := set(key, 3, `{}`, `{"actor":"ada","revoked":"2026-11-20T15:00:00Z"}`)
	other := set(token, 1, `{}`, `{"sealed":"bw=="}`)
	set(foreign, 9, `{}`, `{"sealed":"eA=="}`)

	testkit.Same(t, "the newest value", testkit.Must(db.NewestVersion(ctx, key.ID, json.RawMessage(`{}`)))(t), three)
	testkit.Same(t, "the newest value for previews",
		testkit.Must(db.NewestVersion(ctx, key.ID, json.RawMessage(`{"preview":true}`)))(t), two)
	testkit.Kind(t, "no value for previews", second(db.NewestVersion(ctx, token.ID, json.RawMessage(`{"preview":true}`))),
		landfall.NotFound)
	if got := testkit.Must(db.NewestSecret(ctx))(t); got.Number != 9 {
		t.Errorf("the newest secret: got number %d, want 9", got.Number)
	}
	gone.Deleted = noon
	update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, gone) })
	testkit.Same(t, "the newest secret that is sealed, of apps that are there", testkit.Must(db.NewestSecret(ctx))(t), two)

	newRelease(t, db, newGroup(t, db, app, "aaaaaaaa", "", inForce(key, one), inForce(token, other)), false)
	newRelease(t, db, newGroup(t, db, app, "bbbbbbbb", "", inForce(key, three)), true)
	update(t, db, func(tx *store.Tx) error { return tx.DeleteVersion(ctx, token.ID, 1) })
	testkit.Same(t, "secrets of a group", testkit.Must(db.SecretsOf(ctx, app.ID, "aaaaaaaa"))(t), []store.GroupSecret{
		{Name: "KEY", Number: 1, Content: one.Content}, {Name: "TOKEN", Number: 1}})
	testkit.Same(t, "releases with a secret", testkit.Must(db.ReleasesWith(ctx, key.ID))(t), []landfall.UID{"aaaaaaaa"})
	units := testkit.Must(db.GroupUnits(ctx, app.ID, "aaaaaaaa"))(t)
	if len(units) != 2 || units[1].Unit != named("TOKEN") {
		t.Errorf("units: got %v", units)
	}
	testkit.Same(t, "what functions run with", len(testkit.Must(db.RunningUnits(ctx, app.ID, "bbbbbbbb"))(t)), 1)
}
