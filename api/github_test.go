package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// gitHub is GitHub, as far as connecting goes: every code counts, and no App is installed anywhere.
type gitHub struct{}

var gitHubKey = sync.OnceValues(func() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})), nil
})

// RoundTrip implements http.RoundTripper.
func (gitHub) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, "[]"
	if strings.HasSuffix(r.URL.Path, "/conversions") {
		key, err := gitHubKey()
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(map[string]any{"id": 3307, "slug": "landfall-of-the-test", "name": "Landfall", "pem": key,
			"owner": map[string]any{"login": "harbor"}, "html_url": "https://github.com/apps/landfall-of-the-test",
			"webhook_secret": "a secret of the App"})
		if err != nil {
			return nil, err
		}
		status, body = http.StatusCreated, string(text)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

// newConnection returns what a world has of GitHub.
func newConnection(t *testing.T, db *store.DB, secrets *secret.Keeper) *connect.Connection {
	t.Helper()
	return testkit.Must(connect.New(connect.Config{
		DB: db, Secrets: secrets, URL: testkit.Must(url.Parse("http://localhost:8080"))(t), API: "https://api.github.com/",
		Client: &http.Client{Transport: gitHub{}}, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}))(t)
}

// connectApp connects a GitHub App, and begins another connection. It returns what GitHub is to send back for that.
func (w *world) connectApp() (id, state string) {
	w.t.Helper()
	ctx := context.Background()
	first := testkit.Must(w.github.Begin(ctx, "connection-1", "harbor", ""))(w.t)
	testkit.Must(w.github.Finish(ctx, first.State, "code"))(w.t)
	second := testkit.Must(w.github.Begin(ctx, "connection-2", "", "Another"))(w.t)
	return second.ID, second.State
}
