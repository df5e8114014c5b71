package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// A build that takes longer than the next push is nobody's release, whenever it ends.
func TestWebhookOrderOfBuilds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LANDFALL_SANDBOX=off")
	h, _ := w.follow("slow-build")
	gate := t.TempDir()
	t.Cleanup(func() { openGate(t, gate) })
	h.write("specs/app.yaml", gated("slow-build", gate), "site/index.html", "one")
	one := h.commit("A build that takes its time")
	w.hears(h.send("main"))
	w.eventually("the first push is being built", func() bool { return isThere(filepath.Join(gate, "building")) })
	h.write("specs/app.yaml", appSpec("slow-build"), "site/index.html", "two")
	two := h.commit("No build")
	w.hears(h.send("main"))
	run := wantEnds(t, w, "slow-build", two, landfall.RunSucceeded)
	openGate(t, gate)
	first := wantEnds(t, w, "slow-build", one, landfall.RunSuperseded, "Superseded by "+two.Short())
	w.quiet("slow-build")
	// L-003: the first push, whose build was slow, was never live, and its build is in no release.
	wantList(t, "moves of live", w.wasLive("slow-build"), []landfall.UID{run.Release})
	wantEqual(t, "release of the first", first.Release, "")
	wantServed(t, w.site, "slow-build", "/", "two")
	wantEqual(t, "status of what the build makes", w.get(w.at("slow-build", "/out.txt")).status, http.StatusNotFound)
	wantStatus(t, w.site, "slow-build--"+string(first.UID), http.StatusNotFound)
}

// The branch's order decides, whatever the order and the time of the deliveries.
func TestWebhookOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	t.Run("a slow first push is superseded", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("slow")
		open := h.hold()
		one, push1 := h.release("one")
		w.hears(push1)
		w.eventually("the first fetch is on its way", func() bool { return w.requests(h.name) > 0 })
		h.forge.rule(h.name, rule{}) // only the first one waits
		two, push2 := h.release("two")
		w.hears(push2)
		run := wantEnds(t, w, "slow", two, landfall.RunSucceeded)
		open()
		// P-009: the second push supersedes the first one, which says so
		first := wantEnds(t, w, "slow", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		wantEqual(t, "release of the first", first.Release, "")
		// L-003: the slow one was never live
		wantList(t, "moves of live", w.wasLive("slow"), []landfall.UID{run.Release})
		wantServed(t, w.site, "slow", "/", "two")
		wantStatus(t, w.site, "slow--"+string(first.UID), http.StatusNotFound)
	})

	t.Run("deliveries in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("wrong-order")
		zero, push0 := h.release("zero")
		w.hears(push0)
		wantEnds(t, w, "wrong-order", zero, landfall.RunSucceeded)
		one, push1 := h.release("one")
		two, push2 := h.release("two")
		three, push3 := h.release("three")
		w.hears(push3, push1)
		last := wantEnds(t, w, "wrong-order", three, landfall.RunSucceeded)
		w.hears(push2)
		// N-003: what comes late ends in the branch's order
		wantEnds(t, w, "wrong-order", two, landfall.RunSuperseded, "Superseded by "+three.Short())
		wantEnds(t, w, "wrong-order", one, landfall.RunSuperseded, "Superseded by ")
		live := w.wasLive("wrong-order")
		// L-001: live went forward only
		if len(live) != 2 || live[1] != last.Release {
			t.Errorf("live was at %v, want first the release of %s, then %s", live, zero.Short(), last.Release)
		}
		// L-002: and it is where the branch's head is
		wantServed(t, w.site, "wrong-order", "/", "three")
		wantEqual(t, "the branch's tag", w.tagged("wrong-order")["branch-main"], last.Release)
	})

	t.Run("the newer one came first and is not over", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("newer-first")
		open := h.hold()
		one, push1 := h.release("one")
		two, push2 := h.release("two")
		w.hears(push2, push1)
		// N-003: the older one is superseded before anything is fetched
		wantEnds(t, w, "newer-first", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		open()
		run := wantEnds(t, w, "newer-first", two, landfall.RunSucceeded)
		wantList(t, "moves of live", w.wasLive("newer-first"), []landfall.UID{run.Release})
	})

	t.Run("where deliveries are missing, the commits decide", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("missing")
		one, push1 := h.release("one")
		two, push2 := h.release("two")
		h.release("three, of which nobody hears")
		four, push4 := h.release("four")
		w.hears(push1)
		first := wantEnds(t, w, "missing", one, landfall.RunSucceeded)
		w.hears(push4)
		last := wantEnds(t, w, "missing", four, landfall.RunSucceeded)
		w.hears(push2)
		// L-001: an old commit that arrives late is superseded by the one that is live
		late := wantEnds(t, w, "missing", two, landfall.RunSuperseded, "Superseded by "+four.Short())
		wantEqual(t, "release of the late one", late.Release, "")
		wantList(t, "moves of live", w.wasLive("missing"), []landfall.UID{first.Release, last.Release})
		five, push5 := h.release("five")
		w.hears(push5)
		wantEnds(t, w, "missing", five, landfall.RunSucceeded)
		wantServed(t, w.site, "missing", "/", "five")
	})

	t.Run("a rewritten branch", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("rewritten")
		zero, push0 := h.release("zero")
		one, push1 := h.release("one")
		w.hears(push0, push1)
		old := wantEnds(t, w, "rewritten", one, landfall.RunSucceeded)
		h.git("reset", "--quiet", "--hard", string(zero))
		two, push2 := h.release("two")
		w.hears(push2)
		run := wantEnds(t, w, "rewritten", two, landfall.RunSucceeded)
		// P-009: the push that came last wins, although history was rewritten
		wantServed(t, w.site, "rewritten", "/", "two")
		wantServed(t, w.site, "rewritten--"+string(old.Release), "/", "one")
		wantEqual(t, "the branch's tag", w.tagged("rewritten")["branch-main"], run.Release)

		h.git("reset", "--quiet", "--hard", string(one))
		back := h.send("main")
		got := w.hears(back)
		// L-020: a commit that has its release is not built again
		wantEqual(t, "run", strings.Join(got.Runs, " "), w.runPage(old.ID))
		wantServed(t, w.site, "rewritten", "/", "one")
		wantEqual(t, "live", w.showApp("rewritten").Live, old.Release)
	})

	t.Run("there and back, told in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("there-and-back")
		one, push1 := h.release("one")
		w.hears(push1)
		run := wantEnds(t, w, "there-and-back", one, landfall.RunSucceeded)
		two, there := h.release("two")
		h.git("reset", "--quiet", "--hard", string(one))
		back := h.send("main")
		w.hears(back, there)
		// N-003: the branch is where it began, and so is live
		wantEnds(t, w, "there-and-back", two, landfall.RunSuperseded, "Superseded by "+one.Short())
		wantList(t, "moves of live", w.wasLive("there-and-back"), []landfall.UID{run.Release})
	})

	t.Run("there, back and there again, told in the wrong order", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		for app, between := range map[string]bool{"pendulum": false, "detour": true} {
			h, _ := w.follow(app)
			one, push1 := h.release("one")
			w.hears(push1)
			if between {
				_, push := h.release("between")
				w.hears(push)
			}
			two, push2 := h.release("two")
			w.hears(push2)
			run := wantEnds(t, w, app, two, landfall.RunSucceeded)
			h.git("reset", "--quiet", "--hard", string(one))
			back := h.send("main")
			h.git("reset", "--quiet", "--hard", string(two))
			again := h.send("main")
			w.hears(again, back)
			// N-003: what came late is what the branch left again: it goes from where the branch was to where it came from
			wantEqual(t, "live", w.showApp(app).Live, run.Release)
			wantEqual(t, "the branch's tag", w.tagged(app)["branch-main"], run.Release)
			three, push3 := h.release("three")
			w.hears(push3)
			wantEnds(t, w, app, three, landfall.RunSucceeded)
			wantServed(t, w.site, app, "/", "three")
		}
	})

	t.Run("there and back, told by two hooks", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, app := w.follow("echo")
		own := hook{url: app.Hook.URL, secret: app.Hook.Secret}
		twice := func(d delivery) {
			t.Helper()
			w.hears(d)
			wantEqual(t, "status", w.deliver(own, d).status, http.StatusAccepted)
		}
		one, push1 := h.release("one")
		twice(push1)
		first := wantEnds(t, w, "echo", one, landfall.RunSucceeded)
		two, push2 := h.release("two")
		twice(push2)
		wantEnds(t, w, "echo", two, landfall.RunSucceeded)
		h.git("reset", "--quiet", "--hard", string(one))
		twice(h.send("main"))
		run := wantEnds(t, w, "echo", one, landfall.RunSucceeded)
		// N-003: where the pushes that were heard of cannot tell which came last, the forge can
		wantEqual(t, "release", run.Release, first.Release)
		wantServed(t, w.site, "echo", "/", "one")
		wantEqual(t, "the branch's tag", w.tagged("echo")["branch-main"], first.Release)

		h.git("reset", "--quiet", "--hard", string(two))
		twice(h.send("main"))
		second := wantEnds(t, w, "echo", two, landfall.RunSucceeded)
		wantServed(t, w.site, "echo", "/", "two")
		open := h.hold()
		h.git("reset", "--quiet", "--hard", string(one))
		twice(h.send("main"))
		h.git("reset", "--quiet", "--hard", string(two))
		last := h.send("main")
		open()
		wantEnds(t, w, "echo", one, landfall.RunSuperseded, "Superseded by "+two.Short())
		twice(last)
		// N-003: nor does it matter that the branch went on before the forge was asked
		wantEqual(t, "live", w.showApp("echo").Live, second.Release)
		wantEqual(t, "the branch's tag", w.tagged("echo")["branch-main"], second.Release)
	})

	t.Run("a branch whose deletion came first", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("gone-first")
		_, push0 := h.release("zero")
		w.hears(push0)
		h.git("switch", "--quiet", "-c", "short")
		one, create := h.release("one")
		h.git("switch", "--quiet", "main")
		w.hears(h.remove("short"), create)
		// N-003: what was deleted is not there
		wantEnds(t, w, "gone-first", one, landfall.RunSuperseded, "deleted")
		wantEqual(t, "the branch's tag", w.tagged("gone-first")["branch-short"], "")
	})

	t.Run("a branch that was made again, told before its deletion", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("made-again")
		_, push0 := h.release("zero")
		w.hears(push0)
		h.git("switch", "--quiet", "-c", "short")
		one, create := h.release("one")
		w.hears(create)
		run := wantEnds(t, w, "made-again", one, landfall.RunSucceeded)
		gone := h.remove("short")
		w.hears(h.send("short"), gone)
		// N-003: what is there again comes back, once the forge was asked
		w.eventually("the branch is back", func() bool { return w.tagged("made-again")["branch-short"] == run.Release })
		wantEnds(t, w, "made-again", one, landfall.RunSucceeded)
	})

	t.Run("a deletion after a push of which nobody heard", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("unheard")
		_, push0 := h.release("zero")
		w.hears(push0)
		h.git("switch", "--quiet", "-c", "feature")
		one, create := h.release("one")
		w.hears(create)
		run := wantEnds(t, w, "unheard", one, landfall.RunSucceeded)
		h.release("two")
		h.git("switch", "--quiet", "main")
		w.hears(h.remove("feature"))
		// L-030: a deleted branch has no address, and its release is expired
		wantEqual(t, "the branch's tag", w.tagged("unheard")["branch-feature"], "")
		wantStatus(t, w.site, "unheard--"+string(run.Release), http.StatusGone)
	})
}

// What happens to branches, tags and pull requests at the forge happens to releases.
func TestWebhookBranches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	t.Run("a branch is deleted and made again", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("phoenix")
		_, push0 := h.release("zero")
		w.hears(push0)
		h.git("switch", "--quiet", "-c", "feature")
		one, push1 := h.release("one")
		w.hears(push1)
		run := wantEnds(t, w, "phoenix", one, landfall.RunSucceeded)
		wantServed(t, w.site, "phoenix--branch-feature", "/", "one")
		wantServed(t, w.site, "phoenix", "/", "zero")
		w.hears(h.remove("feature"))
		// L-030: with the branch its release expires
		wantStatus(t, w.site, "phoenix--"+string(run.Release), http.StatusGone)
		wantStatus(t, w.site, "phoenix--branch-feature", http.StatusNotFound)
		w.hears(h.send("feature"))
		w.eventually("the branch is back", func() bool { return w.get(w.at("phoenix--branch-feature", "/")).status == http.StatusOK })
		wantServed(t, w.site, "phoenix--"+string(run.Release), "/", "one")
	})

	t.Run("git tags", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("tags")
		h.write("specs/app.yaml", strings.Replace(appSpec("tags"), "src: site", "src: old", 1), "old/index.html", "one", "site/index.html", "wrong")
		one := h.commit("one")
		h.send("main") // of which nobody heard
		h.write("specs/app.yaml", appSpec("tags"), "site/index.html", "two")
		two := h.commit("two")
		w.hears(h.send("main"))
		second := wantEnds(t, w, "tags", two, landfall.RunSucceeded)
		h.git("tag", "--annotate", "--message", "First", "v1.0", string(one))
		w.hears(h.send("refs/tags/v1.0"))
		first := wantEnds(t, w, "tags", one, landfall.RunSucceeded)
		wantEqual(t, "what the annotated tag names", w.tagged("tags")["v1.0"], first.Release)
		// L-015: the old commit was released by the specs in it, not by those of the branch's head
		wantServed(t, w.site, "tags--"+landfall.Slug("v1.0", 40), "/", "one")
		wantServed(t, w.site, "tags", "/", "two")
		h.git("tag", "--force", "v1.0", string(two))
		got := w.hears(h.send("refs/tags/v1.0"))
		// L-020: the tag joins the run that its commit has
		wantEqual(t, "run", strings.Join(got.Runs, " "), w.runPage(second.ID))
		wantEqual(t, "what the moved tag names", w.tagged("tags")["v1.0"], second.Release)
		h.git("tag", "--force", "--annotate", "--message", "Again", "v1.0", string(two))
		w.hears(h.send("refs/tags/v1.0"))
		h.git("tag", "--force", "v1.0", string(one))
		w.hears(h.send("refs/tags/v1.0"))
		wantEqual(t, "what the tag that was moved back names", w.tagged("tags")["v1.0"], first.Release)
		h.git("tag", "--force", "v1.0", string(two))
		w.hears(h.send("refs/tags/v1.0"))
		w.hears(h.remove("refs/tags/v1.0"))
		wantEqual(t, "what the deleted tag names", w.tagged("tags")["v1.0"], "")

		h.git("tag", "live", string(one))
		refused := w.hears(h.send("refs/tags/live"))
		wantEqual(t, "run", strings.Join(refused.Runs, " "), w.runPage(first.ID))
		if log := w.readAs(w.runPage(first.ID)).body; !strings.Contains(log, "is reserved") {
			t.Errorf("the log does not say that the tag is reserved:\n%s", log)
		}
		wantServed(t, w.site, "tags", "/", "two")
		w.call(http.MethodPut, "/apps/tags/tags/beta", map[string]any{"release": first.Release}, nil)
		h.git("tag", "branch-main", string(one))
		h.send("refs/tags/branch-main")
		h.git("tag", "beta", string(one))
		h.send("refs/tags/beta") // of which nobody heard
		w.hears(h.remove("refs/tags/branch-main"), h.remove("refs/tags/beta"))
		wantEqual(t, "what the tag of the branch names", w.tagged("tags")["branch-main"], second.Release)
		wantEqual(t, "what the tag set by hand names", w.tagged("tags")["beta"], first.Release)
	})

	t.Run("the same content makes no new versions", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("same")
		h.write("specs/app.yaml", appSpec("same"), "specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "one", "site/index.html", "one")
		one := h.commit("one")
		w.hears(h.send("main"))
		first := wantEnds(t, w, "same", one, landfall.RunSucceeded)
		h.git("switch", "--quiet", "-c", "feature")
		h.write("hello/main.py", "two", "site/index.html", "two")
		two := h.commit("two")
		w.hears(h.send("feature"))
		preview := wantEnds(t, w, "same", two, landfall.RunSucceeded)
		before := w.unitsOf("same", string(preview.Release))

		h.git("switch", "--quiet", "-c", "twin", "main")
		h.write("hello/main.py", "two", "site/index.html", "two")
		twin := h.commit("two, by somebody else")
		w.hears(h.send("twin"))
		other := wantEnds(t, w, "same", twin, landfall.RunSucceeded)
		wantSameUnits(t, "two branches with the same content", w.unitsOf("same", string(other.Release)), before)
		wantEqual(t, "files uploaded for the twin", other.Stats.FilesUploaded, 0)

		h.git("switch", "--quiet", "main")
		h.git("branch", "copy", "feature")
		got := w.hears(h.send("copy"))
		wantEqual(t, "run of one commit on two branches", strings.Join(got.Runs, " "), w.runPage(preview.ID))
		wantEqual(t, "what the copy's tag names", w.tagged("same")["branch-copy"], preview.Release)

		h.git("merge", "--quiet", "--no-ff", "--message", "Merge", "feature")
		w.hears(h.send("main"))
		merged := wantEnds(t, w, "same", h.head(), landfall.RunSucceeded)
		wantSameUnits(t, "a merge of what was previewed", w.unitsOf("same", string(merged.Release)), before)
		wantEqual(t, "files uploaded for the merge", merged.Stats.FilesUploaded, 0)
		wantServed(t, w.site, "same", "/", "two")

		h.git("revert", "--no-edit", "--mainline", "1", "HEAD")
		w.hears(h.send("main"))
		reverted := wantEnds(t, w, "same", h.head(), landfall.RunSucceeded)
		wantSameUnits(t, "a revert", w.unitsOf("same", string(reverted.Release)), w.unitsOf("same", string(first.Release)))
		wantServed(t, w.site, "same", "/", "one")

		h.git("commit", "--quiet", "--allow-empty", "--message", "Nothing")
		w.hears(h.send("main"))
		wantEnds(t, w, "same", h.head(), landfall.RunSucceeded, "Unchanged")
	})

	t.Run("a pull request", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("pulls")
		_, push0 := h.release("zero")
		w.hears(push0)
		h.git("switch", "--quiet", "-c", "feature")
		one, push1 := h.release("one")
		opened := h.pull("opened", 12, "feature")
		w.hears(opened, push1) // GitHub sends both, in any order
		first := wantEnds(t, w, "pulls", one, landfall.RunSucceeded)
		wantServed(t, w.site, "pulls--pr-12", "/", "one")
		wantEqual(t, "number of runs", len(w.runs("pulls")), 2)
		two, push2 := h.release("two")
		w.hears(push2, h.pull("synchronize", 12, "feature"))
		second := wantEnds(t, w, "pulls", two, landfall.RunSucceeded)
		// L-014: the pull request's address shows the last commit
		wantEqual(t, "Landfall-Release", w.get(w.at("pulls--pr-12", "/")).header.Get("Landfall-Release"), string(second.Release))
		wantServed(t, w.site, "pulls--pr-12", "/", "two")
		wantServed(t, w.site, "pulls", "/", "zero")

		w.hears(h.pull("closed_unmerged", 12, "feature"))
		wantStatus(t, w.site, "pulls--pr-12", http.StatusNotFound)
		// L-030: with the pull request its releases expire, except the one that the branch still names
		wantStatus(t, w.site, "pulls--"+string(first.Release), http.StatusGone)
		wantServed(t, w.site, "pulls--branch-feature", "/", "two")
		w.hears(h.remove("feature"))
		// L-030: and that one with the branch
		wantStatus(t, w.site, "pulls--"+string(second.Release), http.StatusGone)

		h.send("feature") // of which nobody heard
		w.hears(h.pull("reopened", 12, "feature"))
		w.eventually("the pull request is back", func() bool { return w.get(w.at("pulls--pr-12", "/")).status == http.StatusOK })
		wantServed(t, w.site, "pulls--"+string(second.Release), "/", "two")
	})

	t.Run("a pull request from a fork", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("forked")
		h.release("zero")
		h.git("switch", "--quiet", "-c", "feature")
		h.release("one")
		for _, action := range []string{"opened_fork", "synchronize_fork_deleted", "closed_fork_deleted"} {
			d := h.pull(action, 13, "feature")
			got := w.hears(d)
			stored, ok := w.recorded(d.id)
			if len(got.Runs) != 0 || !ok || !strings.Contains(stored.Decision, "Pull request 13") {
				t.Errorf("%s: got %+v and the record %+v, want no run, and the decision", action, got, stored)
			}
		}
		wantEqual(t, "number of runs", len(w.runs("forked")), 0)
		wantEqual(t, "requests for the repository", w.requests(h.name), 0)
		wantStatus(t, w.site, "forked--pr-13", http.StatusNotFound)
	})

	t.Run("branches and paths that get no release", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("picky")
		h.write("specs/app.yaml", appSpec("picky", `release: {production: main, branches: ["feature/*"], skip_paths: ["docs/**", "*.md"]}`), "site/index.html", "one", "README.md", "one")
		one := h.commit("one")
		w.hears(h.send("main"))
		run := wantEnds(t, w, "picky", one, landfall.RunSucceeded)
		h.write("docs/a.txt", "a", "README.md", "two")
		two := h.commit("Words")
		w.hears(h.send("main"))
		// L-011: what is skipped ends and says why
		wantEnds(t, w, "picky", two, landfall.RunSkipped, "skip_paths")
		h.git("switch", "--quiet", "-c", "other")
		three, push := h.release("three")
		w.hears(push)
		// L-011: so does a branch that gets no release
		wantEnds(t, w, "picky", three, landfall.RunSkipped, "other", "release.branches")
		h.git("switch", "--quiet", "-c", "feature/x")
		w.hears(h.send("feature/x"))
		wantEnds(t, w, "picky", three, landfall.RunSucceeded)
		wantList(t, "moves of live", w.wasLive("picky"), []landfall.UID{run.Release})
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
	wantList(t, what, names(got), names(want))
}

// In whatever order the deliveries of a branch come, and however often, live only goes forward and ends at the branch's head.
func TestWebhookOrderAtRandom(t *testing.T) {
	t.Parallel()
	const histories, commits = 12, 6
	w := newWorld(t)
	for i := range histories {
		t.Run(fmt.Sprint("history ", i), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			app := fmt.Sprint("history-", i)
			h, _ := w.follow(app)
			random := rand.New(rand.NewPCG(uint64(i), commits))
			begin, push := h.release("begin")
			w.hears(push)
			position := map[landfall.UID]int{wantEnds(t, w, app, begin, landfall.RunSucceeded).Release: -1}
			var shas []landfall.CommitSHA
			var pushes []delivery
			for n := range commits {
				sha, push := h.release(fmt.Sprint("commit ", n))
				shas, pushes = append(shas, sha), append(pushes, push)
			}
			order := random.Perm(commits)
			t.Logf("the order of the deliveries: %v", order)
			for _, n := range order {
				w.hears(pushes[n])
				if random.IntN(2) == 0 { // sometimes the run is over before the next one comes
					w.finished(app, shas[n])
				}
				if random.IntN(3) == 0 {
					w.deliver(w.installation(), pushes[n])
				}
			}
			for n, sha := range shas {
				run := w.finished(app, sha)
				position[run.Release] = n
				if run.State != landfall.RunSucceeded && run.State != landfall.RunSuperseded {
					t.Errorf("the run of commit %d ended as %s: %s", n, run.State, run.Reason)
				}
			}
			live := w.wasLive(app)
			for n := 1; n < len(live); n++ {
				// L-001: live never goes back to an older commit
				if position[live[n]] < position[live[n-1]] {
					t.Errorf("live was at %v, want it to go forward only: %v", live, position)
				}
			}
			// L-002: and it ends where the branch is
			wantServed(t, w.site, app, "/", fmt.Sprint("commit ", commits-1))
		})
	}
}
