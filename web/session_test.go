package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Whoever is not signed in is sent to sign in, and then to where they wanted to go.
func TestSignIn(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	a := p.get("/apps/shop?before=")
	p.want(a, http.StatusSeeOther)
	if got, want := a.Header.Get("Location"), "/sign-in?to=%2Fapps%2Fshop%3Fbefore%3D"; got != want {
		t.Errorf("sent to %q, want %q", got, want)
	}
	p.want(p.get(a.Header.Get("Location")), http.StatusOK, `name="to" value="/apps/shop?before="`,
		`name="token" type="password"`)
	a = p.post("/sign-in", url.Values{"token": {" " + adminToken + "\n"}, "to": {"/apps/shop?before="}})
	p.want(a, http.StatusSeeOther)
	if got, want := a.Header.Get("Location"), "/apps/shop?before="; got != want {
		t.Errorf("sent back to %q, want %q", got, want)
	}
	cookies := a.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "__Host-landfall" || !cookies[0].HttpOnly || !cookies[0].Secure ||
		cookies[0].Path != "/" ||
		cookies[0].Domain != "" || cookies[0].SameSite != http.SameSiteLaxMode ||
		strings.Contains(cookies[0].Value, "token") {
		t.Errorf("got the cookies %v", a.Header.Values("Set-Cookie"))
	}
	p.cookie = cookies[0]
	p.want(p.get("/apps/shop"), http.StatusOK, "Release bbbbbbbb", "ada")
	p.want(p.get("/sign-in?to=/apps/shop"), http.StatusSeeOther)

	p.pass(13 * 24 * time.Hour)
	p.want(p.get("/apps/shop"), http.StatusOK)
	p.pass(2 * 24 * time.Hour)
	p.want(p.get("/apps/shop"), http.StatusSeeOther)
}

// Whose token has expired is told so, in place of being asked to sign in as if for the first time.
func TestSignInAgain(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	const secret = "a token that ends in an hour, long enough"
	p.update(func(tx *store.Tx) error {
		return tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte(secret)), Name: "short",
			Scope: landfall.ScopeRead, Created: noon, Expires: noon.Add(time.Hour)})
	})
	p.signIn(secret)
	p.want(p.get("/"), http.StatusOK)
	p.pass(time.Hour)
	const says = "the token short expired on 2026-11-20"
	a := p.get("/")
	p.want(a, http.StatusSeeOther)
	p.want(p.get(a.Header.Get("Location")), http.StatusOK, says, `role="alert"`)
	p.want(p.post("/apps/shop/hold", nil), http.StatusUnauthorized, says)
	p.cookie = nil
	if a := p.get("/sign-in"); strings.Contains(a.body, `role="alert"`) {
		t.Errorf("somebody who brings nothing is told of a problem: %s", a.body)
	}
	p.want(p.post("/apps/shop/hold", nil), http.StatusUnauthorized, "Sign in first.")
}

// Who signs out is signed out, also where the cookie was kept.
func TestSignOut(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.signIn(adminToken)
	kept := p.cookie
	p.want(p.get("/"), http.StatusOK, "No app yet")
	a := p.post("/sign-out", nil)
	p.want(a, http.StatusSeeOther)
	if c := a.Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("the cookie stays: %v", a.Header.Values("Set-Cookie"))
	}
	p.cookie = kept
	p.want(p.get("/"), http.StatusSeeOther)
}

// Wherever a link to the sign-in says to go afterwards, it is a page here.
func TestSignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	for _, to := range []string{
		"https://example.com/", "//example.com/", `/\example.com`, `\\example.com`, "javascript:alert(1)", "/\texample.com",
		"http:example.com", "", "%zz", "apps",
	} {
		a := p.post("/sign-in", url.Values{"token": {adminToken}, "to": {to}})
		if got := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || got != "/" {
			t.Errorf("%q: got %d to %q, want 303 to /", to, a.StatusCode, got)
		}
	}
}

// After ten wrong tokens an address waits, and another does not. A right token never does: behind a proxy all visitors
// have one address, and tokens are too long to be guessed, however often.
func TestSignInIsLimited(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	guess := func(from, token string) answer {
		r := httptest.NewRequest(http.MethodPost, home+"/sign-in", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", home)
		r.RemoteAddr = from
		return p.ask(r)
	}
	for i := range 10 {
		p.want(guess(fmt.Sprintf("192.0.2.1:%d", i+1), fmt.Sprint("guess ", i)), http.StatusUnauthorized,
			"This token is not known.", `role="alert"`)
		p.want(guess("192.0.2.2:1", adminToken), http.StatusSeeOther) // what is right does not count
	}
	a := guess("192.0.2.1:99", "wrong")
	p.want(a, http.StatusTooManyRequests, "Too many")
	if got := a.Header.Get("Retry-After"); got != "61" {
		t.Errorf("Retry-After: got %q, want 61", got)
	}
	p.want(guess("192.0.2.1:99", adminToken), http.StatusSeeOther)
	p.want(guess("192.0.2.1:99", "wrong"), http.StatusTooManyRequests) // and that does not begin anew
	p.want(guess("192.0.2.2:1", "wrong"), http.StatusUnauthorized)
	p.pass(61 * time.Second)
	p.want(guess("192.0.2.1:99", "wrong"), http.StatusUnauthorized)
}

// Where browsers would throw the cookie away, the page says so in place of asking.
func TestSignInWhereNoCookieIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ public, at, says string }{
		{home, "http://localhost:8080", `name="token"`},
		{home, "http://127.0.0.1:8080", `name="token"`},
		{home, "http://[::1]:8080", `name="token"`},
		{home, "http://192.0.2.7:8080", "LANDFALL_URL"},
		{"http://landfall.example.com", "http://landfall.example.com", "LANDFALL_URL"},
		{"https://landfall.example.com", "http://landfall.example.com", `name="token"`}, // the proxy before it does TLS
		{"https://landfall.example.com", "http://192.0.2.7:8080", `href="https://landfall.example.com/sign-in"`},
	} {
		p := newPages(t, c.public)
		a := p.ask(httptest.NewRequest(http.MethodGet, c.at+"/sign-in", nil))
		if !strings.Contains(a.body, c.says) {
			t.Errorf("at %s of %s: got no %q in %s", c.at, c.public, c.says, a.body)
		}
	}
}

// What another site sends does nothing, whatever it says, and whoever is signed in.
func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	form := url.Values{"live": {"bbbbbbbb"}, "release": {"aaaaaaaa"}}
	for name, headers := range map[string][]string{
		"another site":            {"Sec-Fetch-Site", "cross-site", "Origin", "https://example.com"},
		"a release":               {"Sec-Fetch-Site", "same-site", "Origin", "http://shop.localhost:8080"},
		"a link or a bookmark":    {"Sec-Fetch-Site", "none"},
		"an old browser":          {"Origin", "https://example.com"},
		"another port":            {"Origin", "http://localhost:8081"},
		"nobody":                  {"Origin", "null"},
		"no sender":               {"Accept", "text/html"},
		"two that differ":         {"Sec-Fetch-Site", "same-origin", "Origin", "https://example.com"},
		"a name that begins ours": {"Origin", "http://localhost:8080.example.com"},
	} {
		for _, path := range []string{"/apps/shop/rollback", "/apps/shop/hold", "/apps/shop/import", "/sign-in", "/sign-out"} {
			p.want(p.post(path, form, headers...), http.StatusForbidden, "nothing was done")
		}
		if live, held := p.live(); live != "bbbbbbbb" || held {
			t.Fatalf("%s moved live to %s (held: %t)", name, live, held)
		}
	}
	p.want(p.get("/"), http.StatusOK)
	p.want(p.post("/apps/shop/rollback", form), http.StatusSeeOther)
	if live, held := p.live(); live != "aaaaaaaa" || !held {
		t.Errorf("our own page did not move live: it is %s (held: %t)", live, held)
	}
}

// Every answer keeps other people's pages and scripts away.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	for _, path := range []string{"/", "/apps/shop", "/apps/nothing", "/nothing", "/sign-in"} {
		a := p.get(path)
		policy := a.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'",
			"frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q does not say %s", path, policy, want)
			}
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cache-Control": "no-store",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
}

// Files that pages need come from here, and are kept for ever: their addresses change with them.
func TestFiles(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	page := p.get("/sign-in").body
	for _, c := range []struct{ before, kind string }{
		{`<link rel="stylesheet" href="`, "text/css"}, {`<script src="`, "text/javascript"},
		{`<link rel="icon" href="`, "image/svg+xml"},
	} {
		_, rest, found := strings.Cut(page, c.before)
		path, _, _ := strings.Cut(rest, `"`)
		a := p.get(path)
		if !found || a.StatusCode != http.StatusOK || !strings.HasPrefix(a.Header.Get("Content-Type"), c.kind) ||
			!strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %d %v", path, a.StatusCode, a.Header)
		}
	}
	p.want(p.get("/static/landfall.0000.js"), http.StatusNotFound)
}
