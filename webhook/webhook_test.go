package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/webhook"
)

const (
	fixtures   = "../testdata/github"
	secret     = "a secret of the installation, long enough"
	hookSecret = "a secret of one repository, long enough"
	hook       = "h7wq2k"
	shopURL    = "https://github.com/harbor/shop.git"
)

// app is an app as far as the door goes.
type app struct{ name, hook, repository string }

// memory is a webhook.Store in memory.
type memory struct {
	mu      sync.Mutex
	secrets map[string]string
	apps    []app
	intakes []webhook.Event
	stored  map[string]landfall.Delivery
	down    map[string]error // what a method returns, by its name
}

func (m *memory) Secrets(_ context.Context, hook string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.secrets[hook]
	if !ok {
		return nil, &landfall.Error{Kind: landfall.NotFound}
	}
	return []string{s}, m.down["Secret"]
}

func (m *memory) Accept(_ context.Context, intake webhook.Event) (landfall.Delivery, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := intake.Delivery
	if err := m.down["Accept"]; err != nil {
		return landfall.Delivery{}, false, err
	}
	if s, ok := m.secrets[d.Hook]; !ok || s != intake.Secret {
		return landfall.Delivery{}, false, &landfall.Error{Kind: landfall.Unauthorized}
	}
	if first, ok := m.stored[d.Hook+"/"+d.ID]; ok {
		return first, true, nil
	}
	for _, a := range m.apps {
		if a.hook == d.Hook && intake.Push != nil && intake.Repository.Matches(a.repository) {
			d.Runs = append(d.Runs, a.name+"-"+intake.Push.After.Short())
		}
	}
	m.stored[d.Hook+"/"+d.ID] = d
	m.intakes = append(m.intakes, intake)
	return d, false, nil
}

func (m *memory) deliveries() []webhook.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.intakes)
}

// fail makes one method return err.
func (m *memory) fail(method string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = map[string]error{method: err}
}

// door is a handler behind a real listener.
type door struct {
	*httptest.Server

	store *memory
	log   *logtest.Buffer
}

func received() time.Time { return time.Date(2026, 11, 20, 15, 33, 25, 0, time.UTC) }

// open returns a door with two hooks, the installation's and one for the app shop, after the handler was adjusted.
func open(t *testing.T, adjust ...func(*webhook.Handler)) *door {
	t.Helper()
	d := &door{log: &logtest.Buffer{}, store: &memory{
		secrets: map[string]string{"": secret, hook: hookSecret},
		apps:    []app{{"shop", "", shopURL}, {"shop", hook, shopURL}, {"admin", "", "git@github.com:harbor/shop.git"}},
		stored:  map[string]landfall.Delivery{},
	}}
	handler := &webhook.Handler{
		Store: d.store, Now: received, Logger: slog.New(slog.NewTextHandler(d.log, nil)),
		DeliveryURL: func(d landfall.Delivery) string { return "http://landfall.test/deliveries/" + d.ID },
		RunURL:      func(run string) string { return "http://landfall.test/runs/" + run },
	}
	for _, f := range adjust {
		f(handler)
	}
	d.Server = httptest.NewServer(handler)
	t.Cleanup(d.Close)
	return d
}

// sign returns the header that signs body.
func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// delivery is a request as GitHub sends it; change what a test wants to be different.
func (d *door) delivery(t *testing.T, event, id string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+webhook.Path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "GitHub-Hookshot/0a1b2c3")
	r.Header.Set("X-Github-Event", event)
	r.Header.Set("X-Github-Delivery", id)
	r.Header.Set("X-Github-Hook-Id", "480100200")
	r.Header.Set("X-Hub-Signature-256", sign(secret, body))
	return r
}

// answer is what the door said.
type answer struct {
	status      int
	contentType string

	Delivery string   `json:"delivery"`
	Runs     []string `json:"runs"`
	Decision string   `json:"decision"`
	Detail   string   `json:"detail"`
}

func send(t *testing.T, r *http.Request) answer {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, response)
}

func read(t *testing.T, response *http.Response) answer {
	t.Helper()
	defer response.Body.Close()
	a := answer{status: response.StatusCode, contentType: response.Header.Get("Content-Type")}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatalf("the answer %d %q: %v", response.StatusCode, text, err)
	}
	return a
}

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtures, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
