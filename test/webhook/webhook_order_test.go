package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A build that takes longer than the next push is nobody's release, whenever it ends.
func TestWebhookOrderOfBuilds(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t, "LANDFALL_SANDBOX=off")
	h, _ := w.Follow("slow-build")
	gate := t.TempDir()
	t.Cleanup(func() { site.OpenGate(t, gate) })
	h.Write("specs/app.yaml", site.Gated("slow-build", gate), "site/index.html", "one")
	one := h.Commit("A build that takes its time")
	w.Hears(h.Send("main"))
	w.Eventually("the first push is being built", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	h.Write("specs/app.yaml", site.AppSpec("slow-build"), "site/index.html", "two")
	two := h.Commit("No build")
	w.Hears(h.Send("main"))
	run := forge.WantEnds(t, w, "slow-build", two, landfall.RunSucceeded)
	site.OpenGate(t, gate)
	first := forge.WantEnds(t, w, "slow-build", one, landfall.RunSuperseded, "Superseded by "+two.Short())
	w.Quiet("slow-build")
	// L-003: the first push, whose build was slow, was never live, and its build is in no release.
	testkit.EqualList(t, "moves of live", w.WasLive("slow-build"), []landfall.UID{run.Release})
	testkit.Equal(t, "release of the first", first.Release, "")
	site.WantServed(t, w.Site, "slow-build", "/", "two")
	testkit.Equal(t, "status of what the build makes", w.Get(w.At("slow-build", "/out.txt")).Status, http.StatusNotFound)
	site.WantStatus(t, w.Site, "slow-build--"+string(first.UID), http.StatusNotFound)
}

// The branch's order decides, whatever the order and the time of the deliveries.
func TestWebhookOrder(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)

	t.Run("a slow first push is superseded", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("slow")
		open := h.Hold()
		one, push1 := h.Release("one")
		w.Hears(push1)
		w.Eventually("the first fetch is on its way", func() bool { return w.Requests(h.Name) > 0 })
		h.Forge.Rule(h.Name, forge.Rule{}) // only the first one waits
		two, push2 := h.Release("two")
		w.Hears(push2)
		run := forge.WantEnds(t, w, "slow", two, landfall.RunSucceeded)
		open()
		// P-009: the second push supersedes the first one, which says so
		first := forge.WantEnds(t, w, "slow", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		testkit.Equal(t, "release of the first", first.Release, "")
		// L-003: the slow one was never live
		testkit.EqualList(t, "moves of live", w.WasLive("slow"), []landfall.UID{run.Release})
		site.WantServed(t, w.Site, "slow", "/", "two")
		site.WantStatus(t, w.Site, "slow--"+string(first.UID), http.StatusNotFound)
	})

	t.Run("deliveries in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("wrong-order")
		zero, push0 := h.Release("zero")
		w.Hears(push0)
		forge.WantEnds(t, w, "wrong-order", zero, landfall.RunSucceeded)
		one, push1 := h.Release("one")
		two, push2 := h.Release("two")
		three, push3 := h.Release("three")
		w.Hears(push3, push1)
		last := forge.WantEnds(t, w, "wrong-order", three, landfall.RunSucceeded)
		w.Hears(push2)
		// N-003: what comes late ends in the branch's order
		forge.WantEnds(t, w, "wrong-order", two, landfall.RunSuperseded, "Superseded by "+three.Short())
		forge.WantEnds(t, w, "wrong-order", one, landfall.RunSuperseded, "Superseded by ")
		live := w.WasLive("wrong-order")
		// L-001: live went forward only
		if len(live) != 2 || live[1] != last.Release {
			t.Errorf("live was at %v, want first the release of %s, then %s", live, zero.Short(), last.Release)
		}
		// L-002: and it is where the branch's head is
		site.WantServed(t, w.Site, "wrong-order", "/", "three")
		testkit.Equal(t, "the branch's tag", w.Tagged("wrong-order")["branch-main"], last.Release)
	})

	t.Run("the newer one came first and is not over", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("newer-first")
		open := h.Hold()
		one, push1 := h.Release("one")
		two, push2 := h.Release("two")
		w.Hears(push2, push1)
		// N-003: the older one is superseded before anything is fetched
		forge.WantEnds(t, w, "newer-first", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		open()
		run := forge.WantEnds(t, w, "newer-first", two, landfall.RunSucceeded)
		testkit.EqualList(t, "moves of live", w.WasLive("newer-first"), []landfall.UID{run.Release})
	})

	t.Run("where deliveries are missing, the commits decide", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("missing")
		one, push1 := h.Release("one")
		two, push2 := h.Release("two")
		h.Release("three, of which nobody hears")
		four, push4 := h.Release("four")
		w.Hears(push1)
		first := forge.WantEnds(t, w, "missing", one, landfall.RunSucceeded)
		w.Hears(push4)
		last := forge.WantEnds(t, w, "missing", four, landfall.RunSucceeded)
		w.Hears(push2)
		// L-001: an old commit that arrives late is superseded by the one that is live
		late := forge.WantEnds(t, w, "missing", two, landfall.RunSuperseded, "Superseded by "+four.Short())
		testkit.Equal(t, "release of the late one", late.Release, "")
		testkit.EqualList(t, "moves of live", w.WasLive("missing"), []landfall.UID{first.Release, last.Release})
		five, push5 := h.Release("five")
		w.Hears(push5)
		forge.WantEnds(t, w, "missing", five, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "missing", "/", "five")
	})

	t.Run("a rewritten branch", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("rewritten")
		zero, push0 := h.Release("zero")
		one, push1 := h.Release("one")
		w.Hears(push0, push1)
		old := forge.WantEnds(t, w, "rewritten", one, landfall.RunSucceeded)
		h.Git("reset", "--quiet", "--hard", string(zero))
		two, push2 := h.Release("two")
		w.Hears(push2)
		run := forge.WantEnds(t, w, "rewritten", two, landfall.RunSucceeded)
		// P-009: the push that came last wins, although history was rewritten
		site.WantServed(t, w.Site, "rewritten", "/", "two")
		site.WantServed(t, w.Site, "rewritten--"+string(old.Release), "/", "one")
		testkit.Equal(t, "the branch's tag", w.Tagged("rewritten")["branch-main"], run.Release)

		h.Git("reset", "--quiet", "--hard", string(one))
		back := h.Send("main")
		got := w.Hears(back)
		// L-020: a commit that has its release is not built again
		testkit.Equal(t, "run", strings.Join(got.Runs, " "), w.RunPage(old.ID))
		site.WantServed(t, w.Site, "rewritten", "/", "one")
		testkit.Equal(t, "live", w.ShowApp("rewritten").Live, old.Release)
	})

	t.Run("there and back, told in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("there-and-back")
		one, push1 := h.Release("one")
		w.Hears(push1)
		run := forge.WantEnds(t, w, "there-and-back", one, landfall.RunSucceeded)
		two, there := h.Release("two")
		h.Git("reset", "--quiet", "--hard", string(one))
		back := h.Send("main")
		w.Hears(back, there)
		// N-003: the branch is where it began, and so is live
		forge.WantEnds(t, w, "there-and-back", two, landfall.RunSuperseded, "Superseded by "+one.Short())
		testkit.EqualList(t, "moves of live", w.WasLive("there-and-back"), []landfall.UID{run.Release})
	})

	t.Run("there, back and there again, told in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		for app, between := range map[string]bool{"pendulum": false, "detour": true} {
			h, _ := w.Follow(app)
			one, push1 := h.Release("one")
			w.Hears(push1)
			if between {
				_, push := h.Release("between")
				w.Hears(push)
			}
			two, push2 := h.Release("two")
			w.Hears(push2)
			run := forge.WantEnds(t, w, app, two, landfall.RunSucceeded)
			h.Git("reset", "--quiet", "--hard", string(one))
			back := h.Send("main")
			h.Git("reset", "--quiet", "--hard", string(two))
			again := h.Send("main")
			w.Hears(again, back)
			// N-003: what came late is what the branch left again: it goes from where the branch was to where it came from
			testkit.Equal(t, "live", w.ShowApp(app).Live, run.Release)
			testkit.Equal(t, "the branch's tag", w.Tagged(app)["branch-main"], run.Release)
			three, push3 := h.Release("three")
			w.Hears(push3)
			forge.WantEnds(t, w, app, three, landfall.RunSucceeded)
			site.WantServed(t, w.Site, app, "/", "three")
		}
	})

	t.Run("there and back, told by two hooks", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, app := w.Follow("echo")
		own := forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}
		twice := func(d forge.Delivery) {
			t.Helper()
			w.Hears(d)
			testkit.Equal(t, "status", w.Deliver(own, d).Status, http.StatusAccepted)
		}
		one, push1 := h.Release("one")
		twice(push1)
		first := forge.WantEnds(t, w, "echo", one, landfall.RunSucceeded)
		two, push2 := h.Release("two")
		twice(push2)
		forge.WantEnds(t, w, "echo", two, landfall.RunSucceeded)
		h.Git("reset", "--quiet", "--hard", string(one))
		twice(h.Send("main"))
		run := forge.WantEnds(t, w, "echo", one, landfall.RunSucceeded)
		// N-003: where the pushes that were heard of cannot tell which came last, the forge can
		testkit.Equal(t, "release", run.Release, first.Release)
		site.WantServed(t, w.Site, "echo", "/", "one")
		testkit.Equal(t, "the branch's tag", w.Tagged("echo")["branch-main"], first.Release)

		h.Git("reset", "--quiet", "--hard", string(two))
		twice(h.Send("main"))
		second := forge.WantEnds(t, w, "echo", two, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "echo", "/", "two")
		open := h.Hold()
		h.Git("reset", "--quiet", "--hard", string(one))
		twice(h.Send("main"))
		h.Git("reset", "--quiet", "--hard", string(two))
		last := h.Send("main")
		open()
		forge.WantEnds(t, w, "echo", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		twice(last)
		// N-003: nor does it matter that the branch went on before the forge was asked
		testkit.Equal(t, "live", w.ShowApp("echo").Live, second.Release)
		testkit.Equal(t, "the branch's tag", w.Tagged("echo")["branch-main"], second.Release)
	})

	t.Run("a branch whose deletion came first", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("gone-first")
		_, push0 := h.Release("zero")
		w.Hears(push0)
		h.Git("switch", "--quiet", "-c", "short")
		one, create := h.Release("one")
		h.Git("switch", "--quiet", "main")
		w.Hears(h.Remove("short"), create)
		// N-003: what was deleted is not there
		forge.WantEnds(t, w, "gone-first", one, landfall.RunSuperseded, "deleted")
		testkit.Equal(t, "the branch's tag", w.Tagged("gone-first")["branch-short"], "")
	})

	t.Run("a branch that was made again, told before its deletion", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("made-again")
		_, push0 := h.Release("zero")
		w.Hears(push0)
		h.Git("switch", "--quiet", "-c", "short")
		one, create := h.Release("one")
		w.Hears(create)
		run := forge.WantEnds(t, w, "made-again", one, landfall.RunSucceeded)
		gone := h.Remove("short")
		w.Hears(h.Send("short"), gone)
		// N-003: what is there again comes back, once the forge was asked
		w.Eventually("the branch is back", func() bool { return w.Tagged("made-again")["branch-short"] == run.Release })
		forge.WantEnds(t, w, "made-again", one, landfall.RunSucceeded)
	})

	t.Run("a deletion after a push of which nobody heard", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("unheard")
		_, push0 := h.Release("zero")
		w.Hears(push0)
		h.Git("switch", "--quiet", "-c", "feature")
		one, create := h.Release("one")
		w.Hears(create)
		run := forge.WantEnds(t, w, "unheard", one, landfall.RunSucceeded)
		h.Release("two")
		h.Git("switch", "--quiet", "main")
		w.Hears(h.Remove("feature"))
		// L-030: a deleted branch has no address, and its release is expired
		testkit.Equal(t, "the branch's tag", w.Tagged("unheard")["branch-feature"], "")
		site.WantStatus(t, w.Site, "unheard--"+string(run.Release), http.StatusGone)
	})
}

// What happens to branches, tags and pull requests at the forge happens to releases.
func TestWebhookBranches(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)

	t.Run("a branch is deleted and made again", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("phoenix")
		_, push0 := h.Release("zero")
		w.Hears(push0)
		h.Git("switch", "--quiet", "-c", "feature")
		one, push1 := h.Release("one")
		w.Hears(push1)
		run := forge.WantEnds(t, w, "phoenix", one, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "phoenix--branch-feature", "/", "one")
		site.WantServed(t, w.Site, "phoenix", "/", "zero")
		w.Hears(h.Remove("feature"))
		// L-030: with the branch its release expires
		site.WantStatus(t, w.Site, "phoenix--"+string(run.Release), http.StatusGone)
		site.WantStatus(t, w.Site, "phoenix--branch-feature", http.StatusNotFound)
		w.Hears(h.Send("feature"))
		w.Eventually("the branch is back", func() bool {
			return w.Get(w.At("phoenix--branch-feature", "/")).Status == http.StatusOK
		})
		site.WantServed(t, w.Site, "phoenix--"+string(run.Release), "/", "one")
	})

	t.Run("git tags", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("tags")
		h.Write("specs/app.yaml", strings.Replace(site.AppSpec("tags"), "src: site", "src: old", 1), "old/index.html", "one",
			"site/index.html", "wrong")
		one := h.Commit("one")
		h.Send("main") // of which nobody heard
		h.Write("specs/app.yaml", site.AppSpec("tags"), "site/index.html", "two")
		two := h.Commit("two")
		w.Hears(h.Send("main"))
		second := forge.WantEnds(t, w, "tags", two, landfall.RunSucceeded)
		h.Git("tag", "--annotate", "--message", "First", "v1.0", string(one))
		w.Hears(h.Send("refs/tags/v1.0"))
		first := forge.WantEnds(t, w, "tags", one, landfall.RunSucceeded)
		testkit.Equal(t, "what the annotated tag names", w.Tagged("tags")["v1.0"], first.Release)
		// L-015: the old commit was released by the specs in it, not by those of the branch's head
		site.WantServed(t, w.Site, "tags--"+landfall.Slug("v1.0", 40), "/", "one")
		site.WantServed(t, w.Site, "tags", "/", "two")
		h.Git("tag", "--force", "v1.0", string(two))
		got := w.Hears(h.Send("refs/tags/v1.0"))
		// L-020: the tag joins the run that its commit has
		testkit.Equal(t, "run", strings.Join(got.Runs, " "), w.RunPage(second.ID))
		testkit.Equal(t, "what the moved tag names", w.Tagged("tags")["v1.0"], second.Release)
		h.Git("tag", "--force", "--annotate", "--message", "Again", "v1.0", string(two))
		w.Hears(h.Send("refs/tags/v1.0"))
		h.Git("tag", "--force", "v1.0", string(one))
		w.Hears(h.Send("refs/tags/v1.0"))
		testkit.Equal(t, "what the tag that was moved back names", w.Tagged("tags")["v1.0"], first.Release)
		h.Git("tag", "--force", "v1.0", string(two))
		w.Hears(h.Send("refs/tags/v1.0"))
		w.Hears(h.Remove("refs/tags/v1.0"))
		testkit.Equal(t, "what the deleted tag names", w.Tagged("tags")["v1.0"], "")

		h.Git("tag", "live", string(one))
		refused := w.Hears(h.Send("refs/tags/live"))
		testkit.Equal(t, "run", strings.Join(refused.Runs, " "), w.RunPage(first.ID))
		if log := w.ReadAs(w.RunPage(first.ID)).Body; !strings.Contains(log, "is reserved") {
			t.Errorf("the log does not say that the tag is reserved:\n%s", log)
		}
		site.WantServed(t, w.Site, "tags", "/", "two")
		w.Call(http.MethodPut, "/apps/tags/tags/beta", map[string]any{"release": first.Release}, nil)
		h.Git("tag", "branch-main", string(one))
		h.Send("refs/tags/branch-main")
		h.Git("tag", "beta", string(one))
		h.Send("refs/tags/beta") // of which nobody heard
		w.Hears(h.Remove("refs/tags/branch-main"), h.Remove("refs/tags/beta"))
		testkit.Equal(t, "what the tag of the branch names", w.Tagged("tags")["branch-main"], second.Release)
		testkit.Equal(t, "what the tag set by hand names", w.Tagged("tags")["beta"], first.Release)
	})

	t.Run("the same content makes no new versions", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("same")
		h.Write("specs/app.yaml", site.AppSpec("same"), "specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml",
			site.FunctionSpec("hello"), "hello/main.py", "one", "site/index.html", "one")
		one := h.Commit("one")
		w.Hears(h.Send("main"))
		first := forge.WantEnds(t, w, "same", one, landfall.RunSucceeded)
		h.Git("switch", "--quiet", "-c", "feature")
		h.Write("hello/main.py", "two", "site/index.html", "two")
		two := h.Commit("two")
		w.Hears(h.Send("feature"))
		preview := forge.WantEnds(t, w, "same", two, landfall.RunSucceeded)
		before := w.UnitsOf("same", string(preview.Release))

		h.Git("switch", "--quiet", "-c", "twin", "main")
		h.Write("hello/main.py", "two", "site/index.html", "two")
		twin := h.Commit("two, by somebody else")
		w.Hears(h.Send("twin"))
		other := forge.WantEnds(t, w, "same", twin, landfall.RunSucceeded)
		wantSameUnits(t, "two branches with the same content", w.UnitsOf("same", string(other.Release)), before)
		testkit.Equal(t, "files uploaded for the twin", other.Stats.FilesUploaded, 0)

		h.Git("switch", "--quiet", "main")
		h.Git("branch", "copy", "feature")
		got := w.Hears(h.Send("copy"))
		testkit.Equal(t, "run of one commit on two branches", strings.Join(got.Runs, " "), w.RunPage(preview.ID))
		testkit.Equal(t, "what the copy's tag names", w.Tagged("same")["branch-copy"], preview.Release)

		h.Git("merge", "--quiet", "--no-ff", "--message", "Merge", "feature")
		w.Hears(h.Send("main"))
		merged := forge.WantEnds(t, w, "same", h.Head(), landfall.RunSucceeded)
		wantSameUnits(t, "a merge of what was previewed", w.UnitsOf("same", string(merged.Release)), before)
		testkit.Equal(t, "files uploaded for the merge", merged.Stats.FilesUploaded, 0)
		site.WantServed(t, w.Site, "same", "/", "two")

		h.Git("revert", "--no-edit", "--mainline", "1", "HEAD")
		w.Hears(h.Send("main"))
		reverted := forge.WantEnds(t, w, "same", h.Head(), landfall.RunSucceeded)
		wantSameUnits(t, "a revert", w.UnitsOf("same", string(reverted.Release)), w.UnitsOf("same", string(first.Release)))
		site.WantServed(t, w.Site, "same", "/", "one")

		h.Git("commit", "--quiet", "--allow-empty", "--message", "Nothing")
		w.Hears(h.Send("main"))
		forge.WantEnds(t, w, "same", h.Head(), landfall.RunSucceeded, "Unchanged")
	})

	t.Run("a pull request", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("pulls")
		_, push0 := h.Release("zero")
		w.Hears(push0)
		h.Git("switch", "--quiet", "-c", "feature")
		one, push1 := h.Release("one")
		opened := h.Pull("opened", 12, "feature")
		w.Hears(opened, push1) // GitHub sends both, in any order
		first := forge.WantEnds(t, w, "pulls", one, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "pulls--pr-12", "/", "one")
		testkit.Equal(t, "number of runs", len(w.Runs("pulls")), 2)
		two, push2 := h.Release("two")
		w.Hears(push2, h.Pull("synchronize", 12, "feature"))
		second := forge.WantEnds(t, w, "pulls", two, landfall.RunSucceeded)
		// L-014: the pull request's address shows the last commit
		testkit.Equal(t, "Landfall-Release", w.Get(w.At("pulls--pr-12", "/")).Header.Get("Landfall-Release"),
			string(second.Release))
		site.WantServed(t, w.Site, "pulls--pr-12", "/", "two")
		site.WantServed(t, w.Site, "pulls", "/", "zero")

		w.Hears(h.Pull("closed_unmerged", 12, "feature"))
		site.WantStatus(t, w.Site, "pulls--pr-12", http.StatusNotFound)
		// L-030: with the pull request its releases expire, except the one that the branch still names
		site.WantStatus(t, w.Site, "pulls--"+string(first.Release), http.StatusGone)
		site.WantServed(t, w.Site, "pulls--branch-feature", "/", "two")
		w.Hears(h.Remove("feature"))
		// L-030: and that one with the branch
		site.WantStatus(t, w.Site, "pulls--"+string(second.Release), http.StatusGone)

		h.Send("feature") // of which nobody heard
		w.Hears(h.Pull("reopened", 12, "feature"))
		w.Eventually("the pull request is back", func() bool {
			return w.Get(w.At("pulls--pr-12", "/")).Status == http.StatusOK
		})
		site.WantServed(t, w.Site, "pulls--"+string(second.Release), "/", "two")
	})

	t.Run("a pull request from a fork", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("forked")
		h.Release("zero")
		h.Git("switch", "--quiet", "-c", "feature")
		h.Release("one")
		for _, action := range []string{"opened_fork", "synchronize_fork_deleted", "closed_fork_deleted"} {
			d := h.Pull(action, 13, "feature")
			got := w.Hears(d)
			stored, ok := w.Recorded(d.ID)
			if !ok || !strings.Contains(stored.Decision, "Pull request 13") {
				t.Errorf("%s: got %+v and the record %+v, want the decision", action, got, stored)
			}
		}
		all := w.Runs("forked")
		if len(all) != 1 || all[0].State != landfall.RunExpired {
			t.Errorf("got the runs %+v, want one that waited and has expired", all)
		}
		testkit.Equal(t, "requests for the repository", w.Requests(h.Name), 0)
		site.WantStatus(t, w.Site, "forked--pr-13", http.StatusNotFound)
	})

	t.Run("branches and paths that get no release", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("picky")
		h.Write("specs/app.yaml", site.AppSpec("picky",
			`release: {production: main, branches: ["feature/*"], skip_paths: ["docs/**", "*.md"]}`), "site/index.html", "one",
			"README.md", "one")
		one := h.Commit("one")
		w.Hears(h.Send("main"))
		run := forge.WantEnds(t, w, "picky", one, landfall.RunSucceeded)
		h.Write("docs/a.txt", "a", "README.md", "two")
		two := h.Commit("Words")
		w.Hears(h.Send("main"))
		// L-011: what is skipped ends and says why
		forge.WantEnds(t, w, "picky", two, landfall.RunSkipped, "skip_paths")
		h.Git("switch", "--quiet", "-c", "other")
		three, push := h.Release("three")
		w.Hears(push)
		// L-011: so does a branch that gets no release
		forge.WantEnds(t, w, "picky", three, landfall.RunSkipped, "other", "release.branches")
		h.Git("switch", "--quiet", "-c", "feature/x")
		w.Hears(h.Send("feature/x"))
		forge.WantEnds(t, w, "picky", three, landfall.RunSucceeded)
		testkit.EqualList(t, "moves of live", w.WasLive("picky"), []landfall.UID{run.Release})
	})
}

// wantSameUnits fails the test unless two releases have the same versions of the same units.
func wantSameUnits(t *testing.T, what string, got, want map[string]landfall.GroupUnit) {
	t.Helper()
	names := func(units map[string]landfall.GroupUnit) []string {
		var all []string
		for name, u := range units {
			all = append(all, name+"-"+string(u.UID))
		}
		slices.Sort(all)
		return all
	}
	testkit.EqualList(t, what, names(got), names(want))
}

// In whatever order the deliveries of a branch come, and however often, live only goes forward and ends at the branch's
// head.
func TestWebhookOrderAtRandom(t *testing.T) {
	t.Parallel()
	const histories, commits = 12, 6
	w := forge.NewWorld(t)
	for i := range histories {
		t.Run(fmt.Sprint("history ", i), func(t *testing.T) {
			t.Parallel()
			w := w.In(t)
			app := fmt.Sprint("history-", i)
			h, _ := w.Follow(app)
			random := rand.New(rand.NewPCG(uint64(i), commits))
			begin, push := h.Release("begin")
			w.Hears(push)
			position := map[landfall.UID]int{forge.WantEnds(t, w, app, begin, landfall.RunSucceeded).Release: -1}
			var shas []landfall.CommitSHA
			var pushes []forge.Delivery
			for n := range commits {
				sha, push := h.Release(fmt.Sprint("commit ", n))
				shas, pushes = append(shas, sha), append(pushes, push)
			}
			order := random.Perm(commits)
			t.Logf("the order of the deliveries: %v", order)
			for _, n := range order {
				w.Hears(pushes[n])
				if random.IntN(2) == 0 { // sometimes the run is over before the next one comes
					w.Finished(app, shas[n])
				}
				if random.IntN(3) == 0 {
					w.Deliver(w.Installation(), pushes[n])
				}
			}
			for n, sha := range shas {
				run := w.Finished(app, sha)
				position[run.Release] = n
				if run.State != landfall.RunSucceeded && run.State != landfall.RunSuperseded {
					t.Errorf("the run of commit %d ended as %s: %s", n, run.State, run.Reason)
				}
			}
			live := w.WasLive(app)
			for n := 1; n < len(live); n++ {
				// L-001: live never goes back to an older commit
				if position[live[n]] < position[live[n-1]] {
					t.Errorf("live was at %v, want it to go forward only: %v", live, position)
				}
			}
			// L-002: and it ends where the branch is
			site.WantServed(t, w.Site, app, "/", fmt.Sprint("commit ", commits-1))
		})
	}
}
