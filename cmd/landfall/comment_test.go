package main

import (
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
)

// says waits until a pull request has our comment, which says every part, and returns it. There is never more than one.
func (w *world) says(h *hosted, number int, parts ...string) githubtest.Comment {
	w.t.Helper()
	var all []githubtest.Comment
	w.eventually("the comment says "+strings.Join(parts, ", "), func() bool {
		all = w.api.Comments(h.name, number)
		return len(all) > 0 && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(all[0].Body, part) })
	})
	// L-026: one comment for each pull request
	if len(all) != 1 || !strings.HasPrefix(all[0].Body, "<!-- landfall "+w.URL+" -->\n") {
		w.t.Errorf("pull request %d of %s has the comments %+v, want one of ours", number, h.name, all)
	}
	return all[0]
}

// label is an address as a comment shows it.
func (w *world) label(host string) string { return strings.TrimSuffix(w.at(host, "/"), "/") }

// ready are the parts of a comment that says that a release is ready and answers.
func (w *world) ready(app string, run client.Run) []string {
	return []string{
		"### " + app + " · preview ready", "| Release | " + w.label(app+"--"+string(run.Release)) + " |",
		"| This pull request | " + w.label(app+"--pr-12") + " |", "| Commit | " + run.Commit.Short() + " |",
	}
}

// opened opens pull request 12 from the branch feature with one commit, and returns that.
func (w *world) opened(h *hosted) landfall.CommitSHA {
	w.t.Helper()
	_, push := h.release("zero")
	w.hears(push)
	h.git("switch", "--quiet", "-c", "feature")
	one, push1 := h.release("one")
	w.hears(push1, h.pull("opened", 12, "feature"))
	return one
}

// A pull request has one comment, which says what became of its newest commit, with addresses that answer.
func TestComments(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)

	t.Run("edited in place", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("shop")
		one := w.opened(h)
		first := w.says(h, 12, w.ready("shop", wantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
		wantServed(t, w.site, "shop--pr-12", "/", "one")
		// It compares with what the base branch serves, not with the push before.
		wantText(t, told{first.Body}, "| static <code>&#47;</code> | 1 file changed (−1 B) |", "compared with main")
		h.write("more.html", "more")
		two, push := h.release("two")
		w.hears(push, h.pull("synchronize", 12, "feature"))
		run := wantEnds(t, w, "shop", two, landfall.RunSucceeded)
		second := w.says(h, 12, w.ready("shop", run)...)
		// P-008: the same comment, edited, with addresses that answer when it says so
		if second.ID != first.ID || second.Edits == 0 {
			t.Errorf("got %+v after %+v, want an edit of it", second, first)
		}
		wantServed(t, w.site, "shop--pr-12", "/", "two")
		wantServed(t, w.site, "shop--"+string(run.Release), "/", "two")
		wantText(t, told{second.Body}, "1 file changed, 1 added (+3 B)", " of 2 files uploaded · ")

		h.git("reset", "--quiet", "--hard", string(one))
		w.hears(h.send("feature"), h.pull("synchronize", 12, "feature"))
		back, _ := w.runOf("shop", one)
		// A commit that has its release already needs no run, and the comment says that it is the head again.
		w.says(h, 12, w.ready("shop", back)...)

		w.hears(h.pull("closed_unmerged", 12, "feature"))
		w.says(h, 12, "### shop · closed", "| Commit | "+one.Short()+" |")
		h.send("feature")
		w.hears(h.pull("reopened", 12, "feature"))
		w.says(h, 12, w.ready("shop", back)...)
		wantServed(t, w.site, "shop--pr-12", "/", "one")
	})

	t.Run("two apps of a repository", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h := w.host(t, "harbor/mono")
		for _, name := range []string{"left", "right"} {
			w.call(http.MethodPost, "/apps", client.NewApp{Name: name, Repository: h.clone(), Branch: "main", Folder: name}, nil)
			h.write(name+"/index.html", "zero")
		}
		h.commit("zero")
		w.hears(h.send("main"))
		h.git("switch", "--quiet", "-c", "feature")
		h.write("left/index.html", "left", "right/specs/app.yaml", appSpec("right", "colour: red"))
		one := h.commit("one")
		w.hears(h.send("feature"), h.pull("opened", 12, "feature"))
		left := wantEnds(t, w, "left", one, landfall.RunSucceeded)
		right := wantEnds(t, w, "right", one, landfall.RunFailed)
		comment := w.says(h, 12, append(w.ready("left", left), "### right · failed", "| Run | "+w.runPage(right.ID)+" |", "colour")...)
		if strings.Index(comment.Body, "### left") > strings.Index(comment.Body, "### right") {
			t.Errorf("the sections are not in order:\n%s", comment.Body)
		}
	})

	t.Run("a failed build", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("broken")
		one := w.opened(h)
		wantEnds(t, w, "broken", one, landfall.RunSucceeded)
		h.write("specs/app.yaml", appSpec("broken", "build: {command: 'echo \"<b>|@mira\"; false', outputs: [out]}"))
		two, push := h.release("two")
		w.hears(push, h.pull("synchronize", 12, "feature"))
		run := wantEnds(t, w, "broken", two, landfall.RunFailed)
		// The reason comes through as text only, and the address goes on showing the commit before.
		comment := w.says(h, 12, "### broken · failed", "| Run | "+w.runPage(run.ID)+" |", "(still "+one.Short()+")", "<code>the build command of the app")
		if strings.Contains(comment.Body, "<b>") || strings.Contains(comment.Body, "@") {
			t.Errorf("markup comes through:\n%s", comment.Body)
		}
		wantServed(t, w.site, "broken--pr-12", "/", "one")
	})

	t.Run("a build that throws", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("throws")
		w.opened(h)
		h.write("specs/app.yaml", appSpec("throws", "build: {command: node build.js, inputs: [build.js], outputs: [out]}"),
			"build.js", "function render() {\n  throw new TypeError('the page about.md has no title');\n}\nrender();\n")
		two, push := h.release("two")
		w.hears(push, h.pull("synchronize", 12, "feature"))
		run := wantEnds(t, w, "throws", two, landfall.RunFailed)
		const reason = "the build command of the app failed with exit code 1: TypeError: the page about.md has no title"
		// K-011: the line that names the error is the reason in the run, in the commit status, in the comment and on the page
		wantEqual(t, "the run's reason", run.Reason, reason)
		wantTold(t, w, two, landfall.StatusFailure, w.runPage(run.ID), reason)
		comment := w.says(h, 12, "### throws · failed", "| Run | "+w.runPage(run.ID)+" |")
		wantText(t, told{html.UnescapeString(strings.ReplaceAll(comment.Body, "<!-- -->", ""))}, reason)
		wantText(t, told{html.UnescapeString(w.readAs(w.runPage(run.ID)).body)}, reason)
	})

	t.Run("deleted by somebody", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("gone")
		one := w.opened(h)
		first := w.says(h, 12, w.ready("gone", wantEnds(t, w, "gone", one, landfall.RunSucceeded))...)
		w.api.DeleteComment(first.ID)
		two, push := h.release("two")
		w.hears(push)
		if second := w.says(h, 12, w.ready("gone", wantEnds(t, w, "gone", two, landfall.RunSucceeded))...); second.ID == first.ID {
			t.Errorf("got %+v, want another comment", second)
		}
	})

	t.Run("a fork", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("forked")
		one := w.opened(h)
		w.hears(h.pull("opened_fork", 13, "feature"), h.pull("synchronize_fork_deleted", 13, "feature"), h.pull("closed_fork_deleted", 13, "feature"))
		w.says(h, 12, w.ready("forked", wantEnds(t, w, "forked", one, landfall.RunSucceeded))...)
		if got := w.api.Comments(h.name, 13); len(got) != 0 {
			t.Errorf("a fork's pull request has %+v, want no comment", got)
		}
	})
}

// Where comments are turned off, commits get their statuses, and nothing else.
func TestCommentsTurnedOff(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t, "LANDFALL_GITHUB_COMMENTS=false")
	h, _ := w.follow("shop")
	one := w.opened(h)
	run := wantEnds(t, w, "shop", one, landfall.RunSucceeded)
	wantTold(t, w, one, landfall.StatusSuccess, w.at("shop--"+string(run.Release), "/"))
	w.quiet("shop")
	w.stop()
	// L-026: silent mode
	wantEqual(t, "requests beside the four statuses", w.api.Requests()-len(w.api.Statuses("")), 0)
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
			w := newReportingWorld(t)
			h, _ := w.follow("shop")
			// The two commits' four statuses, who we are, what is there, and the comment: whichever of them it hits.
			for _, n := range []int{5, 7, 9} {
				w.api.Fail(n, fault)
			}
			one := w.opened(h)
			// L-024: what GitHub asks for is waited for, and nothing is lost
			w.says(h, 12, w.ready("shop", wantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
			wantServed(t, w.site, "shop--pr-12", "/", "one")
		})
	}
}

// A server that dies between a comment and its record finds the comment again.
func TestCommentsAfterKill(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"report.commenting", "report.commented", "report.told"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newReportingWorld(t)
			h, _ := w.follow("shop")
			w.stop()
			w.start("LANDFALL_CRASH=" + point)
			one := w.opened(h)
			w.dies()
			before := w.api.Comments(h.name, 12)
			wantEqual(t, "number of comments when it died", len(before), map[bool]int{true: 0, false: 1}[point == "report.commenting"])
			w.start()
			comment := w.says(h, 12, w.ready("shop", wantEnds(t, w, "shop", one, landfall.RunSucceeded))...)
			// L-023: what is owed outlives the process, and is told once
			if len(before) == 1 && before[0].ID != comment.ID {
				t.Errorf("got %+v after %+v, want the same comment", comment, before)
			}
			wantServed(t, w.site, "shop--pr-12", "/", "one")
		})
	}
}
