package webhook_test

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

// What waits in a merge queue is tried once, and is live at once when the queue lets it through.
func TestMergeQueues(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)

	// pulled is a repository with an open pull request 12 whose preview is ready.
	pulled := func(w *forge.World, name string) (*forge.Hosted, client.Run) {
		w.T.Helper()
		h, _ := w.Follow(name)
		h.Write("specs/app.yaml", built(name))
		one := opened(w, h)
		return h, forge.WantEnds(w.T, w, name, one, landfall.RunSucceeded)
	}
	for _, order := range []string{"main first", "the end first"} {
		t.Run("a group that lands, told of "+order, func(t *testing.T) {
			t.Parallel()
			w, name := w.In(t), "lands-"+strings.ReplaceAll(order, " ", "-")
			h, preview := pulled(w, name)
			group, push, requested := h.Queue(12, "feature")
			if order == "main first" {
				w.Hears(push, requested)
			} else {
				w.Hears(requested, push)
			}
			run := forge.WantEnds(t, w, name, group.Commit, landfall.RunSucceeded)
			testkit.Equal(t, "what was built in the queue", run.Stats.Built, 0)
			// the status stands on the queue's own commit
			forge.WantTold(t, w, group.Commit, landfall.StatusSuccess, w.At(name+"--"+string(run.Release), "/"))
			var release client.Release
			w.Call(http.MethodGet, "/apps/"+name+"/releases/"+string(run.Release), nil, &release)
			testkit.Equal(t, "tags of the queue's release", len(release.Tags), 0)
			site.WantServed(t, w.Site, name, "/", "zero")

			landed := group.Land()
			removed, destroyed := group.End("merged")
			if order == "main first" {
				w.Hears(landed, removed, destroyed)
			} else {
				w.Hears(destroyed, removed, landed)
			}
			site.WantServed(t, w.Site, name, "/", "one")
			for _, other := range w.Runs(name) {
				if other.Commit == group.Commit && other.ID != run.ID {
					t.Errorf("got the run %+v beside that of the queue", other)
				}
			}
			testkit.Same(t, "versions of units", unitsOf(w, name, run.Release), unitsOf(w, name, preview.Release))
			forge.WantTold(t, w, group.Commit, landfall.StatusSuccess, w.At(name+"--"+string(run.Release), "/"))
		})
	}

	t.Run("a group that does not land", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := pulled(w, "leaves")
		group, push, requested := h.Queue(12, "feature")
		w.Hears(push, requested)
		run := forge.WantEnds(t, w, "leaves", group.Commit, landfall.RunSucceeded)
		removed, destroyed := group.End("dequeued")
		w.Hears(destroyed, removed)
		testkit.Equal(t, "its release afterwards", w.Get(w.At("leaves--"+string(run.Release), "/")).Status, http.StatusGone)
		site.WantServed(t, w.Site, "leaves", "/", "zero")
		site.WantServed(t, w.Site, "leaves--pr-12", "/", "one")
	})

	t.Run("a group that ends while it is tried", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := pulled(w, "early")
		group, push, requested := h.Queue(12, "feature")
		open := h.Hold()
		w.Hears(push, requested)
		removed, destroyed := group.End("invalidated")
		w.Hears(destroyed, removed)
		open()
		run := forge.WantEnds(t, w, "early", group.Commit, landfall.RunSuperseded, "the merge queue is done with it")
		forge.WantTold(t, w, group.Commit, landfall.StatusError, w.RunPage(run.ID), "the merge queue is done with it")
	})

	t.Run("where only main gets releases", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("strict")
		h.Write("specs/app.yaml", site.AppSpec("strict", "release: {branches: [main]}"), "site/index.html", "zero")
		zero := h.Commit("zero")
		w.Hears(h.Send("main"))
		forge.WantEnds(t, w, "strict", zero, landfall.RunSucceeded)
		h.Git("switch", "--quiet", "-c", "feature")
		h.Write("site/index.html", "one")
		one := h.Commit("one")
		w.Hears(h.Send("feature"))
		forge.WantEnds(t, w, "strict", one, landfall.RunSkipped)
		group, push, _ := h.Queue(12, "feature")
		w.Hears(push)
		// a queue that skips would let everything through
		forge.WantEnds(t, w, "strict", group.Commit, landfall.RunSucceeded)
	})
}
