package gateway_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/gateway/split"
	"landfall.dev/landfall/runtime/registry"
)

const (
	older      landfall.UID = "aaaaaaa2"
	newer      landfall.UID = "bbbbbbb2"
	canaryName              = "__Host-landfall-canary"
	canaryFile              = "/app-11111a11.js"
)

// tried returns the shop with a canary that so many of 100 visitors get. Each release has a page, which names its
// release, a chunk of the same name, one that the other release lacks, and the function at /api.
func tried(content *store, weight int, key string) registry.App {
	app := registry.App{ID: "1", Name: "shop", Live: older, Latest: newer,
		Canary: &registry.Canary{ID: "c-" + key, Release: newer, Weight: weight, Key: key}}
	for _, id := range []landfall.UID{older, newer} {
		r := content.release(id, files{"/index.html": string(id), canaryFile: "chunk of " + string(id),
			"/" + string(id) + ".js": "only of " + string(id), "/docs/index.html": "docs"})
		r.Routes = registry.NewRoutes([]registry.Route{routeTo(greeter(), "greet", "", "/api")})
		app.Releases = append(app.Releases, r)
	}
	return app
}

// browser is a visitor who keeps the cookie of the choice.
type browser struct {
	gateway http.Handler
	cookie  string
}

func (b *browser) ask(method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "http://"+host+target, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if b.cookie != "" {
		r.Header.Add("Cookie", canaryName+"="+b.cookie)
	}
	w := httptest.NewRecorder()
	b.gateway.ServeHTTP(w, r)
	answer := w.Result()
	for _, c := range answer.Cookies() {
		if c.Name == canaryName {
			b.cookie = c.Value
		}
	}
	return answer
}

// releaseOf returns the release that answered.
func releaseOf(answer *http.Response) landfall.UID {
	return landfall.UID(answer.Header.Get(page.ReleaseHeader))
}

// The canary gets its share of 10,000 visitors, and keeps those it has when the share grows. Nobody gets parts of two
// releases within a page, although the share grows between the page and what it loads.
func TestCanaryShare(t *testing.T) {
	t.Parallel()
	const visitors, sigmas, attempts = 10_000, 3, 3
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = says("hello") })
	tables := map[int]*registry.Table{}
	for _, weight := range []int{10, 30, 90} {
		tables[weight] = registry.New([]registry.App{tried(content, weight, "k")})
	}
	run := func() (shares []float64) {
		all, had := make([]browser, visitors), make([]bool, visitors)
		for _, weights := range [][2]int{{10, 30}, {30, 90}} {
			got := 0
			for i := range all {
				all[i].gateway = s.gateway
				s.tables.Store(tables[weights[0]])
				home := releaseOf(all[i].ask(http.MethodGet, "/", "Accept", "text/html", "Sec-Fetch-Dest", "document"))
				s.tables.Store(tables[weights[1]])
				for _, target := range []string{canaryFile, "/api"} {
					if part := releaseOf(all[i].ask(http.MethodGet, target, "Sec-Fetch-Dest", "empty")); part != home {
						t.Fatalf("got %s of %s for the page of %s", target, part, home)
					}
				}
				if had[i] && home != newer {
					t.Fatal("a visitor who had the canary lost it when it grew")
				}
				if had[i] = home == newer; had[i] {
					got++
				}
			}
			p := float64(weights[0]) / 100
			shares = append(shares, (float64(got)-visitors*p)/math.Sqrt(visitors*p*(1-p)))
		}
		return shares
	}
	var shares []float64
	for range attempts { // one in 200 honest runs is outside
		shares = run()
		if !slices.ContainsFunc(shares, func(x float64) bool { return math.Abs(x) > sigmas }) {
			return
		}
	}
	t.Errorf("got shares that are %.1f sigma from what was asked for, %d times", shares, attempts)
}

// The cookie of the choice is the host's own and nobody's business. Only one that this canary signed counts.
func TestCanaryCookie(t *testing.T) {
	t.Parallel()
	var got []string
	f := plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		got = p.Headers["Cookie"]
		return textOf(e, "hello", event.Protocol{Headers: map[string][]string{
			"Set-Cookie": {canaryName + "=mine; Path=/; Secure", "own=1"}}}), err
	})
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = f }, tried(content, 0, "k"))
	answer := (&browser{gateway: s.gateway}).ask(http.MethodGet, "/api", "Cookie", "own=2")
	if cookies := answer.Cookies(); len(cookies) != 2 || cookies[1].Name != "own" {
		t.Fatalf("got the cookies %q, want that of the choice, and the function's own", answer.Header.Values("Set-Cookie"))
	}
	cookie := answer.Cookies()[0]
	if cookie.Name != canaryName || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode ||
		cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge <= 0 {
		t.Errorf("got the cookie %s", cookie.Raw)
	}
	known := &browser{gateway: s.gateway, cookie: cookie.Value}
	if again := known.ask(http.MethodGet, "/api", "Cookie", "own=2"); again.Header.Values("Set-Cookie")[0] != "own=1" {
		t.Errorf("got the cookies %q for a visitor who has one", again.Header.Values("Set-Cookie"))
	}
	if sent := strings.Join(got, "; "); sent != "own=2" {
		t.Errorf("the function got the cookies %q, want its own", sent)
	}

	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		t.Fatal(err)
	}
	others := newStore()
	other := newSite(t, others, nil, tried(others, 100, "another"))
	foreign := &browser{gateway: other.gateway}
	foreign.ask(http.MethodGet, "/")
	wrong := []string{foreign.cookie, "x", "", cookie.Value + "A", cookie.Value[1:], strings.Repeat("A", len(cookie.Value))}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 100
		wrong = append(wrong, base64.RawURLEncoding.EncodeToString(changed))
	}
	for _, value := range wrong {
		forger := &browser{gateway: s.gateway, cookie: value}
		if answer := forger.ask(http.MethodGet, "/"); releaseOf(answer) != older || forger.cookie == value {
			t.Errorf("the cookie %q got %s, and counted: want that it is decided anew", value, releaseOf(answer))
		}
	}
}

// While a canary runs no cache between keeps an answer of either side, however it is given; what never changes at its
// address stays with the visitor.
func TestCanaryCaching(t *testing.T) {
	t.Parallel()
	says := map[string]string{"/api": "public, max-age=3600, s-maxage=9", "/api?i": "public, max-age=600, immutable",
		"/api?n": "no-store"}
	f := plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		return textOf(e, "hello", event.Protocol{Headers: map[string][]string{"CDN-Cache-Control": {"max-age=9"},
			"Surrogate-Control": {"max-age=9"}, "Cache-Control": {says[strings.TrimPrefix(p.RequestURL, "http://"+host)]}}}), err
	})
	content := newStore()
	for weight, release := range map[int]landfall.UID{0: older, 100: newer} {
		s := newSite(t, content, func(c *gateway.Config) { c.Functions = f }, tried(content, weight, "k"))
		etag := s.get(t, host, "/").Header.Get("ETag")
		const lasting = "private, max-age=31536000, immutable"
		for _, c := range []struct {
			method, target string
			status         int
			caching        string
			headers        []string
		}{
			{"GET", "/", 200, "private, no-cache", nil},
			{"HEAD", "/", 200, "private, no-cache", nil},
			{"GET", "/", 206, "private, no-cache", []string{"Range", "bytes=0-1"}},
			{"GET", "/", 416, "private, no-cache", []string{"Range", "bytes=90-91"}},
			{"GET", "/", 304, "private, no-cache", []string{"If-None-Match", etag}},
			{"GET", "/", 412, "private, no-store", []string{"If-Match", `"x"`}},
			{"GET", canaryFile, 200, lasting, nil},
			{"HEAD", canaryFile, 200, lasting, nil},
			{"GET", canaryFile, 206, lasting, []string{"Range", "bytes=0-1"}},
			{"GET", "/docs", 308, "private, no-store", nil},
			{"GET", "/nowhere", 404, "private, no-store", nil},
			{"POST", "/", 405, "private, no-store", nil},
			{"GET", "/api", 200, "private, no-cache", nil},
			{"GET", "/api?i", 200, "private, max-age=600, immutable", nil},
			{"GET", "/api?n", 200, "private, no-store", nil},
		} {
			a := s.do(t, c.method, host, c.target, c.headers...)
			if a.StatusCode != c.status || releaseOf(a.Response) != release {
				t.Errorf("%s %s: got status %d of %s, want %d of %s", c.method, c.target, a.StatusCode, releaseOf(a.Response),
					c.status, release)
			}
			a.wantHeaders(t, "Cache-Control", c.caching, "Cdn-Cache-Control", "", "Surrogate-Control", "",
				"Cross-Origin-Resource-Policy", "")
		}
	}
	pieces := streaming(event.Protocol{Streaming: true, Headers: map[string][]string{
		"Cache-Control": {"public"}}}, nil, nil, "a", "b")
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = pieces }, tried(content, 100, "k"))
	a := s.get(t, host, "/api")
	a.want(t, http.StatusOK, newer, "ab")
	a.wantHeaders(t, "Cache-Control", "private, no-cache")
}

// What a page loads comes from where the page came from, also when the request has no cookie, and there is a file of
// the other side for a page that is open. Only the app's own address has a canary.
func TestCanaryPages(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = says("hello") }, tried(content, 100, "k"))
	for _, c := range []struct {
		method, target string
		headers        []string
		want           landfall.UID
		decided        bool
	}{
		{"GET", "/", nil, newer, true},
		{"GET", "/", []string{"Sec-Fetch-Dest", "document"}, newer, true},
		{"POST", "/api", []string{"Sec-Fetch-Dest", "document"}, newer, true},
		{"POST", "/api", nil, newer, true},
		{"GET", canaryFile, []string{"Sec-Fetch-Dest", "script"}, older, false},
		{"POST", "/api", []string{"Sec-Fetch-Dest", "empty"}, older, false},
		{"GET", "/", []string{"Sec-Fetch-Dest", "iframe"}, older, false},
		{"GET", "/bbbbbbb2.js", []string{"Sec-Fetch-Dest", "script"}, newer, false},
		{"GET", "/aaaaaaa2.js", []string{"Sec-Fetch-Dest", "script"}, older, false},
	} {
		b := browser{gateway: s.gateway}
		if got := releaseOf(b.ask(c.method, c.target, c.headers...)); got != c.want || c.decided != (b.cookie != "") {
			t.Errorf("%s %s %q: got %s, decided %v", c.method, c.target, c.headers, got, b.cookie != "")
		}
	}
	visitor := browser{gateway: s.gateway}
	visitor.ask(http.MethodGet, "/")
	if got := releaseOf(visitor.ask(http.MethodGet, "/aaaaaaa2.js", "Sec-Fetch-Dest", "script")); got != older {
		t.Errorf("got the file of an open page of live from %q, want from it", got)
	}

	// a visitor of live is asked again where a page begins, and nowhere else
	s.tables.Store(registry.New([]registry.App{tried(content, 0, "k")}))
	stays := browser{gateway: s.gateway}
	stays.ask(http.MethodGet, "/")
	s.tables.Store(registry.New([]registry.App{tried(content, 100, "k")}))
	for _, c := range []struct {
		method, accept string
		want           landfall.UID
	}{{"GET", "*/*", older}, {"POST", "text/html", older}, {"GET", "text/html", newer}, {"GET", "*/*", newer}} {
		if got := releaseOf(stays.ask(c.method, "/api", "Accept", c.accept)); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.method, c.accept, got, c.want)
		}
	}
	// a gateway that has not heard of the growth yet serves what the visitor has
	s.tables.Store(registry.New([]registry.App{tried(content, 0, "k")}))
	if got := releaseOf(stays.ask(http.MethodGet, "/", "Accept", "text/html")); got != newer {
		t.Errorf("got %s at a gateway that is behind, want the canary", got)
	}

	for address, want := range map[string]landfall.UID{"shop.live." + domain: older, "shop--aaaaaaa2." + domain: older,
		"shop--bbbbbbb2." + domain: newer, "shop.latest." + domain: newer} {
		a := s.get(t, address, "/")
		a.want(t, http.StatusOK, want, string(want))
		a.wantHeaders(t, "Set-Cookie", "", "Cache-Control", revalidate)
	}
	signedIn := tried(content, 100, "k")
	signedIn.SignedIn = true
	s.tables.Store(registry.New([]registry.App{signedIn}))
	s.get(t, host, "/").want(t, http.StatusOK, newer, string(newer))

	over := tried(content, 100, "k")
	over.Canary = nil
	s.tables.Store(registry.New([]registry.App{over}))
	a := s.get(t, host, "/", "Cookie", canaryName+"="+stays.cookie)
	a.want(t, http.StatusOK, older, string(older))
	a.wantHeaders(t, "Set-Cookie", "", "Cache-Control", revalidate)
}

// Every answer is counted on its side. What the client did wrong is no failure; what cannot be written is kept.
func TestCanaryCounts(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	f := plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		if status == 0 {
			return e, errors.New("it does not run")
		}
		return textOf(e, "hello", event.Protocol{Status: status}), nil
	})
	tally := &split.Tally{}
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) { c.Functions, c.Canaries = f, tally }, tried(content, 100, "k"))
	for _, status = range []int{200, 404, 500, 503, 0} {
		s.get(t, host, "/api")
	}
	s.get(t, host, "/nowhere")
	s.get(t, "shop--bbbbbbb2."+domain, "/nowhere")
	s.tables.Store(registry.New([]registry.App{tried(content, 0, "k")}))
	s.get(t, host, "/")
	left, cancel := context.WithCancel(t.Context())
	cancel()
	func() {
		defer func() { _ = recover() }() // net/http's own way to break off
		s.gateway.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(left, http.MethodGet, "http://"+host+"/api", http.NoBody))
	}()

	down := errors.New("the database is down")
	if err := tally.Flush(t.Context(), func(context.Context, []split.Count) error { return down }); !errors.Is(err, down) {
		t.Errorf("got %v, want that it was not written", err)
	}
	var got []string
	for range 2 { // the second has nothing to write
		err := tally.Flush(t.Context(), func(_ context.Context, counts []split.Count) error {
			for _, c := range counts {
				got = append(got, fmt.Sprint(c))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	if want := []string{"{c-k false 1 0}", "{c-k true 6 3}"}; !slices.Equal(got, want) {
		t.Errorf("got the counts %q, want %q", got, want)
	}
}
