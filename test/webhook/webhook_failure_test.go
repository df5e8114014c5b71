package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// functionsOf returns how many functions an app has.
func functionsOf(s *site.Site, app string) (n int) {
	s.T.Helper()
	for _, f := range site.List[client.Unit](s, "/functions?limit=1000") {
		if f.App == app {
			n++
		}
	}
	return n
}

// A push that cannot become a release ends with a reason, leaves nothing behind, and the next good push works.
func TestWebhookFailures(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)

	// recovers pushes a good page, and fails the test unless it becomes live.
	recovers := func(t *testing.T, w *forge.World, h *forge.Hosted, app string) {
		t.Helper()
		h.Git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
		good, push := h.Release("good")
		w.Hears(push)
		run := forge.WantEnds(t, w, app, good, landfall.RunSucceeded)
		site.WantServed(t, w.Site, app, "/", "good")
		live := w.WasLive(app)
		testkit.Equal(t, "newest live release", live[len(live)-1], run.Release)
	}

	t.Run("specs that are wrong", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("wrong-specs")
		h.Write("specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml", site.FunctionSpec("hello"),
			"hello/main.py", "one", "specs/app.yaml", site.AppSpec("wrong-specs", "colour: red"), "site/index.html", "one")
		bad := h.Commit("Wrong")
		w.Hears(h.Send("main"))
		// P-010: it ends as failed, with file and line
		run := forge.WantEnds(t, w, "wrong-specs", bad, landfall.RunFailed, "specs/app.yaml:7", "colour")
		p := w.ReadAs(w.RunPage(run.ID))
		// P-010: the run's address shows the log with the reason
		if p.Status != http.StatusOK || !strings.Contains(p.Body, "specs/app.yaml:7") ||
			!strings.Contains(p.Body, string(bad)) {
			t.Errorf("the run's page answers %d %q, want the log with the reason", p.Status, p.Body)
		}
		// L-012: nothing of the good units was made
		testkit.Equal(t, "group versions", len(site.List[client.Group](w.Site, "/apps/wrong-specs/groups")), 0)
		testkit.Equal(t, "functions", functionsOf(w.Site, "wrong-specs"), 0)
		testkit.Equal(t, "stored objects", len(w.Stored("wrong-specs")), 0)

		h.Write("specs/app.yaml", site.AppSpec("wrong-specs"), "specs/hello.yaml",
			strings.Replace(site.FunctionSpec("hello"), "packageref: {name: hello-pkg}", "packageref: {name: goodbye-pkg}", 1))
		half := h.Commit("One function of two is wrong")
		w.Hears(h.Send("main"))
		// L-012: one unit that is wrong is a failure of the whole
		forge.WantEnds(t, w, "wrong-specs", half, landfall.RunFailed, "goodbye-pkg")

		built := func(name, command string) string {
			return strings.Replace(site.FunctionSpec(name), `deployment: {url: "archive://`+name+`"}`,
				`source: {url: "archive://`+name+"\"}\n  buildcmd: \""+command+`"`, 1)
		}
		h.Write("specs/hello.yaml", built("hello", "cp -r $SRC_PKG $DEPLOY_PKG"), "specs/bye.yaml", built("bye", "exit 3"),
			"bye/main.py", "one")
		broken := h.Commit("One package of two cannot be built")
		w.Hears(h.Send("main"))
		// L-012: one package of two that fails to build is a failure of the whole, and nothing of the other is made
		forge.WantEnds(t, w, "wrong-specs", broken, landfall.RunFailed, "bye-pkg")
		testkit.Equal(t, "group versions", len(site.List[client.Group](w.Site, "/apps/wrong-specs/groups")), 0)
		testkit.Equal(t, "functions", functionsOf(w.Site, "wrong-specs"), 0)
		recovers(t, w, h, "wrong-specs")
	})

	t.Run("nothing to serve", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("nothing")
		h.Write("README", "nothing")
		bad := h.Commit("Nothing to serve")
		push := h.Send("main")
		h.Bare.Git("update-ref", "-d", "refs/heads/main")
		w.Hears(push)
		// N-007: an empty repository
		forge.WantEnds(t, w, "nothing", bad, landfall.RunFailed, "is empty", "push a commit first")
		h.Write("LICENSE", "nothing")
		bad = h.Commit("Nothing to serve")
		w.Hears(h.Send("main"))
		// N-007: neither specs nor a page
		forge.WantEnds(t, w, "nothing", bad, landfall.RunFailed, "neither spec files in specs/ nor an index.html")
		// N-007: nothing was made
		testkit.Equal(t, "group versions", len(site.List[client.Group](w.Site, "/apps/nothing/groups")), 0)
		site.WantStatus(t, w.Site, "nothing", http.StatusNotFound)
		recovers(t, w, h, "nothing")
	})

	t.Run("a commit that is gone", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("gone")
		_, push := h.Release("one")
		lost := landfall.CommitSHA("c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b")
		w.Hears(push.With(t, func(payload map[string]any) {
			payload["after"], forge.Object(t, payload, "head_commit")["id"] = lost, lost
		}))
		// N-006: the run ends and says what to do
		forge.WantEnds(t, w, "gone", lost, landfall.RunFailed, lost.Short(), "main", "push again")
		recovers(t, w, h, "gone")
	})

	t.Run("a repository that is gone", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("moved")
		h.Forge.Rule(h.Name, forge.Rule{Status: http.StatusNotFound})
		one, push := h.Release("one")
		w.Hears(push)
		// N-006: it is final at once
		run := forge.WantEnds(t, w, "moved", one, landfall.RunFailed, h.Clone(), "--repo-token-file")
		site.Attempts(t, run, 1)
		h.Forge.Rule(h.Name, forge.Rule{})
		recovers(t, w, h, "moved")
	})

	t.Run("credentials", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		const right = "github_pat_the_right_one"
		for app, password := range map[string]string{"no-token": "", "wrong-token": "github_pat_another",
			"right-token": right} {
			h := w.Host(t, "harbor/"+app)
			h.Forge.Rule(h.Name, forge.Rule{Password: right})
			w.Call(http.MethodPost, "/apps", client.NewApp{Name: app, Repository: h.Clone(), Branch: "main", Password: password},
				nil)
			one, push := h.Release("one")
			w.Hears(push)
			if password == right {
				forge.WantEnds(t, w, app, one, landfall.RunSucceeded)
				continue
			}
			// N-006: it is final at once, and says what to do
			run := forge.WantEnds(t, w, app, one, landfall.RunError, h.Clone(), "--repo-token-file")
			site.Attempts(t, run, 1)
			if strings.Contains(run.Reason, "github_pat") {
				t.Errorf("%s: the reason shows the token: %s", app, run.Reason)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(right+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			said, code := w.Run(h.Dir, "app", "set", app, "--repo-token-file", file)
			testkit.Equal(t, "exit code of app set: "+said, code, 0)
			retried, _ := w.Run(h.Dir, "run", "retry", run.ID)
			// N-006: with a new token the same commit is released, and the app goes on as if nothing had been.
			forge.WantEnds(t, w, app, one, landfall.RunSucceeded)
			recovers(t, w, h, app)
			shown, _ := w.Run(h.Dir, "app", "show", app)
			if !strings.Contains(shown, "set on 20") {
				t.Errorf("%s: app show says %s, want when the token was set", app, shown)
			}
			inJSON, _ := w.Run(h.Dir, "app", "show", app, "-o", "json")
			// E-041: a token is neither shown nor logged.
			testkit.Equal(t, "the token is shown or logged",
				strings.Contains(said+retried+shown+inJSON+w.Log.String(), "github_pat"), false)
		}
		removed, code := w.Run(t.TempDir(), "app", "set", "no-token", "--no-repo-token")
		testkit.Equal(t, "exit code of app set --no-repo-token: "+removed, code, 0)
		testkit.Equal(t, "a removed token is shown as set", strings.Contains(removed, "set on"), false)
		w.App("built-in")
		err := w.Refused(http.MethodPut, "/apps/built-in/credentials", client.Credentials{Password: right})
		site.WantRefused(t, err, landfall.Invalid, "built-in remote")
		said, code := w.Run(t.TempDir(), "app", "set", "right-token")
		testkit.Equal(t, "exit code without a file: "+said, code, 2)
	})

	t.Run("a forge that is down for a moment", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("moment")
		h.Forge.Rule(h.Name, forge.Rule{Status: http.StatusBadGateway})
		one, push := h.Release("one")
		w.Hears(push)
		w.Eventually("the run waits to be tried again", func() bool {
			run, _ := w.RunOf("moment", one)
			return strings.HasPrefix(run.Reason, "Trying again: ") && strings.Contains(run.Reason, "502")
		})
		h.Forge.Rule(h.Name, forge.Rule{})
		// N-006: it is tried again by itself
		forge.WantEnds(t, w, "moment", one, landfall.RunSucceeded, "Released")
		site.WantServed(t, w.Site, "moment", "/", "one")
	})

	t.Run("a forge that is down for long", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("long")
		h.Forge.Rule(h.Name, forge.Rule{Silent: true})
		one, push := h.Release("one")
		w.Hears(push)
		// N-006: an unreachable repository ends the run in the end, which says what to do
		run := forge.WantEnds(t, w, "long", one, landfall.RunError,
			strings.TrimPrefix(w.Address, "http://")+" cannot be reached", "push again", "run retry")
		site.Attempts(t, run, 6)
		h.Forge.Rule(h.Name, forge.Rule{})
		recovers(t, w, h, "long")
	})
}

// A commit that is too large fails and names limit, figure and setting.
func TestWebhookLimits(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t, "LANDFALL_MAX_FILES=20", "LANDFALL_MAX_COMMIT_BYTES=100000", "LANDFALL_MAX_FILE_BYTES=50000")
	h, _ := w.Follow("large")
	fails := func(t *testing.T, what string, parts ...string) {
		t.Helper()
		bad := h.Commit(what)
		w.Hears(h.Send("main"))
		forge.WantEnds(t, w, "large", bad, landfall.RunFailed, parts...)
		h.Git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
	}
	for i := range 21 {
		h.Write("many/"+string(rune('a'+i)), "x")
	}
	// N-008: too many files
	fails(t, "21 files", "the commit has 21 files", "the limit is 20", "LANDFALL_MAX_FILES")
	for _, name := range []string{"a", "b", "c"} {
		h.Write(name, strings.Repeat(name, 40_000))
	}
	// N-008: too many bytes together
	fails(t, "120,000 bytes", "120000", "100", "LANDFALL_MAX_COMMIT_BYTES")
	h.Write("a", strings.Repeat("a", 60_000))
	// N-008: too many bytes in one file
	fails(t, "60,000 bytes in one", "60000", "50", "LANDFALL_MAX_FILE_BYTES")
	good, push := h.Release("good")
	w.Hears(push)
	forge.WantEnds(t, w, "large", good, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "large", "/", "good")
}

// Specs that are too large fail and name limit and figure.
func TestWebhookSpecLimits(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("wordy")
	spec := site.AppSpec("wordy") + "#" + strings.Repeat("x", 9<<20)
	h.Write("index.html", "x", "specs/app.yaml", spec)
	bad := h.Commit("9 MiB of specs")
	w.Hears(h.Send("main"))
	// N-008: specs over the limit
	forge.WantEnds(t, w, "wordy", bad, landfall.RunFailed, fmt.Sprintf("spec files: %d bytes", len(spec)),
		"the limit is 8388608", "LANDFALL_MAX_SPEC_BYTES")
}

// What is being delivered while the server stops is stored: GitHub does not send it again.
func TestWebhookWhileTheServerStops(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	commit, push := h.Release("page")
	body, sent := io.Pipe()
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Installation().URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength, r.Header = int64(len(push.Body)), forge.Signature(forge.WebhookSecret, push.Body)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Expect": "100-continue", "X-Github-Delivery": push.ID,
		"X-Github-Event": push.Event} {
		r.Header.Set(name, value)
	}
	transport := client.LocalTransport()
	transport.ExpectContinueTimeout = testkit.Patience
	answers := make(chan string, 1)
	go func() {
		resp, err := transport.RoundTrip(r)
		if err != nil {
			answers <- err.Error()
			return
		}
		_ = resp.Body.Close()
		answers <- resp.Status
	}()
	select {
	case <-reading:
	case early := <-answers:
		t.Fatal(early)
	}
	if err := w.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the server stops", func() bool { return strings.Contains(w.Log.String(), `"stopping"`) })
	if _, err := sent.Write(push.Body); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "answer", <-answers, "202 Accepted")
	<-w.Done
	w.Start()
	forge.WantEnds(t, w, "shop", commit, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/", "page")
}
