package push_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Records of what is over go when they are old. What people can reach stays, and what they could make reachable again
// can be.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	push := func(text string) (landfall.CommitSHA, forge.Delivery) {
		h.Write("site/index.html", text)
		return h.Commit(text), h.Send("main")
	}
	h.Write("specs/app.yaml", site.AppSpec("shop"))
	one, d := push("one")
	w.Hears(d)
	first := w.Ends("shop", one, landfall.RunSucceeded)
	h.Write("specs/app.yaml", "kind: Nonsense")
	wrong, d := push("wrong")
	w.Hears(d)
	w.Ends("shop", wrong, landfall.RunFailed)
	h.Write("specs/app.yaml", site.AppSpec("shop"))
	two, last := push("two")
	w.Hears(last)
	second := w.Ends("shop", two, landfall.RunSucceeded)
	w.Call(http.MethodDelete, "/apps/shop/releases/"+string(first.Release), nil, nil)
	log := func() string {
		t.Helper()
		return w.ReadAs(w.RunPage(second.ID)).Body
	}
	if text := log(); !strings.Contains(text, "1 file uploaded") {
		t.Fatalf("the log of a run says %q", text)
	}

	w.Stop()
	w.Start("LANDFALL_KEEP_RUNS=1ms", "LANDFALL_KEEP_LOGS=1ms", "LANDFALL_KEEP_DELIVERIES=1ms")
	// L-028: what is not needed does not pile up: it goes by itself, also when the process never lives for long
	w.Eventually("what is old is gone", func() bool {
		return len(site.List[client.Run](w.Site, "/runs?app=shop")) == 1 &&
			len(site.List[client.Delivery](w.Site, "/deliveries")) == 0 &&
			!strings.Contains(log(), "1 file uploaded")
	})
	kept, _ := w.RunOf("shop", two)
	testkit.Equal(t, "the run of the release that is live", kept.ID, second.ID)
	testkit.Equal(t, "its release", kept.Release, second.Release)
	if text := log(); !strings.Contains(text, "(the log was removed: LANDFALL_KEEP_LOGS is 1ms)") {
		t.Errorf("the log says %q, not that it was removed", text)
	}
	site.WantRefused(t, w.Refused(http.MethodGet, "/runs/"+first.ID, nil), landfall.NotFound, first.ID)
	site.WantServed(t, w.Site, "shop", "/", "two")

	// The order of the branch does not rest on what was deleted.
	w.Hears(last)
	run, ok := w.RunOf("shop", two)
	if !ok || run.ID != second.ID {
		t.Errorf("a delivery that was forgotten came again, and its commit has the run %s, want %s", run.ID, second.ID)
	}
	site.WantServed(t, w.Site, "shop", "/", "two")

	w.Stop()
	w.Start()
	testkit.Equal(t, "the release whose run is gone", reach(w.Site, "shop", string(first.Release)), first.Release)
	site.WantServed(t, w.Site, "shop--"+string(first.Release), "/", "one")
	site.WantServed(t, w.Site, "shop", "/", "two")
}
