package github_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
)

// The token shows in nothing that is printed, logged or encoded.
func TestTokenHidesItself(t *testing.T) {
	t.Parallel()
	secret := github.Token(token)
	type settings struct{ Token github.Token }
	all := []string{secret.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T %v"} {
		all = append(all, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, settings{secret}),
			fmt.Sprintf(verb, []github.Token{secret}))
	}
	text, err := json.Marshal(settings{secret})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", secret, "settings", settings{secret})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", secret, "settings", settings{secret})
	for _, got := range append(all, string(text), log.String()) {
		if strings.Contains(got, "nobody") || strings.Contains(got, fmt.Sprintf("%x", "nobody")) {
			t.Errorf("it shows in %q", got)
		}
	}
}

// A redirect within the API keeps the request; one to elsewhere is not followed, and never sees the token.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		strangers.Add(1)
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("a stranger is shown %q", got)
		}
	}))
	defer stranger.Close()
	var posts atomic.Int32
	target := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/renamed" {
			if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+token {
				t.Errorf("got %s with %q", r.Method, r.Header.Get("Authorization"))
			}
			posts.Add(1)
			w.WriteHeader(http.StatusCreated)
			return
		}
		http.Redirect(w, r, <-target, http.StatusTemporaryRedirect)
	}))
	defer api.Close()
	b := newBench(t)
	client, err := github.NewClient(api.URL, token, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	b.Client = client
	b.outbox.owe(commitA, landfall.StatusPending, "Building the release.")
	target <- stranger.URL + "/renamed"
	b.flush(t)
	if strangers.Load() != 0 || b.outbox.owed() != 1 {
		t.Errorf("the stranger got %d requests, want none, and the report still owed", strangers.Load())
	}
	response, err := client.Client().Get(stranger.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	target <- api.URL + "/renamed"
	b.settle(t)
	if posts.Load() != 1 {
		t.Errorf("the new address got %d requests, want 1", posts.Load())
	}
}

// An address that is none is said at once.
func TestAddressOfTheAPI(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://api.github.com":             "https://api.github.com/",
		"https://api.github.com/":            "https://api.github.com/",
		"https://git.example.com/api/v3":     "https://git.example.com/api/v3/",
		"http://127.0.0.1:8080":              "http://127.0.0.1:8080/",
		"":                                   "",
		"api.github.com":                     "",
		"ftp://api.github.com":               "",
		"https://user:secret@api.github.com": "",
		"https://api.github.com/?x=1":        "",
		"https://%zz":                        "",
	} {
		client, err := github.NewClient(address, token, http.DefaultClient)
		switch {
		case want == "" && landfall.KindOf(err) != landfall.Invalid:
			t.Errorf("%q: got %v, want invalid", address, err)
		case want == "" && strings.Contains(landfall.MessageOf(err), "secret"):
			t.Errorf("%q: the message shows the password: %v", address, err)
		case want != "" && (err != nil || client.BaseURL.String() != want):
			t.Errorf("%q: got %v, %v, want %s", address, client, err, want)
		}
	}
}
