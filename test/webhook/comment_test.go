package webhook_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// ready are the parts of a comment that says that a release is ready and answers.
func ready(w *forge.World, app string, run client.Run) []string {
	return []string{
		"### " + app + " · preview ready", "| Release | " + w.Label(app+"--"+string(run.Release)) + " |",
		"| This pull request | " + w.Label(app+"--pr-12") + " |", "| Commit | " + run.Commit.Short() + " |",
	}
}

// opened opens pull request 12 from the branch feature with one commit, and returns that.
func opened(w *forge.World, h *forge.Hosted) landfall.CommitSHA {
	w.T.Helper()
	_, push := h.Release("zero")
	w.Hears(push)
	h.Git("switch", "--quiet", "-c", "feature")
	one, push1 := h.Release("one")
	w.Hears(push1, h.Pull("opened", 12, "feature"))
	return one
}

// A pull request has one comment, which says what became of its newest commit, with addresses that answer.
func TestComments(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)

	t.Run("edited in place", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("shop")
		one := opened(w, h)
		first := w.Says(h, 12, ready(w, "shop", forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
		site.WantServed(t, w.Site, "shop--pr-12", "/", "one")
		// It compares with what the base branch serves, not with the push before.
		testkit.Contains(t, site.Told{first.Body}, "| static <code>&#47;</code> | 1 file changed (−1 B) |",
			"compared with main")
		h.Write("more.html", "more")
		two, push := h.Release("two")
		w.Hears(push, h.Pull("synchronize", 12, "feature"))
		run := forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
		second := w.Says(h, 12, ready(w, "shop", run)...)
		// P-008: the same comment, edited, with addresses that answer when it says so
		if second.ID != first.ID || second.Edits == 0 {
			t.Errorf("got %+v after %+v, want an edit of it", second, first)
		}
		site.WantServed(t, w.Site, "shop--pr-12", "/", "two")
		site.WantServed(t, w.Site, "shop--"+string(run.Release), "/", "two")
		testkit.Contains(t, site.Told{second.Body}, "1 file changed, 1 added (+3 B)", " of 2 files uploaded · ")

		h.Git("reset", "--quiet", "--hard", string(one))
		w.Hears(h.Send("feature"), h.Pull("synchronize", 12, "feature"))
		back, _ := w.RunOf("shop", one)
		// A commit that has its release already needs no run, and the comment says that it is the head again.
		w.Says(h, 12, ready(w, "shop", back)...)

		w.Hears(h.Pull("closed_unmerged", 12, "feature"))
		w.Says(h, 12, "### shop · closed", "| Commit | "+one.Short()+" |")
		h.Send("feature")
		w.Hears(h.Pull("reopened", 12, "feature"))
		w.Says(h, 12, ready(w, "shop", back)...)
		site.WantServed(t, w.Site, "shop--pr-12", "/", "one")
	})

	t.Run("two apps of a repository", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h := w.Host(t, "harbor/mono")
		for _, name := range []string{"left", "right"} {
			w.Call(http.MethodPost, "/apps", client.NewApp{Name: name, Repository: h.Clone(), Branch: "main", Folder: name}, nil)
			h.Write(name+"/index.html", "zero")
		}
		h.Commit("zero")
		w.Hears(h.Send("main"))
		h.Git("switch", "--quiet", "-c", "feature")
		h.Write("left/index.html", "left", "right/specs/app.yaml", site.AppSpec("right", "colour: red"))
		one := h.Commit("one")
		w.Hears(h.Send("feature"), h.Pull("opened", 12, "feature"))
		left := forge.WantEnds(t, w, "left", one, landfall.RunSucceeded)
		right := forge.WantEnds(t, w, "right", one, landfall.RunFailed)
		comment := w.Says(h, 12, append(ready(w, "left", left), "### right · failed", "| Run | "+w.RunPage(right.ID)+" |",
			"colour")...)
		if strings.Index(comment.Body, "### left") > strings.Index(comment.Body, "### right") {
			t.Errorf("the sections are not in order:\n%s", comment.Body)
		}
	})

	t.Run("a failed build", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("broken")
		one := opened(w, h)
		forge.WantEnds(t, w, "broken", one, landfall.RunSucceeded)
		h.Write("specs/app.yaml", site.AppSpec("broken", "build: {command: 'echo \"<b>|@mira\"; false', outputs: [out]}"))
		two, push := h.Release("two")
		w.Hears(push, h.Pull("synchronize", 12, "feature"))
		run := forge.WantEnds(t, w, "broken", two, landfall.RunFailed)
		// The reason comes through as text only, and the address goes on showing the commit before.
		comment := w.Says(h, 12, "### broken · failed", "| Run | "+w.RunPage(run.ID)+" |", "(still "+one.Short()+")",
			"<code>the build command of the app")
		if strings.Contains(comment.Body, "<b>") || strings.Contains(comment.Body, "@") {
			t.Errorf("markup comes through:\n%s", comment.Body)
		}
		site.WantServed(t, w.Site, "broken--pr-12", "/", "one")
	})

	t.Run("a build that throws", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("throws")
		opened(w, h)
		h.Write("specs/app.yaml", site.AppSpec("throws",
			"build: {command: node build.js, inputs: [build.js], outputs: [out]}"),
			"build.js", "function render() {\n  throw new TypeError('the page about.md has no title');\n}\nrender();\n")
		two, push := h.Release("two")
		w.Hears(push, h.Pull("synchronize", 12, "feature"))
		run := forge.WantEnds(t, w, "throws", two, landfall.RunFailed)
		const reason = "the build command of the app failed with exit code 1: TypeError: the page about.md has no title"
		// K-011: the line that names the error is the reason in the run, in the commit status, in the comment and on the page
		testkit.Equal(t, "the run's reason", run.Reason, reason)
		forge.WantTold(t, w, two, landfall.StatusFailure, w.RunPage(run.ID), reason)
		comment := w.Says(h, 12, "### throws · failed", "| Run | "+w.RunPage(run.ID)+" |")
		testkit.Contains(t, site.Told{html.UnescapeString(strings.ReplaceAll(comment.Body, "<!-- -->", ""))}, reason)
		testkit.Contains(t, site.Told{html.UnescapeString(w.ReadAs(w.RunPage(run.ID)).Body)}, reason)
	})

	t.Run("deleted by somebody", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("gone")
		one := opened(w, h)
		first := w.Says(h, 12, ready(w, "gone", forge.WantEnds(t, w, "gone", one, landfall.RunSucceeded))...)
		w.API.DeleteComment(first.ID)
		two, push := h.Release("two")
		w.Hears(push)
		if second := w.Says(h, 12, ready(w, "gone",
			forge.WantEnds(t, w, "gone", two, landfall.RunSucceeded))...); second.ID == first.ID {
			t.Errorf("got %+v, want another comment", second)
		}
	})

	t.Run("deleted and edited by somebody who insists", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("fought")
		one := opened(w, h)
		want := ready(w, "fought", forge.WantEnds(t, w, "fought", one, landfall.RunSucceeded))
		first := w.Says(h, 12, want...)
		// What another person's comment loses is nothing to us.
		other, asks := w.Commented(h, 12, bob, "Nice")
		w.Hears(asks, w.CommentDeleted(h, githubtest.Comment{ID: other, Number: 12, Author: bob}, eve))
		// N-043: it is made again at once, and once
		w.Hears(w.CommentDeleted(h, first, eve))
		second := w.Says(h, 12, want...)
		got := w.Hears(w.CommentEdited(h, second, eve, "Landfall is down."))
		testkit.Contains(t, site.Told{got.Decision}, "it waits for the next news")
		// N-043: what is edited a moment later is restored with the next news, and not doubled
		h.Write("more.html", "more")
		two, push := h.Release("two")
		w.Hears(push)
		third := w.Says(h, 12, ready(w, "fought", forge.WantEnds(t, w, "fought", two, landfall.RunSucceeded))...)
		if third.ID != second.ID || first.ID == second.ID {
			t.Errorf("got %+v and %+v after %+v, want one new comment that is edited", second, third, first)
		}
	})

	t.Run("when the base branch moves, and when the app goes", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("based")
		one := opened(w, h)
		run := forge.WantEnds(t, w, "based", one, landfall.RunSucceeded)
		w.Says(h, 12, ready(w, "based", run)...)
		h.Git("switch", "--quiet", "main")
		same, push := h.Release("one")
		w.Hears(push)
		forge.WantEnds(t, w, "based", same, landfall.RunSucceeded)
		w.Call(http.MethodDelete, "/apps/based?force=true", nil, nil)
		w.Says(h, 12, "### based · deleted", "its addresses answer no more")
	})

	t.Run("edited by somebody", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("edited")
		one := opened(w, h)
		want := ready(w, "edited", forge.WantEnds(t, w, "edited", one, landfall.RunSucceeded))
		first := w.Says(h, 12, want...)
		w.Hears(w.CommentEdited(h, first, eve, "Landfall is down."))
		// N-043: it says again what it said
		if second := w.Says(h, 12, want...); second.ID != first.ID {
			t.Errorf("got %+v, want %+v", second, first)
		}
	})

	t.Run("a fork", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("forked")
		one := opened(w, h)
		forge.WantEnds(t, w, "forked", one, landfall.RunSucceeded)
		w.Hears(h.Pull("opened_fork", 13, "feature"), h.Pull("synchronize_fork_deleted", 13, "feature"))
		w.Says(h, 13, "waiting for approval", "/landfall approve")
		w.Hears(h.Pull("closed_fork_deleted", 13, "feature"))
		w.Says(h, 13, "### forked · closed")
	})
}

// Where comments are turned off, commits get their statuses, and nothing else.
func TestCommentsTurnedOff(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_GITHUB_COMMENTS=false")
	h, _ := w.Follow("shop")
	one := opened(w, h)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	forge.WantTold(t, w, one, landfall.StatusSuccess, w.At("shop--"+string(run.Release), "/"))
	w.Quiet("shop")
	w.Stop()
	// L-026: silent mode
	testkit.Equal(t, "requests beside the four statuses", w.API.Requests()-len(w.API.Statuses("")), 0)
}

// Whatever GitHub answers, there is one comment in the end, and it says the newest.
func TestCommentsFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]githubtest.Fault{
		"502 after the write":  {Status: http.StatusBadGateway, Written: true},
		"403 with Retry-After": {Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "2"}},
		"no answer":            {Close: true, Written: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := forge.NewReportingWorld(t)
			h, _ := w.Follow("shop")
			// The two commits' four statuses, who we are, what is there, and the comment: whichever of them it hits.
			for _, n := range []int{5, 7, 9} {
				w.API.Fail(n, fault)
			}
			one := opened(w, h)
			// L-024: what GitHub asks for is waited for, and nothing is lost
			w.Says(h, 12, ready(w, "shop", forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
			site.WantServed(t, w.Site, "shop--pr-12", "/", "one")
		})
	}
}

// A server that dies between a comment and its record finds the comment again.
func TestCommentsAfterKill(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"report.commenting", "report.commented", "report.told"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := forge.NewReportingWorld(t)
			h, _ := w.Follow("shop")
			w.Restart(h, "LANDFALL_CRASH="+point)
			one := opened(w, h)
			w.Dies()
			before := w.API.Comments(h.Name, 12)
			testkit.Equal(t, "number of comments when it died", len(before),
				map[bool]int{true: 0, false: 1}[point == "report.commenting"])
			w.Start()
			comment := w.Says(h, 12, ready(w, "shop", forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
			// L-023: what is owed outlives the process, and is told once
			if len(before) == 1 && before[0].ID != comment.ID {
				t.Errorf("got %+v after %+v, want the same comment", comment, before)
			}
			site.WantServed(t, w.Site, "shop--pr-12", "/", "one")
		})
	}
}
