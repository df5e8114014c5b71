package soak_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// guests open a page of an app with all that it loads, and keep cookies. Each release of the app says its number in
// every part.
type guests struct {
	*site.Site
	numbers map[string]string // of the releases
	failing landfall.UID      // the release whose function fails
	wrong   sync.Map          // what else than one whole release was answered
}

// publish pushes the release of a number, and returns it.
func (g *guests) publish(r *site.Repository, number, function string) landfall.UID {
	g.T.Helper()
	r.Write("site/index.html", "page "+number, "site/script.js", "script "+number, "hello/hello.py", function)
	uid := g.Pushed(r, "shop", "Release "+number)
	g.numbers[string(uid)] = number
	return uid
}

// open opens the page, and returns the release that it is of.
func (g *guests) open(one *site.Visitor) landfall.UID {
	status, release, page := one.Ask("/", "Sec-Fetch-Dest: document", "Accept: text/html")
	number := g.numbers[release]
	if status != http.StatusOK || page != "page "+number {
		g.wrong.Store(fmt.Sprintf("/ of %s: %d %q", release, status, page), true)
	}
	for path, want := range map[string]string{"/script.js": "script", "/api/hello": "empty"} {
		status, of, part := one.Ask(path, "Sec-Fetch-Dest: "+want)
		if of != release && g.isOver(of) { // what a page loads after the end of a canary comes from live
			continue
		}
		failed := status >= http.StatusInternalServerError
		if mayFail := path == "/api/hello" && release == string(g.failing); of != release ||
			failed != mayFail || !failed && part != want+" "+number {
			g.wrong.Store(fmt.Sprintf("%s of %s in a page of %s: %d %q", path, of, release, status, part), true)
		}
	}
	return landfall.UID(release)
}

// isOver reports whether the canary does not run any more, and a release is live.
func (g *guests) isOver(release string) bool {
	c := g.canary()
	return c.State != landfall.ReleaseCanaryRunning && string(c.Live) == release
}

// come has guests come over a few connections until it is over, and returns how many got a release.
func (g *guests) come(release landfall.UID, over func(guest int64) bool) (got int) {
	g.T.Helper()
	const connections = 8
	var count, came atomic.Int64
	var group sync.WaitGroup
	for range connections {
		one := g.Visitor("shop")
		group.Go(func() {
			for !over(came.Add(1)) {
				one.Cookie = ""
				if g.open(one) == release {
					count.Add(1)
				}
			}
		})
	}
	group.Wait()
	if wrong := all(&g.wrong); len(wrong) != 0 {
		g.T.Fatalf("%d kinds of wrong answers, such as %q", len(wrong), wrong[:min(len(wrong), 5)])
	}
	return int(count.Load())
}

// canary asks the command line for the canary of the shop.
func (g *guests) canary(args ...string) (c client.ReleaseCanary) {
	g.T.Helper()
	said := g.Landfall(append([]string{"release", "canary", "shop", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(said), &c); err != nil {
		g.T.Fatalf("%v: %s", err, said)
	}
	return c
}

// until has guests come until the canary of a release does not run any more, and returns it.
func (g *guests) until(release landfall.UID) client.ReleaseCanary {
	g.T.Helper()
	const often = 20
	var ended atomic.Bool
	g.come(release, func(guest int64) bool {
		if guest%often == 0 && g.canary().State != landfall.ReleaseCanaryRunning {
			ended.Store(true)
		}
		return ended.Load()
	})
	return g.canary()
}

// A canary of a release under load: guests get its release in the share of its weight, and each of them one release
// whole, also while the share grows until the release is live. One that fails returns by itself.
//
//nolint:paralleltest // it needs the machine
func TestCanaryStorm(t *testing.T) {
	sigmas, visitors := 5.0, 500
	if text, ok := os.LookupEnv(switchRoundsVariable); ok {
		rounds, err := strconv.Atoi(text)
		if err != nil || rounds < 1 {
			t.Fatalf("%s is %q; right would be a number", switchRoundsVariable, text)
		}
		sigmas, visitors = 3, 1000*rounds
	}
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml", site.AppSpec("shop"))
	g := &guests{Site: s, numbers: map[string]string{}}
	const function = "def main():\n    return 'empty %s'\n"
	first := g.publish(r, "1", fmt.Sprintf(function, "1"))
	second := g.publish(r, "2", fmt.Sprintf(function, "2"))

	const weight = 10
	g.canary(string(first), "--weight", strconv.Itoa(weight), "--interval", "1h")
	began := time.Now()
	got := g.come(first, func(guest int64) bool { return guest > int64(visitors) })
	took := time.Since(began)
	mean := float64(visitors) * weight / 100
	sigma := math.Sqrt(mean * (100 - weight) / 100)
	if math.Abs(float64(got)-mean) > sigmas*sigma {
		t.Errorf("of %d visitors %d got the canary, want %.0f±%.0f", visitors, got, mean, sigmas*sigma)
	}
	g.canary("--stop")

	g.canary(string(first), "--weight", "20", "--step", "40", "--interval", "1s")
	c := g.until(first)
	testkit.Equal(t, "what a canary that does well comes to", c.State, landfall.ReleaseCanaryLive)
	testkit.Equal(t, "the live release", s.ShowApp("shop").Live, first)

	g.failing = g.publish(r, "3", "def main():\n    raise ValueError('broken')\n")
	g.Landfall("release", "live", "shop", string(second))
	g.canary(string(g.failing), "--weight", strconv.Itoa(weight), "--interval", "1h")
	c = g.until(g.failing)
	testkit.Equal(t, "what a canary that fails comes to: "+c.Reason, c.State, landfall.ReleaseCanaryReturned)
	testkit.Equal(t, "guests who get it then", g.come(g.failing, func(guest int64) bool { return guest > 100 }), 0)
	t.Logf("%d visitors in %s, %d got the canary of %d percent (one sigma is %.0f), and each one release; a canary that "+
		"fails returned after %s: %s", visitors, took.Round(time.Second), got, weight, sigma,
		c.Ended.Sub(c.Started).Round(time.Millisecond), c.Reason)
}
