package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// A trigger that is set keeps what Fn's trigger cannot say, and loses what it could say and does not.
func keptFields(t *testing.T, w *world) {
	t.Helper()
	const path = "/api/v1/ns/default/apps/shop/triggers/often"
	fields := func() map[string]json.RawMessage {
		app := testkit.Must(w.db.App(t.Context(), shopID))(t)
		id := landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "often"}
		row := testkit.Must(w.db.Unit(t.Context(), app, id))(t)
		v := testkit.Must(w.db.VersionByNumber(t.Context(), row.ID, row.LastNumber))(t)
		return testkit.Decode[map[string]json.RawMessage](t, v.Spec)
	}
	before := fields()
	testkit.Equal(t, "retries at first", string(before["retries"]), "3")
	a := w.ask(tokenOf(landfall.ScopeDeploy, ""), http.MethodPut, path,
		`{"function":"hello","url":"/api/seldom","prefix":true,"methods":["POST"]}`)
	testkit.Equal(t, a.String(), a.status, http.StatusOK)
	after := fields()
	for _, kept := range []string{"retries", "keepPrefix"} {
		testkit.Equal(t, kept+" afterwards", string(after[kept]), string(before[kept]))
	}
	testkit.Equal(t, "the prefix afterwards", string(after["prefix"]), `"/api/seldom"`)
	for _, gone := range []string{"functionTimeout", "config", "access"} {
		testkit.Equal(t, gone+" afterwards", string(after[gone]), "")
	}
}
