package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/gateway"
	static "landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/wire"
)

const domain = "releases.test"

// store is a Content in memory that counts what is asked of it.
type store struct {
	mu        sync.Mutex
	manifests map[string]*static.Manifest
	objects   map[string][]byte
	err       error        // of everything, while it is set
	opened    atomic.Int64 // objects
	read      atomic.Int64 // manifests
}

func newStore() *store {
	return &store{manifests: map[string]*static.Manifest{}, objects: map[string][]byte{}}
}

func (s *store) Manifest(_ context.Context, key string) (*static.Manifest, error) {
	s.read.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.manifests[key]; ok && s.err == nil {
		return m, nil
	}
	return nil, s.missing()
}

func (s *store) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	s.opened.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if data, ok := s.objects[key]; ok && s.err == nil {
		return readCloser{bytes.NewReader(data)}, nil
	}
	return nil, s.missing()
}

func (s *store) missing() error {
	if s.err != nil {
		return s.err
	}
	return &landfall.Error{Kind: landfall.NotFound, Message: "no such object"}
}

func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// files is what a unit serves, by path.
type files map[string]string

// unit stores a unit that is mounted at mount, and returns it. Its keys begin with id.
func (s *store) unit(id, mount string, content files) registry.Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	manifest := &static.Manifest{Files: map[string]static.File{}}
	for name, text := range content {
		key := id + mount + name
		s.objects[key] = []byte(text)
		manifest.Files[name] = static.File{
			Key: key, SHA256: landfall.DigestOf([]byte(text)), Size: int64(len(text)),
			Type: mime.TypeByExtension(path.Ext(name)),
		}
	}
	key := id + mount + ".manifest"
	s.manifests[key] = manifest
	return registry.Unit{Path: mount, Manifest: key}
}

// release stores a release of one unit at the root.
func (s *store) release(id landfall.UID, content files) registry.Release {
	return registry.Release{ID: id, Units: []registry.Unit{s.unit(string(id), "/", content)}}
}

// tables is a registry whose table a test sets.
type tables struct {
	atomic.Pointer[registry.Table]

	expired map[string]landfall.UID // by APP.SELECTOR or APP--SELECTOR
	err     error                   // what Expired returns
}

func (t *tables) Expired(_ context.Context, app, selector string, joined bool) (landfall.UID, error) {
	if joined {
		return t.expired[app+"--"+selector], t.err
	}
	return t.expired[app+"."+selector], t.err
}

func (t *tables) Table() *registry.Table { return t.Load() }

// site is a gateway behind a real listener.
type site struct {
	gateway *gateway.Gateway
	store   *store
	tables  *tables
	url     string
	log     *logtest.Buffer
	client  *http.Client
}

// newSite serves apps from content. change may alter the gateway's configuration.
func newSite(t testing.TB, content *store, change func(*gateway.Config), apps ...registry.App) *site {
	t.Helper()
	s := &site{store: content, tables: &tables{}, log: &logtest.Buffer{}}
	s.tables.Store(registry.New(apps))
	config := gateway.Config{
		Domain: domain, Registry: s.tables, Content: content, CacheDir: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	g, err := gateway.New(config)
	if err != nil {
		t.Fatalf("new gateway: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close gateway: %v", err)
		}
	})
	server := httptest.NewUnstartedServer(g)
	server.Listener = wire.Listener(server.Listener)
	server.Config.ConnContext = wire.ConnContext
	server.Start()
	t.Cleanup(server.Close)
	s.gateway, s.url, s.client = g, server.URL, server.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.client.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	return s
}

// response is an answer with its body read.
type response struct {
	*http.Response
	body string
}

// get asks host for target with headers given as pairs.
func (s *site) get(t testing.TB, host, target string, headers ...string) response {
	t.Helper()
	return s.do(t, http.MethodGet, host, target, headers...)
}

func (s *site) do(t testing.TB, method, host, target string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+target, http.NoBody)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s%s: %v", method, host, target, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s%s: body: %v", method, host, target, err)
	}
	return response{answer, string(body)}
}

// want fails unless the answer has this status, release and body.
func (r response) want(t testing.TB, status int, release landfall.UID, body string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("got status %d, want %d", r.StatusCode, status)
	}
	if got := r.Header.Get(page.ReleaseHeader); got != string(release) {
		t.Errorf("got release %q, want %q", got, release)
	}
	if r.body != body {
		t.Errorf("got body %.80q, want %.80q", r.body, body)
	}
}

// wantPage fails unless the answer is a page of the gateway's own with these words, that nobody keeps.
func (r response) wantPage(t testing.TB, status int, release landfall.UID, words string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("got status %d, want %d", r.StatusCode, status)
	}
	if got := r.Header.Get(page.ReleaseHeader); got != string(release) {
		t.Errorf("got release %q, want %q", got, release)
	}
	if !strings.Contains(r.body, words) {
		t.Errorf("got page %q, want one that says %q", r.body, words)
	}
	r.wantHeaders(t, "Cache-Control", "no-store", "Content-Type", "text/html; charset=utf-8",
		"X-Content-Type-Options", "nosniff")
}

// wantHeaders fails unless the answer has these headers, given as pairs; an empty value means that it is not there.
func (r response) wantHeaders(t testing.TB, pairs ...string) {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got := r.Header.Get(pairs[i]); got != pairs[i+1] {
			t.Errorf("got %s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// shop returns an app with one release, which is live and latest, and the content of its files.
func shop(s *store, content files) registry.App {
	return registry.App{
		ID: "1", Name: "shop", Live: "aaaaaaa2", Latest: "aaaaaaa2",
		Releases: []registry.Release{s.release("aaaaaaa2", content)},
	}
}

// with returns a and b together.
func with(a, b files) files {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
