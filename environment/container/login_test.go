package container_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment/container"
	"landfall.dev/landfall/secret"
)

// A registry that gives tokens for a password is asked with the one of its host; nobody else is told it, and no error
// shows it.
func TestPullWithAPassword(t *testing.T) {
	t.Parallel()
	const password, token = "0ci-Passw0rd", "a-token-for-it"
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	open := httptest.NewServer(inner)
	defer open.Close()
	var told atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // where blobs are kept
		told.Store(told.Load() || r.Header.Get("Authorization") != "")
		inner.ServeHTTP(w, r)
	}))
	defer elsewhere.Close()
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && user == "ci" && given == password:
			fmt.Fprintf(w, `{"token": %q}`, token)
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="images"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	defer closed.Close()
	tag, err := name.NewTag(open.Listener.Addr().String() + "/team/greeter:stable")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, imageOf(t, layerOf(t, entry{name: "word", content: "one"}))); err != nil {
		t.Fatal(err)
	}
	all, image := container.Registries{Transport: http.DefaultTransport},
		closed.Listener.Addr().String()+"/team/greeter:stable"
	login := func(host, password string) map[string]secret.Login {
		return map[string]secret.Login{host: {User: "ci", Password: secret.Text(password)}}
	}
	for title, logins := range map[string]map[string]secret.Login{
		"none": nil, "another host's": login("registry.example.com", password),
		"a wrong one": login(closed.Listener.Addr().String(), "wr0ng-Passw0rd"),
	} {
		_, err := all.Pin(t.Context(), image, logins)
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), "asks for a password") ||
			strings.Contains(fmt.Sprint(err), "Passw0rd") {
			t.Errorf("with %s: %v", title, err)
		}
	}
	logins := login(closed.Listener.Addr().String(), password)
	pinned, err := all.Pin(t.Context(), image, logins)
	if err == nil {
		err = all.Pull(t.Context(), pinned, filepath.Join(t.TempDir(), "image.tar"), logins)
	}
	if err != nil || told.Load() {
		t.Errorf("with the password: %v; another host was told it: %v", err, told.Load())
	}
}
