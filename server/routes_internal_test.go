package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// What the control host has not, each of its parts says in its own words, and nobody is sent on to another path.
func TestControlHost(t *testing.T) {
	t.Parallel()
	config, err := loadConfig(os.DevNull, func(string) string { return "" }, map[string]string{
		"DATA": t.TempDir(), "LISTEN": "127.0.0.1:0", "URL": "http://localhost:8080", "SANDBOX": "off",
		"TOKEN": strings.Repeat("t", 32)})
	if err != nil {
		t.Fatal(err)
	}
	s := testkit.Must(newServer(t.Context(), config, slog.New(slog.DiscardHandler)))(t)
	defer func() { _ = s.Close() }()
	if err := s.storeTokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	const page, text, problem, own = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/problem+json",
		"application/json"
	for _, test := range []struct {
		request string
		status  int
		kind    string
		allow   string
	}{
		{"GET /healthz", 200, text, ""},
		{"HEAD /healthz", 200, text, ""},
		{"POST /healthz", 405, text, "GET, HEAD"},
		{"DELETE /metrics", 405, text, "GET, HEAD"},
		{"POST /log", 405, text, "GET, HEAD"},
		{"GET /healthz/", 404, page, ""},
		{"GET //healthz", 404, page, ""},
		{"GET /apps/", 404, page, ""},
		{"GET /apps//diff", 404, page, ""},
		{"POST /", 403, page, ""},
		{"PUT /sign-in", 403, page, ""},
		{"GET /api", 404, problem, ""},
		{"GET /api/v1/apps", 200, own, ""},
		{"HEAD /api/v1/apps", 200, own, ""},
		{"HEAD /api/openapi.json", 200, "application/openapi+json", ""},
		{"DELETE /api/v1/apps", 405, problem, "GET, HEAD, POST"},
		{"PROPFIND /api/v1/apps", 405, problem, "GET, HEAD, POST"},
		{"GET /api/v1/apps/", 200, own, ""},
		{"GET /api/v1//apps", 404, problem, ""},
		{"DELETE /api/v1/apps/x/tags/..", 404, problem, ""},
		{"GET /api/v1/apps/x/tags/feat%2Fone", 405, problem, "DELETE, PUT"},
		{"GET /webhooks/github", 405, problem, "POST"},
		{"POST /webhooks/github/a/b", 404, problem, ""},
		{"PROPFIND /git/x.git/info/refs", 404, text, ""},
		{"GET /git", 404, text, ""},
		{"GET /functions", 404, problem, ""},
		{"GET /fire", 405, problem, "POST"},
		{"GET /v2", 404, own, ""},
		{"PUT /v2/a/b/manifests/c", 405, own, "GET, HEAD"},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost:8080"+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+s.config.Token)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		got := fmt.Sprintf("%d %s %q", w.Code, w.Header().Get("Content-Type"), w.Header().Get("Allow"))
		testkit.Equal(t, test.request, got, fmt.Sprintf("%d %s %q", test.status, test.kind, test.allow))
	}
}

// Whose token has expired reads why there are no metrics.
func TestMetricsForExpiredToken(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		return tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte("old")), Name: "prometheus",
			Scope: landfall.ScopeRead, Expires: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)})
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &control{shared: &shared{state: &state{db: db, config: new(config)}},
		serving: &serving{metrics: metrics.New(metrics.Config{})}}
	for token, says := range map[string]string{"old": "the token prometheus expired on 2020-01-02", "x": "not known"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.measured().ServeHTTP(w, r)
		testkit.Equal(t, "status", w.Code, http.StatusUnauthorized)
		testkit.Contains(t, w.Body, says)
	}
}
