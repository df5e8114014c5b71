package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// A function tag decides which functions are called together: only who may change all of them may move it, and nobody
// sees those of an app that they may not read.
func tagOfTwoApps(t *testing.T, w *world) {
	w.update(func(ctx context.Context, tx *store.Tx) error {
		return idle(ctx, tx, bakeryID, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "bread"})
	})
	const tags, both = "/api/v1/function-tags", "/api/v1/function-tags/both"
	all, shop := tokenOf(landfall.ScopeDeploy, ""), tokenOf(landfall.ScopeDeploy, shopID)
	want := func(a answer, status int, says string) {
		t.Helper()
		if a.status != status || !strings.Contains(a.body, says) {
			t.Errorf("got %v, want %d with %q", a, status, says)
		}
	}
	made := `{"name":"both","functions":["hello:1","bread:1"]}`
	want(w.ask(shop, http.MethodPost, tags, made), http.StatusNotFound, "there is no function bread")
	want(w.ask(all, http.MethodPost, tags, made), http.StatusCreated, `"name":"bread"`)
	shown := w.ask(shop, http.MethodGet, both, "")
	want(shown, http.StatusOK, `"functionref":[{"name":"hello"`)
	testkit.Equal(t, "what the shop's token sees of the bakery", strings.Contains(shown.body, "bread"), false)
	before := w.state()
	want(w.ask(shop, http.MethodPut, both, `{"functions":["hello:1"]}`), http.StatusForbidden, "each function of the tag")
	want(w.ask(shop, http.MethodDelete, both, ""), http.StatusForbidden, "each function of the tag")
	again := `{"description":"Again","tag":"both"}`
	want(w.ask(shop, http.MethodPost, "/api/v1/functions/hello/versions", again), http.StatusForbidden, "")
	testkit.Equal(t, "whether the refused changed something", w.state() != before, false)
	// what a tag names is not deleted, and the refusal names the tag
	want(w.ask(all, http.MethodDelete, "/api/v1/functions/bread/versions/1", ""), http.StatusConflict,
		"the function tag both")
	want(w.ask(all, http.MethodDelete, both, ""), http.StatusNoContent, "")
	want(w.ask(all, http.MethodDelete, both, ""), http.StatusNotFound, "there is no function tag")
}
