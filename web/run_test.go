package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// begin makes a run that is at work, with what its log says so far.
func (p *pages) begin(app landfall.App, branch string, lines ...string) landfall.Run {
	p.t.Helper()
	ctx := p.t.Context()
	run := landfall.Run{
		ID: uuid.NewString(), App: app.ID, Commit: landfall.CommitSHA(strings.Repeat("c", 40)), Branch: branch,
		State: landfall.RunQueued, UID: "cccccccc", Created: noon}
	p.update(func(tx *store.Tx) error {
		if err := tx.CreateRun(ctx, run); err != nil {
			return err
		}
		var err error
		if run, err = tx.Lease(ctx, run.ID, "worker", noon, noon.Add(time.Hour), 4); err != nil {
			return err
		}
		if err := tx.StartStep(ctx, run.ID, run.Attempt, landfall.StepBuild, noon); err != nil {
			return err
		}
		return tx.AppendLog(ctx, run.ID, landfall.StepBuild, noon, lines...)
	})
	return run
}

// end ends a run.
func (p *pages) end(run landfall.Run, state landfall.RunState, reason string) {
	p.t.Helper()
	run.State, run.Reason, run.Finished = state, reason, noon.Add(time.Second)
	p.update(func(tx *store.Tx) error { return tx.FinishRun(p.t.Context(), run) })
}

// Colours of a build become classes. Whatever else is in its log is text, and nothing moves what it did not write.
func TestLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"plain", "plain"},
		{"\x1b[31mred\x1b[0m and plain", `<span class="fg1">red</span> and plain`},
		{"\x1b[1;32mgreen\x1b[22m thin\x1b[39m", `<span class="bold fg2">green</span><span class="fg2"> thin</span>`},
		{"\x1b[mplain", "plain"},
		{"\x1b[97;44mlight", `<span class="fg15 bg4">light</span>`},
		{"\x1b[3;4mstroke\x1b[23;24m", `<span class="italic underlined">stroke</span>`},
		{"\x1b[38;5;9mnine\x1b[38;5;200m still\x1b[38;2;1;2;3;1m true",
			`<span class="fg9">nine</span><span class="fg9"> still</span><span class="bold fg9"> true</span>`},
		{"\x1b[2K\x1b[1Gline", "line"},
		{"\x1b]0;a title\atext", "text"},
		{"\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1b]0;it has no end", "0;it has no end"},
		{"\x1b", ""},
		{"\x1b[", ""},
		{"\x1b[31", ""},
		{"\x1b[3\x1b[31mred", `<span class="fg1">red</span>`},
		{"tab\there", "tab\there"},
		{"50%\r100%\a", `50%\r100%\a`},
		{"\u202eevil\u2066", `\u202eevil\u2066`},
		{"\xff", "\ufffd"},
		{`<script>alert(1)</script>`, "&lt;script&gt;alert(1)&lt;/script&gt;"},
		{"\x1b[31m\"><img src=x onerror=alert(1)>", `<span class="fg1">&#34;&gt;&lt;img src=x onerror=alert(1)&gt;</span>`},
		{"</span></li></ol>", "&lt;/span&gt;&lt;/li&gt;&lt;/ol&gt;"},
		{"{{.Token}}", "{{.Token}}"},
	} {
		t.Run(fmt.Sprintf("%.20q", c.line), func(t *testing.T) {
			t.Parallel()
			p := newPages(t, home)
			run := p.begin(p.shop(), "main", c.line)
			p.signIn(readerToken)
			p.want(p.get("/runs/"+run.ID), http.StatusOK, `<span class="said">`+c.want+"</span></li>")
		})
	}
}

// Names, messages and reasons from outside are text on every page, whatever they look like, and do not go on for ever.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m{{1}} javascript:alert(3) " +
		"@everyone "
	p := newPages(t, home)
	app := p.shop()
	long := evil + strings.Repeat("x", 10_000)
	run := p.begin(app, long, long)
	p.end(run, landfall.RunFailed, long)
	p.update(func(tx *store.Tx) error {
		ctx := t.Context()
		group := landfall.Group{UID: "dddddddd", App: app.ID, Commit: landfall.CommitSHA(strings.Repeat("d", 40)),
			Branch: long, Message: long, Actor: long, Created: noon}
		if err := tx.CreateGroup(ctx, group, nil); err != nil {
			return err
		}
		if err := tx.PutRelease(ctx, landfall.Release{ID: group.UID, App: app.ID, Line: landfall.Preview,
			Commit: group.Commit, Branch: long, Created: noon}); err != nil {
			return err
		}
		if err := tx.PutTag(ctx, landfall.Tag{App: app.ID, Name: long, Kind: landfall.GitTag, Release: group.UID,
			Moved: noon}); err != nil {
			return err
		}
		return tx.CreateMove(ctx, landfall.Move{App: app.ID, Pointer: "tag " + long, To: group.UID, Actor: long,
			Reason: long, At: noon})
	})
	p.signIn(adminToken)
	for _, path := range []string{
		"/", "/apps/shop", "/apps/shop/releases/dddddddd", "/apps/shop/diff?from=dddddddd&to=live",
		"/apps/shop/promote?release=dddddddd", "/runs/" + run.ID, "/apps/shop?done=" + "%22%3E%3Cscript%3E",
		"/%3Cscript%3Ealert(1)%3C/script%3E",
	} {
		a := p.get(path)
		body := strings.ReplaceAll(a.body, `<script src="/static/`, "")
		for _, bad := range []string{"<script", "<img", "\u202e", "\x1b"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q in it", path, bad)
			}
		}
		if path != "/runs/"+run.ID && strings.Contains(body, strings.Repeat("x", 1000)) {
			t.Errorf("%s shows all of a name of 10,000 characters", path)
		}
	}
	p.want(p.get("/apps/shop"), http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt;")
}

// The page of a run that failed says why, where and for which commit: commit statuses lead there.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	run := p.begin(p.shop(), "main", "reading")
	p.end(run, landfall.RunFailed, "specs/app.yaml:7: unknown field \x1b[31mcolour\x1b[0m\nspecs/app.yaml:9: "+
		strings.Repeat("x", 1000)+" is too long")
	p.signIn(readerToken)
	p.want(p.get("/runs/"+run.ID), http.StatusOK, "specs/app.yaml:7: unknown field colour\nspecs/app.yaml:9: x",
		"x is too long</p>", string(run.Commit), "failed", `href="/apps/shop"`)

	// So it does for a program that has the token.
	p.cookie = nil
	r := httptest.NewRequest(http.MethodGet, home+"/runs/"+run.ID, nil)
	r.Header.Set("Authorization", "Bearer "+readerToken)
	p.want(p.ask(r), http.StatusOK, "specs/app.yaml:7", string(run.Commit))
}

// One token follows no more pages at a time than a bound; every page is there without that.
func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	page := "/runs/" + p.begin(p.shop(), "main", "reading").ID
	p.signIn(readerToken)
	const most = 100
	for range most {
		p.follow(page)
	}
	r := httptest.NewRequest(http.MethodGet, home+page, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(p.cookie)
	a := httptest.NewRecorder()
	p.handler.ServeHTTP(a, r)
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != "1" ||
		!strings.Contains(a.Body.String(), "100 requests of the token") {
		t.Errorf("got %d, Retry-After %q: %s", a.Code, a.Header().Get("Retry-After"), a.Body)
	}
	p.want(p.get(page), http.StatusOK, "reading")
}

// A long log begins near its end, and can be asked for whole.
func TestLongLog(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	lines := make([]string, 2500)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d.", i+1)
	}
	run := p.begin(p.shop(), "main", lines...)
	p.signIn(readerToken)
	a := p.get("/runs/" + run.ID)
	p.want(a, http.StatusOK, "500 earlier lines left out", "line 501.", "line 2500.", `href="?log=all"`)
	if strings.Contains(a.body, "line 500.") {
		t.Error("a line is there that was said to be left out")
	}
	p.want(p.get("/runs/"+run.ID+"?log=all"), http.StatusOK, "line 1.", "line 2500.")
}

// follower is a browser that follows a page.
type follower struct {
	p      *pages
	events chan string
}

// follow follows a page as a browser does.
func (p *pages) follow(path string) *follower {
	p.t.Helper()
	server := httptest.NewServer(p.handler)
	p.t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(p.t.Context())
	p.t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(p.cookie)
	resp, err := server.Client().Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		p.t.Fatalf("got %d, %q", resp.StatusCode, got)
	}
	f := &follower{p, make(chan string, 100)}
	go func() {
		defer close(f.events)
		defer resp.Body.Close()
		text, buffer := "", make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buffer)
			text += string(buffer[:n])
			for {
				event, rest, whole := strings.Cut(text, "\n\n")
				if !whole {
					break
				}
				f.events <- event
				text = rest
			}
			if err != nil {
				return
			}
		}
	}()
	return f
}

// until waits for an event of a kind that says something.
func (f *follower) until(kind, says string) {
	f.p.t.Helper()
	for {
		select {
		case event, more := <-f.events:
			if !more {
				f.p.t.Fatalf("the stream ended before a %s that says %q", kind, says)
			}
			if strings.Contains(event, "event: "+kind+"\n") && strings.Contains(event, says) {
				return
			}
		case <-time.After(testkit.Patience):
			f.p.t.Fatalf("no %s came that says %q", kind, says)
		}
	}
}

// over waits until the stream has ended.
func (f *follower) over() {
	f.p.t.Helper()
	for {
		select {
		case _, more := <-f.events:
			if !more {
				return
			}
		case <-time.After(testkit.Patience):
			f.p.t.Fatal("the stream does not end")
		}
	}
}

// A run's page grows while the run goes on, and stops when it is over.
func TestFollowRun(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	run := p.begin(p.shop(), "main", "one", "two")
	p.signIn(readerToken)
	f := p.follow("/runs/" + run.ID + "?after=1")
	f.until("part", "running")
	f.until("log", "two")
	p.update(func(tx *store.Tx) error {
		return tx.AppendLog(t.Context(), run.ID, landfall.StepBuild, noon, "<b>three")
	})
	f.until("log", `\u0026lt;b\u0026gt;three`)
	p.end(run, landfall.RunFailed, "It broke")
	f.until("part", "It broke")
	f.until("end", "")
	f.over()

	p.want(p.get("/runs/"+run.ID), http.StatusOK, "It broke", "three")
}

// The apps and the history of one follow what happens.
func TestFollowApps(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	app := p.shop()
	p.signIn(readerToken)
	apps, shop := p.follow("/"), p.follow("/apps/shop")
	apps.until("part", "bbbbbbbb")
	shop.until("part", "bbbbbbbb")
	run := p.begin(app, "feature")
	p.end(run, landfall.RunFailed, "It broke")
	apps.until("part", "failed")
	shop.until("part", "It broke")
}

// What was open when its reader signed out shows nothing more.
func TestFollowEndsWithTheSession(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(readerToken)
	f := p.follow("/")
	f.until("part", "shop")
	p.want(p.post("/sign-out", nil), http.StatusSeeOther)
	f.over()
}
