package forge

import (
	"bytes"
	"cmp"
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
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Twins is a server with two apps of the same kind: one is pushed to at the built-in remote, the other at the forge,
// which delivers the push and hears the statuses. Whatever kills the server hits one of them in the act and the other
// anywhere.
type Twins struct {
	*World
	Near    *site.Repository
	Far     *Hosted
	Reports []string // settings with which the server reports
}

// WantClosed fails the test unless the forge has heard everything in turn. Each kill may have come after a status was
// sent and before that was recorded: that status was sent again, and says the same.
func (w *Twins) WantClosed(kills int) {
	w.T.Helper()
	heard := w.API.Statuses("")
	slices.SortStableFunc(heard, func(a, b githubtest.Status) int { return cmp.Compare(a.SHA, b.SHA) })
	told := slices.Compact(slices.Clone(heard))
	if len(heard)-len(told) > kills {
		w.T.Errorf("after %d kills the forge heard %d statuses twice: %+v", kills, len(heard)-len(told), heard)
	}
	// L-005: every status that was pending was followed by exactly one final one, also where a kill came between.
	WantPairs(w.T, told)
}

// Again does what a sender does who was not told that a push was accepted.
func (w *Twins) Again(a *Attempt, app string) {
	w.T.Helper()
	if app == FarApp {
		if status := w.SendTo(a.Delivery); status != http.StatusAccepted && status != http.StatusOK {
			w.T.Errorf("the delivery that was not answered got %d when it came again, want 202 or 200", status)
		}
		return
	}
	if run, ok := w.RunOf(app, a.Commits[app]); ok {
		w.T.Errorf("the branch did not move, and there is the run %s", run.ID)
	}
	w.Near.Push("main")
}

// The names of the two apps.
const (
	NearApp = "near"
	FarApp  = "far"
)

// NewTwins starts a server that does not report yet.
func NewTwins(t testing.TB) *Twins {
	t.Helper()
	w := NewStoppedTwins(t, site.NewEngine(t))
	w.Start()
	w.Populate()
	return w
}

// NewStoppedTwins is NewTwins on an engine, before the start and without apps.
func NewStoppedTwins(t testing.TB, on site.Engine) *Twins {
	t.Helper()
	d, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := New(t), githubtest.New(t, d, APIToken)
	host := func(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/") }
	return &Twins{
		World: &World{Forge: f, API: api, Site: site.NewStopped(t, on, "LANDFALL_GITHUB_WEBHOOK_SECRET="+WebhookSecret,
			"LANDFALL_ALLOWED_HOSTS="+host(f.Address)+","+host(api.URL))},
		Reports: []string{"LANDFALL_GITHUB_TOKEN=" + APIToken, "LANDFALL_GITHUB_API=" + api.URL},
	}
}

// Populate makes the two apps.
func (w *Twins) Populate() {
	w.T.Helper()
	w.ReadToken()
	w.Near = w.Repository(w.App(NearApp))
	w.Far, _ = w.Follow(FarApp)
}

// TwinSpec is an app of two static units, a configuration, and a function whose package is built.
const TwinSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: APP}
spec:
  config: {round: ROUND}
  static:
    - {src: site, path: /}
    - {src: fixed, path: /fixed}
  release: {keep: 2}
---
` + BuiltFunction

// BuiltFunction is a function whose package is built of what lies in the folder function.
const BuiltFunction = `apiVersion: fission.io/v1
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

// Round commits what an app is in a round: every unit but one differs from round to round.
func Round(r *site.Repository, app string, n int) landfall.CommitSHA {
	r.T.Helper()
	spec := strings.NewReplacer("APP", app, "ROUND", fmt.Sprint(n)).Replace(TwinSpec)
	r.Write("specs/app.yaml", spec, "site/index.html", PageOf(app, n), "site/app.js", ScriptOf(app, n),
		"fixed/logo.svg", "<svg/>", "function/main.py", fmt.Sprintf("def main(): return %d\n", n))
	return r.Commit(fmt.Sprintf("round %d of %s", n, app))
}

// spoil commits a spec that is wrong.
func spoil(r *site.Repository) landfall.CommitSHA {
	r.T.Helper()
	r.Write("specs/more.yaml",
		"apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec: {vresion: 2}\n")
	return r.Commit("a mistake")
}

// mend takes the wrong spec away again.
func mend(r *site.Repository) { r.Git("rm", "--quiet", "--ignore-unmatch", "specs/more.yaml") }

// PageOf is the page of an app in a round.
func PageOf(app string, n int) string { return fmt.Sprintf("<p>round %d of %s</p>", n, app) }

// ScriptOf is its script.
func ScriptOf(app string, n int) string { return fmt.Sprintf("round = %d // of %s", n, app) }

// WantRound fails the test unless a host serves a round, whole.
func (w *Twins) WantRound(app, host string, n int) {
	w.T.Helper()
	site.WantServed(w.T, w.Site, host, "/", PageOf(app, n))
	site.WantServed(w.T, w.Site, host, "/app.js", ScriptOf(app, n))
	site.WantServed(w.T, w.Site, host, "/fixed/logo.svg", "<svg/>")
}

// Settled brings both apps to a round without any trouble, and returns their releases.
func (w *Twins) Settled(n int) map[string]landfall.UID {
	w.T.Helper()
	mend(w.Near)
	mend(w.Far.Repository)
	near, far := Round(w.Near, NearApp, n), Round(w.Far.Repository, FarApp, n)
	w.Near.Push("main")
	w.Hears(w.Far.Send("main"))
	return map[string]landfall.UID{
		NearApp: w.Ends(NearApp, near, landfall.RunSucceeded).Release,
		FarApp:  w.Ends(FarApp, far, landfall.RunSucceeded).Release,
	}
}

// mainPull is a pull request at the forge whose head is main, so that each push there is told in its comment.
const mainPull = 1

// Opens opens the pull request.
func (w *Twins) Opens() {
	w.T.Helper()
	w.Hears(w.Far.Pull("opened", mainPull, "main"))
}

// WantSaid fails the test unless the pull request has one comment in the end, which names the release.
func (w *Twins) WantSaid(released map[string]landfall.UID) {
	w.T.Helper()
	w.Says(w.Far, mainPull, "| Release | "+w.Label(FarApp+"--"+string(released[FarApp]))+" |")
}

// Attempt is a push to both apps at once, of which nothing is known but what the senders heard.
type Attempt struct {
	State    landfall.RunState // what its runs must come to
	Round    int               // what both apps are then; 0: what they were
	Commits  map[string]landfall.CommitSHA
	Delivery Delivery
	Terminal string                   // what git said
	Status   int                      // of the answer to the delivery; 0: none
	Heard    map[string]chan struct{} // closed when the sender knows or has given up
}

// Begin pushes a round to both apps, or a mistake for round 0, and waits until both senders know or have given up.
func (w *Twins) Begin(round int) *Attempt {
	w.T.Helper()
	a := w.Launch(round, NearApp, FarApp)
	for _, heard := range a.Heard {
		<-heard
	}
	return a
}

// Launch is begin for some apps, without the wait.
func (w *Twins) Launch(round int, apps ...string) *Attempt {
	w.T.Helper()
	a := &Attempt{State: landfall.RunSucceeded, Round: round, Commits: map[string]landfall.CommitSHA{},
		Heard: map[string]chan struct{}{}}
	if round == 0 {
		a.State = landfall.RunFailed
	}
	for _, app := range apps {
		r := w.Near
		if app == FarApp {
			r = w.Far.Repository
		}
		if round == 0 {
			a.Commits[app] = spoil(r)
		} else {
			a.Commits[app] = Round(r, app, round)
		}
		a.Heard[app] = make(chan struct{})
	}
	if heard, ok := a.Heard[FarApp]; ok {
		a.Delivery = w.Far.Send("main")
		go func() {
			defer close(heard)
			a.Status = w.SendTo(a.Delivery)
		}()
	}
	if heard, ok := a.Heard[NearApp]; ok {
		go func() {
			defer close(heard)
			a.Terminal, _ = w.Near.Try("push", "origin", "main")
		}()
	}
	return a
}

// SendTo sends a signed delivery as GitHub does, and returns the answer's status, or 0 without an answer.
func (w *Twins) SendTo(d Delivery) int {
	r, err := http.NewRequest(http.MethodPost, w.Installation().URL, bytes.NewReader(d.Body))
	if err != nil {
		return 0
	}
	r.Header = Signature(WebhookSecret, d.Body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Github-Delivery", d.ID)
	r.Header.Set("X-Github-Event", d.Event)
	transport := client.LocalTransport()
	resp, err := (&http.Client{Transport: transport, Timeout: testkit.Patience}).Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Accepted reports whether nobody needs to do anything for an app's push any more: its branch moved at the built-in
// remote, or its delivery was answered.
func (w *Twins) Accepted(a *Attempt, app string) bool {
	w.T.Helper()
	if app == FarApp {
		return a.Status == http.StatusAccepted
	}
	sha, _, _ := strings.Cut(w.Near.Git("ls-remote", "origin", "refs/heads/main"), "\t")
	return landfall.CommitSHA(sha) == a.Commits[NearApp]
}

// Watcher is a visitor who never stops asking for the live release of an app.
type Watcher struct {
	site    *site.Site
	App     string
	stop    func()
	mu      sync.Mutex
	seen    []string       // releases in the order in which they were served
	pages   map[string]int // release to the round of its page
	strange []string
}

// Watch begins to ask for both files of the live release that change, until the returned watcher is stopped.
func (w *Twins) Watch(app string) *Watcher {
	v := &Watcher{site: w.Site, App: app, pages: map[string]int{}}
	ended, stopped := make(chan struct{}), make(chan struct{})
	v.stop = sync.OnceFunc(func() {
		close(stopped)
		<-ended
	})
	w.T.Cleanup(v.stop)
	visitor := &http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			for path, format := range map[string]string{"/": PageFormat(app), "/app.js": scriptFormat(app)} {
				v.ask(visitor, w.At(app, path), format)
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

// PageFormat is PageOf with %d for the round.
func PageFormat(app string) string   { return strings.Replace(PageOf(app, 0), "0", "%d", 1) }
func scriptFormat(app string) string { return strings.Replace(ScriptOf(app, 0), "0", "%d", 1) }

// ask asks once. While the server is down there is no answer, and that is no failure.
func (v *Watcher) ask(visitor *http.Client, address, format string) {
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
		v.strange = append(v.strange, fmt.Sprintf("%s got round %d of release %q, which is round %d", address, n,
			release, known))
	}
	v.pages[release] = n
	if len(v.seen) == 0 || v.seen[len(v.seen)-1] != release {
		v.seen = append(v.seen, release)
	}
}

// Sees waits until the visitor's newest page is of a round.
func (v *Watcher) Sees(round int) {
	v.site.T.Helper()
	v.site.Eventually(fmt.Sprintf("a visitor of %s sees round %d", v.App, round), func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.seen) > 0 && v.pages[v.seen[len(v.seen)-1]] == round
	})
}

// WantSteady fails the test unless the visitor always got whole releases of exactly these rounds, one after the other.
func (v *Watcher) WantSteady(t testing.TB, rounds ...int) {
	t.Helper()
	if got := v.Rounds(t); !slices.Equal(got, rounds) {
		t.Errorf("a visitor of %s saw the rounds %v, want %v", v.App, got, rounds)
	}
}

// Rounds ends the visit, fails the test if it saw anything but whole releases, and returns their rounds in the order in
// which they were seen.
func (v *Watcher) Rounds(t testing.TB) []int {
	t.Helper()
	v.stop()
	for _, s := range v.strange {
		t.Errorf("a visitor of %s: %s", v.App, s)
	}
	var rounds []int
	for _, release := range v.seen {
		rounds = append(rounds, v.pages[release])
	}
	return rounds
}
