// Package access says who may see a release and call its routes, and keeps the sessions of people at hosts of releases.
package access

import (
	"log/slog"
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
)

// Identity says as whom somebody was admitted.
type Identity uint8

// The identities.
const (
	Nobody Identity = iota // who was not admitted
	anybody
	Holder  // of a token
	visitor // who signed in
)

// Required returns who may call a route of a release that only those see who signed in, if that is what signedIn says.
func Required(access landfall.Access, signedIn bool) landfall.Access {
	if signedIn && access == landfall.AccessPublic {
		return landfall.AccessSignedIn
	}
	return access
}

// Guard says who may see or call something. Many goroutines may use it.
type Guard struct{ config Config }

// Config is what a Guard stands on.
type Config struct {
	Hosts    hostname.Hosts
	Sessions PreviewSessions // nil: people are known by tokens alone
	// Allowed says who may call a route that is not public, or see what is for those alone who signed in, by a token: nil
	// is yes, Unauthorized that nobody is known by what the request has, Forbidden that who is known may not. Every other
	// error is a failure, and nobody may then. nil: nobody may.
	Allowed func(r *http.Request, app string, access landfall.Access) error
	Log     *slog.Logger
}

// New returns a Guard.
func New(c Config) *Guard { return &Guard{c} }

// Admit returns who calls a route, and answers when they may not.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, app string, access landfall.Access) Identity {
	switch access {
	case landfall.AccessPublic:
		return anybody
	case landfall.AccessSignedIn:
		return g.AdmitVisitor(w, r, app)
	case landfall.AccessToken:
	}
	err := error(&landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized})
	if g.config.Allowed != nil {
		err = g.config.Allowed(r, app, access)
	}
	if err == nil {
		return Holder
	}
	g.refuse(w, r, app, access, err)
	return Nobody
}

// refuse answers somebody who may not see or call something, for the error that says why.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, app string, access landfall.Access, err error) {
	kind := landfall.KindOf(err)
	switch {
	case r.Context().Err() != nil: // nobody waits for the answer
	case kind == landfall.Unauthorized && auth.BearerOf(r) != "" &&
		(access == landfall.AccessToken || access == landfall.AccessSignedIn):
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		page.WriteProblem(w, r, pageWrongToken())
	case kind == landfall.Unauthorized && access == landfall.AccessToken:
		w.Header().Set("WWW-Authenticate", "Bearer")
		page.Write(w, r, pageNoToken())
	case kind == landfall.Unauthorized && access == landfall.AccessSignedIn:
		w.Header().Set("WWW-Authenticate", "Bearer")
		page.WriteProblem(w, r, pageNotSignedIn())
	case kind == landfall.Unauthorized || kind == landfall.Forbidden:
		page.Write(w, r, pageNotAllowed(access))
	default:
		g.config.Log.ErrorContext(r.Context(), "who may call a function is not known", "app", app, "error", err)
		w.Header().Set("Retry-After", "1")
		page.Write(w, r, pageUnknownCaller())
	}
}

// AdmitVisitor returns who asks for something that is for those alone who signed in, or have a token. It answers when
// they may not.
func (g *Guard) AdmitVisitor(w http.ResponseWriter, r *http.Request, app string) Identity {
	if c, ok := w.(*page.Writer); ok {
		c.Private = true
	}
	by, err := g.visitorOf(r, app)
	if by != Nobody {
		return by
	}
	if err == nil {
		page.Write(w, r, pageElsewhere())
		return Nobody
	}
	host, _ := hostname.Canonical(r.Host)
	if landfall.Is(err, landfall.Unauthorized) && g.config.Sessions != nil && browses(r) &&
		g.config.Hosts.Classify(host).Kind == hostname.Release {
		g.sendToSignIn(w, r, host)
		return Nobody
	}
	g.refuse(w, r, app, landfall.AccessSignedIn, err)
	return Nobody
}

// visitorOf returns as whom a request may see what is for those alone who signed in, or have a token, and otherwise
// nobody, and why: no error says that it comes from a page of another host.
func (g *Guard) visitorOf(r *http.Request, app string) (Identity, error) {
	host, _ := hostname.Canonical(r.Host)
	var err error = &landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized}
	if cookie, none := r.Cookie(previewCookie); none == nil && g.config.Sessions != nil {
		if err = g.config.Sessions.Visitor(r.Context(), host, app, cookie.Value); err == nil {
			if fromHere(r) {
				return visitor, nil
			}
			return Nobody, nil
		}
	}
	kind := landfall.KindOf(err)
	if auth.BearerOf(r) != "" && g.config.Allowed != nil && (kind == landfall.Unauthorized || kind == landfall.Forbidden) {
		if err = g.config.Allowed(r, app, landfall.AccessSignedIn); err == nil {
			return Holder, nil
		}
	}
	return Nobody, err
}

// SeesPast reports whether a request may see files of releases that are only for those who signed in. It answers when
// nobody can tell.
func (g *Guard) SeesPast(w http.ResponseWriter, r *http.Request, app string) (known, answered bool) {
	by, err := g.visitorOf(r, app)
	if by != Nobody {
		if c, ok := w.(*page.Writer); ok {
			c.Private = true
		}
		return true, false
	}
	if kind := landfall.KindOf(err); err == nil || kind == landfall.Unauthorized || kind == landfall.Forbidden {
		return false, false
	}
	g.refuse(w, r, app, landfall.AccessSignedIn, err)
	return false, true
}
