package github_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/logtest"
)

const (
	token   = "ghp_nobody_may_see_this"
	commitA = "5f1c2e7a90b3d4468e1f7a2b6c9d0e3f48a5b716"
	commitB = "c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b"
	commitC = "9e07b4d2816fa35cc4d18f60b2e97a3d51c6f048"
)

var description = sync.OnceValues(githubtest.Load)

// outbox is a github.Outbox in memory. Its reports are in the order of their IDs.
type outbox struct {
	mu      sync.Mutex
	reports []landfall.Report
	fail    error // what every method returns, when set
	lose    int   // so many times, Sent fails
}

func (o *outbox) Due(_ context.Context, now time.Time, limit int) ([]landfall.Report, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	type line struct {
		repository landfall.GitHubRepository
		commit     landfall.CommitSHA
		context    string
	}
	var due []landfall.Report
	seen := map[line]bool{}
	for _, r := range o.reports {
		l := line{r.Repository, r.Commit, r.Context}
		if !r.Sent.IsZero() || r.Dropped || seen[l] {
			continue
		}
		seen[l] = true
		if !r.NextAt.After(now) {
			due = append(due, r)
		}
	}
	slices.SortStableFunc(due, func(a, b landfall.Report) int { return cmp.Compare(rank(a), rank(b)) })
	return due[:min(len(due), limit)], o.fail
}

func rank(r landfall.Report) int {
	if r.State == landfall.StatusPending {
		return 1
	}
	return 0
}

func (o *outbox) change(id int64, f func(r *landfall.Report)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.reports[id-1])
	return o.fail
}

func (o *outbox) DropOvertaken(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, r := range o.reports {
		later := slices.ContainsFunc(o.reports[i+1:], func(l landfall.Report) bool {
			return l.Commit == r.Commit && l.Context == r.Context
		})
		if r.State == landfall.StatusPending && r.Sent.IsZero() && r.Attempts == 0 && later {
			o.reports[i].Dropped = true
		}
	}
	return o.fail
}

func (o *outbox) Sent(_ context.Context, at time.Time, ids ...int64) error {
	if o.lose > 0 {
		o.lose--
		return &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"}
	}
	var err error
	for _, id := range ids {
		err = errors.Join(err, o.change(id, func(r *landfall.Report) { r.Sent = at }))
	}
	return err
}

func (o *outbox) Postpone(_ context.Context, id int64, at time.Time, problem string) error {
	return o.change(id, func(r *landfall.Report) { r.NextAt, r.Problem, r.Attempts = at, problem, r.Attempts+1 })
}

func (o *outbox) Drop(_ context.Context, id int64, problem string) error {
	return o.change(id, func(r *landfall.Report) { r.Problem, r.Dropped = problem, true })
}

// owe adds a report.
func (o *outbox) owe(commit landfall.CommitSHA, state landfall.StatusState, text string) {
	o.reports = append(o.reports, landfall.Report{
		ID: int64(len(o.reports) + 1), App: "shop", Run: "r1", Commit: commit, Context: "landfall/shop", State: state,
		Repository:  landfall.GitHubRepository{ID: 710200300, Owner: "harbor", Name: "shop"},
		Description: text, Target: "http://shop--owf2k7qa.landfall.test/",
	})
}

func (o *outbox) report(id int64) landfall.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reports[id-1]
}

// owed returns how many reports are neither sent nor dropped.
func (o *outbox) owed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, r := range o.reports {
		if r.Sent.IsZero() && !r.Dropped {
			n++
		}
	}
	return n
}

// clock stands still until somebody waits.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return ctx.Err()
}

// written is a request that writes.
type written struct {
	at      time.Time // by the clock
	comment bool
}

// bench is a sender with all it needs.
type bench struct {
	*github.Sender

	server   *githubtest.Server
	outbox   *outbox
	comments *comments
	clock    *clock
	log      *logtest.Buffer

	mu    sync.Mutex
	times []written     // the requests that write
	heads []http.Header // of the requests
	http  *http.Client  // what the sender's client sends by
	round http.RoundTripper
}

// RoundTrip notes each request.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	if r.Method != http.MethodGet {
		b.times = append(b.times, written{b.clock.Now(), strings.Contains(r.URL.Path, "/comments")})
	}
	b.heads = append(b.heads, r.Header)
	b.mu.Unlock()
	return b.round.RoundTrip(r)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		server: githubtest.New(t, d, token), outbox: &outbox{}, comments: &comments{}, log: &logtest.Buffer{},
		round: &http.Transport{},
		// Long ago, so that go-github, which looks at the machine's clock, remembers no limit of ours.
		clock: &clock{now: time.Date(2020, 11, 20, 15, 0, 0, 0, time.UTC)},
	}
	b.http = &http.Client{Transport: b}
	b.restart(t)
	return b
}

// restart makes a new sender on the same outbox, as after the end of the process.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	client, err := github.NewClient(b.server.URL, token, b.http)
	if err != nil {
		t.Fatal(err)
	}
	b.Sender = &github.Sender{
		Client: client, Outbox: b.outbox, Comments: b.comments, DropOvertaken: b.outbox.DropOvertaken, URL: installation, Now: b.clock.Now, Wait: b.clock.Wait,
		Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	}
}

// flush sends what is due.
func (b *bench) flush(t *testing.T) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settle lets time pass until nothing is owed.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	for range 1000 {
		b.flush(t)
		if b.outbox.owed() == 0 {
			return
		}
		if err := b.clock.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("after 1000 minutes %d reports are owed: %+v", b.outbox.owed(), b.outbox.reports)
}
