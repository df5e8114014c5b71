package gateway_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
)

// canary returns a site with a route to two functions, of which the second gets so many percent, and says its name.
func canary(t *testing.T, sticky landfall.Sticky, percent int, change func(*gateway.Config),
	seen func(event.Protocol)) *site {
	t.Helper()
	content := newStore()
	app := shop(content, files{})
	route := routeTo(nil, "greet", landfall.AccessPublic, "/")
	route.Sticky, route.StickyID = sticky, "shop/greet"
	for _, share := range []registry.Share{{Percent: 100 - percent}, {Percent: percent}} {
		name := []string{"old", "new"}[len(route.Shares)]
		share.Function = &landfall.Function{ID: name, Name: name, Version: landfall.UID(name + "new")}
		route.Shares = append(route.Shares, share)
	}
	app.Releases[0].Routes = registry.NewRoutes([]registry.Route{route})
	return newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
			p, err := event.ProtocolOf(e)
			if seen != nil {
				seen(p)
			}
			return textOf(e, f.Name, event.Protocol{Headers: map[string][]string{"Cache-Control": {"public, max-age=60"},
				"Set-Cookie": {"landfall-side=mallory"}}}), err
		})
		if change != nil {
			change(c)
		}
	}, app)
}

// A client that is known by a header or a cookie of the app's own stays on one version, also when the weight of the new
// one grows: then those who had it keep it.
func TestStickyKeys(t *testing.T) {
	t.Parallel()
	for sticky, headers := range map[landfall.Sticky]func(i int) []string{
		"header:x-user": func(i int) []string { return []string{"X-User", fmt.Sprint(i)} },
		"cookie:sid":    func(i int) []string { return []string{"Cookie", fmt.Sprintf("a=1; sid=%d", i)} },
	} {
		t.Run(string(sticky), func(t *testing.T) {
			t.Parallel()
			ten, twenty := canary(t, sticky, 10, nil, nil), canary(t, sticky, 20, nil, nil)
			const clients = 300
			got := map[string]int{}
			for i := range clients {
				first := ten.get(t, host, "/", headers(i)...)
				again, more := ten.get(t, host, "/", headers(i)...), twenty.get(t, host, "/", headers(i)...)
				if first.body != again.body || first.body == "new" && more.body != "new" {
					t.Errorf("client %d gets %s, then %s, and of twice the weight %s", i, first.body, again.body, more.body)
				}
				if len(first.Cookies()) != 0 || !strings.Contains(first.Header.Get("Cache-Control"), "private") {
					t.Errorf("client %d gets cookies %v and Cache-Control %q", i, first.Cookies(), first.Header["Cache-Control"])
				}
				got[first.body]++
				got["more "+more.body]++
			}
			for answer, share := range map[string]float64{"new": 0.1, "more new": 0.2} {
				checkShare(t, answer, got[answer], clients, share)
			}
			// who is not known is drawn
			seen := map[string]bool{}
			for range 200 {
				seen[twenty.get(t, host, "/").body] = true
			}
			if len(seen) != 2 {
				t.Errorf("without a key, all requests come to %v", seen)
			}
		})
	}
}

// checkShare fails unless so many of all are as many as a share says, within three standard deviations.
func checkShare(t *testing.T, what string, got, all int, share float64) {
	t.Helper()
	mean := float64(all) * share
	if off := math.Abs(float64(got) - mean); off > 3*math.Sqrt(mean*(1-share)) {
		t.Errorf("%s: %d of %d, want about %.0f", what, got, all, mean)
	}
}

// Who has no cookie of ours gets one that only this host gets back, and stays on one version by it. Functions neither
// see it nor set it.
func TestStickyVisitor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*gateway.Config)
		host    string
		want    string
		guarded bool
	}{
		"https":   {func(c *gateway.Config) { c.Scheme = "https" }, host, "__Host-landfall-side", true},
		"http":    {nil, host, "landfall-side", false},
		"machine": {func(c *gateway.Config) { c.Domain = "localhost" }, "shop.localhost:8080", "__Host-landfall-side", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := canary(t, landfall.StickyCookie, 50, c.change, func(p event.Protocol) {
				if got := strings.Join(p.Headers["Cookie"], "; "); got != "own=1" {
					t.Errorf("a function got the cookies %q", got)
				}
			})
			first := s.get(t, c.host, "/", "Cookie", "own=1")
			set := first.Cookies()
			if len(set) != 1 || set[0].Name != c.want || set[0].Secure != c.guarded || !set[0].HttpOnly || set[0].Path != "/" ||
				set[0].Domain != "" || set[0].SameSite != http.SameSiteLaxMode || len(set[0].Value) < 20 {
				t.Fatalf("the cookies are %v", set)
			}
			for range 20 {
				again := s.get(t, c.host, "/", "Cookie", "own=1; "+c.want+"="+set[0].Value)
				if again.body != first.body || len(again.Cookies()) != 0 {
					t.Errorf("the visitor got %s, and then %s with cookies %v", first.body, again.body, again.Cookies())
				}
			}
		})
	}
}
