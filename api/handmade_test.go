package api_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// A version by hand that is refused leaves nothing, not even an app of a namespace that had none.
func refusedByHand(t *testing.T, w *world) {
	t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) error {
		app := testkit.Must(tx.App(ctx, bakeryID))(t)
		app.ID, app.Name, app.Namespace, app.Repository = "baker-id", "baker", "lone", ""
		if err := tx.CreateApp(ctx, app); err != nil {
			return err
		}
		return idle(ctx, tx, app.ID, landfall.UnitID{Kind: landfall.PackageUnit, Name: "flour"})
	})
	before := w.state()
	for _, r := range []struct {
		body, kind, says string
		status           int
	}{
		{`{"environment":"python","package":"flour:1"}`, "conflict",
			"package flour belongs to an app: a function that is made by hand runs a package that is made by hand",
			http.StatusConflict},
		{`{"environment":"python","package":"nosuch"}`, "not-found", "no package nosuch", http.StatusNotFound},
		{`{"environment":"python","deployment":{"name":"x.zip","literal":"bm8gemlw"}}`, "invalid",
			"is no zip archive", http.StatusBadRequest},
	} {
		a := w.ask(tokenOf(landfall.ScopeAdmin, ""), http.MethodPost, "/api/v1/functions/bread/versions?namespace=lone",
			r.body)
		wantProblem(t, a, r.status, r.kind, r.says)
	}
	testkit.Equal(t, "whether something is stored", w.state() != before, false)
	apps := testkit.Must(w.db.Apps(t.Context()))(t)
	testkit.Equal(t, "whether the namespace has an app", slices.ContainsFunc(apps, landfall.App.OfNamespace), false)
}
