// Package web is the pages of the control host: what people see of apps, runs and releases, and where they move them.
//
// Pages are made from the answers of the REST API, which is asked within the process in the name of whoever is signed
// in: what they may see and do is decided there, once. They need no JavaScript; with it they follow what happens.
package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/store"
)

// Config is what the pages stand on.
type Config struct {
	API *client.Client // answers requests in contexts of api.As
	DB  *store.DB      // of the sessions
	URL *url.URL       // of the control host

	// Visit returns what the address of a release is; false for every other address, and for one that is not where
	// releases of this server are. nil: there are none.
	Visit func(address *url.URL) (Visit, bool)

	Now    func() time.Time
	Logger *slog.Logger
}

// site is the pages.
type site struct {
	Config
	waiters  api.Waiters
	pages    map[string]*page
	files    files
	attempts *attempts
}

// Serve adds the pages to m, and returns what answers where there is none.
func Serve(m *mux.Mux, c Config) (rest http.Handler, err error) {
	s := &site{Config: c, attempts: &attempts{}}
	if s.files, err = readFiles(); err != nil {
		return nil, err
	}
	if s.pages, err = readPages(); err != nil {
		return nil, err
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(s.refuseOrigin))
	guarded := func(h http.HandlerFunc) http.Handler {
		inner := protection.Handler(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			secure(w.Header())
			if !sameOrigin(r) {
				s.refuseOrigin(w, r)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	get := func(path string, h http.HandlerFunc) { m.Serve(http.MethodGet, path, guarded(h)) }
	post := func(path string, h http.HandlerFunc) { m.Serve(http.MethodPost, path, guarded(h)) }
	get(filePath+":name", s.files.serve)
	get("/sign-in", s.signInPage)
	post("/sign-in", s.signIn)
	post("/sign-out", s.signOut)
	get(VisitPath, s.visit)
	get("/", s.showing(overview))
	get("/apps/:app", s.showing(app))
	get("/apps/:app/releases/:uid", s.showing(release))
	get("/apps/:app/releases/:uid/export", s.passing(m))
	get("/apps/:app/diff", s.showing(diff))
	get("/apps/:app/state", s.showing(state))
	get("/runs/:id", s.showing(run))
	get("/apps/:app/import", s.showing(askArchive))
	post("/apps/:app/import", s.showing(importRelease))
	get(connect.Path, s.showing(gitHub))
	post(connect.Path+"/connect", s.doing(action{do: beginGitHub}))
	get(connect.BeginPath+":id", s.showing(connectGitHub))
	get(connect.FinishPath, s.showing(connectedGitHub))
	get(repositoriesPath, s.showing(repositories))
	for path, a := range actions() {
		get(path, s.showing(a.confirm))
		post(path, s.doing(a))
	}
	missing := guarded(s.showing(func(r *request) (*view, error) {
		return nil, landfall.Errorf("web", landfall.NotFound, "There is no page %s.", landfall.Printable(r.URL.Path))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del("Allow") // a page that there is by another method is none
		missing.ServeHTTP(w, r)
	}), nil
}

const securityPolicy = "Content-Security-Policy"

// secure sets what keeps other people's pages and bytes away from these pages.
func secure(h http.Header) {
	h.Set(securityPolicy, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// request is what somebody who is signed in asks for.
type request struct {
	*http.Request
	api   *client.Client
	token landfall.Token
	now   time.Time
}

// get reads from the API.
func (r *request) get(path string, out any) error {
	return r.api.Do(r.Context(), http.MethodGet, path, nil, out)
}

// may reports whether the token may change an app.
func (r *request) may(app client.App) bool {
	return app.Deleted.IsZero() && r.token.Allows(landfall.ScopeDeploy, app.ID)
}

// view is what a page shows.
type view struct {
	page   string // its template
	title  string
	crumbs []crumb // the way to it
	data   any
	status int // 0: 200

	formTo string // the origin of another server to which a form leads; empty: none does

	follow time.Duration // how often it is looked at again while it is followed; 0: nothing more comes
	tail   *tail
}

// crumb is one step of the way to a page.
type crumb struct{ Name, URL string }

// tail is the end of a log that may grow.
type tail struct {
	read func(ctx context.Context, after int64) ([]line, error)
}

// showing answers with a page, or, where events are asked for, follows it.
func (s *site) showing(load func(*request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		events := r.Header.Get("Accept") == "text/event-stream"
		in, err := s.enter(r)
		var v *view
		if err == nil {
			v, err = load(in)
		}
		switch {
		case landfall.Is(err, landfall.Unauthorized) && !events && in == nil:
			toSignIn(w, r)
		case err != nil:
			s.fail(w, r, in, err)
		case events && v.follow > 0:
			s.stream(w, in, load, v)
		default:
			s.write(w, in, v)
		}
	}
}

// toSignIn leads who is not signed in to where they sign in, and from there to what they asked for.
func toSignIn(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

// passing answers with what the API, which h serves, has at the same path: a download, as it comes.
func (s *site) passing(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, err := s.enter(r)
		var to *url.URL
		if err == nil {
			to, err = url.Parse("/api/v1" + r.URL.EscapedPath())
		}
		switch {
		case landfall.Is(err, landfall.Unauthorized):
			toSignIn(w, r)
		case err != nil:
			s.fail(w, r, in, err)
		default:
			asked := in.Clone(in.Context())
			asked.URL = to
			h.ServeHTTP(w, asked)
		}
	}
}

// enter finds out who asks. Unauthorized when nobody knows them.
func (s *site) enter(r *http.Request) (*request, error) {
	token, err := s.visitor(r)
	if err != nil {
		return nil, err
	}
	return &request{Request: r.WithContext(api.As(r.Context(), token)), api: s.API, token: token, now: s.Now()}, nil
}

// frame is what stands around every page.
type frame struct {
	Title    string
	Crumbs   []crumb
	Token    landfall.Token
	SignedIn bool
	Notice   string
	Here     string // the address of the page
	Follow   bool
	Files    files
	Hashes   map[string]string // of the page's parts
	Page     any
}

func (s *site) frame(in *request, v *view) (*page, *frame, error) {
	p := s.pages[v.page]
	f := &frame{Title: v.title, Crumbs: v.crumbs, Follow: v.follow > 0, Files: s.files, Page: v.data}
	if in != nil {
		f.Token, f.SignedIn, f.Here = in.token, true, in.URL.RequestURI()
		f.Notice = notices()[in.URL.Query().Get("done")]
	}
	parts, err := p.parts(f)
	f.Hashes = map[string]string{}
	for _, part := range parts {
		f.Hashes[part.Name] = part.Hash
	}
	return p, f, err
}

// write answers with a page; in is nil for who is not signed in.
func (s *site) write(w http.ResponseWriter, in *request, v *view) {
	p, f, err := s.frame(in, v)
	var text bytes.Buffer
	if err == nil {
		err = p.ExecuteTemplate(&text, "layout", f)
	}
	if v.formTo != "" {
		policy := w.Header().Get(securityPolicy)
		w.Header().Set(securityPolicy, strings.Replace(policy, "form-action 'self'", "form-action 'self' "+v.formTo, 1))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept, Cookie")
	if err != nil {
		s.Logger.Error("a page cannot be shown", "page", v.page, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if v.status != 0 {
		w.WriteHeader(v.status)
	}
	_, _ = w.Write(text.Bytes()) // the reader may be gone
}

// fail answers with what went wrong.
func (s *site) fail(w http.ResponseWriter, r *http.Request, in *request, err error) {
	kind := landfall.KindOf(err)
	if kind == landfall.Internal {
		s.Logger.ErrorContext(r.Context(), "a page failed", "path", r.URL.Path, "error", err)
	}
	status := kind.HTTPStatus()
	s.write(w, in, &view{page: "error", title: http.StatusText(status), status: status,
		data: problem{status, landfall.MessageOf(err)}})
}

// problem is what an error's page shows.
type problem struct {
	Status  int
	Message string
}
