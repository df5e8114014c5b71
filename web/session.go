package web

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/store"
)

// The session's cookie. Browsers keep a cookie of this name only if this very host set it, over https or on the machine
// itself: no release can set or read it.
const (
	cookieName = "__Host-landfall"
	sessionFor = 14 * 24 * time.Hour
	maxForm    = 64 << 10
)

// signInFirst is said to who brings nothing, or a session that is over.
const signInFirst = "Sign in first."

// visitor returns the token of who asks: of the session's cookie, or as the API takes it. Unauthorized, with why, when
// there is none that is known.
func (s *site) visitor(r *http.Request) (landfall.Token, error) {
	if secret := auth.BearerOf(r); secret != "" {
		return auth.Token(r.Context(), s.DB, secret)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return landfall.Token{}, landfall.Errorf("web", landfall.Unauthorized, signInFirst)
	}
	token, err := s.DB.SessionToken(r.Context(), cookie.Value, s.Now())
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Wrapf("web", landfall.Unauthorized, err, signInFirst)
	}
	return token, err
}

// sameOrigin reports whether a request that may change something says that a page of ours sent it. Other pages are told
// apart by the browser; what comes from no browser has no cookie to lend, and says who it is.
func sameOrigin(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site == "" && origin == "" {
		return false
	}
	if site != "" && site != "same-origin" {
		return false
	}
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

func (s *site) refuseOrigin(w http.ResponseWriter, _ *http.Request) {
	s.write(w, nil, &view{page: "error", title: "Forbidden", status: http.StatusForbidden,
		data: problem{http.StatusForbidden,
			"This was sent by another site, so nothing was done. Open the page here and do it again."}})
}

// signIn is what the page to sign in shows.
type signIn struct {
	To      string
	Problem string
	Insecure,
	Elsewhere string // where one can sign in, when one cannot here
}

func (s *site) signInPage(w http.ResponseWriter, r *http.Request) {
	to := local(r.URL.Query().Get("to"))
	_, err := s.visitor(r)
	if err == nil {
		goOn(w, to)
		return
	}
	problem := ""
	if message := landfall.MessageOf(err); landfall.Is(err, landfall.Unauthorized) && message != signInFirst {
		problem = message // for instance that the token has expired
	}
	s.askToken(w, r, to, http.StatusOK, problem)
}

func (s *site) askToken(w http.ResponseWriter, r *http.Request, to string, status int, problem string) {
	data := signIn{To: to, Problem: problem}
	if !s.keepsCookies(r) {
		data.Insecure = r.Host
		if s.URL.Scheme == "https" {
			data.Elsewhere = s.URL.JoinPath("sign-in").String()
		}
	}
	// browsers ask it of every address that a form leads to, and this one's leads to the release
	if v, ok := s.visitOf(to); ok {
		policy := w.Header().Get(securityPolicy)
		w.Header().Set(securityPolicy, strings.Replace(policy, "form-action 'self'", "form-action 'self' "+v.Origin, 1))
	}
	s.write(w, nil, &view{page: "signin", title: "Sign in", status: status, data: data})
}

// keepsCookies reports whether a browser keeps our cookie: over https, and on its own machine.
func (s *site) keepsCookies(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case r.TLS != nil, s.URL.Scheme == "https" && strings.EqualFold(r.Host, s.URL.Host):
		return true
	case err == nil:
		return ip.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (s *site) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	to := local(r.PostFormValue("to"))
	secret := strings.TrimSpace(r.PostFormValue("token"))
	if secret == "" {
		s.askToken(w, r, to, http.StatusBadRequest, "Enter a token.")
		return
	}
	token, err := s.DB.Token(r.Context(), secret, s.Now())
	switch {
	case landfall.Is(err, landfall.NotFound):
		s.refuseToken(w, r, to)
		return
	case landfall.Is(err, landfall.Unauthorized):
		s.askToken(w, r, to, http.StatusUnauthorized, "This token has expired. Enter another one.")
		return
	case err != nil:
		s.fail(w, r, nil, err)
		return
	}
	session, now := rand.Text(), s.Now()
	err = s.DB.Update(r.Context(), func(tx *store.Tx) error {
		return tx.CreateSession(r.Context(), session, token, now, now.Add(sessionFor))
	})
	if err != nil {
		s.fail(w, r, nil, err)
		return
	}
	// Lax: a link from a commit status leads to the run, and not to the sign-in.
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: session, Path: "/", MaxAge: int(sessionFor.Seconds()), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
	goOn(w, to)
}

// refuseToken answers who gave a token that is not known. Behind a proxy all visitors have one address: what is right
// is never kept waiting for what others guessed.
func (s *site) refuseToken(w http.ResponseWriter, r *http.Request, to string) {
	if wait := s.attempts.failed(r.RemoteAddr, s.Now()); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		s.askToken(w, r, to, http.StatusTooManyRequests,
			"This token is not known. Too many from this address were wrong: wait a minute.")
		return
	}
	s.Logger.WarnContext(r.Context(), "sign-in refused", "from", r.RemoteAddr)
	s.askToken(w, r, to, http.StatusUnauthorized, "This token is not known.")
}

func (s *site) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, none := r.Cookie(cookieName); none == nil {
		err := s.DB.Update(r.Context(), func(tx *store.Tx) error { return tx.DeleteSession(r.Context(), cookie.Value) })
		if err != nil {
			s.fail(w, r, nil, err)
			return
		}
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// goOn sends the browser to a path that local returned.
func goOn(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// local returns a path of this host to go to, and the first page for everything else.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, "/") ||
		strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\t\r\n") {
		return "/"
	}
	return to
}
