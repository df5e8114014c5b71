package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
)

// uploadTimeout is how long nothing of a body may come.
const uploadTimeout = 300 * time.Millisecond

// uploads serves programs that take bodies in parts, at /NAME: they count the events that they got. What they do with one is by name.
func uploads(t *testing.T, most int64, does map[string]string) *site {
	t.Helper()
	const answer = `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","dataread":%s,"data":"%s %s"}\n' "$read" "$n" "$size"`
	dir, content := t.TempDir(), newStore()
	app := shop(content, files{})
	var routes []registry.Route
	for name, text := range does {
		text = "#!/bin/sh\nn=0\nwhile read -r event; do n=$((n+1)); read=false; size=0; " + text + "; " + answer + "; done\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		f := &registry.Function{ID: name, Namespace: "team", Name: name, Body: most, Resources: landfall.Resources{Concurrency: 1, Timeout: patience}}
		routes = append(routes, routeTo(f, name, "", "/"+name))
	}
	app.Releases[0].Routes = registry.NewRoutes(routes)
	r := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}
	t.Cleanup(r.Close)
	return newSite(t, content, func(c *gateway.Config) {
		c.BodyTimeout = uploadTimeout
		c.Functions = function(func(ctx context.Context, f *registry.Function, e event.Event) (event.Event, error) {
			return r.Run(ctx, runner.Function{ID: f.ID, Args: []string{"./" + f.Name}, Dir: dir, Resources: f.Resources, Parts: true}, e)
		})
	}, app)
}

// readAll is a shell's loop over all parts.
const readAll = `while read -r part; do case "$part" in *'"last":true'*|*'"error"'*) break ;; esac; part="${part#*base64\":\"}"; ` +
	`size=$((size + $(echo "${part%%\"*}" | base64 -d | wc -c))); done; read=true`

// begun begins a request with a body of a length.
func begun(path, length string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + length + "\r\n\r\n"
}

// What is left of a body is no request: the connection ends with an answer that did not need it.
func TestUploadIsNoRequest(t *testing.T) {
	t.Parallel()
	s := uploads(t, 1<<20, map[string]string{"all": readAll, "none": "size=none"})
	w := s.dial(t, begun("/all", "Content-Length: 3")+"one"+begun("/all", "Transfer-Encoding: chunked")+"2\r\ntw\r\n1\r\no\r\n0\r\n\r\n")
	for _, want := range []string{"1 3", "2 3"} {
		answer := w.next(t)
		answer.want(t, http.StatusOK, "aaaaaaa2", want)
		answer.wantHeaders(t, "Connection", "")
	}
	hidden := "GET /all HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	for _, length := range []string{"Content-Length: 100000", "Content-Length: 1000", "Transfer-Encoding: chunked"} {
		w := s.dial(t, begun("/none", length)+hidden)
		var answer response
		for answer = w.next(t); answer.StatusCode == http.StatusServiceUnavailable; answer = w.next(t) { // the process is just being replaced
			w = s.dial(t, begun("/none", length)+hidden)
		}
		if answer.StatusCode == http.StatusOK && (answer.body != "1 none" || !answer.Close) {
			t.Errorf("%s: got %q, close %v; want an answer of a new process that ends the connection", length, answer.body, answer.Close)
		}
		if rest, _ := io.ReadAll(w.answers); len(rest) > 0 {
			t.Errorf("%s: what follows is answered, too: %.200q", length, rest)
		}
	}
}

// A body that is too large, that stops coming or that is none is refused with why, and the process stays.
func TestUploadsThatEnd(t *testing.T) {
	t.Parallel()
	s := uploads(t, 100, map[string]string{"all": readAll})
	const status = http.StatusOK
	s.send(t, http.MethodPost, host, "/all", strings.NewReader(strings.Repeat("x", 100))).want(t, status, "aaaaaaa2", "1 100")
	for _, c := range []struct {
		name, request string
		status        int
		words         string
	}{
		{"too large, as it says", begun("/all", "Content-Length: 101"), http.StatusRequestEntityTooLarge, "is 100"},
		{"too large", begun("/all", "Transfer-Encoding: chunked") + "40\r\n" + strings.Repeat("x", 64) + "\r\n40\r\n" + strings.Repeat("x", 64) + "\r\n",
			http.StatusRequestEntityTooLarge, "is 100"},
		{"silence", begun("/all", "Content-Length: 9") + "half", http.StatusRequestTimeout, "came for 300ms"},
		{"no body", begun("/all", "Transfer-Encoding: chunked") + "half\r\n", http.StatusBadRequest, "broke off"},
	} {
		w := s.dial(t, c.request)
		answer := w.next(t)
		answer.wantPage(t, c.status, "aaaaaaa2", c.words)
		if rest, _ := io.ReadAll(w.answers); len(rest) > 0 || !answer.Close {
			t.Errorf("%s: the connection goes on: %.100q", c.name, rest)
		}
	}
	s.send(t, http.MethodPost, host, "/all", strings.NewReader("x")).want(t, status, "aaaaaaa2", "5 1")
}

// leaving is a body of which nothing comes any more, as net/http reads it: whoever is too slow has left for it, and it ends the request's
// context before it says why.
type leaving struct {
	io.Reader

	leave func()
}

// Read implements io.Reader.
func (l *leaving) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	const more = 100 * time.Millisecond // for all that happens when a context ends
	<-time.After(uploadTimeout)
	l.leave()
	<-time.After(more)
	return n, os.ErrDeadlineExceeded
}

// Close implements io.Closer.
func (*leaving) Close() error { return nil }

// Who stops sending is told so, however late this is seen: an answer of nothing would look as if all were well.
func TestUploadSeenLate(t *testing.T) {
	t.Parallel()
	s := uploads(t, 100, map[string]string{"all": readAll})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/all", &leaving{strings.NewReader("half"), leave})
	r.ContentLength = 9
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), "came for 300ms") {
		t.Errorf("got %d %q, want 408 and why", w.Code, w.Body)
	}
}
