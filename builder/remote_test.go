package builder_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

func TestRemotesThatFail(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	const password = "hunter2-secret"

	answering := func(t *testing.T, status int) (*server, *builder.Mirrors) {
		t.Helper()
		s := origin.serve(t)
		s.check = func(*http.Request) int { return status }
		return s, mirrors(t, s)
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		s := origin.serve(t)
		m := mirrors(t, s)
		s.Close()
		_, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
		// N-006: an unreachable repository is tried again, and names the host
		wantError(t, err, landfall.Unavailable, s.host(), "cannot be reached")
	})
	t.Run("no credentials", func(t *testing.T) {
		t.Parallel()
		s, m := answering(t, http.StatusUnauthorized)
		_, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
		// N-006: missing credentials say how to give them
		wantError(t, err, landfall.Unauthorized, "asks for credentials", "--repo-token-file")
	})
	t.Run("credentials that are refused", func(t *testing.T) {
		t.Parallel()
		s, m := answering(t, http.StatusForbidden)
		remote := s.remote()
		remote.Password = password
		_, err := m.Fetch(t.Context(), remote, mainRef, c)
		// N-006: refused credentials say so
		wantError(t, err, landfall.Unauthorized, "refused the stored token", "--repo-token-file")
		if strings.Contains(err.Error(), password) {
			t.Error("the error shows the password")
		}
	})
	t.Run("no such repository", func(t *testing.T) {
		t.Parallel()
		s, m := answering(t, http.StatusNotFound)
		_, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
		// N-006: a repository that is not there may be a private one
		wantError(t, err, landfall.NotFound, "no repository at", "private", "--repo-token-file")
	})
	t.Run("a server in trouble", func(t *testing.T) {
		t.Parallel()
		s, m := answering(t, http.StatusBadGateway)
		_, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
		wantError(t, err, landfall.Unavailable, "502")
		s.mu.Lock()
		s.check = nil
		s.mu.Unlock()
		// N-006: when the server is well again, the next push works
		fetch(t, m, s.remote(), mainRef, c)
	})
	t.Run("no git server at all", func(t *testing.T) {
		t.Parallel()
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>Welcome</html>"))
		}))
		defer page.Close()
		m := mirrors(t, &server{Server: page})
		_, err := m.Fetch(t.Context(), builder.Remote{URL: page.URL + "/x.git"}, mainRef, c)
		wantError(t, err, landfall.Unavailable, "did not answer as a git repository")
	})
	t.Run("a context that ends", func(t *testing.T) {
		t.Parallel()
		s := origin.serve(t)
		m := mirrors(t, s)
		ctx, cancel := newCancel(t)
		s.check = func(*http.Request) int { cancel(); return 0 }
		_, err := m.Fetch(ctx, s.remote(), mainRef, c)
		wantError(t, err, landfall.Canceled)
	})
	t.Run("the built-in repository is not there", func(t *testing.T) {
		t.Parallel()
		m := mirrors(t)
		_, err := m.Fetch(t.Context(), builder.Remote{Local: filepath.Join(t.TempDir(), "none")}, mainRef, c)
		wantError(t, err, landfall.NotFound, "built-in repository is not there")
	})
	t.Run("commits that are no names", func(t *testing.T) {
		t.Parallel()
		m := mirrors(t)
		for _, bad := range []string{"", "main", "--upload-pack=x", strings.Repeat("A", 40), strings.Repeat("a", 41),
			strings.Repeat("a", 64)} {
			_, err := m.Fetch(t.Context(), origin.local(), mainRef, landfall.CommitSHA(bad))
			wantError(t, err, landfall.Invalid)
		}
	})
}

func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	target := origin.serve(t)
	m := mirrors(t, target)
	front := &server{}
	front.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		front.mu.Lock()
		front.authed = append(front.authed, q.Header.Get("Authorization"))
		front.mu.Unlock()
		http.Redirect(w, q, target.URL+q.URL.RequestURI(), http.StatusFound)
	}))
	defer front.Close()
	m.Dialer.AllowedHosts = append(m.Dialer.AllowedHosts, front.host())
	remote := front.remote()
	remote.Password = "token"
	fetch(t, m, remote, mainRef, c)
	if len(front.authed) == 0 || !strings.HasPrefix(front.authed[0], "Basic ") {
		t.Errorf("the remote itself received %q, want Basic credentials", front.authed)
	}
	if len(target.authed) != 0 {
		t.Errorf("another host received %q by a redirect", target.authed)
	}

	direct := target.remote()
	direct.Password = "token"
	fetch(t, m, direct, mainRef, c)
	if len(target.authed) == 0 {
		t.Error("the remote itself received no credentials")
	}
}

func TestRedirectIntoTheNetworkIsRefused(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	inner := origin.serve(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, inner.URL+q.URL.RequestURI(), http.StatusFound)
	}))
	defer front.Close()
	m := mirrors(t, &server{Server: front})
	_, err := m.Fetch(t.Context(), builder.Remote{URL: front.URL + "/shop.git"}, mainRef, c)
	wantError(t, err, landfall.Invalid, "https://")
	if got := inner.seen(""); got != 0 {
		t.Errorf("the inner server got %d requests, want none", got)
	}
}
