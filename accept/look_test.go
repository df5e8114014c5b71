package accept_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// A repository that cannot be looked at is said once, and again when it is for another reason; then it is known that it
// can be.
func TestRepositoryCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	there := f.url
	var status atomic.Int32
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := int(status.Load()); code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		http.Redirect(w, r, there+r.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(gone.Close)
	f.url = gone.URL
	f.Receiver.Mirrors.Dialer.AllowedHosts = append(f.Receiver.Mirrors.Dialer.AllowedHosts,
		strings.TrimPrefix(gone.URL, "http://"))
	var log bytes.Buffer
	f.Receiver.Logger = slog.New(slog.NewTextHandler(&log, nil))
	l := f.listener()
	looks := func(code int) {
		status.Store(int32(code))
		if err := l.Receiver.CatchUp(t.Context(), l.app); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		looks(http.StatusNotFound)
	}
	first := testkit.Must(l.Receiver.DB.RepositoryProblem(t.Context(), l.app))(t)
	// L-018: a repository that is gone is said once, not at each look
	testkit.Equal(t, "errors in the log", strings.Count(log.String(), "level=ERROR"), 1)
	looks(http.StatusServiceUnavailable)
	second := testkit.Must(l.Receiver.DB.RepositoryProblem(t.Context(), l.app))(t)
	testkit.Equal(t, "errors after another reason", strings.Count(log.String(), "level=ERROR"), 2)
	if first.Problem == "" || first.Problem == second.Problem || first.Since.IsZero() {
		t.Errorf("got the problems %+v and %+v, want two with their times", first, second)
	}
	looks(http.StatusOK)
	_, err := l.Receiver.DB.RepositoryProblem(t.Context(), l.app)
	testkit.Kind(t, "the problem of a repository that is there again", err, landfall.NotFound)
}
