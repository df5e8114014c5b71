package store_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// testPayloads is about what deliveries said.
func testPayloads(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	keep := func(hook, id, account, body string) landfall.Delivery {
		t.Helper()
		d := landfall.Delivery{Hook: hook, ID: id, Received: noon}
		update(t, db, func(tx *store.Tx) error { return tx.KeepPayload(ctx, d, account, []byte(body), 10) })
		return d
	}
	has := func(what, hook, id, want string) {
		t.Helper()
		body, err := db.Payload(ctx, hook, id)
		if want == "" {
			testkit.Kind(t, what, err, landfall.NotFound)
			return
		}
		if err != nil || string(body) != want {
			t.Errorf("%s: got %q and %v, want %q", what, body, err, want)
		}
	}
	keep("h", "1", "h", "four")
	keep("", "1", "7", "fours")
	has("of a hook", "h", "1", "four")
	has("of the same event at another hook", "", "1", "fours")
	keep("h", "2", "h", "sixsix")
	has("while there are fewer bytes after it", "h", "1", "four")
	keep("h", "3", "h", "seven")
	has("the oldest of an account that is full", "h", "1", "")
	has("the next one", "h", "2", "sixsix")
	has("of another account", "", "1", "fours")
	keep("h", "4", "h", "as much as the account may have")
	has("before what fills all", "h", "3", "")
	keep("h", "5", "h", "five\x00")
	has("with any bytes", "h", "5", "five\x00")
	update(t, db, func(tx *store.Tx) error { return tx.DeleteDelivery(ctx, "h", "5") })
	has("of a delivery that was deleted", "h", "5", "")
}
