package gateway_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/registry"
)

// pathSite serves shop's release beside another release of shop and another app, both with a secret.
func pathSite(t testing.TB) *site {
	t.Helper()
	content := newStore()
	app := shop(content, files{
		"/index.html": "home", "/a/index.html": "folder a", "/a/b.txt": "b", "/ä ö.txt": "umlauts", "/100%.txt": "percent",
		"/a..b/c.txt": "dots in a name", "/...": "three dots", "/%2e%2e/x.txt": "a folder of that name", "/a+b.txt": "plus",
		"/semi;colon.txt": "semicolon", `/a\b.txt`: "SECRET", "/a/../secret.txt": "SECRET", "/a/b.txt\x00": "SECRET",
		"/\na": "SECRET",
	})
	app.Releases = append(app.Releases, content.release("bbbbbbb2",
		files{"/secret.txt": "SECRET", "/a/secret.txt": "SECRET"}))
	other := registry.App{ID: "2", Name: "blog", Live: "ccccccc2", Releases: []registry.Release{
		content.release("ccccccc2", files{"/secret.txt": "SECRET"}),
	}}
	return newSite(t, content, nil, app, other)
}

// Paths that try to leave the release get an error or the canonical path; a clean path gets its file.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := pathSite(t)
	const refused = 0 // 404 from the gateway, or 400 from net/http
	for _, c := range []struct {
		target string
		status int
		want   string // the body, or the Location of a redirect
	}{
		{"/", 200, "home"},
		{"/a/", 200, "folder a"},
		{"/a/b.txt", 200, "b"},
		{"/a/b.txt?q=1", 200, "b"},
		{"/a/b%2etxt", 200, "b"},
		{"/%61/b.txt", 200, "b"},
		{"/a..b/c.txt", 200, "dots in a name"},
		{"/...", 200, "three dots"},
		{"/%c3%a4%20%c3%b6.txt", 200, "umlauts"},
		{"/ä%20ö.txt", 200, "umlauts"},
		{"/100%25.txt", 200, "percent"},
		{"/a+b.txt", 200, "plus"},
		{"/semi;colon.txt", 200, "semicolon"},
		{"/%252e%252e/x.txt", 200, "a folder of that name"},

		{"//", 308, "/"},
		{"//a//b.txt", 308, "/a/b.txt"},
		{"/a/////b.txt?x=/..//", 308, "/a/b.txt?x=/..//"},
		{"//example.com", 308, "/example.com"},
		{"//example.com/%61", 308, "/example.com/a"},
		{"///example.com//", 308, "/example.com/"},
		{"//user@example.com:80/", 308, "/user@example.com:80/"},
		{"/a", 308, "/a/"},
		{"/a?next=//example.com", 308, "/a/?next=//example.com"},

		{"/..", refused, ""},
		{"/../", refused, ""},
		{"/.", refused, ""},
		{"/./a/b.txt", refused, ""},
		{"/a/../secret.txt", refused, ""},
		{"/../bbbbbbb2/secret.txt", refused, ""},
		{"/../../../../../../etc/passwd", refused, ""},
		{"/%2e%2e/secret.txt", refused, ""},
		{"/%2E%2E/secret.txt", refused, ""},
		{"/.%2e/secret.txt", refused, ""},
		{"/%2e./secret.txt", refused, ""},
		{"/a/%2e%2e/%2e%2e/secret.txt", refused, ""},
		{"/%2e", refused, ""},
		{"/..%2fsecret.txt", refused, ""},
		{"/a%2fb.txt", refused, ""},
		{"/a%2Fb.txt", refused, ""},
		{"/%2f%2fexample.com", refused, ""},
		{"/%2fexample.com/..", refused, ""},
		{`/a\b.txt`, refused, ""},
		{`/..\secret.txt`, refused, ""},
		{`/\example.com`, refused, ""},
		{"/..%5csecret.txt", refused, ""},
		{"/%5cexample.com", refused, ""},
		{"/a/b.txt%00", refused, ""},
		{"/a/b.txt%00.html", refused, ""},
		{"/a/b.txt\x00", refused, ""},
		{"/%0d%0aSet-Cookie:x=1", refused, ""},
		{"/%0aa", refused, ""},
		{"/%7f", refused, ""},
		{"/%", refused, ""},
		{"/%zz", refused, ""},
		{"/%c0%ae%c0%ae/secret.txt", refused, ""}, // dots in an encoding that is too long
		{"/%e0%80%ae%e0%80%ae/secret.txt", refused, ""},
		{"/\u2025/secret.txt", refused, ""}, // two dots in one character
		{"/．．/secret.txt", refused, ""},
		{"/..;/secret.txt", refused, ""},
		{"/....//secret.txt", 308, "/..../secret.txt"},
		{"/..../secret.txt", refused, ""},
		{"/secret.txt", refused, ""},
		{"/a/secret.txt", refused, ""},
		{"/bbbbbbb2/secret.txt", refused, ""},
		{"/.manifest", refused, ""},
		{"a/b.txt", refused, ""},
		{"../secret.txt", refused, ""},
		{"*", refused, ""},
		{"file:///etc/passwd", refused, ""},
		{"/" + strings.Repeat("a/", 3000), refused, ""},
		{"/" + strings.Repeat("../", 1000) + "etc/passwd", refused, ""},
		{"/" + strings.Repeat("%2e%2e/", 500) + "etc/passwd", refused, ""},
	} {
		t.Run(fmt.Sprintf("%.40q", c.target), func(t *testing.T) {
			t.Parallel()
			answer, body := s.rawResponse(t, "GET "+c.target+
				" HTTP/1.1\r\nHost: shop.releases.test\r\nConnection: close\r\n\r\n")
			got := body
			if c.status == http.StatusPermanentRedirect {
				got = answer.Header.Get("Location")
			}
			// N-020: no spelling of a path leaves the release
			if strings.Contains(body, "SECRET") || strings.Contains(body, "root:") || answer.Header.Get("Set-Cookie") != "" {
				t.Errorf("got %q with %v, want nothing of another release", body, answer.Header)
			}
			switch {
			case c.status != refused && (answer.StatusCode != c.status || got != c.want):
				t.Errorf("got status %d with %q, want %d with %q", answer.StatusCode, got, c.status, c.want)
			case c.status == refused && answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusBadRequest:
				t.Errorf("got status %d with %q, want a refusal", answer.StatusCode, got)
			}
		})
	}
}

// Whatever a request line holds, the answer is a file, a refusal, or a redirect within the host that ends.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/", "/a", "/a/", "//example.com", "/a//b", "/%2e%2e/a", `/\a`, "/a%2fb", "/%00", "http://x/..", "/a:b//c", "/?//",
		"/a//?#", "//%3fx", "/.html/",
	} {
		f.Add(seed)
	}
	s := pathSite(f)
	ask := func(target string) *httptest.ResponseRecorder {
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
			"GET " + target + " HTTP/1.1\r\nHost: shop.releases.test\r\n\r\n")))
		if err != nil {
			return nil
		}
		request.Host = "shop.releases.test"
		answer := httptest.NewRecorder()
		s.gateway.ServeHTTP(answer, request)
		return answer
	}
	f.Fuzz(func(t *testing.T, target string) {
		answer := ask(target)
		if answer == nil {
			return
		}
		location := answer.Header().Get("Location")
		switch {
		case strings.Contains(answer.Body.String(), "SECRET"):
			t.Fatalf("got another release's file for %q", target)
		case answer.Code == http.StatusOK || answer.Code == http.StatusNotFound:
		case answer.Code != http.StatusPermanentRedirect:
			t.Fatalf("got status %d for %q", answer.Code, target)
		case !strings.HasPrefix(location, "/") || strings.HasPrefix(location, "//") ||
			strings.ContainsAny(location, "\\\r\n"):
			t.Fatalf("got Location %q for %q, want a path", location, target)
		default:
			first := location
			// a folder's slash, after doubled ones
			if answer = ask(location); answer != nil && answer.Code == http.StatusPermanentRedirect {
				location = answer.Header().Get("Location")
				answer = ask(location)
			}
			if answer == nil || answer.Code == http.StatusPermanentRedirect {
				t.Fatalf("got %q from %q after %q, want an end", location, target, first)
			}
		}
	})
}
