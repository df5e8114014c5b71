package github_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
)

// comments is a github.Comments in memory.
type comments struct {
	mu   sync.Mutex
	all  []landfall.Comment
	lose int // so many times, Told fails
}

func (c *comments) Due(_ context.Context, now time.Time, limit int) ([]landfall.Comment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []landfall.Comment
	for _, comment := range c.all {
		if comment.Covered < comment.Wanted && !comment.Dropped && !comment.NextAt.After(now) && len(due) < limit {
			due = append(due, comment)
		}
	}
	return due, nil
}

func (c *comments) change(number int, f func(comment *landfall.Comment)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.all {
		if c.all[i].Number == number {
			f(&c.all[i])
		}
	}
}

func (c *comments) MarkWritten(_ context.Context, told landfall.Comment) error {
	if c.lose > 0 {
		c.lose--
		return &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"}
	}
	c.change(told.Number, func(comment *landfall.Comment) {
		comment.ID, comment.Body, comment.Covered, comment.Attempts, comment.Problem = told.ID, told.Body, told.Wanted, 0, ""
	})
	return nil
}

func (c *comments) Postpone(_ context.Context, postponed landfall.Comment, at time.Time, problem string) error {
	c.change(postponed.Number, func(comment *landfall.Comment) {
		comment.NextAt, comment.Problem, comment.Attempts = at, problem, comment.Attempts+1
	})
	return nil
}

func (c *comments) Drop(_ context.Context, dropped landfall.Comment, problem string) error {
	c.change(dropped.Number, func(comment *landfall.Comment) { comment.Problem, comment.Dropped = problem, true })
	return nil
}

// want says that the comment of a pull request is to say this.
func (c *comments) want(number int, report landfall.PullRequestReport) {
	if !slices.ContainsFunc(c.all, func(comment landfall.Comment) bool { return comment.Number == number }) {
		c.all = append(c.all, landfall.Comment{
			Repository: landfall.GitHubRepository{ID: 710200300, Owner: "harbor", Name: "shop"}, Number: number})
	}
	c.change(number, func(comment *landfall.Comment) {
		comment.Report, comment.Wanted, comment.Dropped = report, comment.Wanted+1, false
	})
}

func (c *comments) of(number int) (found landfall.Comment) {
	c.change(number, func(comment *landfall.Comment) { found = *comment })
	return found
}

// calm lets time pass until no comment is owed.
func (b *bench) calm(t *testing.T) {
	t.Helper()
	for range 100 {
		b.flush(t)
		if !slices.ContainsFunc(b.comments.all, func(c landfall.Comment) bool {
			return c.Covered < c.Wanted && !c.Dropped
		}) {
			return
		}
		if err := b.clock.Wait(t.Context(), 30*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("after two days comments are owed: %+v", b.comments.all)
}

// on returns the comments on a pull request, oldest first.
func (b *bench) on(number int) []githubtest.Comment { return b.server.Comments("harbor/shop", number) }

// wantComment fails the test unless the pull request has our comment once, and it says this.
func (b *bench) wantComment(t *testing.T, number int, report landfall.PullRequestReport) {
	t.Helper()
	var ours []githubtest.Comment
	for _, c := range b.on(number) {
		if c.Author == githubtest.Self && strings.HasPrefix(c.Body, "<!-- landfall "+installation+" -->") {
			ours = append(ours, c)
		}
	}
	if len(ours) != 1 || ours[0].Body != github.Text(report, installation) {
		t.Errorf("pull request %d has %+v, want one that says %s", number, ours, github.Text(report, installation))
	}
}

func says(reason string) landfall.PullRequestReport {
	return landfall.PullRequestReport{Apps: []landfall.AppReport{ended(landfall.RunFailed, reason)}}
}

// A comment is made once, edited in place, and not touched when it would say the same.
func TestCommentIsEdited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.Comment("harbor/shop", 12, githubtest.Self, "by hand, from the same user")
	b.server.Comment("harbor/shop", 12, 7, github.Text(says("one"), installation)) // somebody quotes us
	b.comments.want(12, says("one"))
	b.calm(t)
	b.wantComment(t, 12, says("one"))
	// L-025: who we are, what is there, and the comment
	if n := b.server.Requests(); n != 3 {
		t.Errorf("the first comment took %d requests, want 3", n)
	}
	b.comments.want(12, says("two"))
	b.comments.want(12, says("three"))
	b.calm(t)
	// L-026: the pull request has one comment of ours, which says the newest
	b.wantComment(t, 12, says("three"))
	// L-025: two events at once are one edit, and nothing is asked before it
	if n := b.server.Requests(); n != 4 {
		t.Errorf("it took %d requests, want 4", n)
	}
	b.comments.want(12, says("three"))
	b.calm(t)
	if n := b.server.Requests(); n != 4 || b.on(12)[2].Edits != 1 {
		t.Errorf("an unchanged comment makes it %d requests and %d edits, want 4 and 1", n, b.on(12)[2].Edits)
	}
	b.comments.want(13, says("other"))
	b.calm(t)
	b.wantComment(t, 13, says("other"))
	if n := b.server.Requests(); n != 6 {
		t.Errorf("the next pull request's makes it %d requests, want 6: who we are is known", n)
	}
	b.checkPace(t)
}

// A comment that somebody deleted is made again when there is something to say; that of a closed pull request is not.
func TestCommentWasDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.comments.want(12, says("one"))
	b.calm(t)
	b.server.DeleteComment(b.comments.of(12).ID)
	b.comments.want(12, says("two"))
	b.calm(t)
	b.wantComment(t, 12, says("two"))
	if got := b.comments.of(12).ID; got != b.on(12)[0].ID {
		t.Errorf("the comment is known as %d, want %d", got, b.on(12)[0].ID)
	}
	b.server.DeleteComment(b.comments.of(12).ID)
	closed := says("")
	closed.Closed = true
	b.comments.want(12, closed)
	b.comments.want(13, closed)
	b.calm(t)
	if len(b.on(12))+len(b.on(13)) != 0 {
		t.Errorf("closed pull requests have %+v and %+v, want nothing new", b.on(12), b.on(13))
	}
	b.comments.want(12, says("three"))
	b.calm(t)
	b.wantComment(t, 12, says("three"))
}

// The comment of the user that we were before may not be edited: we make another one, once, and keep to that.
func TestCommentOfAnotherUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.comments.want(12, says("one"))
	b.calm(t)
	earlier := b.server.Comment("harbor/shop", 12, 7, github.Text(says("one"), installation))
	b.server.DeleteComment(b.comments.of(12).ID)
	b.comments.change(12, func(comment *landfall.Comment) { comment.ID = earlier })
	for _, reason := range []string{"two", "three"} {
		b.comments.want(12, says(reason))
		b.calm(t)
		b.wantComment(t, 12, says(reason))
	}
	all := b.on(12)
	if len(all) != 2 || all[0].ID != earlier || all[0].Edits != 0 || b.comments.of(12).ID != all[1].ID {
		t.Errorf("got %+v, want the one of before as it was, and ours on record", all)
	}

	// A comment of ours that we may not edit is not made again.
	b.comments.want(12, says("four"))
	b.server.Fail(1, githubtest.Fault{Status: http.StatusForbidden})
	before := b.server.Requests()
	b.flush(t)
	if got, n := b.comments.of(12), b.server.Requests()-before; n != 2 || got.Attempts != 1 || len(b.on(12)) != 2 {
		t.Errorf("it took %d requests and %d attempts, and there are %+v; want 2, 1 and nothing new", n, got.Attempts, b.on(12))
	}
	b.calm(t)
	b.wantComment(t, 12, says("four"))
}

// Our comment is found behind hundreds of others.
func TestCommentIsFoundFarBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 250 {
		b.server.Comment("harbor/shop", 12, 7, fmt.Sprint("comment ", i))
	}
	b.server.Comment("harbor/shop", 12, githubtest.Self, github.Text(says("old"), "https://another.example.com"))
	b.server.Comment("harbor/shop", 12, githubtest.Self, github.Text(says("old"), installation))
	b.comments.want(12, says("new"))
	b.calm(t)
	b.wantComment(t, 12, says("new"))
	if n := b.server.Requests(); n != 5 {
		t.Errorf("it took %d requests, want 5: who we are, three pages, an edit", n)
	}
	b.checkPace(t)
}

// After any single fault at any request there is one comment, and it says the newest.
func TestCommentFaultsConverge(t *testing.T) {
	t.Parallel()
	reset := strconv.FormatInt(time.Date(2020, 11, 20, 15, 30, 0, 0, time.UTC).Unix(), 10)
	for name, fault := range map[string]githubtest.Fault{
		"502":                  {Status: 502},
		"502 after the write":  {Status: 502, Written: true},
		"401":                  {Status: 401},
		"403":                  {Status: 403},
		"403 with Retry-After": {Status: 403, Header: map[string]string{"Retry-After": "7200"}},
		"403 at the limit": {Status: 403,
			Header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset}},
		"429 with Retry-After":      {Status: 429, Header: map[string]string{"Retry-After": "120"}},
		"half an answer":            {Status: 200, Written: true, Body: `[{"id": 1, "bo`},
		"no answer":                 {Close: true},
		"no answer after the write": {Close: true, Written: true},
	} {
		for n := 1; n <= 6; n++ {
			t.Run(fmt.Sprintf("%s at request %d", name, n), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.server.Fail(n, fault)
				b.outbox.owe(commitA, landfall.StatusPending, "Queued")
				b.comments.want(12, says("one"))
				b.calm(t)
				b.comments.want(12, says("two"))
				b.outbox.owe(commitA, landfall.StatusError, "Cancelled by mira.")
				b.calm(t)
				b.settle(t)
				b.wantComment(t, 12, says("two"))
				checkCommit(t, b, commitA)
				b.checkPace(t)
			})
		}
	}
}

// A process that ends between the comment and its record finds the comment again.
func TestProcessEndsBeforeTheCommentIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.comments.want(12, says("one"))
	b.comments.lose = 2
	for range 2 {
		if err := b.Flush(t.Context()); landfall.KindOf(err) != landfall.Unavailable {
			t.Errorf("got %v, want the outbox's error", err)
		}
		b.restart(t)
	}
	b.comments.want(12, says("two"))
	b.calm(t)
	b.wantComment(t, 12, says("two"))
}

// An answer that says well and cannot be read tells nothing: it is asked for again.
func TestCommentHalfAnAnswer(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		b := newBench(t)
		b.server.Comment("harbor/shop", 12, githubtest.Self, github.Text(says("old"), installation))
		b.comments.want(12, says("one"))
		b.server.Fail(n, githubtest.Fault{Status: http.StatusOK, Written: true, Body: `[{"id": 1, "bo`})
		b.calm(t)
		b.wantComment(t, 12, says("one"))
	}
}

// Each answer of GitHub's to a comment has its consequence, and its sentence for people.
func TestCommentAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   githubtest.Fault
		dropped bool
		wait    time.Duration
		problem string
	}{
		"wrong credentials": {githubtest.Fault{Status: 401}, false, 10 * time.Minute, "renew the token"},
		"not allowed": {
			githubtest.Fault{Status: 403}, false, 10 * time.Minute,
			"The token may not comment on pull request 12 of harbor/shop: it needs write access to pull requests",
		},
		// L-024: GitHub's own waits are honoured, however long
		"a long pause": {
			githubtest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "43200"}}, false,
			12 * time.Hour, "wants no requests",
		},
		"not found": {githubtest.Fault{Status: 404}, true, 0, "does not show harbor/shop to us"},
		"gone":      {githubtest.Fault{Status: 410}, true, 0, "does not show harbor/shop to us"},
		"refused":   {githubtest.Fault{Status: 422}, true, 0, "refused the comment on pull request 12 of harbor/shop"},
		"down":      {githubtest.Fault{Status: 503}, false, time.Second, "GitHub answered 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.comments.want(12, says("one"))
			b.server.Fail(3, c.fault) // who we are, what is there, the comment
			start := b.clock.Now()
			b.flush(t)
			got := b.comments.of(12)
			if got.Dropped != c.dropped || !strings.Contains(got.Problem, c.problem) || strings.Contains(got.Problem, token) {
				t.Errorf("dropped: %t, %q; want %t, %q", got.Dropped, got.Problem, c.dropped, c.problem)
			}
			if wait := got.NextAt.Sub(start).Round(time.Second); !c.dropped && wait != c.wait {
				t.Errorf("it waits %s, want %s", wait, c.wait)
			}
			b.comments.want(12, says("two"))
			b.calm(t)
			b.wantComment(t, 12, says("two"))
			if strings.Contains(b.log.String(), token) {
				t.Errorf("the log is %q", b.log)
			}
		})
	}
}

// Statuses go before comments, whatever came first.
func TestStatusesGoFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.comments.want(12, says("one"))
	b.outbox.owe(commitA, landfall.StatusPending, "Queued")
	b.outbox.owe(commitA, landfall.StatusSuccess, "Released")
	for n := range 2 {
		b.server.Fail(n+2, githubtest.Fault{Status: http.StatusTooManyRequests,
			Header: map[string]string{"Retry-After": "60"}})
		b.flush(t)
		if len(b.server.Statuses("")) != 1 && n == 0 || len(b.on(12)) != 0 {
			t.Errorf("got %+v and %+v, want a status and no comment", b.server.Statuses(""), b.on(12))
		}
		if err := b.clock.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	b.calm(t)
	b.wantComment(t, 12, says("one"))
	// L-023: what goes to GitHub waits in an outbox, and goes at one pace
	b.checkPace(t)
}
