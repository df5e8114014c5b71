package store_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// testForgeHooks is about what is known of webhooks at a forge, and of deliveries that it is asked for again.
func testForgeHooks(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	app := newApp(t, db, "shop")
	_, err := db.HookState(ctx, app.ID)
	testkit.Kind(t, "before anything is known", err, landfall.NotFound)
	state := landfall.HookState{App: app.ID, Repository: landfall.GitHubRepository{Owner: "harbor", Name: "shop"}, ID: 7,
		Made: true, Secret: landfall.DigestOf(nil), Tag: `W/"1"`, Looked: after(1), Since: after(2), Problem: "one",
		Mended: "two", MendedAt: after(3)}
	for _, problem := range []string{"one", "another"} {
		state.Problem = problem
		update(t, db, func(tx *store.Tx) error { return tx.PutHookState(ctx, state) })
		testkit.Same(t, problem, testkit.Must(db.HookState(ctx, app.ID))(t), state)
	}
	testkit.Same(t, "all", testkit.Must(db.HookStates(ctx))(t), []landfall.HookState{state})
	update(t, db, func(tx *store.Tx) error { return tx.DeleteHookState(ctx, app.ID) })
	testkit.Same(t, "none", len(testkit.Must(db.HookStates(ctx))(t)), 0)

	asked := func(d landfall.Delivery) int {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return tx.AskDelivery(ctx, d) })
		return testkit.Must(db.Delivery(ctx, d.Hook, d.ID))(t).Asked
	}
	d := landfall.Delivery{Hook: "h", ID: "1", Event: "push", Received: noon, Unmatched: true}
	testkit.Equal(t, "asked for", asked(d), 1)
	testkit.Equal(t, "asked for again", asked(d), 2)
	done := landfall.Delivery{Hook: "h", ID: "2", Event: "push", Received: noon}
	update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, done) })
	testkit.Equal(t, "what was accepted", asked(done), 0)
}
