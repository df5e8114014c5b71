package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
)

// The forge hears of every commit that it is pending, and then once what became of it. That every request is one that
// GitHub takes, the forge checks itself.
func TestReports(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)
	apps := []string{"shop", "broken", "race", "picky", "held", "locked"}
	t.Cleanup(func() {
		w.quiet(apps...)
		// L-005: every context that was opened is closed
		wantPairs(t, w.api.Statuses(""))
	})

	t.Run("a release", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("shop")
		one, push := h.release("one")
		w.hears(push)
		run := wantEnds(t, w, "shop", one, landfall.RunSucceeded)
		address := w.at("shop--"+string(run.Release), "/")
		// P-007: the release's address is the final status of the commit
		wantTold(t, w, one, landfall.StatusSuccess, address, "Released "+string(run.Release))
		all := w.told(one)
		wantEqual(t, "pending", all[0], githubtest.Status{
			Repository: "harbor/shop", SHA: string(one), State: "pending", Context: "landfall/shop", Description: "Queued", Target: w.runPage(run.ID)})
		p := w.get(all[1].Target)
		// L-014: who follows the status gets the page of that commit, from that release
		wantEqual(t, "page", fmt.Sprint(p.status, p.body, p.header.Get("Landfall-Release")), fmt.Sprint(http.StatusOK, "one", run.Release))
		w.quiet("shop")
		out, code := w.run(t.TempDir(), "run", "show", run.ID, "-o", "json")
		shown := decode[client.Run](t, []byte(out))
		if code != 0 || len(shown.Statuses) != 2 || shown.Statuses[1].Target != address || shown.Statuses[1].Sent.IsZero() {
			t.Errorf("run show says %+v, want what the forge heard", shown.Statuses)
		}

		two := h.commit("Nothing new")
		w.hears(h.send("main"))
		again := wantEnds(t, w, "shop", two, landfall.RunSucceeded)
		wantTold(t, w, two, landfall.StatusSuccess, w.at("shop--"+string(again.Release), "/"), "Unchanged")
	})

	t.Run("a change that is wrong", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("broken")
		h.write("specs/app.yaml", appSpec("broken", "colour: "+strings.Repeat("red ", 100)), "site/index.html", "one")
		bad := h.commit("Wrong")
		w.hears(h.send("main"))
		run := wantEnds(t, w, "broken", bad, landfall.RunFailed)
		// P-010: the final status is a failure with file and line, and leads to the run with its log
		wantTold(t, w, bad, landfall.StatusFailure, w.runPage(run.ID), "specs/app.yaml:7")
		last := w.told(bad)[1]
		if n := utf8.RuneCountInString(last.Description); n > landfall.MaxStatusDescription {
			t.Errorf("the description has %d characters, want %d at most", n, landfall.MaxStatusDescription)
		}
		// L-012: no status of the commit says success
		wantEqual(t, "state", last.State, string(landfall.StatusFailure))
		h.write("specs/app.yaml", appSpec("broken"))
		good := h.commit("Right")
		w.hears(h.send("main"))
		fixed := wantEnds(t, w, "broken", good, landfall.RunSucceeded)
		wantTold(t, w, good, landfall.StatusSuccess, w.at("broken--"+string(fixed.Release), "/"))
	})

	t.Run("a push that is superseded", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("race")
		open := h.hold()
		one, push1 := h.release("one")
		two, push2 := h.release("two")
		three, push3 := h.release("three")
		w.hears(push1, push2, push3)
		open()
		run := wantEnds(t, w, "race", three, landfall.RunSucceeded)
		old, _ := w.runOf("race", one)
		// P-009: the older push's final status says by what it was superseded
		wantTold(t, w, one, landfall.StatusError, w.runPage(old.ID), "Superseded by "+two.Short())
		old, _ = w.runOf("race", two)
		// P-009: so does that of the next one
		wantTold(t, w, two, landfall.StatusError, w.runPage(old.ID), "Superseded by "+three.Short())
		wantTold(t, w, three, landfall.StatusSuccess, w.at("race--"+string(run.Release), "/"))
	})

	t.Run("a push that gets no release", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("picky")
		h.write("specs/app.yaml", appSpec("picky", `release: {branches: [main], skip_paths: ["*.md"]}`), "site/index.html", "one")
		one := h.commit("one")
		w.hears(h.send("main"))
		wantEnds(t, w, "picky", one, landfall.RunSucceeded)
		h.write("README.md", "Words")
		words := h.commit("Words")
		w.hears(h.send("main"))
		run := wantEnds(t, w, "picky", words, landfall.RunSkipped)
		wantTold(t, w, words, landfall.StatusSuccess, w.runPage(run.ID), "Skipped: ", "skip_paths")
		h.git("switch", "--quiet", "-c", "other")
		three, push := h.release("three")
		w.hears(push)
		all := w.told(three)
		// L-011: a branch that gets no release gets a status all the same, with the reason
		if s := all[len(all)-1]; s.State != string(landfall.StatusSuccess) || !strings.HasPrefix(s.Description, "Skipped: ") || !strings.Contains(s.Description, "other") {
			t.Errorf("got %+v, want a success that says what was skipped", all)
		}
	})

	t.Run("a run that is cancelled", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("held")
		open := h.hold()
		one, push := h.release("one")
		w.hears(push)
		w.eventually("the fetch is on its way", func() bool { return w.requests(h.name) > 0 })
		run, _ := w.runOf("held", one)
		if out, code := w.run(t.TempDir(), "run", "cancel", run.ID); code != 0 {
			t.Errorf("run cancel got the exit code %d:\n%s", code, out)
		}
		// L-008: cancelling writes a final status that says so
		wantTold(t, w, one, landfall.StatusError, w.runPage(run.ID), "Cancelled by admin")
		open()
		wantEnds(t, w, "held", one, landfall.RunCancelled)
		wantList(t, "moves of live", w.wasLive("held"), nil)
	})

	t.Run("a repository that cannot be read", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("locked")
		h.forge.rule(h.name, rule{password: "another"})
		one, push := h.release("one")
		w.hears(push)
		run := wantEnds(t, w, "locked", one, landfall.RunError)
		// N-006: missing credentials are a final status that says what to do
		wantTold(t, w, one, landfall.StatusError, w.runPage(run.ID), "asks for credentials")
		h.forge.rule(h.name, rule{})
		two, push2 := h.release("two")
		w.hears(push2)
		good := wantEnds(t, w, "locked", two, landfall.RunSucceeded)
		wantTold(t, w, two, landfall.StatusSuccess, w.at("locked--"+string(good.Release), "/"))
	})
}

// Without credentials nothing is sent and nothing fails, and the run says the same here.
func TestReportsWithoutCredentials(t *testing.T) {
	t.Parallel()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	api := githubtest.New(t, d, apiToken)
	w := newWorld(t, "LANDFALL_GITHUB_API="+api.URL)
	h, _ := w.follow("shop")
	one, push := h.release("one")
	w.hears(push)
	run := wantEnds(t, w, "shop", one, landfall.RunSucceeded)
	out, code := w.run(t.TempDir(), "run", "show", run.ID)
	for _, part := range []string{string(one), "succeeded", "Released " + string(run.Release), w.at("shop--"+string(run.Release), "/")} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("run show has no %q:\n%s", part, out)
		}
	}
	wantEqual(t, "statuses that are owed", len(run.Statuses), 0)
	w.stop()
	wantEqual(t, "requests to the forge's API", api.Requests(), 0)
	if strings.Contains(w.log.String(), `"level":"ERROR"`) {
		t.Errorf("the log has an error:\n%s", w.log)
	}
}

// Whatever the forge's API answers, releases go on, and the statuses arrive in order.
func TestReportsFaults(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)
	w.api.Fail(1, githubtest.Fault{Status: http.StatusBadGateway})
	w.api.Fail(2, githubtest.Fault{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "2"}})
	w.api.Fail(3, githubtest.Fault{Close: true})
	w.api.Fail(5, githubtest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}})
	h, app := w.follow("shop")
	one, push := h.release("one")
	w.hears(push)
	run := wantEnds(t, w, "shop", one, landfall.RunSucceeded)
	wantServed(t, w.site, "shop", "/", "one")
	// N-018: after 502, 403 with Retry-After, no answer and 429 the statuses arrived, in order
	wantTold(t, w, one, landfall.StatusSuccess, w.at("shop--"+string(run.Release), "/"))
	// P-007: six requests for two statuses: each that failed was made once more, and none of another order
	wantEqual(t, "requests", w.api.Requests(), 6)

	own := hook{url: app.Hook.URL, secret: app.Hook.Secret}
	moved := func(d delivery) delivery {
		return d.with(t, func(payload map[string]any) {
			repository := object(t, payload, "repository")
			repository["name"], repository["full_name"] = "vault", "victim/vault"
			object(t, repository, "owner")["login"] = "victim"
		})
	}
	two, push2 := h.release("two")
	wantEqual(t, "status", w.deliver(own, moved(push2)).status, http.StatusAccepted)
	wantEnds(t, w, "shop", two, landfall.RunSucceeded)
	// N-005: the hook of one repository sends no statuses to another one
	wantEqual(t, "repository", w.told(two)[0].Repository, "harbor/shop")
	three, push3 := h.release("three")
	w.hears(moved(push3))
	wantEnds(t, w, "shop", three, landfall.RunSucceeded)
	// The installation's own hook tells of a repository that was given another name.
	wantEqual(t, "repository", w.told(three)[0].Repository, "victim/vault")
}

// What the forge refuses for good stops with a reason that the run shows, and holds up neither releases nor what comes after
// it; wrong credentials hold up all reports, and say so.
func TestReportsThatStop(t *testing.T) {
	t.Parallel()
	for app, c := range map[string]struct {
		status int
		says   string
	}{
		"missing": {http.StatusNotFound, "does not show harbor/missing to us"},
		"unknown": {http.StatusUnprocessableEntity, "is still in harbor/unknown"},
		"token":   {http.StatusUnauthorized, "renew the token"},
	} {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			w := newReportingWorld(t)
			h, _ := w.follow(app)
			w.api.Fail(1, githubtest.Fault{Status: c.status})
			one, push := h.release("one")
			w.hears(push)
			// N-018: the release is made, and served
			run := wantEnds(t, w, app, one, landfall.RunSucceeded)
			wantServed(t, w.site, app, "/", "one")
			w.eventually("the run shows why the first report was not sent", func() bool {
				w.call(http.MethodGet, "/runs/"+run.ID, nil, &run)
				// N-018: a report that stops has a reason
				return len(run.Statuses) == 2 && strings.Contains(run.Statuses[0].Problem, c.says)
			})
			if c.status == http.StatusUnauthorized {
				// N-018: nothing overtakes what waits for other credentials
				wantEqual(t, "statuses that the forge heard", len(w.api.Statuses("")), 0)
				wantEqual(t, "requests", w.api.Requests(), 1)
				return
			}
			// N-018: what was given up makes way for the next
			heard := w.told(one)
			wantEqual(t, "statuses that the forge heard", len(heard), 1)
			wantEqual(t, "state", heard[0].State, string(landfall.StatusSuccess))
		})
	}
}

// A delivery binds an app to a repository only when its names and its addresses agree.
func TestReportsFirstDelivery(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)
	h, app := w.follow("shop")
	_, push := h.release("one")
	got := w.deliver(hook{url: app.Hook.URL, secret: app.Hook.Secret}, push.with(t, func(payload map[string]any) {
		repository := object(t, payload, "repository")
		repository["name"], repository["id"] = "vault", 99
		object(t, repository, "owner")["login"] = "victim"
	}))
	// N-005: a payload with one repository's address and another one's name changes nothing
	if got.status != http.StatusAccepted || len(got.Runs) != 0 {
		t.Errorf("got %+v, want 202 and no run", got)
	}
	w.hears(push)
	run := wantEnds(t, w, "shop", h.head(), landfall.RunSucceeded)
	wantTold(t, w, h.head(), landfall.StatusSuccess, w.at("shop--"+string(run.Release), "/"))
	wantEqual(t, "repository", w.told(h.head())[0].Repository, "harbor/shop")
}

// V7 and V8: wherever the process dies, a push that was accepted is applied once, and its pending status is followed by
// one final status.
func TestReportsAfterKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point string
		twice bool // the last status may arrive twice: the answer of the forge was lost with the process
	}{
		{"accept.stored", false}, {"intake.stored", false}, {"fetch.fetched", false}, {"commit.pointed", false}, {"commit.after", false},
		{"report.before@2", false}, {"report.sent@2", true}, {"report.after@2", false},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := newReportingWorld(t)
			h, _ := w.follow("shop")
			w.stop()
			w.start("LANDFALL_CRASH=" + c.point)
			one, push := h.release("one")
			answer, err := tryPost(w.installation().url, push, signature(webhookSecret, push.body))
			select {
			case <-w.done:
			case <-t.Context().Done():
				t.Fatal("the server did not reach the point")
			}
			w.start()
			if err != nil { // the sender has no answer, and is asked to deliver again
				answer = w.deliver(w.installation(), push)
			}
			// V7: the push is there
			if answer.status != http.StatusAccepted && answer.status != http.StatusOK || len(answer.Runs) != 1 {
				t.Errorf("got the answer %+v, want one run", answer)
			}
			run := wantEnds(t, w, "shop", one, landfall.RunSucceeded)
			wantServed(t, w.site, "shop", "/", "one")
			w.quiet("shop")
			all := w.told(one)
			if c.twice {
				all = slices.Compact(all)
			}
			// L-005: what was pending when the process died is closed after the next start
			if len(all) != 2 || all[0].State != "pending" || all[1].State != "success" {
				t.Errorf("the forge heard %+v, want pending, then success", all)
			}
			// V7: it is applied once
			wantEqual(t, "number of runs", len(w.runs("shop")), 1)
			wantEqual(t, "group versions", len(list[client.Group](w.site, "/apps/shop/groups")), 1)
			wantList(t, "moves of live", w.wasLive("shop"), []landfall.UID{run.Release})
		})
	}
}

// V8: a run that dies with its server while the forge is down is closed, too.
func TestReportsAfterKillOfFailure(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)
	h, _ := w.follow("shop")
	open := h.hold()
	one, push := h.release("one")
	w.hears(push)
	w.eventually("the fetch is on its way, and the forge knows", func() bool {
		return w.requests(h.name) > 0 && len(w.api.Statuses(string(one))) == 1
	})
	h.bare.git("update-ref", "-d", "refs/heads/main")
	w.kill()
	open()
	run := wantEnds(t, w, "shop", one, landfall.RunFailed)
	// L-005: after a restart nothing stays pending
	wantTold(t, w, one, landfall.StatusFailure, w.runPage(run.ID), "is empty")
	wantPairs(t, w.api.Statuses(""))
}
