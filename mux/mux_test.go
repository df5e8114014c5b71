package mux_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/test/testkit"
)

// serve serves what add adds, beside a part for the rest.
func serve(t *testing.T, log io.Writer, add func(m *mux.Mux)) *httptest.Server {
	t.Helper()
	m := mux.New(mux.Logger(slog.New(slog.NewTextHandler(log, nil))))
	m.Rest("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "no %s", r.URL.EscapedPath())
	}))
	add(m)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server
}

// ask sends a request whose path is as it is written here.
func ask(t *testing.T, server *httptest.Server, method, path string) (answer *http.Response, body string) {
	t.Helper()
	conn := testkit.Must(new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer func() { _ = conn.Close() }()
	r := &http.Request{Method: method}
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path)
	answer = testkit.Must(http.ReadResponse(bufio.NewReader(conn), r))(t)
	defer func() { _ = answer.Body.Close() }()
	return answer, string(testkit.Must(io.ReadAll(answer.Body))(t))
}

// A path means what it says: nobody is sent on to another one, and each part answers for what is below it.
func TestPaths(t *testing.T) {
	t.Parallel()
	said := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, what) })
	}
	server := serve(t, io.Discard, func(m *mux.Mux) {
		m.Get("/health", said("health"))
		m.Serve(http.MethodGet, "/apps/:app/tags/:tag", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s, %s", r.PathValue("app"), r.PathValue("tag"))
		}))
		m.Serve(http.MethodDelete, "/apps/:app/tags/:tag", said("deleted"))
		m.Mount("/hook", said("hook"))
		m.Mount("/files/", said("files"))
		m.Rest("/apps/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such app", http.StatusNotFound)
		}))
	})
	for _, test := range []struct {
		request string
		status  int
		allow   string
		body    string
	}{
		{"GET /health", 200, "", "health"},
		{"HEAD /health", 200, "", ""},
		{"POST /health", 405, "GET, HEAD", "Method Not Allowed\n"},
		{"PROPFIND /health", 405, "GET, HEAD", "Method Not Allowed\n"},
		{"GET /health/", 404, "", "no /health/"},
		{"GET //health", 404, "", "no //health"},
		{"GET /./health", 404, "", "no /./health"},
		{"GET /Health", 404, "", "no /Health"},
		{"GET /apps/a/tags/b", 200, "", "a, b"},
		{"HEAD /apps/a/tags/b", 200, "", ""},
		{"GET /apps/a%2Fb/tags/c%2fd", 200, "", "a/b, c/d"},
		{"GET /apps/a+b/tags/c%20%2B", 200, "", "a+b, c +"},
		{"GET /apps/%2e%2e/tags/..", 200, "", ".., .."},
		{"GET /apps//tags/b", 404, "", "no such app\n"},
		{"GET /apps/a/tags/", 404, "", "no such app\n"},
		{"GET /apps/a/tags/b/", 404, "", "no such app\n"},
		{"GET /apps", 404, "", "no such app\n"},
		{"PUT /apps/a/tags/b", 404, "DELETE, GET, HEAD", "no such app\n"},
		{"POST /hook", 200, "", "hook"},
		{"PROPFIND /hook", 200, "", "hook"},
		{"POST /hook/", 404, "", "no /hook/"},
		{"GET /files/a//../b", 200, "", "files"},
		{"PROPFIND /files/a", 200, "", "files"},
		{"GET /files", 200, "", "files"},
		{"GET /filesystem", 404, "", "no /filesystem"},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		answer, body := ask(t, server, method, path)
		got := fmt.Sprintf("%d %q %q", answer.StatusCode, answer.Header.Get("Allow"), body)
		testkit.Equal(t, test.request, got, fmt.Sprintf("%d %q %q", test.status, test.allow, test.body))
	}
}

// Handlers write as to net/http: what is flushed arrives while the request is still read, and what does not arrive is
// an error.
func TestStream(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	server := serve(t, io.Discard, func(m *mux.Mux) {
		m.Mount("/echo", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			control := http.NewResponseController(w)
			err := control.EnableFullDuplex()
			for line := bufio.NewReader(r.Body); err == nil; {
				var text string
				if text, err = line.ReadString('\n'); err == nil {
					_, err = io.Copy(w, strings.NewReader(text))
					err = errors.Join(err, control.Flush())
				}
			}
		}))
		m.Mount("/endless", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			control, err := http.NewResponseController(w), error(nil)
			for err == nil {
				_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<10))
				err = control.Flush()
			}
			gone <- err
		}))
	})
	in, out := io.Pipe()
	var hints atomic.Int64
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
			hints.Add(int64(status))
			return nil
		}})
	r := testkit.Must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/echo", in))(t)
	answered := make(chan *http.Response, 1)
	go func() {
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
		}
		answered <- answer
	}()
	_, _ = io.WriteString(out, "one\n")
	answer := <-answered
	defer func() { _ = answer.Body.Close() }()
	testkit.Equal(t, "the statuses", fmt.Sprint(hints.Load(), answer.StatusCode), "103 202")
	lines := bufio.NewReader(answer.Body)
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		testkit.Equal(t, "a line", testkit.Must(lines.ReadString('\n'))(t), line)
		if line != "three\n" {
			_, _ = io.WriteString(out, map[string]string{"one\n": "two\n", "two\n": "three\n"}[line])
		}
	}
	_ = out.Close()

	conn := testkit.Must(new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	_, _ = io.WriteString(conn, "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
	_ = conn.Close()
	if err := <-gone; err == nil {
		t.Error("flushing to who has left was no error")
	}
}

// A fault of a handler is a problem with a number, by which the log has it; an answer that has begun is cut off.
func TestFault(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	server := serve(t, &log, func(m *mux.Mux) {
		m.Get("/fault", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			panic("out of cheese") //nolint:forbidigo // the fault
		}))
		m.Get("/late", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "begun")
			panic("out of crackers") //nolint:forbidigo // the fault
		}))
	})
	answer, body := ask(t, server, http.MethodGet, "/fault")
	id := answer.Header.Get("X-Request-ID")
	testkit.Equal(t, "the status", answer.StatusCode, http.StatusInternalServerError)
	testkit.Equal(t, "the answer", answer.Header.Get("Content-Type")+" "+body,
		`application/problem+json {"title":"Internal Server Error","status":500,`+
			`"detail":"the log of the server says what failed, at the request `+id+`","kind":"internal"}`+"\n")
	testkit.Contains(t, &log, "out of cheese", "request="+id, "mux_test.go")
	late, err := server.Client().Get(server.URL + "/late")
	if err == nil {
		_, err = io.ReadAll(late.Body)
		_ = late.Body.Close()
	}
	if err == nil {
		t.Error("an answer that was cut off looks whole")
	}
}
