package main

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Records of what is over go when they are old. What people can reach stays, and what they could make reachable again can be.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("shop")
	push := func(text string) (landfall.CommitSHA, delivery) {
		h.write("site/index.html", text)
		return h.commit(text), h.send("main")
	}
	h.write("specs/app.yaml", appSpec("shop"))
	one, d := push("one")
	w.hears(d)
	first := w.ends("shop", one, landfall.RunSucceeded)
	h.write("specs/app.yaml", "kind: Nonsense")
	wrong, d := push("wrong")
	w.hears(d)
	w.ends("shop", wrong, landfall.RunFailed)
	h.write("specs/app.yaml", appSpec("shop"))
	two, last := push("two")
	w.hears(last)
	second := w.ends("shop", two, landfall.RunSucceeded)
	w.call(http.MethodDelete, "/apps/shop/releases/"+string(first.Release), nil, nil)
	log := func() string {
		t.Helper()
		return w.readAs(w.runPage(second.ID)).body
	}
	if text := log(); !strings.Contains(text, "1 file uploaded") {
		t.Fatalf("the log of a run says %q", text)
	}

	w.stop()
	w.start("LANDFALL_KEEP_RUNS=1ms", "LANDFALL_KEEP_LOGS=1ms", "LANDFALL_KEEP_DELIVERIES=1ms")
	// L-028: what is not needed does not pile up: it goes by itself, also when the process never lives for long
	w.eventually("what is old is gone", func() bool {
		return len(list[client.Run](w.site, "/runs?app=shop")) == 1 && len(list[client.Delivery](w.site, "/deliveries")) == 0 &&
			!strings.Contains(log(), "1 file uploaded")
	})
	kept, _ := w.runOf("shop", two)
	wantEqual(t, "the run of the release that is live", kept.ID, second.ID)
	wantEqual(t, "its release", kept.Release, second.Release)
	if text := log(); !strings.Contains(text, "(the log was removed: LANDFALL_KEEP_LOGS is 1ms)") {
		t.Errorf("the log says %q, not that it was removed", text)
	}
	wantRefused(t, w.refused(http.MethodGet, "/runs/"+first.ID, nil), landfall.NotFound, first.ID)
	wantServed(t, w.site, "shop", "/", "two")

	// The order of the branch does not rest on what was deleted.
	w.hears(last)
	run, ok := w.runOf("shop", two)
	if !ok || run.ID != second.ID {
		t.Errorf("a delivery that was forgotten came again, and its commit has the run %s, want %s", run.ID, second.ID)
	}
	wantServed(t, w.site, "shop", "/", "two")

	w.stop()
	w.start()
	wantEqual(t, "the release whose run is gone", w.reach("shop", string(first.Release)), first.Release)
	wantServed(t, w.site, "shop--"+string(first.Release), "/", "one")
	wantServed(t, w.site, "shop", "/", "two")
}
