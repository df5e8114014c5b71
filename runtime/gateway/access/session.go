package access

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
)

// CookiePrefix begins the names of all cookies of Landfall; the one of this name is that of the control host's
// pages. No function gets them.
const CookiePrefix = "__Host-landfall"

// PreviewPath is where a preview session begins at the host of a release: with ?code=CODE, from the control host.
const PreviewPath = "/.well-known/landfall-visit"

// The cookies of the hosts of releases. Browsers keep cookies of such names only if this very host set them, over https
// or on the machine itself. No function gets them or sets them.
const (
	previewCookie = CookiePrefix + "-visit"
	nonceCookie   = CookiePrefix + "-nonce"
	nonceFor      = 10 * time.Minute
)

// PreviewSessions are of people who are signed in at the control host, at the hosts of releases.
type PreviewSessions interface {
	// SignIn returns the address of the control host from where the browser that has nonce comes back to a path of a host.
	SignIn(host, path, nonce string) string

	// Begin takes a code that the control host gave to the browser that has nonce, and returns what its cookie is to hold,
	// until when, and the path to go on with. NotFound when the code is good for nothing, for another host or browser, or
	// not any more.
	Begin(ctx context.Context, host, code, nonce string) (secret, path string, expires time.Time, err error)

	// Visitor returns an error unless the secret of a cookie of the host is that of somebody who is signed in and may read
	// the app: Unauthorized when nobody is known by it, Forbidden when they may not.
	Visitor(ctx context.Context, host, app, secret string) error
}

// browses reports whether a person waits for the answer in the window of a browser, which may be sent somewhere else.
func browses(r *http.Request) bool {
	to := r.Header.Get("Sec-Fetch-Dest")
	return page.Reads(r) && strings.Contains(r.Header.Get("Accept"), "text/html") && (to == "" || to == "document")
}

// fromHere reports whether a request that has the cookie of this host comes from a page of it, or is somebody who goes
// there. Below the same domain there are the pages of other apps, whose requests browsers send the cookie with.
func fromHere(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site == "same-origin" || site == "none":
		return true
	case site != "":
		return page.Reads(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	case origin == "":
		return page.Reads(r)
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

// sendToSignIn sends a browser to the control host, from where it comes back with a code.
func (g *Guard) sendToSignIn(w http.ResponseWriter, r *http.Request, host string) {
	nonce := rand.Text()
	if cookie, none := r.Cookie(nonceCookie); none == nil && len(cookie.Value) == len(nonce) {
		nonce = cookie.Value // another tab waits for its code
	}
	http.SetCookie(w, ownCookie(nonceCookie, nonce, nonceFor))
	seeOther(w, g.config.Sessions.SignIn(host, page.Location(r.URL.Path, r.URL.RawQuery), nonce))
}

// BeginSession answers a request for a canonical path if it is a browser that comes back with a code, which it takes
// and lets go on. It reports whether it did.
func (g *Guard) BeginSession(w http.ResponseWriter, r *http.Request, path string) bool {
	if path != PreviewPath || g.config.Sessions == nil || !page.Reads(r) {
		return false
	}
	g.begin(w, r)
	return true
}

func (g *Guard) begin(w http.ResponseWriter, r *http.Request) {
	host, _ := hostname.Canonical(r.Host)
	nonce, none := r.Cookie(nonceCookie)
	if none != nil {
		page.Write(w, r, pageNoSession())
		return
	}
	secret, path, expires, err := g.config.Sessions.Begin(r.Context(), host, r.URL.Query().Get("code"), nonce.Value)
	switch {
	case err != nil && r.Context().Err() != nil: // nobody waits for the answer
	case landfall.Is(err, landfall.NotFound):
		page.Write(w, r, pageNoSession())
	case err != nil:
		g.config.Log.ErrorContext(r.Context(), "a visit cannot begin", "host", host, "error", err)
		w.Header().Set("Retry-After", "1")
		page.Write(w, r, pageUnknownCaller())
	default:
		http.SetCookie(w, ownCookie(previewCookie, secret, time.Until(expires)))
		seeOther(w, path)
	}
}

// ownCookie returns a cookie of the host of a release. Lax: whoever follows a link to the release is still known.
func ownCookie(name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: max(1, int(age.Seconds())), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
}

// seeOther sends a browser somewhere else. Nobody keeps the answer, or learns where it came from.
func seeOther(w http.ResponseWriter, address string) {
	h := w.Header()
	h.Set("Cache-Control", page.Uncached)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}
