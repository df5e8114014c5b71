package push_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// canaryOf is what a command about the shop's canary says.
func canaryOf(t *testing.T, s *site.Site, args ...string) (c client.ReleaseCanary) {
	t.Helper()
	said := s.Landfall(append([]string{"release", "canary", "shop", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(said), &c); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return c
}

// A share of the visitors gets another release, with pages and files of that release alone. It becomes live by itself,
// although the server is killed meanwhile. The next one ends with a push, and one more by hand.
func TestCanaryOfARelease(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one, two := s.Numbered(r, "shop", 1), s.Numbered(r, "shop", 2)

	said, code := s.Run(r.Dir, "release", "canary", "shop")
	testkit.Equal(t, "exit code before the first one: "+said, code, 3)
	said = s.Landfall("release", "canary", "shop", string(one), "--weight", "50", "--step", "50", "--interval", "1s",
		"--threshold", "1", "--reason", "the old checkout")
	testkit.Contains(t, site.Told{said}, "running: the old checkout", "50% of the visitors, 50% more every 1s",
		string(one), string(two))
	// A release that visitors get is held.
	said, code = s.Run(r.Dir, "release", "expire", "shop", string(one))
	testkit.Equal(t, "exit code of release expire: "+said, code, 4)
	testkit.Contains(t, site.Told{said}, "a canary holds release "+string(one))

	first := s.Get(s.At("shop", "/"))
	cookie, _, _ := strings.Cut(first.Header.Get("Set-Cookie"), ";")
	testkit.Contains(t, site.Told{first.Header.Get("Set-Cookie")}, "__Host-landfall-canary=", "; Secure", "; HttpOnly",
		"; SameSite=Lax", "; Path=/")
	testkit.Equal(t, "caching", first.Header.Get("Cache-Control"), "private, no-cache")
	s.Kill()
	again := s.Send(http.MethodGet, s.At("shop", "/"), "", "Cookie", cookie, "Sec-Fetch-Dest", "empty")
	testkit.Equal(t, "the visitor's release after a restart", again.Header.Get("Landfall-Release"),
		first.Header.Get("Landfall-Release"))
	s.Eventually("the release of the canary becomes live", func() bool {
		for range 100 {
			p := s.Get(s.At("shop", "/"))
			want := map[string]string{string(one): "page 1", string(two): "page 2"}[p.Header.Get("Landfall-Release")]
			testkit.Equal(t, "the page of the release that answered", p.Body, want)
		}
		return s.ShowApp("shop").Live == one
	})
	c := canaryOf(t, s)
	testkit.Equal(t, "the state", c.State, landfall.ReleaseCanaryLive)
	testkit.Equal(t, "whether enough was asked for", c.History[0].Canary.Requests >= 100, true)
	testkit.Equal(t, "the cookie after it", s.Get(s.At("shop", "/")).Header.Get("Set-Cookie"), "")
	testkit.Equal(t, "why live moved", site.List[client.Move](s, "/apps/shop/moves?limit=1")[0].Reason, "canary")

	canaryOf(t, s, string(two), "--interval", "1h")
	s.Numbered(r, "shop", 3)
	c = canaryOf(t, s)
	testkit.Equal(t, "the state after a push", string(c.State)+": "+c.Reason, "ended: push of "+r.Head().Short())
	canaryOf(t, s, string(two))
	c = canaryOf(t, s, "--stop", "--reason", "enough")
	testkit.Equal(t, "the state after it was stopped", string(c.State)+": "+c.Reason, "stopped: enough")
	_, code = s.Run(r.Dir, "release", "canary", "shop", "--stop")
	testkit.Equal(t, "exit code when none runs", code, 3)
}
