package webhook_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A pull request of which nobody told has its preview and its comment with the next push, and ends with its merge,
// of which nobody told either.
func TestPullRequestsThatNobodyToldOf(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	h, _ := w.Follow("shop")
	h.Write("specs/app.yaml", built("shop"))
	zero, push := h.Release("zero")
	w.Hears(push)
	w.Ends("shop", zero, landfall.RunSucceeded)
	at := func(action string, fields map[string]any) {
		t.Helper()
		pull := forge.Object(t, testkit.Decode[map[string]any](t, h.Pull(action, 12, "feature").Body), "pull_request")
		maps.Copy(pull, fields)
		w.API.Pull(h.Name, pull)
	}

	h.Git("switch", "--quiet", "-c", "feature")
	h.Release("one") // opens the pull request, and nothing of it arrives
	two, push := h.Release("two")
	at("opened", nil)
	w.Hears(push)
	preview := w.Ends("shop", two, landfall.RunSucceeded)
	w.Says(h, 12, ready(w, "shop", preview)...)
	site.WantServed(t, w.Site, "shop--pr-12", "/", "two")
	testkit.Contains(t, site.Told{w.Landfall("run", "logs", preview.ID)}, "no delivery told of pull request 12")
	three, push := h.Release("three")
	at("opened", nil)
	w.Hears(push)
	w.Says(h, 12, ready(w, "shop", w.Ends("shop", three, landfall.RunSucceeded))...)
	testkit.Equal(t, "how often GitHub was asked", w.API.PullQuestions(), 1)

	w.Stop()
	merged, _, _ := h.Merge(12, "feature", forge.Squash)
	now := time.Now().UTC().Format(time.RFC3339)
	at("closed_merged", map[string]any{"merge_commit_sha": string(merged), "merged_at": now, "state": "closed"})
	w.Start()
	w.Ends("shop", merged, landfall.RunSucceeded)
	w.Says(h, 12, "### shop · merged")
	testkit.Equal(t, "its address afterwards", w.Get(w.At("shop--pr-12", "/")).Status, http.StatusNotFound)
}
