package accept_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// published is an example of a payload as GitHub publishes it.
type published struct {
	event string
	body  json.RawMessage
}

// payloads returns all examples: of GitHub, and of each of its servers.
func payloads(t *testing.T) []published {
	t.Helper()
	files, err := filepath.Glob("../build/npm/node_modules/@octokit/webhooks-examples/*/index.json")
	if err != nil || len(files) == 0 {
		t.Fatal("the published payloads are not there; type: make build/npm")
	}
	var all []published
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var events []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		if err := json.Unmarshal(text, &events); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range events {
			for _, body := range e.Examples {
				all = append(all, published{e.Name, body})
			}
		}
	}
	return all
}

// runs reports whether a payload is one from which a run follows, in an app of a repository.
func (p published) runs(t *testing.T, repository int64) bool {
	t.Helper()
	type named struct {
		ID int64 `json:"id"`
	}
	var of struct {
		Action     string `json:"action"`
		Ref        string `json:"ref"`
		After      string `json:"after"`
		Repository named  `json:"repository"`
	}
	if p.event != "push" && p.event != "pull_request" {
		return false
	}
	if err := json.Unmarshal(p.body, &of); err != nil {
		t.Fatal(err)
	}
	if p.event == "push" {
		return of.Repository.ID == repository && strings.Trim(of.After, "0") != ""
	}
	return of.Repository.ID == repository && slices.Contains([]string{"opened", "reopened", "synchronize"}, of.Action)
}

// Every payload that GitHub publishes is accepted at once by both doors, the hook of one repository and that of the
// installation, and does what its event says.
func TestPublishedPayloads(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const repository, secret, hook = 186853002, "a secret that both doors have", "hook-of-hello"
	err := s.Receiver.DB.Update(t.Context(), func(tx *store.Tx) error {
		app := landfall.App{
			ID: "hello-id", Namespace: landfall.DefaultNamespace, Name: "hello", Branch: "master", UIDSpace: uuid.New(),
			Repository: "https://github.com/Codertocat/Hello-World.git",
			GitHub:     landfall.GitHubRepository{ID: repository, Owner: "Codertocat", Name: "Hello-World"},
		}
		if err := tx.CreateApp(t.Context(), app); err != nil {
			return err
		}
		return tx.CreateHook(t.Context(), landfall.Hook{ID: hook, App: app.ID, Secret: secret}, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&webhook.Handler{
		Store: accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor, InstallationSecret: secret}, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
		RunURL: func(run string) string { return run }, DeliveryURL: func(d landfall.Delivery) string { return d.ID },
	})
	defer server.Close()
	acted := false
	for i, p := range payloads(t) {
		for _, door := range []string{webhook.Path, webhook.Path + "/" + hook} {
			runs := p.runs(t, repository)
			var took time.Duration
			for try := range 5 { // a machine that is busy with something else is no fault of a delivery
				began := time.Now()
				status, answer := send(t, server.URL+door, fmt.Sprintf("%d-%d", i, try), secret, p)
				took = time.Since(began)
				// K-022: each gets a 2xx, and the right decision
				if status != http.StatusAccepted || answer.Decision == "" || (len(answer.Runs) > 0) != runs {
					t.Errorf("%s to %s: got %d %+v; from it follows a run: %t\n%.300s", p.event, door, status, answer, runs, p.body)
				}
				if took < time.Second {
					break
				}
			}
			if took >= time.Second { // K-022: and within a second
				t.Errorf("%s to %s took %s, want less than a second", p.event, door, took)
			}
			acted = acted || runs
		}
	}
	if !acted {
		t.Error("no payload made a run")
	}
}

// decided is the answer to a delivery.
type decided struct {
	Decision string   `json:"decision"`
	Runs     []string `json:"runs"`
	Detail   string   `json:"detail"`
}

// send sends a payload as GitHub does.
func send(t *testing.T, url, id, secret string, p published) (status int, answer decided) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(p.body)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(p.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Delivery": {id}, "X-Github-Event": {p.event},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, answer
}
