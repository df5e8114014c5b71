package accept_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/store"
)

// forge has a repository, and tells apps of it. Nobody works their runs.
type forge struct {
	*shop

	url string
}

func newForge(t *testing.T) *forge {
	t.Helper()
	s := newShop(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + s.Repos.Path(accepttest.AppID), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1"}})
	t.Cleanup(server.Close)
	dialer := &builder.Dialer{AllowedHosts: []string{strings.TrimPrefix(server.URL, "http://")}}
	s.Receiver.Mirrors = &builder.Mirrors{Root: t.TempDir(), Dialer: dialer}
	return &forge{s, server.URL}
}

// line makes commits, each the child of the one before.
func (f *forge) line(n int) []landfall.CommitSHA {
	f.T.Helper()
	line := []landfall.CommitSHA{f.Commit("0")}
	for len(line) < n {
		tree := f.Git("rev-parse", string(line[0])+"^{tree}")
		line = append(line, landfall.CommitSHA(f.Git("-c", "user.name=Ada", "-c", "user.email=ada@example.com",
			"commit-tree", tree, "-p", string(line[len(line)-1]), "-m", fmt.Sprint(len(line)))))
	}
	return line
}

// listener is an app that hears of a forge's branch.
type listener struct {
	*forge

	app   string
	heads []landfall.CommitSHA // where the app saw the branch, at first and after all that it was told and asked
	asks  bool                 // a deletion was told, which has no run that could ask
}

func (f *forge) listener() *listener {
	f.T.Helper()
	l := &listener{forge: f, app: uuid.NewString(), heads: []landfall.CommitSHA{""}}
	err := f.Receiver.DB.Update(f.T.Context(), func(tx *store.Tx) error {
		return tx.CreateApp(f.T.Context(), landfall.App{
			ID: l.app, Namespace: landfall.DefaultNamespace, Name: l.app, Branch: "main", UIDSpace: uuid.New(),
			Repository: f.url})
	})
	if err != nil {
		f.T.Fatal(err)
	}
	f.Git("update-ref", "-d", string(f.Ref))
	return l
}

// pushes moves the branch from one commit to the next, and returns what there is to tell.
func (l *listener) pushes(to ...landfall.CommitSHA) []landfall.Push {
	l.T.Helper()
	var all []landfall.Push
	for _, u := range l.MoveRef(to...) {
		forced := false
		if u.Before != "" && u.After != "" {
			forced = l.Git("merge-base", string(u.Before), string(u.After), "--all") != string(u.Before)
		}
		all = append(all, landfall.Push{App: l.app, Source: landfall.FromWebhook, Ref: u.Ref, Before: u.Before,
			After: u.After, Forced: forced})
	}
	return all
}

// pulled is what the event of a pull request tells of a push.
func pulled(p landfall.Push) landfall.Push {
	p.Before, p.Forced, p.PullRequest = "", false, &landfall.PullRequest{Number: 12}
	return p
}

// hears tells the app of pushes, in the given order.
func (l *listener) hears(pushes ...landfall.Push) {
	l.T.Helper()
	for _, p := range pushes {
		err := l.Receiver.DB.Update(l.T.Context(), func(tx *store.Tx) error {
			_, err := l.Receiver.Acceptor.Accept(l.T.Context(), tx, p)
			return err
		})
		if err != nil {
			l.T.Fatal(err)
		}
		l.asks = l.asks || p.Deleted()
		l.look()
	}
}

// settles lets what waits for its place have it, as workers do.
func (l *listener) settles() {
	l.T.Helper()
	if !l.asks && len(l.waiting()) == 0 {
		return
	}
	if err := l.Receiver.Place(l.T.Context(), l.app, l.Ref); err != nil {
		l.T.Fatal(err)
	}
	l.asks = false
	l.look()
}

func (l *listener) waiting() []landfall.Push {
	l.T.Helper()
	waiting, err := l.Receiver.DB.Unplaced(l.T.Context(), l.app, l.Ref)
	if err != nil {
		l.T.Fatal(err)
	}
	return waiting
}

func (l *listener) look() {
	l.T.Helper()
	head, err := l.Receiver.DB.Head(l.T.Context(), l.app, l.Ref)
	if err != nil {
		l.T.Fatal(err)
	}
	l.heads = append(l.heads, head.SHA)
}

// unfinished returns the runs that are not over.
func (l *listener) unfinished() []landfall.Run {
	l.T.Helper()
	runs, err := l.Receiver.DB.UnfinishedOfApp(l.T.Context(), l.app)
	if err != nil {
		l.T.Fatal(err)
	}
	return runs
}

// worked ends the runs that are not over, unless they wait for a place.
func (l *listener) worked() {
	l.T.Helper()
	for _, run := range l.unfinished() {
		if slices.ContainsFunc(l.waiting(), func(p landfall.Push) bool { return p.After == run.Commit }) {
			continue
		}
		run.State, run.Finished = landfall.RunSucceeded, time.Now()
		if err := l.Receiver.DB.Update(l.T.Context(), func(tx *store.Tx) error {
			return tx.FinishRun(l.T.Context(), run)
		}); err != nil {
			l.T.Fatal(err)
		}
	}
}

// wantHead fails the test unless the app sees the branch where it is, nothing waits, and no other commit has a run.
func (l *listener) wantHead(what string, want landfall.CommitSHA) {
	l.T.Helper()
	if got := l.heads[len(l.heads)-1]; got != want {
		l.T.Errorf("%s: the head is %q, want %q, where the branch is", what, got, want)
	}
	runs, waiting := l.unfinished(), l.waiting()
	if len(runs) > 1 || len(runs) == 1 && runs[0].Commit != want || len(waiting) > 0 {
		l.T.Errorf("%s: got the runs %+v and, waiting, %+v, want at most a run of %q", what, runs, waiting, want)
	}
}

// A branch that came back to where it was: what was told of it in the wrong order, or twice, does not hide where it is.
func TestOrderOfABranchThatCameBack(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.line(4)
	for name, story := range map[string]struct {
		to   []landfall.CommitSHA
		told []int // from 1; a pull request's event: negative
	}{
		"around, told from the middle":            {[]landfall.CommitSHA{c[0], c[1], c[2], c[0]}, []int{2, 4, 3}},
		"around, and one was lost":                {[]landfall.CommitSHA{c[0], c[1], c[2], c[0]}, []int{2, 4}},
		"there and back, all told twice":          {[]landfall.CommitSHA{c[0], c[1], c[0]}, []int{1, 1, 2, 3, 2, 3}},
		"there and back, the first told later":    {[]landfall.CommitSHA{c[0], c[1], c[0]}, []int{2, 3, 2}},
		"around, and an old push last":            {[]landfall.CommitSHA{c[0], c[1], c[2], c[0], c[1]}, []int{2, 5, 3, 4}},
		"deleted, and a pull request's late news": {[]landfall.CommitSHA{c[0], c[1], ""}, []int{1, 2, 3, -1}},
		"forward, back unheard, and forward":      {[]landfall.CommitSHA{c[1], c[2], c[0], c[1]}, []int{2, 4}},
		"deleted, and one before was lost":        {[]landfall.CommitSHA{c[0], c[1], ""}, []int{3, 1}},
		"deleted, told in reverse":                {[]landfall.CommitSHA{c[0], ""}, []int{2, 1}},
		"made again, told before the deletion":    {[]landfall.CommitSHA{c[0], "", c[0]}, []int{1, 3, 2}},
		"made again, told in reverse":             {[]landfall.CommitSHA{c[0], "", c[1]}, []int{3, 2, 1}},
	} {
		l := f.listener()
		pushes := l.pushes(story.to...)
		for _, n := range story.told {
			if n < 0 {
				l.hears(pulled(pushes[-n-1]))
			} else {
				l.hears(pushes[n-1])
			}
			l.settles()
		}
		// N-003: the app's head is the forge's
		l.wantHead(name, story.to[len(story.to)-1])
	}
}

// A push that rewrote history proves nothing about what it came before, although it goes from one known place to
// another.
func TestOrderOfARewrittenBranch(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.line(4)
	l := f.listener()
	l.hears(l.pushes(c[1])...)
	l.hears(l.pushes(c[0], c[2])[1])
	l.settles()
	l.wantHead("before", c[2])
	l.hears(l.pushes(c[1], c[0])[1])
	l.settles()
	// N-003: the app's head is the forge's
	l.wantHead("after a push of which one before was lost", c[0])

	l = f.listener()
	first := l.pushes(c[0], c[1], c[3])
	l.hears(first[0], first[2])
	l.settles()
	l.hears(l.pushes(c[2], c[3])[1]) // so the branch left the last commit in between
	l.wantHead("before", c[3])
	l.hears(l.pushes(c[0], c[1])[1])
	l.settles()
	l.wantHead("after the branch went its way again, all unheard but the last push", c[1])
}

// chance is a random history of a branch and of what is told of it.
type chance struct {
	*listener
	*rand.Rand

	line    []landfall.CommitSHA // of which the last one is never pushed
	honest  bool                 // the branch only goes forward
	losses  bool                 // not everything is told
	pending []landfall.Push      // is to be told
	at      landfall.CommitSHA   // where the branch is
	lost    bool                 // nothing was told of the last push
}

// next is where the branch goes.
func (c *chance) next() landfall.CommitSHA {
	at := slices.Index(c.line, c.at)
	switch {
	case c.honest:
		return c.line[min(at+1+c.IntN(2), len(c.line)-2)]
	case c.IntN(5) == 0:
		return ""
	}
	return c.line[c.IntN(4)]
}

// move moves the branch, and adds what there is to tell.
func (c *chance) move() {
	next := c.next()
	if next == c.at {
		return
	}
	c.at = next
	push := c.pushes(next)[0]
	if c.lost = c.losses && c.IntN(4) == 0; c.lost {
		return
	}
	for range 1 + c.IntN(5)/3 {
		c.pending = append(c.pending, push)
	}
	if c.IntN(4) == 0 && !push.Deleted() {
		c.pending = append(c.pending, pulled(push))
	}
}

// tell tells one thing of those that are to be told.
func (c *chance) tell() {
	if len(c.pending) == 0 {
		return
	}
	n := c.IntN(len(c.pending))
	c.hears(c.pending[n])
	c.pending = slices.Delete(c.pending, n, n+1)
}

// Whatever is pushed, and in whatever order and however often it is told: in the end the head is where the branch is.
// What is lost is made good by the next push. LANDFALL_ORDER_HISTORIES is how many histories there are.
func TestOrderAtRandom(t *testing.T) {
	t.Parallel()
	const steps = 24
	histories := 200
	if n, err := strconv.Atoi(os.Getenv("LANDFALL_ORDER_HISTORIES")); err == nil {
		histories = n
	}
	f := newForge(t)
	line := f.line(10)
	for n := range histories {
		c := &chance{listener: f.listener(), Rand: rand.New(rand.NewPCG(uint64(n), steps)), line: line, honest: n%3 == 0,
			losses: n%2 == 0}
		what := fmt.Sprintf("history %d (honest %v, losses %v)", n, c.honest, c.losses)
		for range steps {
			[]func(){c.move, c.move, c.tell, c.tell, c.tell, c.settles, c.worked}[c.IntN(7)]()
		}
		for len(c.pending) > 0 {
			c.tell()
		}
		c.settles()
		if !c.losses || c.honest && !c.lost {
			// R5, L-002: all was told, or history never rewritten and the last push told
			c.wantHead(what, c.at)
		}
		if c.honest {
			// L-001: the head never went back
			if !slices.IsSortedFunc(c.heads, func(a, b landfall.CommitSHA) int {
				return slices.Index(line, a) - slices.Index(line, b)
			}) {
				t.Errorf("%s: the head was at %v, want it to go forward only: %v", what, c.heads, line)
			}
		}
		c.hears(c.pushes(line[len(line)-1])...)
		c.settles()
		// N-003: the next push heals what was lost
		c.wantHead(what+" after the next push", line[len(line)-1])
	}
}
