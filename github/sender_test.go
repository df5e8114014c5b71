package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// Every report becomes one commit status with its state, text and address.
func TestReportsAreSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
	b.outbox.owe(commitB, landfall.StatusFailure, "specs/app.yaml line 3: "+strings.Repeat("there is no such field; ", 20))
	b.outbox.owe(commitC, landfall.StatusSuccess, "Skipped: only files under docs/ changed.")
	b.outbox.reports[3].Target = ""
	b.flush(t)
	want := []githubtest.Status{
		{
			Repository: "harbor/shop", SHA: commitA, State: "pending", Context: "landfall/shop",
			Description: "Building the release.", Target: "http://shop--owf2k7qa.landfall.test/",
		},
		{
			Repository: "harbor/shop", SHA: commitA, State: "success", Context: "landfall/shop",
			Description: "Release owf2k7qa is live.", Target: "http://shop--owf2k7qa.landfall.test/",
		},
	}
	if got := b.server.Statuses(commitA); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	failure := b.server.Statuses(commitB)
	if len(failure) != 1 || failure[0].State != "failure" ||
		utf8.RuneCountInString(failure[0].Description) > landfall.MaxStatusDescription {
		t.Errorf("got %+v, want one failure with a short text", failure)
	}
	skipped := b.server.Statuses(commitC)
	// L-011: a push that releases nothing gets its status, too
	if len(skipped) != 1 || skipped[0].State != "success" || skipped[0].Target != "" {
		t.Errorf("got %+v, want one success without an address", skipped)
	}
	// L-011: no report is left unsent
	if n := b.outbox.owed(); n != 0 || b.server.Requests() != 4 {
		t.Errorf("%d are owed after %d requests, want none after 4", n, b.server.Requests())
	}
	for _, head := range b.heads {
		if !strings.HasPrefix(head.Get("User-Agent"), "landfall") {
			t.Errorf("the user agent is %q", head.Get("User-Agent"))
		}
	}
	b.flush(t)
	if n := b.server.Requests(); n != 4 {
		t.Errorf("a second pass makes it %d requests, want none more", n)
	}
}

// After any single fault at any request, each commit ends with its own final status, and no status comes after a later
// one of the same context.
func TestFaultsConverge(t *testing.T) {
	t.Parallel()
	reset := strconv.FormatInt(time.Date(2020, 11, 20, 15, 30, 0, 0, time.UTC).Unix(), 10)
	faults := map[string]githubtest.Fault{
		"500":                  {Status: 500},
		"502":                  {Status: 502},
		"502 after the write":  {Status: 502, Written: true},
		"503 with Retry-After": {Status: 503, Header: map[string]string{"Retry-After": "300"}},
		"401":                  {Status: 401},
		"403":                  {Status: 403},
		"403 with Retry-After": {Status: 403, Header: map[string]string{"Retry-After": "120"}},
		"403 at the limit": {Status: 403,
			Header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset}},
		"429 with Retry-After": {Status: 429, Header: map[string]string{"Retry-After": "120"}},
		"429 alone":            {Status: 429},
		"429 with the time": {Status: 429,
			Header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset}},
		"201 at the limit": {Status: 201, Written: true, Body: "{}",
			Header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset}},
		"201 and half an answer":    {Status: 201, Written: true, Body: `{"id": 1, "sta`},
		"301":                       {Status: 301, Header: map[string]string{"Location": "/repositories/1/statuses/x"}},
		"no answer":                 {Close: true},
		"no answer after the write": {Close: true, Written: true},
	}
	for name, fault := range faults {
		for n := 1; n <= 6; n++ {
			t.Run(fmt.Sprintf("%s at request %d", name, n), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				commits := []landfall.CommitSHA{commitA, commitB, commitC}
				for _, commit := range commits {
					b.outbox.owe(commit, landfall.StatusPending, "Building the release.")
				}
				for _, commit := range commits {
					b.outbox.owe(commit, landfall.StatusError, "Cancelled by mira.")
				}
				b.server.Fail(n, fault)
				b.settle(t)
				for _, commit := range commits {
					checkCommit(t, b, commit)
				}
				b.checkPace(t)
			})
		}
	}
}

// checkCommit checks that a commit got pending and then its final status, each at least once.
func checkCommit(t *testing.T, b *bench, commit landfall.CommitSHA) {
	t.Helper()
	var states []string
	for _, status := range b.server.Statuses(string(commit)) {
		states = append(states, status.State)
	}
	// L-008: pending is followed by a final state, whatever happened on the way N-018: whatever was answered, reports
	// follow in order
	if got := strings.Join(slices.Compact(states), " "); got != "pending error" {
		t.Errorf("commit %s got %v, want pending, then error", commit.Short(), states)
	}
	all := b.server.Statuses(string(commit))
	// L-008: the final state of a cancelled run says why
	if len(all) == 0 || all[len(all)-1].Description != "Cancelled by mira." {
		t.Errorf("commit %s ends with %+v", commit.Short(), all)
	}
}

// checkPace checks that no more is written in a minute than GitHub allows: 900 points, of which a write takes 5, and 80
// comments. See https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api.
func (b *bench) checkPace(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	most := func(of []written, limit int) {
		for i := limit; i < len(of); i++ {
			if took := of[i].at.Sub(of[i-limit].at); took < time.Minute {
				t.Errorf("%d requests that write were sent in %s", limit+1, took)
			}
		}
	}
	most(b.times, 900/5)
	most(slices.DeleteFunc(slices.Clone(b.times), func(w written) bool { return !w.comment }), 80)
}

// A single push waits for nothing, and a storm keeps within what GitHub allows in a minute and, of comments, in an hour.
func TestPace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := b.clock.Now()
	b.outbox.owe(commitA, landfall.StatusPending, "Queued")
	b.outbox.owe(commitA, landfall.StatusSuccess, "Released")
	b.comments.want(12, says("one"))
	b.flush(t)
	// L-023: what one push has to say is said at once
	if waited := b.clock.Now().Sub(start); waited != 0 || b.outbox.owed() != 0 {
		t.Errorf("it took %s, and %d reports are owed", waited, b.outbox.owed())
	}
	b.wantComment(t, 12, says("one"))
	for n := range 400 {
		b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+1)), landfall.StatusPending, "Queued")
	}
	b.settle(t)
	b.checkPace(t)
	// L-023: a storm goes at a pace that GitHub allows, and not slower than that asks for
	if b.clock.Now().Sub(start) > 4*time.Minute {
		t.Errorf("400 statuses took %s", b.clock.Now().Sub(start))
	}
	start = b.clock.Now()
	for n := range 90 {
		b.comments.want(20+n, says("one"))
	}
	b.calm(t)
	b.checkPace(t)
	// L-023: comments are content for people, of which less is allowed
	if took := b.clock.Now().Sub(start); took < time.Minute || took > 3*time.Minute {
		t.Errorf("90 comments took %s", took)
	}
}

// In a storm, what became of a commit is said without that it was pending, if that was not said yet.
func TestStormSaysWhatBecameOfCommits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := b.clock.Now()
	const commits = 150
	for _, state := range []landfall.StatusState{landfall.StatusPending, landfall.StatusSuccess} {
		for n := range commits {
			b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+1)), state, "…")
		}
	}
	b.settle(t)
	b.checkPace(t)
	last := map[string]string{}
	for _, s := range b.server.Statuses("") {
		last[s.SHA] = s.State
	}
	for sha, state := range last {
		if state != string(landfall.StatusSuccess) {
			t.Errorf("%s ends as %s", sha, state)
		}
	}
	took, statuses := b.clock.Now().Sub(start), len(b.server.Statuses(""))
	// L-025: no more calls than say something
	if len(last) != commits || statuses > commits+60 || took > 90*time.Second {
		t.Errorf("%d commits have %d statuses after %s", len(last), statuses, took)
	}
}

// A final state does not wait for what other commits wait for.
func TestFinalStatesGoFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Queued")
	b.outbox.owe(commitB, landfall.StatusPending, "Queued")
	b.outbox.owe(commitC, landfall.StatusSuccess, "Released")
	b.flush(t)
	got := b.server.Statuses("")
	if len(got) != 3 || got[0].SHA != commitC || got[1].SHA != commitA {
		t.Errorf("got %+v, want the final state first", got)
	}
}

// Each answer of GitHub's has its consequence, and its sentence for people.
func TestAnswers(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) map[string]string {
		h := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = pairs[i+1]
		}
		return h
	}
	inHalfAnHour := strconv.FormatInt(time.Date(2020, 11, 20, 15, 30, 0, 0, time.UTC).Unix(), 10)
	for name, c := range map[string]struct {
		fault   githubtest.Fault
		dropped bool
		wait    time.Duration // until this report is tried again
		pause   bool          // nothing else is sent before that
		problem string
	}{
		"wrong credentials": {fault: githubtest.Fault{Status: 401}, wait: 10 * time.Minute, pause: true,
			problem: "renew the token"},
		"not allowed": {fault: githubtest.Fault{Status: 403}, wait: 10 * time.Minute,
			problem: "may not set commit statuses of harbor/shop"},
		"secondary limit": {fault: githubtest.Fault{Status: 403, Header: header("Retry-After", "90")},
			wait: 90 * time.Second, pause: true, problem: "before 2020-11-20 15:01:30 UTC"},
		"secondary limit, words": {fault: githubtest.Fault{Status: 403,
			Body: `{"documentation_url": "https://docs.github.com/rest/x#about-secondary-rate-limits"}`}, wait: time.Minute,
			pause: true, problem: "wants no requests"},
		"primary limit": {fault: githubtest.Fault{Status: 403, Header: header("X-Ratelimit-Remaining", "0",
			"X-Ratelimit-Reset", inHalfAnHour)}, wait: 30 * time.Minute, pause: true, problem: "wants no requests"},
		"429, a long time": {fault: githubtest.Fault{Status: 429, Header: header("Retry-After", "7200")},
			wait: 2 * time.Hour, pause: true, problem: "wants no requests"},
		"429, by the window": {fault: githubtest.Fault{Status: 429, Header: header("X-Ratelimit-Remaining", "0",
			"X-Ratelimit-Reset", inHalfAnHour)}, wait: 30 * time.Minute, pause: true, problem: "wants no requests"},
		"429, no time": {fault: githubtest.Fault{Status: 429}, wait: time.Minute, pause: true,
			problem: "wants no requests"},
		"429, nonsense": {fault: githubtest.Fault{Status: 429, Header: header("Retry-After", "soon")}, wait: time.Minute,
			pause: true, problem: "wants no requests"},
		"429, at once": {fault: githubtest.Fault{Status: 429, Header: header("Retry-After", "0")}, wait: time.Second,
			pause: true, problem: "wants no requests"},
		"429, for ever": {fault: githubtest.Fault{Status: 429, Header: header("Retry-After", "2000000000")},
			wait: 24 * time.Hour, pause: true, problem: "wants no requests"}, "not found": {fault: githubtest.Fault{Status: 404},
			dropped: true, problem: "does not show harbor/shop to us: check"},
		"no such commit": {fault: githubtest.Fault{Status: 422}, dropped: true,
			problem: "check that commit 5f1c2e7 is still in harbor/shop"},
		"down": {fault: githubtest.Fault{Status: 503}, wait: time.Second,
			problem: "GitHub answered 503; it is tried again"},
		"down for a while": {fault: githubtest.Fault{Status: 503, Header: header("Retry-After", "30")},
			wait: 30 * time.Second, problem: "GitHub answered 503"},
		"moved": {fault: githubtest.Fault{Status: 301, Header: header("Location", "/elsewhere")}, wait: time.Second,
			problem: "GitHub answered 301"},
		"no connection": {fault: githubtest.Fault{Close: true}, wait: time.Second, problem: "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			start := b.clock.Now()
			b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
			b.outbox.owe(commitB, landfall.StatusPending, "Building the release.")
			b.server.Fail(1, c.fault)
			b.flush(t)
			got := b.outbox.report(1)
			// N-018: each answer has its consequence and its reason: it is tried again when that may help, or stops
			if got.Dropped != c.dropped || !strings.Contains(got.Problem, c.problem) || strings.Contains(got.Problem, token) {
				t.Errorf("dropped: %t, %q; want %t, %q", got.Dropped, got.Problem, c.dropped, c.problem)
			}
			if wait := got.NextAt.Sub(start); !c.dropped && (wait != c.wait || got.Attempts != 1) {
				t.Errorf("it waits %s after %d attempts, want %s after 1", wait, got.Attempts, c.wait)
			}
			if sent := !b.outbox.report(2).Sent.IsZero(); sent == c.pause {
				t.Errorf("another commit's report was sent: %t, want %t", sent, !c.pause)
			}
			if log := b.log.String(); strings.Contains(log, token) || !strings.Contains(log, "report=1") {
				t.Errorf("the log is %q", log)
			}
		})
	}
}

// While GitHub is down, reports wait longer and longer, ten minutes at most, and are never given up.
func TestBackoff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
	var waits []time.Duration
	for n := range 40 {
		b.server.Fail(1, githubtest.Fault{Status: 502})
		b.flush(t)
		if n == 30 {
			b.restart(t)
		}
		wait := b.outbox.report(1).NextAt.Sub(b.clock.Now())
		waits = append(waits, wait)
		if err := b.clock.Wait(t.Context(), wait); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second,
		128 * time.Second, 256 * time.Second, 512 * time.Second, 10 * time.Minute, 10 * time.Minute,
	}
	if !slices.Equal(waits[:len(want)], want) || slices.Max(waits) != 10*time.Minute {
		t.Errorf("it waited %v, want %v and so on", waits, want)
	}
	b.settle(t)
	if got := b.server.Statuses(commitA); len(got) != 1 {
		t.Errorf("got %+v, want one status in the end", got)
	}
}

// A status that was created is sent, also when the rest of the answer was lost.
func TestHalfAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.server.Fail(1, githubtest.Fault{Status: 201, Written: true, Body: `{"id": 1, "sta`})
	b.settle(t)
	if got := b.server.Statuses(commitA); len(got) != 1 {
		t.Errorf("got %+v, want one status", got)
	}
}

// A dropped report does not hold back the next one of its commit.
func TestDroppedReportMakesWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
	b.server.Fail(1, githubtest.Fault{Status: 422})
	b.flush(t)
	if got := b.server.Statuses(commitA); len(got) != 1 || got[0].State != "success" {
		t.Errorf("got %+v, want success alone", got)
	}
}

// What the outbox did not learn is sent again, and in order.
func TestProcessEndsBeforeTheOutboxKnows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.owe(commitA, landfall.StatusError, "Cancelled by mira.")
	b.outbox.lose = 2
	for range 2 {
		if err := b.Flush(t.Context()); landfall.KindOf(err) != landfall.Unavailable {
			t.Errorf("got %v, want the outbox's error", err)
		}
		b.restart(t)
	}
	b.settle(t)
	checkCommit(t, b, commitA)
	if got := len(b.server.Statuses(commitA)); got != 4 {
		t.Errorf("%d statuses were posted, want pending three times and error once", got)
	}
}

// A sender that is stopped in the middle of a request records nothing of it, and the next one sends it.
func TestRunStops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.owe(commitB, landfall.StatusPending, "Building the release.")
	b.server.Fail(2, githubtest.Fault{Hang: true})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(time.Millisecond); b.server.Requests() < 2; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d requests after a minute, want 2", b.server.Requests())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if first, second := b.outbox.report(1),
		b.outbox.report(2); first.Sent.IsZero() || !second.Sent.IsZero() || second.Attempts != 0 {
		t.Errorf("got %+v and %+v, want the first sent and the second untouched", first, second)
	}
	b.restart(t)
	b.settle(t)
	if got := b.server.Statuses(commitB); len(got) != 1 {
		t.Errorf("got %+v, want one status", got)
	}
}

// A failing outbox is logged, and asked again.
func TestRunOutlivesAFailingOutbox(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.fail = errors.New("database is locked")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waits := 0
	b.Wait = func(ctx context.Context, d time.Duration) error {
		waits++
		switch waits {
		case 2:
			b.outbox.fail = nil
		case 3:
			stop()
		}
		return b.clock.Wait(ctx, d)
	}
	if err := b.Run(ctx); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if got := b.server.Statuses(commitA); len(got) != 1 || strings.Count(b.log.String(), "database is locked") != 2 {
		t.Errorf("got %+v and the log %q, want one status and two lines", got, b.log.String())
	}
}

// Who may not send does not ask GitHub for anything, and counts no attempt: it is another process's turn.
func TestNotAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	refusal := errors.New("another process does")
	b.Allowed = func(context.Context) error { return refusal }
	if err := b.Flush(t.Context()); !errors.Is(err, refusal) {
		t.Errorf("got %v, want %v", err, refusal)
	}
	if got, attempts := b.server.Statuses(commitA), b.outbox.reports[0].Attempts; len(got) != 0 || attempts != 0 {
		t.Errorf("got %+v and %d attempts, want none", got, attempts)
	}
	b.Allowed = func(context.Context) error { return nil }
	b.flush(t)
	if got := b.server.Statuses(commitA); len(got) != 1 {
		t.Errorf("got %+v, want one status", got)
	}
}

// A server that takes a request and never answers is left by the client's own timeout.
func TestHang(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.outbox.owe(commitA, landfall.StatusError, "Cancelled by mira.")
	b.server.Fail(1, githubtest.Fault{Hang: true, Written: true})
	b.http.Timeout = 100 * time.Millisecond
	b.restart(t)
	b.flush(t)
	b.http.Timeout = 0
	b.restart(t)
	b.settle(t)
	checkCommit(t, b, commitA)
}

// What GitHub forbids in its own words is remembered after a restart: the report waits in the outbox.
func TestLimitOutlivesARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	b.server.Fail(1, githubtest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "600"}})
	b.flush(t)
	b.restart(t)
	b.flush(t)
	if n := b.server.Requests(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
