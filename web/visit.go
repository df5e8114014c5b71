package web

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// VisitPath is where the host of a release sends browsers that it does not know.
const VisitPath = "/visit"

// codeFor is how long a browser may take from here to the release.
const codeFor = time.Minute

// Visit is an address of a release.
type Visit struct {
	App    string
	Host   string // in its canonical form
	Origin string // scheme, host and port
	Begin  string // where a visit begins, but for the code at its end
	Path   string // with the query
}

// VisitAddress returns where a browser of which the host of a release knows nothing but a nonce is sent, to come back
// to an address.
func VisitAddress(control *url.URL, address, nonce string) string {
	u := control.JoinPath(VisitPath)
	u.RawQuery = url.Values{"to": {address}, "for": {string(landfall.DigestOf([]byte(nonce)))}}.Encode()
	return u.String()
}

// visitOf returns where a path of this host lets somebody go on to, if that is a release.
func (s *site) visitOf(path string) (Visit, bool) {
	u, err := url.Parse(path)
	if err != nil || u.Path != VisitPath || s.Visit == nil {
		return Visit{}, false
	}
	to, err := url.Parse(u.Query().Get("to"))
	if err != nil {
		return Visit{}, false
	}
	return s.Visit(to)
}

// visit gives a browser that is signed in here a code for the host of a release, which asked for it. Whoever is not
// signed in is asked to. It sends nobody anywhere but to a release that they may read.
func (s *site) visit(w http.ResponseWriter, r *http.Request) {
	v, ok := s.visitOf(r.URL.RequestURI())
	challenge, err := landfall.ParseDigest(r.URL.Query().Get("for"))
	if !ok || err != nil {
		s.fail(w, r, nil, landfall.Errorf("web.visit", landfall.Invalid, "This leads to no release of this server."))
		return
	}
	cookie, none := r.Cookie(cookieName)
	var token landfall.Token
	err = &landfall.Error{Op: "web.visit", Kind: landfall.NotFound}
	if none == nil {
		token, err = s.DB.SessionToken(r.Context(), cookie.Value, s.Now())
	}
	switch {
	case landfall.Is(err, landfall.NotFound) || landfall.Is(err, landfall.Unauthorized):
		http.Redirect(w, r, "/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return
	case err == nil:
		err = s.mayVisit(r, token, v)
	}
	code, now := rand.Text(), s.Now()
	if err == nil {
		err = s.DB.Update(r.Context(), func(tx *store.Tx) error {
			return tx.CreateVisit(r.Context(), code, cookie.Value, store.Visit{Host: v.Host, Challenge: challenge, Path: v.Path},
				now, now.Add(codeFor))
		})
	}
	if err != nil {
		s.fail(w, r, nil, err)
		return
	}
	goOn(w, v.Begin+code)
}

// mayVisit returns an error unless a token may read the app of a release. Whether there is such an app is not for
// everybody.
func (s *site) mayVisit(r *http.Request, token landfall.Token, v Visit) error {
	app, err := s.DB.AppByName(r.Context(), v.App)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if err != nil || !token.Allows(landfall.ScopeRead, app.ID) {
		return landfall.Errorf("web.visit", landfall.Forbidden, "There is no such app, or your token may not read it.")
	}
	return nil
}
