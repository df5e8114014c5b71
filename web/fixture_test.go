package web_test

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/web"
)

// noon is when the tests begin.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The tokens of the tests.
const (
	adminToken  = "the administrator's token, which is long"
	readerToken = "a token that may look and not touch, long too"
)

// pages is the pages over a database of their own.
type pages struct {
	t       *testing.T
	db      *store.DB
	handler http.Handler
	cookie  *http.Cookie // of whoever is signed in

	mu  sync.Mutex
	now time.Time
}

// newPages serves pages at an address.
func newPages(t *testing.T, address string) *pages {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "landfall.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &pages{t: t, db: db, now: noon}
	logger := slog.New(slog.DiscardHandler)
	rollout := &deploy.Rollout{DB: db, Gateways: still{}, Logger: logger}
	routes := mux.New(logger)
	api.Serve(routes, api.Config{
		DB: db, Runs: &runs.Runs{DB: db, Rollout: rollout, Now: p.clock, Logger: logger}, Rollout: rollout,
		Contents: &inspect.Contents{DB: db}, URL: u, Domain: "localhost",
		ReleaseURL: func(app string, selector landfall.UID) string {
			return "http://" + app + "--" + string(selector) + ".localhost/"
		},
		Now: p.clock, Logger: logger,
	})
	rest, err := web.Serve(routes, web.Config{API: api.Local(routes), DB: db, URL: u, Now: p.clock, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	routes.Rest("/", rest)
	p.handler = routes
	p.update(func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, noon.UnixMicro()); err != nil {
			return err
		}
		for _, token := range []landfall.Token{
			{Hash: landfall.DigestOf([]byte(adminToken)), Name: "admin", Scope: landfall.ScopeAdmin, Created: noon},
			{Hash: landfall.DigestOf([]byte(readerToken)), Name: "reader", Scope: landfall.ScopeRead, Created: noon},
		} {
			if err := tx.PutToken(t.Context(), token); err != nil {
				return err
			}
		}
		return nil
	})
	return p
}

// still are gateways that nothing is served by.
type still struct{}

// RefreshApp implements deploy.Gateways.
func (still) RefreshApp(context.Context, string) error { return nil }

// Shown implements deploy.Gateways.
func (still) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

func (p *pages) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// pass lets time pass.
func (p *pages) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

func (p *pages) update(f func(tx *store.Tx) error) {
	p.t.Helper()
	if err := p.db.Update(p.t.Context(), f); err != nil {
		p.t.Fatal(err)
	}
}

// answer is what the pages answered.
type answer struct {
	*http.Response
	body string
}

// ask sends a request as the browser of whoever is signed in.
func (p *pages) ask(r *http.Request) answer {
	p.t.Helper()
	if p.cookie != nil {
		r.AddCookie(p.cookie)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	resp := w.Result()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{resp, string(body)}
}

const home = "http://localhost:8080"

// get asks for a page.
func (p *pages) get(path string) answer {
	p.t.Helper()
	return p.ask(httptest.NewRequest(http.MethodGet, home+path, nil))
}

// post sends a form as a page of ours does.
func (p *pages) post(path string, form url.Values, headers ...string) answer {
	p.t.Helper()
	r := httptest.NewRequest(http.MethodPost, home+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(headers) == 0 {
		headers = []string{"Origin", home, "Sec-Fetch-Site", "same-origin"}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return p.ask(r)
}

// signIn signs in, and keeps the cookie.
func (p *pages) signIn(token string) answer {
	p.t.Helper()
	p.cookie = nil
	a := p.post("/sign-in", url.Values{"token": {token}, "to": {"/"}})
	for _, c := range a.Cookies() {
		p.cookie = c
	}
	if p.cookie == nil {
		p.t.Fatalf("signing in gave no cookie: %d %s", a.StatusCode, a.body)
	}
	return a
}

// want fails the test unless the answer has the status, and its body every part.
func (p *pages) want(a answer, status int, parts ...string) {
	p.t.Helper()
	if a.StatusCode != status {
		p.t.Errorf("got %d, want %d: %s", a.StatusCode, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			p.t.Errorf("got no %q in:\n%s", part, a.body)
		}
	}
}

// shop makes an app with two releases, of which the newer is live.
func (p *pages) shop() landfall.App {
	p.t.Helper()
	ctx := p.t.Context()
	app := landfall.App{
		ID: uuid.NewString(), Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main", Live: "bbbbbbbb",
		UIDSpace: uuid.New(), Created: noon}
	p.update(func(tx *store.Tx) error {
		if err := tx.CreateApp(ctx, app); err != nil {
			return err
		}
		for i, uid := range []landfall.UID{"aaaaaaaa", "bbbbbbbb"} {
			at := noon.Add(time.Duration(i) * time.Minute)
			commit := landfall.CommitSHA(strings.Repeat(string(rune('a'+i)), 40))
			group := landfall.Group{UID: uid, App: app.ID, Commit: commit, Branch: "main", Clean: true,
				Message: "Release " + string(uid), Actor: "ada", Created: at}
			if err := tx.CreateGroup(ctx, group, nil); err != nil {
				return err
			}
			if err := tx.PutRelease(ctx, landfall.Release{
				ID: uid, App: app.ID, Line: landfall.Production, Commit: commit, Branch: "main", Created: at,
				WasLive: true}); err != nil {
				return err
			}
		}
		for i, m := range []landfall.Move{{To: "aaaaaaaa"}, {From: "aaaaaaaa", To: "bbbbbbbb"}} {
			m.App, m.Pointer, m.Actor, m.Reason, m.At = app.ID, landfall.LivePointer, "ada", "promoted",
				noon.Add(time.Duration(i)*time.Minute)
			if err := tx.CreateMove(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	return app
}

// live returns what is live, and whether it is held.
func (p *pages) live() (landfall.UID, bool) {
	p.t.Helper()
	app, err := p.db.AppByName(p.t.Context(), "shop")
	if err != nil {
		p.t.Fatal(err)
	}
	return app.Live, app.Held
}
