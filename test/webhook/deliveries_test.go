package webhook_test

import (
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A push came before its app. The record of its delivery says what to do, and when that is done the push runs.
func TestDeliveryBeforeItsApp(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h := w.Host(t, "harbor/shop")
	one, push := h.Release("one")
	w.Hears(push)
	show := func() site.Told { return site.Told{w.Landfall("app", "deliveries", "show", push.ID)} }
	// L-017: a delivery that did nothing says why, and what to do
	testkit.Contains(t, show(), "No app has the repository harbor/shop", "landfall app create NAME --repo "+h.Clone(),
		"landfall app deliveries replay "+push.ID)

	w.Call(http.MethodPost, "/apps", client.NewApp{Name: "shop", Repository: h.Clone(), Branch: "main"}, nil)
	testkit.Contains(t, show(), "The app shop has this repository now")
	told := w.Landfall("app", "deliveries", "replay", push.ID)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	// L-017: replayed, it has its run
	testkit.Contains(t, site.Told{told}, "runs:", run.ID, "(Replayed by admin.)")
	site.WantServed(t, w.Site, "shop", "/", "one")
	testkit.Contains(t, site.Told{w.Landfall("app", "deliveries", "shop")}, push.ID)
	again := w.Landfall("app", "deliveries", "replay", push.ID)
	// S7: and no other one, however often it is replayed
	testkit.Equal(t, "replayed again", again, told)
	testkit.Equal(t, "number of runs", len(w.Runs("shop")), 1)
	if out, code := w.Run(t.TempDir(), "app", "deliveries", "replay", "nosuch"); code != 3 {
		t.Errorf("replaying what is not there got %d %s, want 3", code, out)
	}
}
