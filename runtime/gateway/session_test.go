package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/access"
)

// previewSessions knows one visitor.
type previewSessions struct{ err error }

func (previewSessions) SignIn(host, path, nonce string) string {
	return "https://control.test/visit?" + host + path + "#" + nonce
}

func (v previewSessions) Begin(context.Context, string, string, string) (secret, path string, expires time.Time,
	err error) {
	return "ada", "/cart", time.Now().Add(time.Hour), v.err
}

func (v previewSessions) Visitor(_ context.Context, host, app, secret string) error {
	if v.err == nil && (host != "shop."+domain || app != "shop" || secret != "ada") {
		return &landfall.Error{Kind: landfall.Unauthorized}
	}
	return v.err
}

const ada = "__Host-landfall-visit=ada"

// Whatever a function says of caches and cookies, its answer to somebody who signed in stays with them.
func TestPrivateAnswers(t *testing.T) {
	t.Parallel()
	var got map[string][]string
	f := plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		got = p.Headers
		return textOf(e, "for ada", event.Protocol{Headers: map[string][]string{
			"Cache-Control": {"public, max-age=3600"}, "CDN-Cache-Control": {"max-age=3600"},
			"Surrogate-Control": {"max-age=3600"}, "X-Accel-Expires": {"3600"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
			"Vary":       {"Accept"},
			"Set-Cookie": {"own=1", "__Host-landfall-visit=mallory; Path=/; Secure", " __Host-landfall=mallory"},
		}}), err
	})
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions, c.Sessions = f, previewSessions{}
	}, routed(content, files{}, landfall.AccessSignedIn, "/"))
	a := s.get(t, host, "/", "Cookie", "own=1; "+ada+"; __Host-landfall-nonce=x", "Cookie", "__Host-landfallen=mine")
	a.want(t, http.StatusOK, "aaaaaaa2", "for ada")
	a.wantHeaders(t, "Cache-Control", "private, no-cache", "Cdn-Cache-Control", "", "Surrogate-Control", "",
		"X-Accel-Expires", "", "Cross-Origin-Resource-Policy", "same-origin", "Set-Cookie", "own=1")
	if vary := strings.Join(a.Header.Values("Vary"), ", "); vary != "Accept, Cookie, Authorization" {
		t.Errorf("got Vary: %s", vary)
	}
	if cookies := a.Header.Values("Set-Cookie"); len(cookies) != 1 {
		t.Errorf("got the cookies %q, want the function's own", cookies)
	}
	if cookie := strings.Join(got["Cookie"], "; "); cookie != "own=1; __Host-landfallen=mine" {
		t.Errorf("the function got the cookies %q, want its own", cookie)
	}
	s.get(t, host, "/", "Cookie", "__Host-landfall-visit=mallory", "Accept", "*/*").wantHeaders(t,
		"Cache-Control", "no-store", "WWW-Authenticate", "Bearer", "Content-Type", "application/problem+json")
}

// When nobody can tell who is signed in, nobody is let in, and nobody is sent around.
func TestVisitsDown(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions, c.Sessions = says("secret"),
			previewSessions{&landfall.Error{Kind: landfall.Unavailable, Err: errors.New("the database is down")}}
	}, routed(content, files{}, landfall.AccessSignedIn, "/"))
	s.get(t, host, "/", "Cookie", ada).wantPage(t, http.StatusServiceUnavailable, "aaaaaaa2", "Not known right now")
	s.get(t, host, access.PreviewPath+"?code=x", "Cookie", "__Host-landfall-nonce=x").wantPage(t,
		http.StatusServiceUnavailable, "aaaaaaa2", "Not known right now")
	s.get(t, host, access.PreviewPath+"?code=x").wantPage(t, http.StatusBadRequest, "aaaaaaa2", "The sign-in did not work")
	s.do(t, http.MethodHead, host, "/", "Accept", "text/html").want(t, http.StatusSeeOther, "aaaaaaa2", "")
}

// Two tabs that wait for their codes have one nonce.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions, c.Sessions = says("secret"), previewSessions{}
	}, routed(content, files{}, landfall.AccessSignedIn, "/"))
	first := s.get(t, host, "/?tab=1", "Accept", "text/html")
	cookie := first.Cookies()[0]
	_, nonce, _ := strings.Cut(first.Header.Get("Location"), "#")
	second := s.get(t, host, "/?tab=2", "Accept", "text/html", "Cookie", cookie.Name+"="+cookie.Value)
	if !strings.HasSuffix(second.Header.Get("Location"), "shop."+domain+"/?tab=2#"+nonce) || nonce == "" ||
		cookie.Value != nonce {
		t.Errorf("sent to %q and %q, want the same nonce", first.Header.Get("Location"), second.Header.Get("Location"))
	}
}

// The cookie of who signed in counts in requests of the host's own pages, and where somebody goes there. Browsers send
// it with those of the pages of other apps, too.
func TestWhoAsksForVisitors(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions, c.Sessions = says("for ada"), previewSessions{}
	}, routed(content, files{}, landfall.AccessSignedIn, "/"))
	for _, c := range []struct {
		method  string
		headers []string
		in      bool
	}{
		{"GET", nil, true},
		{"POST", nil, false},
		{"POST", []string{"Origin", "http://" + host}, true},
		{"POST", []string{"Origin", "http://zoo." + domain}, false},
		{"POST", []string{"Origin", "null"}, false},
		{"POST", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"GET", []string{"Sec-Fetch-Site", "none"}, true},
		{"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, false},
	} {
		answer := s.do(t, c.method, host, "/", append([]string{"Cookie", ada}, c.headers...)...)
		if in := answer.StatusCode == http.StatusOK && answer.body == "for ada"; in != c.in ||
			!in && answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s with %q: got %d %.80q, want that they are let in: %t", c.method, c.headers, answer.StatusCode,
				answer.body, c.in)
		}
	}
}
