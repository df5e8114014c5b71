package gateway

import (
	"log/slog"
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/gateway/page"
)

// caller is by what somebody may see or call something.
type caller uint8

const (
	nobody caller = iota
	anybody
	holder  // of a token
	visitor // who signed in
)

// stricter returns who may call a route of a release that only those see who signed in, if that is what signedIn says.
func stricter(access landfall.Access, signedIn bool) landfall.Access {
	if signedIn && access == landfall.AccessPublic {
		return landfall.AccessSignedIn
	}
	return access
}

// guard says who may see or call something.
type guard struct {
	Hosts

	sessions PreviewSessions
	allowed  func(r *http.Request, app string, access landfall.Access) error
	log      *slog.Logger
}

// admit returns who calls a route, and answers when they may not.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, app string, access landfall.Access) caller {
	switch access {
	case landfall.AccessPublic:
		return anybody
	case landfall.AccessSignedIn:
		return g.admitVisitor(w, r, app)
	case landfall.AccessToken:
	}
	err := error(&landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized})
	if g.allowed != nil {
		err = g.allowed(r, app, access)
	}
	if err == nil {
		return holder
	}
	g.refuse(w, r, app, access, err)
	return nobody
}

// refuse answers somebody who may not see or call something, for the error that says why.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, app string, access landfall.Access, err error) {
	kind := landfall.KindOf(err)
	switch {
	case r.Context().Err() != nil: // nobody waits for the answer
	case kind == landfall.Unauthorized && auth.BearerOf(r) != "" && (access == landfall.AccessToken || access == landfall.AccessSignedIn):
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
		g.log.ErrorContext(r.Context(), "who may call a function is not known", "app", app, "error", err)
		w.Header().Set("Retry-After", "1")
		page.Write(w, r, pageUnknownCaller())
	}
}

// admitVisitor returns who asks for something that is for those alone who signed in, or have a token. It answers when
// they may not.
func (g *guard) admitVisitor(w http.ResponseWriter, r *http.Request, app string) caller {
	if c, ok := w.(*counted); ok {
		c.private = true
	}
	by, err := g.visitorOf(r, app)
	if by != nobody {
		return by
	}
	if err == nil {
		page.Write(w, r, pageElsewhere())
		return nobody
	}
	host, _ := CanonicalHost(r.Host)
	if landfall.Is(err, landfall.Unauthorized) && g.sessions != nil && browses(r) && g.Classify(host).Kind == ReleaseHost {
		g.sendToSignIn(w, r, host)
		return nobody
	}
	g.refuse(w, r, app, landfall.AccessSignedIn, err)
	return nobody
}

// visitorOf returns as whom a request may see what is for those alone who signed in, or have a token, and otherwise
// nobody, and why: no error says that it comes from a page of another host.
func (g *guard) visitorOf(r *http.Request, app string) (caller, error) {
	host, _ := CanonicalHost(r.Host)
	var err error = &landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized}
	if cookie, none := r.Cookie(previewCookie); none == nil && g.sessions != nil {
		if err = g.sessions.Visitor(r.Context(), host, app, cookie.Value); err == nil {
			if fromHere(r) {
				return visitor, nil
			}
			return nobody, nil
		}
	}
	kind := landfall.KindOf(err)
	if auth.BearerOf(r) != "" && g.allowed != nil && (kind == landfall.Unauthorized || kind == landfall.Forbidden) {
		if err = g.allowed(r, app, landfall.AccessSignedIn); err == nil {
			return holder, nil
		}
	}
	return nobody, err
}

// seesPast reports whether a request may see files of releases that are only for those who signed in. It answers when
// nobody can tell.
func (g *guard) seesPast(w http.ResponseWriter, r *http.Request, app string) (known, answered bool) {
	by, err := g.visitorOf(r, app)
	if by != nobody {
		if c, ok := w.(*counted); ok {
			c.private = true
		}
		return true, false
	}
	if kind := landfall.KindOf(err); err == nil || kind == landfall.Unauthorized || kind == landfall.Forbidden {
		return false, false
	}
	g.refuse(w, r, app, landfall.AccessSignedIn, err)
	return false, true
}
