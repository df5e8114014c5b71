package store_test

import (
	"errors"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testDeployments(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	box, refusals := store.NewDeployments(db), store.Refusals{DB: db}
	shop, local := fullApp("shop"), fullApp("local")
	shop.GitHub, local.GitHub = landfall.GitHubRepository{ID: 7, Owner: "o", Name: "shop"}, landfall.GitHubRepository{}
	update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "default", noon.UnixMicro()) })
	update(t, db, func(tx *store.Tx) error { return errors.Join(tx.CreateApp(ctx, shop), tx.CreateApp(ctx, local)) })
	want := func(app landfall.App, pointer string, seconds int) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return tx.WantDeployment(ctx, app.ID, pointer, after(seconds)) })
	}
	due := func(seconds int) (pointers []string) {
		t.Helper()
		for _, d := range testkit.Must(box.Due(ctx, after(seconds), 10))(t) {
			pointers = append(pointers, d.Pointer)
		}
		return pointers
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want(local, "live", 0)
	_, err := db.Deployment(ctx, local.ID, "live")
	testkit.Kind(t, "of an app that is not at the forge", err, landfall.NotFound)
	want(shop, "live", 1)
	want(shop, "tag branch-x", 2)
	want(shop, "live", 0)
	one := testkit.Must(db.Deployment(ctx, shop.ID, "live"))(t)
	testkit.Same(t, "as stored", one, landfall.Deployment{App: shop.ID, Pointer: "live",
		Owed: landfall.Owed{Wanted: 2, NextAt: after(1)}})
	testkit.Same(t, "due before their time", due(0), nil)
	testkit.Same(t, "due", due(2), []string{"live", "tag branch-x"})

	made := one
	made.Repository, made.ID, made.Release, made.Replaced = 7, 41, "owf2k7qa", 40
	do(box.Record(ctx, made, false))
	testkit.Same(t, "due while there is more to tell", due(2), []string{"live", "tag branch-x"})
	testkit.Same(t, "as recorded", testkit.Must(db.Deployment(ctx, shop.ID, "live"))(t), made)
	want(shop, "live", 1)
	made.Told, made.Replaced = true, 0
	do(box.Record(ctx, made, true))
	testkit.Same(t, "due when more happened meanwhile", due(2), []string{"live", "tag branch-x"})
	made.Wanted = 3
	do(box.Record(ctx, made, true))
	testkit.Same(t, "due when all is told", due(2), []string{"tag branch-x"})

	branch := testkit.Must(db.Deployment(ctx, shop.ID, "tag branch-x"))(t)
	do(box.Postpone(ctx, branch, after(60), "down"))
	want(shop, "tag branch-x", 3)
	testkit.Same(t, "due while it waits", due(59), nil)
	do(box.Drop(ctx, branch, "refused"))
	testkit.Same(t, "due when it was given up", due(60), nil)
	want(shop, "tag branch-x", 4)
	testkit.Same(t, "due when something happened again", due(60), []string{"tag branch-x"})

	refusal := landfall.Refusal{Feature: landfall.DeploymentsFeature, Problem: "may not", Until: after(90)}
	do(refusals.Refuse(ctx, 7, landfall.Refusal{Feature: landfall.DeploymentsFeature, Problem: "x", Until: after(80)}))
	do(refusals.Refuse(ctx, 7, refusal))
	testkit.Same(t, "refused", testkit.Must(db.Refusals(ctx, 7))(t), []landfall.Refusal{refusal})
	testkit.Same(t, "due while it is refused", due(89), nil)
	testkit.Same(t, "due after a while", due(90), []string{"tag branch-x"})
	do(refusals.Forgive(ctx, landfall.ChecksFeature))
	testkit.Same(t, "due when something else is forgiven", due(89), nil)
	do(refusals.Forgive(ctx, landfall.DeploymentsFeature))
	testkit.Same(t, "due when it is forgiven", due(60), []string{"tag branch-x"})

	gone := testkit.Must(db.Deployment(ctx, shop.ID, "tag branch-x"))(t)
	do(box.Record(ctx, gone, true))
	_, err = db.Deployment(ctx, shop.ID, "tag branch-x")
	testkit.Kind(t, "of a pointer of which the forge shows nothing", err, landfall.NotFound)
}
