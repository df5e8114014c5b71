package main

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
)

// A push that cannot become a release ends with a reason, leaves nothing behind, and the next good push works.
func TestWebhookFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	// recovers pushes a good page, and fails the test unless it becomes live.
	recovers := func(t *testing.T, w *world, h *hosted, app string) {
		t.Helper()
		h.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
		good, push := h.release("good")
		w.hears(push)
		run := wantEnds(t, w, app, good, landfall.RunSucceeded)
		wantServed(t, w.site, app, "/", "good")
		live := w.wasLive(app)
		wantEqual(t, "newest live release", live[len(live)-1], run.Release)
	}

	t.Run("specs that are wrong", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("wrong-specs")
		h.write("specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "one",
			"specs/app.yaml", appSpec("wrong-specs", "colour: red"), "site/index.html", "one")
		bad := h.commit("Wrong")
		w.hears(h.send("main"))
		// P-010: it ends as failed, with file and line
		run := wantEnds(t, w, "wrong-specs", bad, landfall.RunFailed, "specs/app.yaml:7", "colour")
		p := w.readAs(w.runPage(run.ID))
		// P-010: the run's address shows the log with the reason
		if p.status != http.StatusOK || !strings.Contains(p.body, "specs/app.yaml:7") || !strings.Contains(p.body, string(bad)) {
			t.Errorf("the run's page answers %d %q, want the log with the reason", p.status, p.body)
		}
		// L-012: nothing of the good units was made
		wantEqual(t, "group versions", len(list[client.Group](w.site, "/apps/wrong-specs/groups")), 0)
		wantEqual(t, "functions", len(list[client.Unit](w.site, "/functions?app=wrong-specs")), 0)
		wantEqual(t, "stored objects", len(w.stored("wrong-specs")), 0)

		h.write("specs/app.yaml", appSpec("wrong-specs"), "specs/hello.yaml", strings.Replace(functionSpec("hello"), "packageref: {name: hello-pkg}", "packageref: {name: goodbye-pkg}", 1))
		half := h.commit("One function of two is wrong")
		w.hears(h.send("main"))
		// L-012: one unit that is wrong is a failure of the whole
		wantEnds(t, w, "wrong-specs", half, landfall.RunFailed, "goodbye-pkg")
		recovers(t, w, h, "wrong-specs")
	})

	t.Run("nothing to serve", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("nothing")
		h.write("README", "nothing")
		bad := h.commit("Nothing to serve")
		push := h.send("main")
		h.bare.git("update-ref", "-d", "refs/heads/main")
		w.hears(push)
		// N-007: an empty repository
		wantEnds(t, w, "nothing", bad, landfall.RunFailed, "is empty", "push a commit first")
		h.write("LICENSE", "nothing")
		bad = h.commit("Nothing to serve")
		w.hears(h.send("main"))
		// N-007: neither specs nor a page
		wantEnds(t, w, "nothing", bad, landfall.RunFailed, "neither spec files in specs/ nor an index.html")
		// N-007: nothing was made
		wantEqual(t, "group versions", len(list[client.Group](w.site, "/apps/nothing/groups")), 0)
		wantStatus(t, w.site, "nothing", http.StatusNotFound)
		recovers(t, w, h, "nothing")
	})

	t.Run("a commit that is gone", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("gone")
		_, push := h.release("one")
		lost := landfall.CommitSHA("c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b")
		w.hears(push.with(t, func(payload map[string]any) {
			payload["after"], object(t, payload, "head_commit")["id"] = lost, lost
		}))
		// N-006: the run ends and says what to do
		wantEnds(t, w, "gone", lost, landfall.RunFailed, lost.Short(), "main", "push again")
		recovers(t, w, h, "gone")
	})

	t.Run("a repository that is gone", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("moved")
		h.forge.rule(h.name, rule{status: http.StatusNotFound})
		one, push := h.release("one")
		w.hears(push)
		// N-006: it is final at once
		run := wantEnds(t, w, "moved", one, landfall.RunFailed, h.clone(), "--repo-token-file")
		attempts(t, run, 1)
		h.forge.rule(h.name, rule{})
		recovers(t, w, h, "moved")
	})

	t.Run("credentials", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		const right = "github_pat_the_right_one"
		for app, password := range map[string]string{"no-token": "", "wrong-token": "github_pat_another", "right-token": right} {
			h := w.host(t, "harbor/"+app)
			h.forge.rule(h.name, rule{password: right})
			w.call(http.MethodPost, "/apps", client.NewApp{Name: app, Repository: h.clone(), Branch: "main", Password: password}, nil)
			one, push := h.release("one")
			w.hears(push)
			if password == right {
				wantEnds(t, w, app, one, landfall.RunSucceeded)
				continue
			}
			// N-006: it is final at once, and says what to do
			run := wantEnds(t, w, app, one, landfall.RunError, h.clone(), "--repo-token-file")
			attempts(t, run, 1)
			if strings.Contains(run.Reason, "github_pat") {
				t.Errorf("%s: the reason shows the token: %s", app, run.Reason)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(right+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			said, code := w.run(h.dir, "app", "set", app, "--repo-token-file", file)
			wantEqual(t, "exit code of app set: "+said, code, 0)
			retried, _ := w.run(h.dir, "run", "retry", run.ID)
			// N-006: with a new token the same commit is released, and the app goes on as if nothing had been.
			wantEnds(t, w, app, one, landfall.RunSucceeded)
			recovers(t, w, h, app)
			shown, _ := w.run(h.dir, "app", "show", app, "-o", "json")
			// E-041: a token is neither shown nor logged.
			wantEqual(t, "the token is shown or logged", strings.Contains(said+retried+shown+w.log.String(), "github_pat"), false)
		}
		w.app("built-in")
		err := w.refused(http.MethodPut, "/apps/built-in/credentials", client.Credentials{Password: right})
		wantRefused(t, err, landfall.Invalid, "built-in remote")
		said, code := w.run(t.TempDir(), "app", "set", "right-token")
		wantEqual(t, "exit code without a file: "+said, code, 2)
	})

	t.Run("a forge that is down for a moment", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("moment")
		h.forge.rule(h.name, rule{status: http.StatusBadGateway})
		one, push := h.release("one")
		w.hears(push)
		w.eventually("the run waits to be tried again", func() bool {
			run, _ := w.runOf("moment", one)
			return strings.HasPrefix(run.Reason, "Trying again: ") && strings.Contains(run.Reason, "502")
		})
		h.forge.rule(h.name, rule{})
		// N-006: it is tried again by itself
		wantEnds(t, w, "moment", one, landfall.RunSucceeded, "Released")
		wantServed(t, w.site, "moment", "/", "one")
	})

	t.Run("a forge that is down for long", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("long")
		h.forge.rule(h.name, rule{silent: true})
		one, push := h.release("one")
		w.hears(push)
		// N-006: an unreachable repository ends the run in the end, which says what to do
		run := wantEnds(t, w, "long", one, landfall.RunError, strings.TrimPrefix(w.url, "http://")+" cannot be reached", "push again", "run retry")
		attempts(t, run, 6)
		h.forge.rule(h.name, rule{})
		recovers(t, w, h, "long")
	})
}

// attempts fails the test unless a run was tried so often.
func attempts(t *testing.T, run client.Run, want int64) {
	t.Helper()
	var last int64
	for _, step := range run.Steps {
		last = max(last, step.Attempt)
	}
	wantEqual(t, "attempts", last, want)
}

// A commit that is too large fails and names limit, figure and setting.
func TestWebhookLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LANDFALL_MAX_FILES=20", "LANDFALL_MAX_COMMIT_BYTES=100000", "LANDFALL_MAX_FILE_BYTES=50000")
	h, _ := w.follow("large")
	fails := func(t *testing.T, what string, parts ...string) {
		t.Helper()
		bad := h.commit(what)
		w.hears(h.send("main"))
		wantEnds(t, w, "large", bad, landfall.RunFailed, parts...)
		h.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
	}
	for i := range 21 {
		h.write("many/"+string(rune('a'+i)), "x")
	}
	// N-008: too many files
	fails(t, "21 files", "the commit has 21 files", "the limit is 20", "LANDFALL_MAX_FILES")
	for _, name := range []string{"a", "b", "c"} {
		h.write(name, strings.Repeat(name, 40_000))
	}
	// N-008: too many bytes together
	fails(t, "120,000 bytes", "120000", "100", "LANDFALL_MAX_COMMIT_BYTES")
	h.write("a", strings.Repeat("a", 60_000))
	// N-008: too many bytes in one file
	fails(t, "60,000 bytes in one", "60000", "50", "LANDFALL_MAX_FILE_BYTES")
	good, push := h.release("good")
	w.hears(push)
	wantEnds(t, w, "large", good, landfall.RunSucceeded)
	wantServed(t, w.site, "large", "/", "good")
}

// Specs that are too large fail and name limit and figure.
func TestWebhookSpecLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("wordy")
	spec := appSpec("wordy") + "#" + strings.Repeat("x", 9<<20)
	h.write("index.html", "x", "specs/app.yaml", spec)
	bad := h.commit("9 MiB of specs")
	w.hears(h.send("main"))
	// N-008: specs over the limit
	wantEnds(t, w, "wordy", bad, landfall.RunFailed, fmt.Sprintf("spec files: %d bytes", len(spec)), "the limit is 8388608", "LANDFALL_MAX_SPEC_BYTES")
}

// What is being delivered while the server stops is stored: GitHub does not send it again.
func TestWebhookWhileTheServerStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("shop")
	commit, push := h.release("page")
	body, sent := io.Pipe()
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.installation().url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength, r.Header = int64(len(push.body)), signature(webhookSecret, push.body)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Expect": "100-continue", "X-Github-Delivery": push.id, "X-Github-Event": push.event} {
		r.Header.Set(name, value)
	}
	transport := client.LocalTransport()
	transport.ExpectContinueTimeout = patience
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
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.eventually("the server stops", func() bool { return strings.Contains(w.log.String(), `"stopping"`) })
	if _, err := sent.Write(push.body); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "answer", <-answers, "202 Accepted")
	<-w.done
	w.start()
	wantEnds(t, w, "shop", commit, landfall.RunSucceeded)
	wantServed(t, w.site, "shop", "/", "page")
}
