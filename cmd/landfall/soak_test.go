package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// soakVariable says how many pushes the soak is; the full dose is 20,000. What is measured is also written to a file, if one is
// named, so that people see how it goes on.
const (
	soakVariable     = "LANDFALL_SOAK_PUSHES"
	soakFileVariable = "LANDFALL_SOAK_FILE"
)

// The doses of the soak.
const (
	fewSoakPushes = 100
	fewSoakApps   = 5
	soakApps      = 50
	soakEvery     = 500 // pushes between two samples
	soakPushers   = 4   // at once
	soakFlatFrom  = 10  // samples, from which on flatness can be told
)

// Many pushes, for a long time: each becomes what it must, in its turn, and what the server takes of the machine does not grow
// but by the history that is kept for ever, which has its price for each push.
func TestSoak(t *testing.T) {
	t.Parallel()
	pushes, apps := fewSoakPushes, fewSoakApps
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if pushes, err = strconv.Atoi(text); err != nil || pushes < soakEvery {
			t.Fatalf("%s is %q; right would be a number from %d", soakVariable, text, soakEvery)
		}
		apps = soakApps
	}
	on := engine{}
	if os.Getenv(engineVariable) != "" {
		on = newEngine(t)
	}
	s := newSoak(t, on, apps, (pushes+apps-1)/apps)
	for from := 0; from < pushes; from += soakEvery {
		s.window(from, min(from+soakEvery, pushes))
		s.visitor.CloseIdleConnections()
		s.sample(min(from+soakEvery, pushes))
	}
	s.say(s.tables())
	for _, a := range s.apps {
		wantEqual(t, "live of "+a.name, s.showApp(a.name).Live, a.live)
		wantServed(t, s.site, a.name, "/", a.served[a.live])
	}
	s.wantMeasured()
	if len(s.samples) >= soakFlatFrom {
		s.wantFlat()
	}
	out, code := s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck: "+out, code, 0)
}

// soak is a server, the apps that are pushed to, and what was measured.
type soak struct {
	*site
	apps    []*soakedApp
	visitor *http.Client
	took    []time.Duration // of the pushes since the last sample, by the place of the push
	samples []soakSample
	told    strings.Builder
	since   time.Time     // the last sample
	worked  time.Duration // what the server had worked then
}

// soakedApp is an app and what has to be seen of it.
type soakedApp struct {
	soak   *soak
	name   string
	remote string
	local  *repository
	line   soakLine

	live      landfall.UID            //
	before    landfall.UID            // was live before
	served    map[landfall.UID]string // pages of releases that are watched
	releases  []landfall.UID          // of main, oldest first
	lastShown string                  // page of the newest release of main
}

// newSoak starts a server that forgets what is over as soon as it may, with apps that have so many commits each.
func newSoak(t *testing.T, on engine, apps, pushes int) *soak {
	t.Helper()
	s := &soak{
		site: newSiteOn(t, on, "LANDFALL_KEEP_RUNS=1m", "LANDFALL_KEEP_LOGS=1m", "LANDFALL_KEEP_DELIVERIES=1m",
			fmt.Sprintf("LANDFALL_MAX_BUILD_CACHE=%d", 1<<20)),
		visitor: &http.Client{Timeout: patience},
	}
	transport := client.LocalTransport()
	transport.MaxIdleConns = soakPushers // they are the server's descriptors, too
	s.visitor.Transport = transport
	s.HTTP = s.visitor
	for i := range apps {
		name := fmt.Sprintf("soak-%d", i)
		a := &soakedApp{
			soak: s, name: name, remote: s.remote(s.app(name)), local: newRepository(t), line: soakLine{name}, served: map[landfall.UID]string{},
		}
		a.local.importCommits(a.line.stream(pushes))
		s.apps = append(s.apps, a)
	}
	s.since, s.worked = time.Now(), s.processors()
	s.say(heading())
	return s
}

// window makes some of the pushes, a few at once, those of one app one after the other.
func (s *soak) window(from, to int) {
	s.t.Helper()
	s.took = make([]time.Duration, to-from)
	group, ctx := errgroup.WithContext(s.t.Context())
	for pusher := range soakPushers {
		group.Go(func() error {
			for n := from; n < to && ctx.Err() == nil; n++ {
				app := n % len(s.apps)
				if app%soakPushers != pusher {
					continue
				}
				began := time.Now()
				if err := s.apps[app].step(ctx, n/len(s.apps), func() { s.took[n-from] = time.Since(began) }); err != nil {
					return fmt.Errorf("push %d, the %d. of %s: %w", n, n/len(s.apps), s.apps[app].name, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

// What a push is, by its place in an app's life of so many pushes.
type soakKind int

const (
	soakPlain soakKind = iota
	soakSide           // to another branch, which is deleted then
	soakRolledBack
	soakHeld
	soakSame   // nothing that is served differs
	soakBroken // a mistake
)

func soakKindOf(n int) soakKind {
	const life = 20
	switch n % life {
	case 4, 14:
		return soakSide
	case 7:
		return soakRolledBack
	case 8:
		return soakHeld
	case 12:
		return soakSame
	case 16:
		return soakBroken
	}
	return soakPlain
}

// step makes the n-th push of an app, looks at what visitors get, and calls pushed in between.
func (a *soakedApp) step(ctx context.Context, n int, pushed func()) error {
	kind := soakKindOf(n)
	ref, commit := "refs/heads/main", mainAt(n)
	if kind == soakSide {
		ref, commit = "refs/heads/"+sideBranch(n), "refs/heads/"+sideBranch(n)
	}
	out, err := a.local.try("push", a.remote, commit+":"+ref)
	pushed()
	if err != nil {
		return fmt.Errorf("git push: %w\n%s", err, out)
	}
	release, ok := a.soak.releasedIn(toldBy(out), a.name)
	if ok == (kind == soakBroken) {
		return fmt.Errorf("it made a release: %t\n%s", ok, out)
	}
	switch kind {
	case soakBroken:
		return a.wants(ctx, a.name, a.live, a.served[a.live])
	case soakSide:
		return a.leave(ctx, n, release)
	case soakHeld:
		return a.resume(ctx, n, release)
	case soakRolledBack:
		a.released(n, release)
		return a.goBack(ctx)
	case soakPlain, soakSame:
		a.released(n, release)
	}
	return a.looksBack(ctx)
}

// released notes that a release of main became live.
func (a *soakedApp) released(n int, release landfall.UID) {
	a.made(n, release)
	a.before, a.live = a.live, release
}

// made notes a release of main.
func (a *soakedApp) made(n int, release landfall.UID) {
	if soakKindOf(n) != soakSame {
		a.lastShown = a.line.page(n)
	}
	a.served[release] = a.lastShown
	a.releases = append(a.releases, release)
}

// goBack rolls the app back to what was live before.
func (a *soakedApp) goBack(ctx context.Context) error {
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil {
		return err
	}
	if err := a.soak.Do(ctx, http.MethodPost, "/apps/"+a.name+"/rollback", map[string]string{"reason": "the soak goes back"}, nil); err != nil {
		return err
	}
	a.live, a.before = a.before, a.live
	return a.wants(ctx, a.name, a.live, a.served[a.live])
}

// resume looks at a release that did not become live, and lets live follow the pushes again.
func (a *soakedApp) resume(ctx context.Context, n int, release landfall.UID) error {
	a.made(n, release)
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil {
		return err
	}
	if err := a.wants(ctx, a.name+"--"+string(release), release, a.served[release]); err != nil {
		return err
	}
	return a.soak.Do(ctx, http.MethodPut, "/apps/"+a.name+"/hold", map[string]bool{"held": false}, nil)
}

// leave looks at the release of another branch, and deletes the branch.
func (a *soakedApp) leave(ctx context.Context, n int, release landfall.UID) error {
	if err := a.wants(ctx, a.name+"--branch-"+sideBranch(n), release, a.line.page(n)); err != nil {
		return err
	}
	if out, err := a.local.try("push", a.remote, ":refs/heads/"+sideBranch(n)); err != nil {
		return fmt.Errorf("git push of a deletion: %w\n%s", err, out)
	}
	return a.wants(ctx, a.name, a.live, a.served[a.live])
}

// keptReleases is how many releases of a line the apps keep; farBack is where none can be accessible any more, also with those
// that are the same as another or are held.
const (
	keptReleases = 3
	farBack      = 3 * keptReleases
)

// looksBack looks at the live release, at the one before it, and at one that has expired.
func (a *soakedApp) looksBack(ctx context.Context) error {
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil || a.before == "" {
		return err
	}
	if err := a.wants(ctx, a.name+"--"+string(a.before), a.before, a.served[a.before]); err != nil || len(a.releases) <= farBack {
		return err
	}
	old := a.releases[0]
	a.releases = a.releases[1:]
	delete(a.served, old)
	status, _, _, err := a.soak.visit(ctx, a.name+"--"+string(old))
	if err == nil && status != http.StatusGone {
		err = fmt.Errorf("the release %s of long ago answers %d", old, status)
	}
	return err
}

// wants asks a host for a page of a release.
func (a *soakedApp) wants(ctx context.Context, host string, release landfall.UID, page string) error {
	status, of, body, err := a.soak.visit(ctx, host)
	if err == nil && (status != http.StatusOK || of != release || body != page) {
		err = fmt.Errorf("%s answers %d, %q of the release %s; want %q of %s", host, status, body, of, page, release)
	}
	return err
}

// soakLine is the life of an app in commits.
type soakLine struct{ app string }

func mainAt(n int) string     { return fmt.Sprintf("refs/work/%d", n) }
func sideBranch(n int) string { return fmt.Sprintf("side-%d", n) }

func (l soakLine) page(n int) string { return fmt.Sprintf("<p>push %d of %s</p>", n, l.app) }

// soakSpec is an app of static files and a function whose package is built.
const soakSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: APP}
spec:
  static:
    - {src: site, path: /}
  release: {keep: KEEP}
---
` + builtFunction

// stream is what git fast-import makes the life's commits of: those of main are named mainAt, the others by their branch. The
// function changes on other branches only: a version that production applied keeps its archive for ever.
func (l soakLine) stream(pushes int) string {
	const (
		parts  = 10 // files of which each push changes one
		pieces = 200
	)
	var b strings.Builder
	last := ""
	for n := range pushes {
		kind := soakKindOf(n)
		ref := mainAt(n)
		if kind == soakSide {
			ref = "refs/heads/" + sideBranch(n)
		}
		message := fmt.Sprintf("push %d", n)
		fmt.Fprintf(&b, "commit %s\ncommitter Ada <ada@example.com> %d +0000\ndata %d\n%s\n", ref, 1_700_000_000+n, len(message), message)
		if last != "" {
			fmt.Fprintf(&b, "from %s\n", last)
		}
		file := func(path, text string) { fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text) }
		if n == 0 {
			spec := strings.NewReplacer("APP", l.app, "KEEP", strconv.Itoa(keptReleases)).Replace(soakSpec)
			file("specs/app.yaml", spec)
			file("specs/environment.yaml", environmentSpec)
			file("function/main.py", "def main(): return 0\n")
		}
		if n > 0 && soakKindOf(n-1) == soakBroken {
			b.WriteString("D specs/broken.yaml\n")
		}
		switch kind {
		case soakSame:
			file("notes.txt", message)
		case soakBroken:
			file("specs/broken.yaml", "kind: Nonsense")
		case soakSide:
			file("function/main.py", fmt.Sprintf("def main(): return %d\n", n))
			file("site/index.html", l.page(n))
		case soakPlain, soakRolledBack, soakHeld:
			file("site/index.html", l.page(n))
			file(fmt.Sprintf("site/part-%d.js", n%parts), strings.Repeat(fmt.Sprintf("part(%q, %d);\n", l.app, n), pieces))
		}
		if kind != soakSide {
			last = ref
		}
	}
	return b.String()
}

// importCommits makes commits of a stream for git fast-import.
func (r *repository) importCommits(stream string) {
	r.t.Helper()
	if out, err := r.tryWith(strings.NewReader(stream), "fast-import", "--quiet"); err != nil {
		r.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	r.git("pack-refs", "--all")
}
