package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
)

// twins is a server with two apps of the same kind: one is pushed to at the built-in remote, the other at the forge, which
// delivers the push and hears the statuses. Whatever kills the server hits one of them in the act and the other anywhere.
type twins struct {
	*world
	near  *repository
	far   *hosted
	token []string // settings with which the server reports
}

const (
	nearApp = "near"
	farApp  = "far"
)

// newTwins starts a server that does not report yet.
func newTwins(t *testing.T) *twins {
	t.Helper()
	w := newStoppedTwins(t, newEngine(t))
	w.start()
	w.populate()
	return w
}

// newStoppedTwins is newTwins on an engine, before the start and without apps.
func newStoppedTwins(t *testing.T, on engine) *twins {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := newForge(t), githubtest.New(t, d, apiToken)
	host := func(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/") }
	return &twins{
		world: &world{forge: f, api: api, site: newStopped(t, on, "LANDFALL_GITHUB_WEBHOOK_SECRET="+webhookSecret,
			"LANDFALL_ALLOWED_HOSTS="+host(f.url)+","+host(api.URL))},
		token: []string{"LANDFALL_GITHUB_TOKEN=" + apiToken, "LANDFALL_GITHUB_API=" + api.URL},
	}
}

// populate makes the two apps.
func (w *twins) populate() {
	w.t.Helper()
	w.readToken()
	w.near = w.repository(w.app(nearApp))
	w.far, _ = w.follow(farApp)
}

// twinSpec is an app of two static units, a configuration, and a function whose package is built.
const twinSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: APP}
spec:
  config: {round: ROUND}
  static:
    - {src: site, path: /}
    - {src: fixed, path: /fixed}
  release: {keep: 2}
---
` + builtFunction

// builtFunction is a function whose package is built of what lies in the folder function.
const builtFunction = `apiVersion: fission.io/v1
kind: Function
metadata: {name: APP-function}
spec:
  environment: {name: python}
  package:
    packageref: {name: APP-package}
    functionName: main.main
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: APP-package}
spec:
  environment: {name: python}
  source: {url: "archive://APP-source"}
  buildcmd: cp -r "$SRC_PKG" "$DEPLOY_PKG"
---
kind: ArchiveUploadSpec
name: APP-source
include: ["function/*"]
`

// round commits what an app is in a round: every unit but one differs from round to round.
func (r *repository) round(app string, n int) landfall.CommitSHA {
	r.t.Helper()
	spec := strings.NewReplacer("APP", app, "ROUND", fmt.Sprint(n)).Replace(twinSpec)
	r.write("specs/app.yaml", spec, "site/index.html", pageOf(app, n), "site/app.js", scriptOf(app, n),
		"fixed/logo.svg", "<svg/>", "function/main.py", fmt.Sprintf("def main(): return %d\n", n))
	return r.commit(fmt.Sprintf("round %d of %s", n, app))
}

// spoil commits a spec that is wrong.
func (r *repository) spoil() landfall.CommitSHA {
	r.t.Helper()
	r.write("specs/more.yaml", "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec: {vresion: 2}\n")
	return r.commit("a mistake")
}

// mend takes the wrong spec away again.
func (r *repository) mend() { r.git("rm", "--quiet", "--ignore-unmatch", "specs/more.yaml") }

func pageOf(app string, n int) string   { return fmt.Sprintf("<p>round %d of %s</p>", n, app) }
func scriptOf(app string, n int) string { return fmt.Sprintf("round = %d // of %s", n, app) }

// wantRound fails the test unless a host serves a round, whole.
func (w *twins) wantRound(app, host string, n int) {
	w.t.Helper()
	wantServed(w.t, w.site, host, "/", pageOf(app, n))
	wantServed(w.t, w.site, host, "/app.js", scriptOf(app, n))
	wantServed(w.t, w.site, host, "/fixed/logo.svg", "<svg/>")
}

// settled brings both apps to a round without any trouble, and returns their releases.
func (w *twins) settled(n int) map[string]landfall.UID {
	w.t.Helper()
	w.near.mend()
	w.far.mend()
	near, far := w.near.round(nearApp, n), w.far.round(farApp, n)
	w.near.push("main")
	w.hears(w.far.send("main"))
	return map[string]landfall.UID{
		nearApp: w.ends(nearApp, near, landfall.RunSucceeded).Release,
		farApp:  w.ends(farApp, far, landfall.RunSucceeded).Release,
	}
}

// mainPull is a pull request at the forge whose head is main, so that each push there is told in its comment.
const mainPull = 1

func (w *twins) opens() {
	w.t.Helper()
	w.hears(w.far.pull("opened", mainPull, "main"))
}

// wantSaid fails the test unless the pull request has one comment in the end, which names the release.
func (w *twins) wantSaid(released map[string]landfall.UID) {
	w.t.Helper()
	w.says(w.far, mainPull, "| Release | "+w.label(farApp+"--"+string(released[farApp]))+" |")
}

// attempt is a push to both apps at once, of which nothing is known but what the senders heard.
type attempt struct {
	state    landfall.RunState // what its runs must come to
	round    int               // what both apps are then; 0: what they were
	commits  map[string]landfall.CommitSHA
	delivery delivery
	terminal string                   // what git said
	status   int                      // of the answer to the delivery; 0: none
	heard    map[string]chan struct{} // closed when the sender knows or has given up
}

// begin pushes a round to both apps, or a mistake for round 0, and waits until both senders know or have given up.
func (w *twins) begin(round int) *attempt {
	w.t.Helper()
	a := w.launch(round, nearApp, farApp)
	for _, heard := range a.heard {
		<-heard
	}
	return a
}

// launch is begin for some apps, without the wait.
func (w *twins) launch(round int, apps ...string) *attempt {
	w.t.Helper()
	a := &attempt{state: landfall.RunSucceeded, round: round, commits: map[string]landfall.CommitSHA{}, heard: map[string]chan struct{}{}}
	if round == 0 {
		a.state = landfall.RunFailed
	}
	for _, app := range apps {
		r := w.near
		if app == farApp {
			r = w.far.repository
		}
		if round == 0 {
			a.commits[app] = r.spoil()
		} else {
			a.commits[app] = r.round(app, round)
		}
		a.heard[app] = make(chan struct{})
	}
	if heard, ok := a.heard[farApp]; ok {
		a.delivery = w.far.send("main")
		go func() {
			defer close(heard)
			a.status = w.sendTo(a.delivery)
		}()
	}
	if heard, ok := a.heard[nearApp]; ok {
		go func() {
			defer close(heard)
			a.terminal, _ = w.near.try("push", "origin", "main")
		}()
	}
	return a
}

// sendTo sends a signed delivery as GitHub does, and returns the answer's status, or 0 without an answer.
func (w *twins) sendTo(d delivery) int {
	r, err := http.NewRequest(http.MethodPost, w.installation().url, bytes.NewReader(d.body))
	if err != nil {
		return 0
	}
	r.Header = signature(webhookSecret, d.body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Github-Delivery", d.id)
	r.Header.Set("X-Github-Event", d.event)
	transport := client.LocalTransport()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// accepted reports whether nobody needs to do anything for an app's push any more: its branch moved at the built-in remote,
// or its delivery was answered.
func (w *twins) accepted(a *attempt, app string) bool {
	w.t.Helper()
	if app == farApp {
		return a.status == http.StatusAccepted
	}
	sha, _, _ := strings.Cut(w.near.git("ls-remote", "origin", "refs/heads/main"), "\t")
	return landfall.CommitSHA(sha) == a.commits[nearApp]
}

// dies waits until the server has ended.
func (s *site) dies() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatalf("the server lives on; its log:\n%s", s.log)
	}
}

// watcher is a visitor who never stops asking for the live release of an app.
type watcher struct {
	site    *site
	app     string
	stop    func()
	mu      sync.Mutex
	seen    []string       // releases in the order in which they were served
	pages   map[string]int // release to the round of its page
	strange []string
}

// watch begins to ask for both files of the live release that change, until the returned watcher is stopped.
func (w *twins) watch(app string) *watcher {
	v := &watcher{site: w.site, app: app, pages: map[string]int{}}
	ended, stopped := make(chan struct{}), make(chan struct{})
	v.stop = sync.OnceFunc(func() {
		close(stopped)
		<-ended
	})
	w.t.Cleanup(v.stop)
	visitor := &http.Client{Transport: client.LocalTransport(), Timeout: patience}
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			for path, format := range map[string]string{"/": pageFormat(app), "/app.js": scriptFormat(app)} {
				v.ask(visitor, w.at(app, path), format)
			}
			select {
			case <-stopped:
				return
			case <-tick.C:
			}
		}
	}()
	return v
}

func pageFormat(app string) string   { return strings.Replace(pageOf(app, 0), "0", "%d", 1) }
func scriptFormat(app string) string { return strings.Replace(scriptOf(app, 0), "0", "%d", 1) }

// ask asks once. While the server is down there is no answer, and that is no failure.
func (v *watcher) ask(visitor *http.Client, address, format string) {
	resp, err := visitor.Get(address)
	if err != nil {
		return
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return // killed in the middle: the visitor knows that bytes are missing
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	release := resp.Header.Get("Landfall-Release")
	var n int
	if _, err := fmt.Sscanf(string(body), format, &n); err != nil || resp.StatusCode != http.StatusOK || release == "" {
		v.strange = append(v.strange, fmt.Sprintf("%s got %d %.200q of release %q", address, resp.StatusCode, body, release))
		return
	}
	if known, ok := v.pages[release]; ok && known != n {
		v.strange = append(v.strange, fmt.Sprintf("%s got round %d of release %q, which is round %d", address, n, release, known))
	}
	v.pages[release] = n
	if len(v.seen) == 0 || v.seen[len(v.seen)-1] != release {
		v.seen = append(v.seen, release)
	}
}

// sees waits until the visitor's newest page is of a round.
func (v *watcher) sees(round int) {
	v.site.t.Helper()
	v.site.eventually(fmt.Sprintf("a visitor of %s sees round %d", v.app, round), func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.seen) > 0 && v.pages[v.seen[len(v.seen)-1]] == round
	})
}

// wantSteady fails the test unless the visitor always got whole releases of exactly these rounds, one after the other.
func (v *watcher) wantSteady(t *testing.T, rounds ...int) {
	t.Helper()
	if got := v.rounds(t); !slices.Equal(got, rounds) {
		t.Errorf("a visitor of %s saw the rounds %v, want %v", v.app, got, rounds)
	}
}

// rounds ends the visit, fails the test if it saw anything but whole releases, and returns their rounds in the order in which
// they were seen.
func (v *watcher) rounds(t *testing.T) []int {
	t.Helper()
	v.stop()
	for _, s := range v.strange {
		t.Errorf("a visitor of %s: %s", v.app, s)
	}
	var rounds []int
	for _, release := range v.seen {
		rounds = append(rounds, v.pages[release])
	}
	return rounds
}
