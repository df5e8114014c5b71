package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// The timeline has all that happened, newest first: what was made, who moved what where and why, and what failed. What
// moved because of a push stands with its release.
func TestTimeline(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	run := p.begin(app, "main")
	p.end(run, landfall.RunFailed, "It broke")
	p.update(func(tx *store.Tx) error {
		for i, m := range []landfall.Move{
			{Pointer: "tag branch-main", From: "aaaaaaaa", To: "bbbbbbbb", Actor: "ada", Reason: "push of bbbbbbb",
				At: noon.Add(time.Minute)},
			{Pointer: "tag beta", To: "aaaaaaaa", Actor: "grace", Reason: "for the testers", At: noon.Add(2 * time.Minute)},
			{Pointer: "live", From: "bbbbbbbb", To: "aaaaaaaa", Actor: "linus", Reason: "too slow",
				At: noon.Add(3 * time.Minute), Back: true},
			{Pointer: "tag beta", From: "aaaaaaaa", Actor: "grace", Reason: "untagged", At: noon.Add(4 * time.Minute)},
		} {
			m.App = app.ID
			if err := tx.CreateMove(t.Context(), m); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	})
	p.signIn(readerToken)
	a := p.get("/apps/shop")
	_, timeline, _ := strings.Cut(a.body, `id="part-timeline"`)
	at := 0
	for _, want := range []string{
		"<strong>Removed</strong>", "grace · untagged", "<strong>Rolled back</strong>", "linus · too slow",
		"<strong>Set</strong>", "grace · for the testers", "bbbbbbbb", "Release bbbbbbbb", "ada moved branch-main",
		"aaaaaaaa", "Release aaaaaaaa",
	} {
		i := strings.Index(timeline[at:], want)
		if i < 0 {
			t.Fatalf("got no %q behind what comes before it, in:\n%s", want, timeline)
		}
		at += i
	}
	p.want(a, http.StatusOK, "It broke")
	if strings.Contains(timeline, "push of bbbbbbb") {
		t.Error("a move that came with its release stands by itself, too")
	}
}

// A long history has pages, on which nothing is left out and nothing is there twice.
func TestLongTimeline(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	p.update(func(tx *store.Tx) error {
		for i := range 100 {
			at := noon.Add(time.Duration(i+10) * time.Minute)
			uid := landfall.UID(fmt.Sprintf("r%07d", i))
			g := landfall.Group{UID: uid, App: app.ID, Commit: landfall.CommitSHA(fmt.Sprintf("%040x", i)), Branch: "main",
				Message: fmt.Sprintf("Number %d.", i), Created: at}
			if err := tx.CreateGroup(t.Context(), g, nil); err != nil {
				return err
			}
			m := landfall.Move{App: app.ID, Pointer: "tag beta", To: uid, Actor: "ada", Reason: fmt.Sprintf("move %d.", i),
				At: at.Add(time.Second)}
			if err := tx.CreateMove(t.Context(), m); err != nil {
				return err
			}
		}
		return nil
	})
	p.signIn(readerToken)
	all, path := "", "/apps/shop"
	for range 5 {
		a := p.get(path)
		p.want(a, http.StatusOK)
		_, timeline, _ := strings.Cut(a.body, `id="part-timeline"`)
		all += timeline
		_, rest, more := strings.Cut(timeline, `href="?before=`)
		if !more {
			break
		}
		before, _, _ := strings.Cut(rest, `"`)
		path = "/apps/shop?before=" + before
	}
	for i := range 100 {
		for _, what := range []string{fmt.Sprintf("Number %d.", i), fmt.Sprintf("move %d.", i)} {
			if n := strings.Count(all, what); n != 1 {
				t.Errorf("%q is there %d times", what, n)
			}
		}
	}
	if !strings.Contains(all, "Release aaaaaaaa") {
		t.Error("the first release is not there")
	}
}

// What was in force is found by a commit, a release and a time, and what is wrong with what was asked for is said.
func TestState(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	p.signIn(readerToken)
	p.want(p.get("/apps/shop/state"), http.StatusOK, "Nothing was applied to production yet.", `name="at"`)
	p.update(func(tx *store.Tx) error {
		for i, uid := range []landfall.UID{"aaaaaaaa", "bbbbbbbb"} {
			apply := landfall.Apply{App: app.ID, Group: uid, Line: landfall.Production, Ref: "refs/heads/main", Actor: "ada",
				Created: noon.Add(time.Duration(i) * time.Minute)}
			if err := tx.CreateApply(t.Context(), apply); err != nil {
				return err
			}
		}
		return nil
	})
	p.want(p.get("/apps/shop"), http.StatusOK, `href="/apps/shop/state"`)
	for at, want := range map[string]string{
		"aaaaaaa": "aaaaaaaa", "live": "bbbbbbbb", "2026-11-20 12:00": "aaaaaaaa", "2026-11-20 12:01:00": "bbbbbbbb",
		"2026-11-20T12:00:59Z": "aaaaaaaa", "2026-11-21": "bbbbbbbb",
	} {
		p.want(p.get("/apps/shop/state?at="+url.QueryEscape(at)), http.StatusOK, `value="`+at+`"`,
			`diff?from=`+want+`&amp;to=live`, "It has no unit.")
	}
	p.want(p.get("/apps/shop/state?at=2026-11-20+12:00"), http.StatusOK, "Visitors got", `releases/aaaaaaaa"`)
	p.pass(time.Hour)
	p.want(p.get("/apps/shop/state"), http.StatusOK, "diff?from=bbbbbbbb")
	p.want(p.get("/apps/shop/state?at=2026-11-19"), http.StatusNotFound, `value="2026-11-19"`,
		"nothing was applied to production before 2026-11-19T00:00:00Z")
	p.want(p.get("/apps/shop/state?at="+url.QueryEscape(`"><b>`)), http.StatusNotFound, "no release, tag or commit",
		"value=\"&#34;&gt;&lt;b&gt;\"")
	p.want(p.get("/apps/none/state"), http.StatusNotFound, "there is no app")
	p.cookie = nil
	p.want(p.get("/apps/shop/state?at=live"), http.StatusSeeOther)
}

// Numbers are drawn, and stand in a table beside the drawing.
func TestCharts(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	if strings.Contains(p.getAs(readerToken, "/apps/shop").body, "<figure") {
		t.Error("there is a chart of nothing")
	}
	for i, took := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 65 * time.Second, 4 * time.Hour,
		5 * time.Hour, 75 * time.Millisecond} {
		branch := "main"
		if i == 3 { // a preview does not become live
			branch = "feature"
		}
		again := i == 4 // a rebuild, of what was live before
		p.update(func(tx *store.Tx) error {
			run := landfall.Run{
				ID: fmt.Sprint("run", i), App: app.ID, Commit: landfall.CommitSHA(strings.Repeat(fmt.Sprint(i), 40)),
				Branch: branch, State: landfall.RunQueued, UID: landfall.UID(fmt.Sprint("uuuuuuu", i)),
				Created: noon.Add(time.Duration(i-9) * time.Hour)}
			if err := tx.CreateRun(t.Context(), run); err != nil {
				return err
			}
			run.State, run.Release, run.Finished = landfall.RunSucceeded, run.UID, run.Created.Add(took)
			run.Stats = landfall.RunStats{Files: 10, FilesUploaded: 1, Bytes: 1_000_000, BytesUploaded: 2500, New: !again}
			return tx.FinishRun(t.Context(), run)
		})
	}
	a := p.get("/apps/shop")
	// of 75 ms, 300 ms, 2 s and 65 s the median is between the two in the middle
	p.want(a, http.StatusOK, "<strong>1.1 s</strong>", "<strong>5.0 MB</strong>", "saved, 12 kB uploaded",
		"<strong>5</strong>", "in 30 days", "<td>1 min 5 s</td>", "<td>998 kB</td>", "<title>0000000: 300 ms</title>",
		`role="img" aria-labelledby="chart-time"`, "<td>2026-11-20</td><td>5</td>")
	if strings.Contains(a.body, "4444444: 5 h") {
		t.Error("a run that came to a release that was there counts as one that made it")
	}
}

// getAs signs in and asks for a page.
func (p *pages) getAs(token, path string) answer {
	p.t.Helper()
	p.signIn(token)
	return p.get(path)
}
