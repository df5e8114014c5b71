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

// These are people at GitHub.
const (
	ada = 101 // maintains the repositories
	bob = 102 // may write
	eve = 103 // may read
)

// built is an app whose pages a build command makes.
func built(name string) string {
	return site.AppSpec(name,
		"build: {command: 'mkdir -p site && cp index.html site/', inputs: [index.html], outputs: [site]}")
}

// A pull request from its first commit to its merge.
func TestPullRequests(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)

	for _, by := range []forge.Merging{forge.MergeCommit, forge.Squash, forge.Rebase} {
		t.Run("opened, moved and merged by "+string(by), func(t *testing.T) {
			t.Parallel()
			w, name := w.In(t), "shop-"+string(by)
			h, _ := w.Follow(name)
			h.Write("specs/app.yaml", built(name))
			zero, push := h.Release("zero")
			w.Hears(push)
			forge.WantEnds(t, w, name, zero, landfall.RunSucceeded)

			// A draft has a preview like any other.
			h.Git("switch", "--quiet", "-c", "feature")
			one, push := h.Release("one")
			w.Hears(push, h.Pull("opened_draft", 12, "feature"))
			w.Says(h, 12, ready(w, name, forge.WantEnds(t, w, name, one, landfall.RunSucceeded))...)
			site.WantServed(t, w.Site, name+"--pr-12", "/", "one")
			for _, nothing := range []string{"ready_for_review", "converted_to_draft", "edited_title"} {
				if got := w.Hears(h.Pull(nothing, 12, "feature")); len(got.Runs) != 0 {
					t.Errorf("%s: got the runs %v, want none", nothing, got.Runs)
				}
			}
			two, push := h.Release("two")
			synchronize := h.Pull("synchronize", 12, "feature")
			w.Hears(synchronize, push)
			preview := forge.WantEnds(t, w, name, two, landfall.RunSucceeded)
			w.Says(h, 12, ready(w, name, preview)...)
			site.WantServed(t, w.Site, name+"--pr-12", "/", "two")

			// It is merged, and GitHub tells of it in one or the other order.
			merged, push, closed := h.Merge(12, "feature", by)
			if by == forge.Squash {
				w.Hears(closed, push)
			} else {
				w.Hears(push, closed)
			}
			run := forge.WantEnds(t, w, name, merged, landfall.RunSucceeded, "Released ", ", unchanged since pr-12 ("+
				two.Short()+")")
			forge.WantTold(t, w, merged, landfall.StatusSuccess, w.At(name+"--"+string(run.Release), "/"),
				"unchanged since pr-12")
			// The merge is live without a build, and no unit has a new version
			testkit.Equal(t, "what was built of the merge", run.Stats.Built, 0)
			site.WantServed(t, w.Site, name, "/", "two")
			testkit.Same(t, "versions of units", unitsOf(w, name, run.Release), unitsOf(w, name, preview.Release))
			w.Says(h, 12, "### "+name+" · merged", "| Commit | "+two.Short()+" |")
			testkit.Equal(t, "its address afterwards", w.Get(w.At(name+"--pr-12", "/")).Status, http.StatusNotFound)

			// What GitHub tells late opens nothing again.
			late := synchronize.With(t, func(payload map[string]any) {
				forge.Object(t, payload, "pull_request")["updated_at"] = "2020-01-01T00:00:00Z"
			})
			w.Hears(late)
			testkit.Equal(t, "its address after a late delivery", w.Get(w.At(name+"--pr-12", "/")).Status,
				http.StatusNotFound)
		})
	}

	t.Run("into another branch", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("moved")
		one := opened(w, h)
		h.Git("switch", "--quiet", "-c", "release", "main")
		other, push := h.Release("one")
		w.Hears(push)
		forge.WantEnds(t, w, "moved", other, landfall.RunSucceeded)
		run := forge.WantEnds(t, w, "moved", one, landfall.RunSucceeded)
		w.Says(h, 12, append(ready(w, "moved", run), "compared with main")...)
		w.Hears(h.Pull("edited_base", 12, "feature").With(t, func(payload map[string]any) {
			forge.Object(t, forge.Object(t, payload, "pull_request"), "base")["ref"] = "release"
		}))
		w.Says(h, 12, "### moved · preview ready, unchanged", "compared with release")
	})
}

// unitsOf returns the versions of the units of a release, by their names.
func unitsOf(w *forge.World, app string, release landfall.UID) map[string]landfall.UID {
	w.T.Helper()
	var got client.Release
	w.Call(http.MethodGet, "/apps/"+app+"/releases/"+string(release), nil, &got)
	units := map[string]landfall.UID{}
	for _, u := range got.Units {
		units[u.Unit.String()] = u.UID
	}
	if len(units) == 0 {
		w.T.Errorf("release %s has no units", release)
	}
	return units
}

// People ask for things in comments on a pull request, and get what they may have.
func TestCommentCommands(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)

	t.Run("by who may and who may not", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("asked")
		w.API.Permit(h.Name, ada, "maintain")
		w.API.Permit(h.Name, bob, "write")
		one := opened(w, h)
		first := forge.WantEnds(t, w, "asked", one, landfall.RunSucceeded)
		before := w.Says(h, 12, ready(w, "asked", first)...)
		asks := func(user int64, words string, want landfall.Reaction, says string) {
			t.Helper()
			id, delivery := w.Commented(h, 12, user, words)
			w.Hears(delivery)
			w.WantReaction(id, want)
			w.Says(h, 12, "### asked", strings.NewReplacer(":", "&#58;<!-- -->", "/", "&#47;", ",", "&#44;",
				"-", "&#45;").Replace(says))
		}
		asks(eve, "/landfall promote", landfall.ReactionRefused,
			"user-103 asked to promote: asked: promote needs the role maintain in harbor/asked, and user-103 has read")
		asks(bob, "/landfall promote asked", landfall.ReactionRefused, "and user-102 has write")
		site.WantServed(t, w.Site, "asked", "/", "zero")
		asks(bob, "/landfall dance @everyone", landfall.ReactionUnclear, "right would be retry")
		asks(bob, "/landfall retry\n\nThe registry was down.", landfall.ReactionDone, one.Short()+" is queued again")
		testkit.Eventually(t, "it ran again", func() bool {
			run, _ := w.RunOf("asked", one)
			return run.ID != first.ID && run.State == landfall.RunSucceeded
		})
		asks(bob, "/landfall cancel", landfall.ReactionUnclear, "the run is over: succeeded")
		asks(ada, "/landfall promote", landfall.ReactionDone, "is live")
		site.WantServed(t, w.Site, "asked", "/", "one")
		after := w.Says(h, 12, "### asked")
		// L-026: the answers are in the one comment
		if after.ID != before.ID || strings.Contains(after.Body, "@") {
			t.Errorf("got %+v, want the same comment, and nobody mentioned", after)
		}
	})
}
