package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/github/githubtest"
)

// The list of crash points is the list of the places that call Here, and no step of the pipeline is without one.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	names := crashpoint.Names()
	if len(names) < 25 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("got %d crash points %v, want 25 or more, each once", len(names), names)
	}
	for _, step := range landfall.Steps() {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, string(step)+".") }) {
			t.Errorf("the step %s has no crash point", step)
		}
	}
	called := pointsInSource(t, filepath.Join("..", ".."))
	for _, name := range names {
		_, what, _ := strings.Cut(name, ".")
		if !called[name] && !called["*."+what] {
			t.Errorf("nothing calls Here(%q)", name)
		}
	}
	for name := range called {
		if !strings.HasPrefix(name, "*.") && !slices.Contains(names, name) {
			t.Errorf("Here(%q) is called, and crashpoint.Names does not have it", name)
		}
	}
}

// pointsInSource returns the names that Here is called with: "*.before" where the first part is a step's name.
func pointsInSource(t *testing.T, root string) map[string]bool {
	t.Helper()
	points := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Here" || len(call.Args) != 1 {
				return true
			}
			if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "crashpoint" {
				return true
			}
			name, ok := pointOf(call.Args[0])
			if !ok {
				t.Errorf("%s calls Here with a name that cannot be read", path)
			}
			points[name] = true
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return points
}

func pointOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		name, err := strconv.Unquote(e.Value)
		return name, err == nil
	case *ast.BinaryExpr:
		what, ok := pointOf(e.Y)
		return "*" + what, ok
	}
	return "", false
}

// atOnce is how many servers are tried at a time: much of a try is waiting.
const atOnce = 2

// each runs a test for every name, some at a time whatever -parallel says.
func each(t *testing.T, names []string, test func(t *testing.T, name string)) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			t.Run(name, func(t *testing.T) { test(t, name) })
			return nil
		})
	}
	_ = group.Wait()
}

// The program is killed at every point, once: no accepted push is lost, none is applied twice (V7), nothing is visible by
// half, every status is final (V8), and the runs go on within the contract's seconds.
func TestCrash(t *testing.T) {
	t.Parallel()
	crashes(t, crashpoint.OfPush())
}

// The program is killed again while it picks up what the first kill left.
func TestCrashWhileRecovering(t *testing.T) {
	t.Parallel()
	crashes(t, []string{
		"remote.moved accept.pushed", "remote.moved accept.stored", "accept.committed run.leased", "upload.static upload.static",
		"build.kept commit.versioned", "commit.pointed end.finished", "fail.before fail.before", "report.sent report.sent",
		"report.commented report.told", // the comment is there already: whether it is written again depends on what it said
		"collect.marked collect.deleted", "end.finished end.finished fetch.before",
	})
}

// aServer is how many times one server is killed: what it left is the start of the next try.
const aServer = 6

// crashes tries each list of points.
func crashes(t *testing.T, tries []string) {
	t.Helper()
	var servers []string
	for some := range slices.Chunk(tries, aServer) {
		servers = append(servers, strings.Join(some, ", "))
	}
	each(t, servers, func(t *testing.T, name string) {
		t.Helper()
		c := newCrashed(t)
		for points := range strings.SplitSeq(name, ", ") {
			t.Log("killed at", points)
			c.try(strings.Fields(points))
		}
		c.quiet(farApp)
		c.wantClosed(c.kills)
		wantSound(t, c.site, true)
	})
}

// roundsVariable says how often TestCrashAtRandom kills.
const (
	roundsVariable = "LANDFALL_CRASH_ROUNDS"
	fewRounds      = 3
	pushesARound   = 8
)

// The program is killed at random moments while pushes come in without a pause and visitors look on.
func TestCrashAtRandom(t *testing.T) {
	t.Parallel()
	rounds := fewRounds
	if text := os.Getenv(roundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("%s is %q; right would be a number", roundsVariable, text)
		}
	}
	w := newTwins(t)
	w.settled(1)
	w.opens()
	w.stop()
	w.env = append(w.env, w.token...)
	w.start()
	visitors := []*watcher{w.watch(nearApp), w.watch(farApp)}
	var chain []landfall.CommitSHA
	at := 1
	for range pushesARound * rounds {
		at++
		chain = append(chain, w.near.round(nearApp, at))
	}
	enough := make(chan struct{})
	var senders sync.WaitGroup
	senders.Go(func() { w.pushAll(chain, enough) })
	for range rounds {
		at++
		w.far.round(farApp, at)
		d := w.far.send("main")
		senders.Go(func() { w.sendUntilHeard(d) })
		<-time.After(rand.N(time.Second))
		began := time.Now()
		w.kill()
		w.wantInTime(time.Since(began), 0)
	}
	close(enough)
	senders.Wait()
	at++
	w.wantSaid(w.settled(at))
	w.quiet(farApp)
	for _, v := range visitors {
		v.sees(at)
		w.wantRound(v.app, v.app, at)
		if got := v.rounds(t); !slices.IsSorted(got) {
			t.Errorf("a visitor of %s saw the rounds %v, want none twice", v.app, got)
		}
	}
	w.wantClosed(rounds)
	wantSound(t, w.site, true)
}

// pushAll pushes the commits to main one after the other, each until it is there, as long as it is not enough.
func (w *twins) pushAll(chain []landfall.CommitSHA, enough <-chan struct{}) {
	for _, commit := range chain {
		for {
			select {
			case <-enough:
				return
			default:
			}
			if _, err := w.near.try("push", "origin", string(commit)+":refs/heads/main"); err == nil {
				break
			}
		}
	}
}

// sendUntilHeard sends a delivery until it is answered: the forge does that when somebody asks it to.
func (w *twins) sendUntilHeard(d delivery) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if status := w.sendTo(d); status == http.StatusAccepted || status == http.StatusOK {
			return
		}
	}
	w.t.Errorf("nobody answered the delivery %s", d.id)
}

// crashed is a server that is killed again and again.
type crashed struct {
	*twins
	at       int                     // the round that both apps are at
	releases map[string]landfall.UID // of that round
	kills    int
}

func newCrashed(t *testing.T) *crashed {
	t.Helper()
	c := &crashed{twins: newStoppedTwins(t, newEngine(t)), at: 1}
	c.env = append(c.env, c.token...)
	c.start()
	c.populate()
	c.releases = c.settled(c.at)
	// P-014: one command started the one process that took both pushes to their releases.
	c.wantRound(nearApp, nearApp, c.at)
	c.opens()
	c.owesNothing()
	return c
}

// owesNothing waits until the forge was told everything: what is owed would be told at the next start, whatever is pushed then.
func (c *crashed) owesNothing() {
	c.t.Helper()
	c.eventually("nothing is owed to the forge", func() bool {
		_, got := c.metrics(c.Token)
		return got[`landfall_outbox_owed{kind="status"}`]+got[`landfall_outbox_owed{kind="comment"}`] == 0
	})
}

// try kills a server that owes nothing at the first point while both apps are pushed to, and at each further point during the start that follows, and
// then compares everything with what would be there without any kill.
func (c *crashed) try(points []string) {
	c.t.Helper()
	first, from := c.releases, c.at
	expires := strings.HasPrefix(points[0], "collect.")
	if expires { // the second push from now makes that release old enough
		c.at++
		c.settled(c.at)
	}
	c.stop()
	c.start("LANDFALL_CRASH=" + points[0])
	visitors := []*watcher{c.watch(nearApp), c.watch(farApp)}
	for _, v := range visitors {
		v.sees(c.at)
	}

	served, next := []int{c.at}, c.at+1
	if strings.HasPrefix(points[0], "fail.") {
		next = 0
	}
	a := c.begin(next)
	c.dies()
	for _, point := range points[1:] {
		c.start("LANDFALL_CRASH=" + point)
		c.dies()
	}
	c.kills += len(points)
	began := time.Now()
	c.start()
	released := c.wantRecovered(a, began, time.Now())
	if a.round != 0 {
		c.at = a.round
		served = append(served, c.at)
	}
	for _, v := range visitors {
		v.sees(c.at)
		c.wantRound(v.app, v.app, c.at)
		if a.round != 0 {
			c.wantRound(v.app, v.app+"--"+string(released[v.app]), c.at)
		}
		if expires {
			c.wantCollected(v.app, first[v.app])
		} else {
			c.wantRound(v.app, v.app+"--"+string(first[v.app]), from)
		}
	}

	c.at++
	c.releases = c.settled(c.at)
	c.wantSaid(c.releases) // it works as before
	c.owesNothing()
	for _, v := range visitors {
		v.sees(c.at)
		v.wantSteady(c.t, append(served, c.at)...)
	}
}

// wantRecovered fails the test unless both pushes of an attempt come to what they would have come to without a kill, and
// returns their releases. began and ready say when the server was started and when it was ready.
func (w *twins) wantRecovered(a *attempt, began, ready time.Time) map[string]landfall.UID {
	w.t.Helper()
	released := map[string]landfall.UID{}
	continued := ready
	for app, commit := range a.commits {
		if w.accepted(a, app) {
			run := w.ends(app, commit, a.state)
			continued = latest(continued, wentOn(run, began))
		} else {
			w.again(a, app)
		}
	}
	// L-020: the delivery was stored before it was answered, and its id stands for it: when it comes again, it is a repeat.
	if again := w.deliver(w.installation(), a.delivery); again.status != http.StatusOK || len(again.Runs) != 1 {
		w.t.Errorf("the repeated delivery got %d with the runs %v, want 200 with one run", again.status, again.Runs)
	}
	for app, commit := range a.commits {
		run := w.ends(app, commit, a.state)
		runs := slices.DeleteFunc(w.runs(app), func(r client.Run) bool { return r.Commit != commit })
		// P-002: however often the push was heard of, and whatever was killed, it was handled once.
		if len(runs) != 1 {
			w.t.Errorf("%s has %d runs of %s, want one", app, len(runs), commit.Short())
		}
		released[app] = run.Release
		if address := "http://" + app + "--"; app == nearApp && strings.Contains(a.terminal, address) {
			wantText(w.t, toldBy(a.terminal), address+string(run.Release)+".")
		}
	}
	status := landfall.StatusSuccess
	if a.state == landfall.RunFailed {
		status = landfall.StatusFailure
	}
	heard := w.told(a.commits[farApp])
	wantEqual(w.t, "the last status of "+farApp, heard[len(heard)-1].State, string(status))
	w.wantInTime(ready.Sub(began), continued.Sub(ready))
	return released
}

// wantClosed fails the test unless the forge has heard everything in turn. Each kill may have come after a status was sent and
// before that was recorded: that status was sent again, and says the same.
func (w *twins) wantClosed(kills int) {
	w.t.Helper()
	heard := w.api.Statuses("")
	slices.SortStableFunc(heard, func(a, b githubtest.Status) int { return cmp.Compare(a.SHA, b.SHA) })
	told := slices.Compact(slices.Clone(heard))
	if len(heard)-len(told) > kills {
		w.t.Errorf("after %d kills the forge heard %d statuses twice: %+v", kills, len(heard)-len(told), heard)
	}
	// L-005: every status that was pending was followed by exactly one final one, also where a kill came between.
	wantPairs(w.t, told)
}

// again does what a sender does who was not told that a push was accepted.
func (w *twins) again(a *attempt, app string) {
	w.t.Helper()
	if app == farApp {
		if status := w.sendTo(a.delivery); status != http.StatusAccepted && status != http.StatusOK {
			w.t.Errorf("the delivery that was not answered got %d when it came again, want 202 or 200", status)
		}
		return
	}
	if run, ok := w.runOf(app, a.commits[app]); ok {
		w.t.Errorf("the branch did not move, and there is the run %s", run.ID)
	}
	w.near.push("main")
}

// wantCollected fails the test unless a release is expired, and what it alone had is gone in the end.
func (w *twins) wantCollected(app string, release landfall.UID) {
	w.t.Helper()
	wantStatus(w.t, w.site, app+"--"+string(release), http.StatusGone)
	prefix := assets.Prefix(w.objectsOf(app), "/", release)
	w.eventually("what the expired release alone had is collected", func() bool {
		return !slices.ContainsFunc(w.stored(app), func(key string) bool { return strings.HasPrefix(key, prefix) })
	})
}

// wentOn returns when a run was first worked on after a start; the zero time when nothing was left to do.
func wentOn(run client.Run, began time.Time) time.Time {
	var first time.Time
	for _, step := range run.Steps {
		if step.Started.After(began) && (first.IsZero() || step.Started.Before(first)) {
			first = step.Started
		}
	}
	return first
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// The contract's seconds, and how much slower a machine may be that does much else.
const (
	readyWithin     = 5 * time.Second
	continuesWithin = 2 * time.Second
	slowness        = 10
)

func (w *twins) wantInTime(ready, continued time.Duration) {
	w.t.Helper()
	w.t.Logf("ready after %s, runs go on %s after that", ready.Round(time.Millisecond), continued.Round(time.Millisecond))
	if ready > slowness*readyWithin || continued > slowness*continuesWithin {
		w.t.Errorf("that is too late: the contract says %s and %s", readyWithin, continuesWithin)
	}
}
