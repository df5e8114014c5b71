package api_test

import (
	"context"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// What only would be deleted is told while somebody writes: it waits for no transaction, and begins none.
func dryDeletion(t *testing.T, w *world) {
	t.Helper()
	admin := tokenOf(landfall.ScopeAdmin, "")
	w.server.Client().Timeout = testkit.Patience
	w.update(func(context.Context, *store.Tx) error { // nobody else writes until it returns
		for _, path := range []string{"/functions/unneeded/versions/1", "/packages/unneeded-pkg/versions/1",
			"/functions/unneeded"} {
			a := w.ask(admin, http.MethodDelete, "/api/v1"+path+"?dry_run=true", "")
			testkit.Equal(t, a.String(), a.status, http.StatusOK)
		}
		a := w.ask(admin, http.MethodDelete, "/api/v1/functions/hello?dry_run=true", "")
		wantProblem(t, a, http.StatusConflict, "conflict", "nothing was deleted")
		return nil
	})
}
