package gateway_test

import (
	"context"
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
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// uploads serves programs that take bodies in parts, at /NAME: they count the events that they got. What they do with
// one is by name.
func uploads(t *testing.T, most int64, does map[string]string) *site {
	t.Helper()
	const answer = `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","dataread":%s,"data":"%s %s"}\n' "$read" "$n" "$size"`
	dir, content := t.TempDir(), newStore()
	app := shop(content, files{})
	var routes []registry.Route
	for name, text := range does {
		text = "#!/bin/sh\nn=0\nwhile read -r event; do n=$((n+1)); read=false; size=0; " + text + "; " + answer + "; done\n"
		testkit.Program(t, filepath.Join(dir, name), []byte(text))
		f := &landfall.Function{ID: name, Namespace: "team", Name: name, Body: most,
			Resources: landfall.Resources{Concurrency: 1, Timeout: testkit.Patience}}
		routes = append(routes, routeTo(f, name, "", "/"+name))
	}
	app.Releases[0].Routes = registry.NewRoutes(routes)
	r := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}
	t.Cleanup(r.Close)
	return newSite(t, content, func(c *gateway.Config) {
		c.BodyTimeout = 300 * time.Millisecond
		c.Functions = function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
			return r.Run(ctx, runner.Function{Function: *c.Function, Args: []string{"./" + c.Function.Name}, Dir: dir}, c)
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
	w := s.dial(t, begun("/all", "Content-Length: 3")+"one"+begun("/all", "Transfer-Encoding: chunked")+
		"2\r\ntw\r\n1\r\no\r\n0\r\n\r\n")
	for _, want := range []string{"1 3", "2 3"} {
		answer := w.next(t)
		answer.want(t, http.StatusOK, "aaaaaaa2", want)
		answer.wantHeaders(t, "Connection", "")
	}
	hidden := "GET /all HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	for _, length := range []string{"Content-Length: 100000", "Content-Length: 1000", "Transfer-Encoding: chunked"} {
		w := s.dial(t, begun("/none", length)+hidden)
		var answer response
		// the process is just being replaced
		for answer = w.next(t); answer.StatusCode == http.StatusServiceUnavailable; answer = w.next(t) {
			w = s.dial(t, begun("/none", length)+hidden)
		}
		if answer.StatusCode == http.StatusOK && (answer.body != "1 none" || !answer.Close) {
			t.Errorf("%s: got %q, close %v; want an answer of a new process that ends the connection", length, answer.body,
				answer.Close)
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
	s.send(t, http.MethodPost, host, "/all", strings.NewReader(strings.Repeat("x", 100))).want(t, status,
		"aaaaaaa2", "1 100")
	for _, c := range []struct {
		name, request string
		status        int
		words         string
	}{
		{"too large, as it says", begun("/all", "Content-Length: 101"), http.StatusRequestEntityTooLarge, "is 100"},
		{"too large", begun("/all", "Transfer-Encoding: chunked") + "40\r\n" + strings.Repeat("x", 64) + "\r\n40\r\n" +
			strings.Repeat("x", 64) + "\r\n",
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

// silent is a body of which nothing comes. As that of net/http, it ends the request's context before it says that the
// time is over.
type silent struct {
	cancel  context.CancelFunc
	stopped chan struct{} // closed when the call has noticed
}

// Read implements io.Reader.
func (s silent) Read([]byte) (int, error) {
	s.cancel()
	<-s.stopped
	return 0, os.ErrDeadlineExceeded
}

// Who sends nothing more is told so, and gets no empty answer of status 200, also when the call ends before its body
// does.
func TestSilenceEndsTheCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	body := silent{cancel, make(chan struct{})}
	taker := greeter()
	taker.Body = 100
	content := newStore()
	app := shop(content, files{})
	app.Releases[0].Routes = registry.NewRoutes([]registry.Route{routeTo(taker, "greet", "", "POST /")})
	s := newSite(t, content, func(c *gateway.Config) {
		c.BodyTimeout = time.Nanosecond
		c.Functions = function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
			sent := c.Body
			context.AfterFunc(ctx, func() {
				sent.Stop()
				close(body.stopped)
			})
			_, err := sent.Read(make([]byte, 10))
			return event.Event{}, err
		})
	}, app)
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", body)
	r.Host, r.ContentLength = host, 9
	s.gateway.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), "came for 1ns") {
		t.Errorf("got status %d and %q, want what it is that did not come", w.Code, w.Body)
	}
}
