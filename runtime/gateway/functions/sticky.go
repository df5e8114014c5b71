package functions

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// The cookie by which a visitor is known who stays on one version. Browsers keep one with the first name over https and
// on the machine itself, and only if this very host set it; elsewhere it has the second name. No function gets either.
const (
	sideCookie      = access.CookiePrefix + "-side"
	plainSideCookie = "landfall-side"
	sideFor         = 30 * 24 * time.Hour
)

// choose returns the function that gets a request; nil when that one is gone. A client that is known by the trigger's
// sticky key stays on one, and a visitor who has no cookie of ours yet gets one.
func (s *Server) choose(w http.ResponseWriter, r *http.Request, t *registry.Trigger) *landfall.Function {
	if t.Sticky == "" || len(t.Shares) == 0 {
		return t.Draw()
	}
	var key string
	varies := "Cookie"
	switch header, cookie := t.Sticky.Header(), t.Sticky.Cookie(); {
	case header != "":
		varies, key = http.CanonicalHeaderKey(header), r.Header.Get(header)
	case cookie != "":
		key = cookieOf(r, cookie)
	default:
		key = s.visitor(w, r)
	}
	if noted, ok := w.(*page.Writer); ok {
		noted.Varies = varies
	}
	if key == "" {
		return t.Draw()
	}
	return t.ChooseFor(key)
}

// visitor returns what the visitor is known by, who is given it when they have nothing yet.
func (s *Server) visitor(w http.ResponseWriter, r *http.Request) string {
	c := &http.Cookie{Name: plainSideCookie, Path: "/", MaxAge: int(sideFor.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if s.schemeOf(r) == "https" || isLocal(r.Host) {
		c.Name, c.Secure = sideCookie, true
	}
	if key := cookieOf(r, c.Name); key != "" {
		return key
	}
	c.Value = rand.Text()
	http.SetCookie(w, c)
	return c.Value
}

// isLocal reports whether a host is this very machine, for which browsers do without https.
func isLocal(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

// cookieOf returns the value of a cookie; empty when there is none.
func cookieOf(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
