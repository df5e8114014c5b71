package webhook_test

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
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// The forge hears of every commit that it is pending, and then once what became of it. That every request is one that
// GitHub takes, the forge checks itself.
func TestReports(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	apps := []string{"shop", "broken", "race", "picky", "held", "locked"}
	t.Cleanup(func() {
		w.Quiet(apps...)
		// L-005: every context that was opened is closed
		forge.WantPairs(t, w.API.Statuses(""))
	})

	t.Run("a release", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("shop")
		one, push := h.Release("one")
		w.Hears(push)
		run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
		address := w.At("shop--"+string(run.Release), "/")
		// P-007: the release's address is the final status of the commit
		forge.WantTold(t, w, one, landfall.StatusSuccess, address, "Released "+string(run.Release))
		all := w.Told(one)
		testkit.Equal(t, "pending", all[0], githubtest.Status{
			Repository: "harbor/shop", SHA: string(one), State: "pending", Context: "landfall/shop", Description: "Queued",
			Target: w.RunPage(run.ID)})
		p := w.Get(all[1].Target)
		// L-014: who follows the status gets the page of that commit, from that release
		testkit.Equal(t, "page", fmt.Sprint(p.Status, p.Body, p.Header.Get("Landfall-Release")),
			fmt.Sprint(http.StatusOK, "one", run.Release))
		w.Quiet("shop")
		out, code := w.Run(t.TempDir(), "run", "show", run.ID, "-o", "json")
		shown := testkit.Decode[client.Run](t, []byte(out))
		if code != 0 || len(shown.Statuses) != 2 || shown.Statuses[1].Target != address || shown.Statuses[1].Sent.IsZero() {
			t.Errorf("run show says %+v, want what the forge heard", shown.Statuses)
		}

		two := h.Commit("Nothing new")
		w.Hears(h.Send("main"))
		again := forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
		forge.WantTold(t, w, two, landfall.StatusSuccess, w.At("shop--"+string(again.Release), "/"), "Unchanged")
	})

	t.Run("a change that is wrong", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("broken")
		h.Write("specs/app.yaml", site.AppSpec("broken", "colour: "+strings.Repeat("red ", 100)), "site/index.html", "one")
		bad := h.Commit("Wrong")
		w.Hears(h.Send("main"))
		run := forge.WantEnds(t, w, "broken", bad, landfall.RunFailed)
		// P-010: the final status is a failure with file and line, and leads to the run with its log
		forge.WantTold(t, w, bad, landfall.StatusFailure, w.RunPage(run.ID), "specs/app.yaml:7")
		last := w.Told(bad)[1]
		if n := utf8.RuneCountInString(last.Description); n > landfall.MaxStatusDescription {
			t.Errorf("the description has %d characters, want %d at most", n, landfall.MaxStatusDescription)
		}
		// L-012: no status of the commit says success
		testkit.Equal(t, "state", last.State, string(landfall.StatusFailure))
		h.Write("specs/app.yaml", site.AppSpec("broken"))
		good := h.Commit("Right")
		w.Hears(h.Send("main"))
		fixed := forge.WantEnds(t, w, "broken", good, landfall.RunSucceeded)
		forge.WantTold(t, w, good, landfall.StatusSuccess, w.At("broken--"+string(fixed.Release), "/"))
	})

	t.Run("a push that is superseded", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("race")
		open := h.Hold()
		one, push1 := h.Release("one")
		two, push2 := h.Release("two")
		three, push3 := h.Release("three")
		w.Hears(push1, push2, push3)
		open()
		run := forge.WantEnds(t, w, "race", three, landfall.RunSucceeded)
		old, _ := w.RunOf("race", one)
		// P-009: the older push's final status says by what it was superseded
		forge.WantTold(t, w, one, landfall.StatusError, w.RunPage(old.ID), "Superseded by "+two.Short())
		old, _ = w.RunOf("race", two)
		// P-009: so does that of the next one
		forge.WantTold(t, w, two, landfall.StatusError, w.RunPage(old.ID), "Superseded by "+three.Short())
		forge.WantTold(t, w, three, landfall.StatusSuccess, w.At("race--"+string(run.Release), "/"))
	})

	t.Run("a push that gets no release", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("picky")
		h.Write("specs/app.yaml", site.AppSpec("picky", `release: {branches: [main], skip_paths: ["*.md"]}`),
			"site/index.html", "one")
		one := h.Commit("one")
		w.Hears(h.Send("main"))
		forge.WantEnds(t, w, "picky", one, landfall.RunSucceeded)
		h.Write("README.md", "Words")
		words := h.Commit("Words")
		w.Hears(h.Send("main"))
		run := forge.WantEnds(t, w, "picky", words, landfall.RunSkipped)
		forge.WantTold(t, w, words, landfall.StatusSuccess, w.RunPage(run.ID), "Skipped: ", "skip_paths")
		h.Write("site/index.html", "not yet")
		later := h.Commit("Later\n\n[Skip Landfall] as the words are missing")
		w.Hears(h.Send("main"))
		run = forge.WantEnds(t, w, "picky", later, landfall.RunSkipped)
		// L-009: a commit that wants no release gets a status with the reason
		forge.WantTold(t, w, later, landfall.StatusSuccess, w.RunPage(run.ID), "Skipped: ", "[skip landfall]")
		site.WantServed(t, w.Site, "picky", "/", "one")
		h.Git("switch", "--quiet", "-c", "other")
		three, push := h.Release("three")
		w.Hears(push)
		all := w.Told(three)
		// L-011: a branch that gets no release gets a status all the same, with the reason
		if s := all[len(all)-1]; s.State != string(landfall.StatusSuccess) ||
			!strings.HasPrefix(s.Description, "Skipped: ") || !strings.Contains(s.Description, "other") {
			t.Errorf("got %+v, want a success that says what was skipped", all)
		}
	})

	t.Run("a run that is cancelled", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("held")
		open := h.Hold()
		one, push := h.Release("one")
		w.Hears(push)
		w.Eventually("the fetch is on its way", func() bool { return w.Requests(h.Name) > 0 })
		run, _ := w.RunOf("held", one)
		if out, code := w.Run(t.TempDir(), "run", "cancel", run.ID); code != 0 {
			t.Errorf("run cancel got the exit code %d:\n%s", code, out)
		}
		// L-008: cancelling writes a final status that says so
		forge.WantTold(t, w, one, landfall.StatusError, w.RunPage(run.ID), "Cancelled by admin")
		open()
		forge.WantEnds(t, w, "held", one, landfall.RunCancelled)
		testkit.EqualList(t, "moves of live", w.WasLive("held"), nil)
	})

	t.Run("a repository that cannot be read", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("locked")
		h.Forge.Rule(h.Name, forge.Rule{Password: "another"})
		one, push := h.Release("one")
		w.Hears(push)
		run := forge.WantEnds(t, w, "locked", one, landfall.RunError)
		// N-006: missing credentials are a final status that says what to do
		forge.WantTold(t, w, one, landfall.StatusError, w.RunPage(run.ID), "asks for credentials")
		h.Forge.Rule(h.Name, forge.Rule{})
		two, push2 := h.Release("two")
		w.Hears(push2)
		good := forge.WantEnds(t, w, "locked", two, landfall.RunSucceeded)
		forge.WantTold(t, w, two, landfall.StatusSuccess, w.At("locked--"+string(good.Release), "/"))
	})
}

// Without credentials nothing is sent and nothing fails, and the run says the same here.
func TestReportsWithoutCredentials(t *testing.T) {
	t.Parallel()
	d, err := forge.Description()
	if err != nil {
		t.Fatal(err)
	}
	api := githubtest.New(t, d, forge.APIToken)
	w := forge.NewWorld(t, "LANDFALL_GITHUB_API="+api.URL)
	h, _ := w.Follow("shop")
	one, push := h.Release("one")
	w.Hears(push)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	out, code := w.Run(t.TempDir(), "run", "show", run.ID)
	for _, part := range []string{string(one), "succeeded", "Released " + string(run.Release),
		w.At("shop--"+string(run.Release), "/")} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("run show has no %q:\n%s", part, out)
		}
	}
	testkit.Equal(t, "statuses that are owed", len(run.Statuses), 0)
	w.Stop()
	testkit.Equal(t, "requests to the forge's API", api.Requests(), 0)
	if strings.Contains(w.Log.String(), `"level":"ERROR"`) {
		t.Errorf("the log has an error:\n%s", w.Log)
	}
}

// Whatever the forge's API answers, releases go on, and the statuses arrive in order.
func TestReportsFaults(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	w.API.Fail(1, githubtest.Fault{Status: http.StatusBadGateway})
	w.API.Fail(2, githubtest.Fault{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "2"}})
	w.API.Fail(3, githubtest.Fault{Close: true})
	w.API.Fail(5, githubtest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}})
	h, app := w.Follow("shop")
	one, push := h.Release("one")
	w.Hears(push)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/", "one")
	// N-018: after 502, 403 with Retry-After, no answer and 429 the statuses arrived, in order
	forge.WantTold(t, w, one, landfall.StatusSuccess, w.At("shop--"+string(run.Release), "/"))
	// P-007: six requests for two statuses: each that failed was made once more, and none of another order
	testkit.Equal(t, "requests", w.API.Requests(), 6)

	own := forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}
	moved := func(d forge.Delivery) forge.Delivery {
		return d.With(t, func(payload map[string]any) {
			repository := forge.Object(t, payload, "repository")
			repository["name"], repository["full_name"] = "vault", "harbor/vault"
		})
	}
	two, push2 := h.Release("two")
	testkit.Equal(t, "status", w.Deliver(own, moved(push2)).Status, http.StatusAccepted)
	forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
	// N-005: the hook of one repository sends no statuses to another one
	testkit.Equal(t, "repository", w.Told(two)[0].Repository, "harbor/shop")
	h.Move("harbor/vault")
	three, push3 := h.Release("three")
	w.Hears(push3)
	forge.WantEnds(t, w, "shop", three, landfall.RunSucceeded)
	// N-044: the installation's own hook tells of a repository that was given another name, and the app follows it
	testkit.Equal(t, "repository", w.Told(three)[0].Repository, "harbor/vault")
	testkit.Equal(t, "clone address", w.ShowApp("shop").Repository, h.Clone())
}

// A repository is transferred to another owner: nothing of it runs before an administrator says that the app follows it.
func TestTransfer(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	h, app := w.Follow("shop")
	one, push := h.Release("one")
	w.Hears(push)
	w.Ends("shop", one, landfall.RunSucceeded)
	h.Move("reef/shop")
	two, push := h.Release("two")
	got := w.Hears(push)
	// N-044: who the new owner is, nobody here knows: the push runs nothing, and the delivery says why
	if !strings.Contains(got.Decision, "transferred from harbor/shop to reef/shop") {
		t.Errorf("got %+v, want that the repository was transferred", got)
	}
	held := w.Ends("shop", two, landfall.RunError, "landfall app set shop --repo reef/shop")
	if len(got.Runs) != 1 || !strings.HasSuffix(got.Runs[0], held.ID) || held.Release != "" {
		t.Errorf("got %+v and %+v, want one run that made nothing", got, held)
	}
	// Nor does its status stay pending.
	w.Eventually("the commit has its status", func() bool {
		told := w.API.Statuses(string(two))
		return len(told) == 1 && told[0].State == string(landfall.StatusError) &&
			strings.Contains(told[0].Description, "Transferred to reef/shop")
	})
	testkit.Contains(t, site.Told{w.Landfall("app", "deliveries", "shop")}, "transferred from harbor/shop to reef/shop")
	own := w.Deliver(forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}, push.With(t, func(map[string]any) {}))
	// S6: nor by the app's own hook
	if len(own.Runs) != 0 || !strings.Contains(own.Decision, "app set shop --repo reef/shop") {
		t.Errorf("got %+v, want no run, and how to confirm the transfer", own)
	}
	site.WantServed(t, w.Site, "shop", "/", "one")
	testkit.Contains(t, site.Told{w.Landfall("app", "show", "shop")}, "landfall app set shop --repo reef/shop")
	if out, code := w.Run(t.TempDir(), "app", "set", "shop", "--repo", "harbor/other"); code != 4 ||
		!strings.Contains(out, "to reef/shop, not to harbor/other") {
		t.Errorf("another place: got %d %s, want a conflict that says where it is", code, out)
	}
	w.Landfall("app", "set", "shop", "--repo", "reef/shop")
	w.Eventually("what was held back runs", func() bool {
		run, ok := w.RunOf("shop", two)
		return ok && run.ID != held.ID && run.State.Final()
	})
	w.Ends("shop", two, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/", "two")
	told := w.API.Statuses(string(two))
	testkit.Equal(t, "repository", told[len(told)-1].Repository, "reef/shop")
	three, push := h.Release("three")
	w.Hears(push)
	w.Ends("shop", three, landfall.RunSucceeded)
}

// What the forge refuses for good stops with a reason that the run shows, and holds up neither releases nor what comes
// after it; wrong credentials hold up all reports, and say so.
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
			w := forge.NewReportingWorld(t)
			h, _ := w.Follow(app)
			w.API.Fail(1, githubtest.Fault{Status: c.status})
			one, push := h.Release("one")
			w.Hears(push)
			// N-018: the release is made, and served
			run := forge.WantEnds(t, w, app, one, landfall.RunSucceeded)
			site.WantServed(t, w.Site, app, "/", "one")
			w.Eventually("the run shows that the first report was not sent", func() bool {
				w.Call(http.MethodGet, "/runs/"+run.ID, nil, &run)
				return len(run.Statuses) == 2 && run.Statuses[0].Problem != ""
			})
			// N-018: a report that stops has a reason
			testkit.Contains(t, site.Told{run.Statuses[0].Problem}, c.says)
			if c.status == http.StatusUnauthorized {
				// N-018: nothing overtakes what waits for other credentials
				testkit.Equal(t, "statuses that the forge heard", len(w.API.Statuses("")), 0)
				testkit.Equal(t, "requests", w.API.Requests(), 1)
				return
			}
			// N-018: what was given up makes way for the next
			heard := w.Told(one)
			testkit.Equal(t, "statuses that the forge heard", len(heard), 1)
			testkit.Equal(t, "state", heard[0].State, string(landfall.StatusSuccess))
		})
	}
}

// A delivery binds an app to a repository only when its names and its addresses agree.
func TestReportsFirstDelivery(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	h, app := w.Follow("shop")
	_, push := h.Release("one")
	got := w.Deliver(forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}, push.With(t, func(payload map[string]any) {
		repository := forge.Object(t, payload, "repository")
		repository["name"], repository["id"] = "vault", 99
		forge.Object(t, repository, "owner")["login"] = "victim"
	}))
	// N-005: a payload with one repository's address and another one's name changes nothing
	if got.Status != http.StatusAccepted || len(got.Runs) != 0 {
		t.Errorf("got %+v, want 202 and no run", got)
	}
	w.Hears(push)
	run := forge.WantEnds(t, w, "shop", h.Head(), landfall.RunSucceeded)
	forge.WantTold(t, w, h.Head(), landfall.StatusSuccess, w.At("shop--"+string(run.Release), "/"))
	testkit.Equal(t, "repository", w.Told(h.Head())[0].Repository, "harbor/shop")
}

// V7 and V8: wherever the process dies, a push that was accepted is applied once, and its pending status is followed by
// one final status.
func TestReportsAfterKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point string
		twice bool // the last status may arrive twice: the answer of the forge was lost with the process
	}{
		{"accept.stored", false}, {"intake.stored", false}, {"fetch.fetched", false}, {"commit.pointed", false},
		{"commit.after", false},
		{"report.before@2", false}, {"report.sent@2", true}, {"report.after@2", false},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := forge.NewReportingWorld(t)
			h, _ := w.Follow("shop")
			w.Hears(h.Delivery("ping", "ping_repository", func(map[string]any) {})) // it knows where statuses belong
			w.Restart(h, "LANDFALL_CRASH="+c.point)
			one, push := h.Release("one")
			answer, err := forge.TryPost(w.Installation().URL, push, forge.Signature(forge.WebhookSecret, push.Body))
			select {
			case <-w.Done:
			case <-t.Context().Done():
				t.Fatal("the server did not reach the point")
			}
			w.Start()
			if err != nil { // the sender has no answer, and is asked to deliver again
				answer = w.Deliver(w.Installation(), push)
			}
			// V7: the push is there
			if answer.Status != http.StatusAccepted && answer.Status != http.StatusOK || len(answer.Runs) != 1 {
				t.Errorf("got the answer %+v, want one run", answer)
			}
			run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
			site.WantServed(t, w.Site, "shop", "/", "one")
			w.Quiet("shop")
			all := w.Told(one)
			if c.twice {
				all = slices.Compact(all)
			}
			// L-005: what was pending when the process died is closed after the next start
			if len(all) != 2 || all[0].State != "pending" || all[1].State != "success" {
				t.Errorf("the forge heard %+v, want pending, then success", all)
			}
			// V7: it is applied once
			testkit.Equal(t, "number of runs", len(w.Runs("shop")), 1)
			testkit.Equal(t, "group versions", len(site.List[client.Group](w.Site, "/apps/shop/groups")), 1)
			testkit.EqualList(t, "moves of live", w.WasLive("shop"), []landfall.UID{run.Release})
		})
	}
}

// V8: a run that dies with its server while the forge is down is closed, too.
func TestReportsAfterKillOfFailure(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	h, _ := w.Follow("shop")
	open := h.Hold()
	one, push := h.Release("one")
	w.Hears(push)
	w.Eventually("the fetch is on its way, and the forge knows", func() bool {
		return w.Requests(h.Name) > 0 && len(w.API.Statuses(string(one))) == 1
	})
	h.Bare.Git("update-ref", "-d", "refs/heads/main")
	w.Kill()
	open()
	run := forge.WantEnds(t, w, "shop", one, landfall.RunFailed)
	// L-005: after a restart nothing stays pending
	forge.WantTold(t, w, one, landfall.StatusFailure, w.RunPage(run.ID), "is empty")
	forge.WantPairs(t, w.API.Statuses(""))
}
