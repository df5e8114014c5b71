package accept_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// catchesUp looks at the repository, and returns what the log of the newest run says.
func (l *listener) catchesUp() string {
	l.T.Helper()
	if err := l.Receiver.CatchUp(l.T.Context(), l.app); err != nil {
		l.T.Fatal(err)
	}
	runs, err := l.Receiver.DB.UnfinishedOfApp(l.T.Context(), l.app)
	if err != nil || len(runs) == 0 {
		return ""
	}
	lines := testkit.Must(l.Receiver.DB.Log(l.T.Context(), runs[0].ID, 0, 100))(l.T)
	var log strings.Builder
	for _, line := range lines {
		log.WriteString(line.Text + "\n")
	}
	return log.String()
}

// at returns where the app sees a reference; empty where it sees none.
func (l *listener) at(ref landfall.RefName) landfall.CommitSHA {
	l.T.Helper()
	head, err := l.Receiver.DB.Head(l.T.Context(), l.app, ref)
	if err := landfall.Ignore(err, landfall.NotFound); err != nil {
		l.T.Fatal(err)
	}
	return head.SHA
}

// A forge that begins an answer, and never ends it, does not keep a worker.
func TestCatchUpGivesUp(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	f.url = silent.URL
	f.Receiver.Mirrors.Dialer.AllowedHosts = []string{strings.TrimPrefix(silent.URL, "http://")}
	f.Receiver.ForgeLimit = 50 * time.Millisecond
	l := f.listener()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	err := l.Receiver.CatchUp(ctx, l.app)
	// L-018: a look at a repository ends, whatever its forge does, and why it saw nothing is known
	if err != nil || ctx.Err() != nil ||
		testkit.Must(l.Receiver.DB.RepositoryProblem(ctx, l.app))(t).Problem == "" {
		t.Errorf("got %v, want none, and the reason", err)
	}
}

// A repository whose forge does not answer has one job, however often its repository should have been looked at; after a start
// another one, as the first may have died with its process.
func TestWakeCatchUpMakesOneJob(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	l := f.listener()
	for range 3 {
		f.listener() // of the same repository
	}
	for _, wake := range []struct {
		round  int64
		within time.Duration
	}{{1, 0}, {1, 0}, {1, time.Hour}, {2, 0}, {2, time.Hour}} {
		if err := l.Receiver.WakeCatchUp(t.Context(), wake.round, wake.within); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var looks int
	err := l.Receiver.DB.Update(ctx, func(tx *store.Tx) error {
		tx.Enqueue(accept.QueueCatchUp+"/end", "", time.Time{})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	queue := store.Queue{DB: l.Receiver.DB, Process: "one", Queues: map[string]int{accept.QueueCatchUp: 1},
		Logger: slog.New(slog.DiscardHandler), Work: func(_ context.Context, topic, _ string) error {
			if topic != accept.TopicLook {
				stop()
				return nil
			}
			looks++
			return nil
		}}
	if err := queue.Run(ctx); err != nil {
		t.Fatal(err)
	}
	// L-018: jobs do not pile up
	testkit.Equal(t, "jobs of two rounds", looks, 2)
}

// Pushes of which no delivery told are found in the repository: those after the first look, whether something was told
// of the reference before or not.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.line(4)
	l := f.listener()
	now := time.Now()
	l.Receiver.Now = func() time.Time { return now }
	const other, tag = landfall.RefName("refs/heads/other"), landfall.RefName("refs/tags/v1")
	l.pushes(c[0])
	l.Git("update-ref", string(other), string(c[0]))
	l.catchesUp()
	// L-018: what was there before the app is no push
	testkit.Equal(t, "runs after the first look", len(l.unfinished()), 0)

	one := l.pushes(c[1])
	l.hears(one...)
	two := l.pushes(c[2])
	log := l.catchesUp()
	// L-018: a push of which no delivery told becomes a run, which says so
	testkit.Equal(t, "the branch", l.at(l.Ref), c[2])
	if !strings.Contains(log, "recovered: no delivery told of this push") {
		t.Errorf("the log is %q", log)
	}
	l.worked()
	l.hears(two...)
	l.catchesUp()
	// L-018: a delivery that comes later, and another look, find it made
	testkit.Equal(t, "runs that are not over", len(l.unfinished()), 0)

	l.Git("update-ref", string(other), string(c[3]))
	l.Git("update-ref", string(tag), string(c[1]))
	l.catchesUp()
	// L-018: so do a branch and a tag of which none ever told
	testkit.Equal(t, "the other branch", l.at(other), c[3])
	testkit.Equal(t, "the tag", l.at(tag), c[1])
	l.worked()

	l.pushes(c[1])
	l.Git("update-ref", "-d", string(other))
	l.catchesUp()
	// P-009: a forge that shows the time before the last push moves nothing back
	testkit.Equal(t, "the branch, shown where it was", l.at(l.Ref), c[2])
	testkit.Equal(t, "the other branch, not shown", l.at(other), c[3])
	now = now.Add(2 * time.Minute)
	l.catchesUp()
	// L-018: what it still shows later has happened
	testkit.Equal(t, "the branch that was set back", l.at(l.Ref), c[1])
	testkit.Equal(t, "the branch that was deleted", l.at(other), "")
}

// Fifty apps of one repository look at it once, together, and each finds what it has missed.
func TestCatchUpAsksOnce(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	var asked atomic.Int64
	behind := httputil.NewSingleHostReverseProxy(testkit.Must(url.Parse(f.url))(t))
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(counted.Close)
	f.url = counted.URL
	f.Receiver.Mirrors.Dialer.AllowedHosts = []string{strings.TrimPrefix(counted.URL, "http://")}
	c := f.line(2)
	var all []*listener
	for range 50 {
		all = append(all, f.listener())
	}
	all[0].pushes(c[0])
	for look := range 2 {
		before := asked.Load()
		if err := f.Receiver.CatchUpRepository(t.Context(), f.url); err != nil {
			t.Fatal(err)
		}
		// L-025: no more requests than there are repositories
		testkit.Equal(t, "requests to the forge", asked.Load()-before, 1)
		for _, l := range all {
			// L-018: each app finds the push of which no delivery told, and the first look accepts nothing
			testkit.Equal(t, "unfinished runs", len(l.unfinished()), look)
		}
		all[0].pushes(c[1])
	}
}
