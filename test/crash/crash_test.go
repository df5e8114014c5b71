package crash_test

import (
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

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
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

// The program is killed at every point, once: no accepted push is lost, none is applied twice (V7), nothing is visible
// by half, every status is final (V8), and the runs go on within the contract's seconds.
func TestCrash(t *testing.T) {
	t.Parallel()
	// P-014: one command starts the one process that takes every push to its release, also after each kill
	crashes(t, crashpoint.OfPush())
}

// The program is killed again while it picks up what the first kill left.
func TestCrashWhileRecovering(t *testing.T) {
	t.Parallel()
	crashes(t, []string{
		"remote.moved accept.pushed", "remote.moved accept.stored", "accept.committed run.leased",
		"upload.static upload.static", "build.kept commit.versioned", "commit.pointed end.finished",
		"fail.before fail.before", "report.sent report.sent",
		// The comment is there already: whether it is written again depends on what it said.
		"report.commented report.told",
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
	site.Each(t, servers, func(t *testing.T, name string) {
		t.Helper()
		c := newCrashed(t)
		for points := range strings.SplitSeq(name, ", ") {
			t.Log("killed at", points)
			c.try(strings.Fields(points))
		}
		c.Quiet(forge.FarApp)
		c.WantClosed(c.kills)
		site.WantSound(t, c.Site, true)
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
	w := forge.NewTwins(t)
	w.Settled(1)
	w.Opens()
	w.Stop()
	w.Env = append(w.Env, w.Reports...)
	w.Start()
	visitors := []*forge.Watcher{w.Watch(forge.NearApp), w.Watch(forge.FarApp)}
	var chain []landfall.CommitSHA
	at := 1
	for range pushesARound * rounds {
		at++
		chain = append(chain, forge.Round(w.Near, forge.NearApp, at))
	}
	enough := make(chan struct{})
	var senders sync.WaitGroup
	senders.Go(func() { pushAll(w, chain, enough) })
	for range rounds {
		at++
		forge.Round(w.Far.Repository, forge.FarApp, at)
		d := w.Far.Send("main")
		senders.Go(func() { sendUntilHeard(w, d) })
		<-time.After(rand.N(time.Second))
		began := time.Now()
		w.Kill()
		wantInTime(w, time.Since(began), 0)
	}
	close(enough)
	senders.Wait()
	at++
	w.WantSaid(w.Settled(at))
	w.Quiet(forge.FarApp)
	for _, v := range visitors {
		v.Sees(at)
		w.WantRound(v.App, v.App, at)
		if got := v.Rounds(t); !slices.IsSorted(got) {
			t.Errorf("a visitor of %s saw the rounds %v, want none twice", v.App, got)
		}
	}
	w.WantClosed(rounds)
	site.WantSound(t, w.Site, true)
}

// pushAll pushes the commits to main one after the other, each until it is there, as long as it is not enough.
func pushAll(w *forge.Twins, chain []landfall.CommitSHA, enough <-chan struct{}) {
	for _, commit := range chain {
		for {
			select {
			case <-enough:
				return
			default:
			}
			if _, err := w.Near.Try("push", "origin", string(commit)+":refs/heads/main"); err == nil {
				break
			}
		}
	}
}

// sendUntilHeard sends a delivery until it is answered: the forge does that when somebody asks it to.
func sendUntilHeard(w *forge.Twins, d forge.Delivery) {
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		if status := w.SendTo(d); status == http.StatusAccepted || status == http.StatusOK {
			return
		}
	}
	w.T.Errorf("nobody answered the delivery %s", d.ID)
}

// crashed is a server that is killed again and again.
type crashed struct {
	*forge.Twins
	at       int                     // the round that both apps are at
	releases map[string]landfall.UID // of that round
	kills    int
}

func newCrashed(t *testing.T) *crashed {
	t.Helper()
	c := &crashed{Twins: forge.NewStoppedTwins(t, site.NewEngine(t)), at: 1}
	c.Env = append(c.Env, c.Reports...)
	c.Start()
	c.Populate()
	c.releases = c.Settled(c.at)
	c.WantRound(forge.NearApp, forge.NearApp, c.at)
	c.Opens()
	c.owesNothing()
	return c
}

// owesNothing waits until the forge was told everything: what is owed would be told at the next start, whatever is
// pushed then.
func (c *crashed) owesNothing() {
	c.T.Helper()
	c.Eventually("nothing is owed to the forge", func() bool {
		_, got := c.Metrics(c.Token)
		return got[`landfall_outbox_owed{kind="status"}`]+got[`landfall_outbox_owed{kind="comment"}`] == 0
	})
}

// try kills a server that owes nothing at the first point while both apps are pushed to, and at each further point
// during the start that follows, and then compares everything with what would be there without any kill.
func (c *crashed) try(points []string) {
	c.T.Helper()
	first, from := c.releases, c.at
	expires := strings.HasPrefix(points[0], "collect.")
	if expires { // the second push from now makes that release old enough
		c.at++
		c.Settled(c.at)
	}
	c.Stop()
	c.Start("LANDFALL_CRASH=" + points[0])
	visitors := []*forge.Watcher{c.Watch(forge.NearApp), c.Watch(forge.FarApp)}
	for _, v := range visitors {
		v.Sees(c.at)
	}

	served, next := []int{c.at}, c.at+1
	if strings.HasPrefix(points[0], "fail.") {
		next = 0
	}
	a := c.Begin(next)
	c.Dies()
	for _, point := range points[1:] {
		c.Start("LANDFALL_CRASH=" + point)
		c.Dies()
	}
	c.kills += len(points)
	began := time.Now()
	c.Start()
	released := wantRecovered(c.Twins, a, began, time.Now())
	if a.Round != 0 {
		c.at = a.Round
		served = append(served, c.at)
	}
	for _, v := range visitors {
		v.Sees(c.at)
		c.WantRound(v.App, v.App, c.at)
		if a.Round != 0 {
			c.WantRound(v.App, v.App+"--"+string(released[v.App]), c.at)
		}
		if expires {
			wantCollected(c.Twins, v.App, first[v.App])
		} else {
			c.WantRound(v.App, v.App+"--"+string(first[v.App]), from)
		}
	}

	c.at++
	c.releases = c.Settled(c.at)
	c.WantSaid(c.releases) // it works as before
	c.owesNothing()
	for _, v := range visitors {
		v.Sees(c.at)
		v.WantSteady(c.T, append(served, c.at)...)
	}
}

// wantRecovered fails the test unless both pushes of an attempt come to what they would have come to without a kill,
// and returns their releases. began and ready say when the server was started and when it was ready.
func wantRecovered(w *forge.Twins, a *forge.Attempt, began, ready time.Time) map[string]landfall.UID {
	w.T.Helper()
	released := map[string]landfall.UID{}
	continued := ready
	for app, commit := range a.Commits {
		if w.Accepted(a, app) {
			run := w.Ends(app, commit, a.State)
			continued = latest(continued, wentOn(run, began))
		} else {
			w.Again(a, app)
		}
	}
	// L-020: the delivery was stored before it was answered, and its id stands for it: when it comes again, it is a
	// repeat.
	if again := w.Deliver(w.Installation(), a.Delivery); again.Status != http.StatusOK || len(again.Runs) != 1 {
		w.T.Errorf("the repeated delivery got %d with the runs %v, want 200 with one run", again.Status, again.Runs)
	}
	for app, commit := range a.Commits {
		run := w.Ends(app, commit, a.State)
		runs := slices.DeleteFunc(w.Runs(app), func(r client.Run) bool { return r.Commit != commit })
		// P-002: however often the push was heard of, and whatever was killed, it was handled once.
		if len(runs) != 1 {
			w.T.Errorf("%s has %d runs of %s, want one", app, len(runs), commit.Short())
		}
		released[app] = run.Release
		if address := "http://" + app + "--"; app == forge.NearApp && strings.Contains(a.Terminal, address) {
			testkit.Contains(w.T, site.ToldBy(a.Terminal), address+string(run.Release)+".")
		}
	}
	status := landfall.StatusSuccess
	if a.State == landfall.RunFailed {
		status = landfall.StatusFailure
	}
	heard := w.Told(a.Commits[forge.FarApp])
	testkit.Equal(w.T, "the last status of "+forge.FarApp, heard[len(heard)-1].State, string(status))
	wantInTime(w, ready.Sub(began), continued.Sub(ready))
	return released
}

// wantCollected fails the test unless a release is expired, and what it alone had is gone in the end.
func wantCollected(w *forge.Twins, app string, release landfall.UID) {
	w.T.Helper()
	site.WantStatus(w.T, w.Site, app+"--"+string(release), http.StatusGone)
	prefix := assets.Prefix(w.ObjectsOf(app), "/", release)
	w.Eventually("what the expired release alone had is collected", func() bool {
		return !slices.ContainsFunc(w.Stored(app), func(key string) bool { return strings.HasPrefix(key, prefix) })
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

func wantInTime(w *forge.Twins, ready, continued time.Duration) {
	w.T.Helper()
	w.T.Logf("ready after %s, runs go on %s after that", ready.Round(time.Millisecond), continued.Round(time.Millisecond))
	if ready > slowness*readyWithin || continued > slowness*continuesWithin {
		w.T.Errorf("that is too late: the contract says %s and %s", readyWithin, continuesWithin)
	}
}
