package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall/wire"
)

// counter counts what is written to its connections.
type counter struct {
	net.Listener

	writes atomic.Int64
}

func (l *counter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, &l.writes}, err
}

type countedConn struct {
	net.Conn

	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// Files of every size arrive whole, on a connection that stays open; those of a few KiB in one piece.
func TestAnswersInOnePiece(t *testing.T) {
	t.Parallel()
	content := newStore()
	all := files{}
	var sizes []int
	for size := 3000; size < 4200; size += 7 { // with its headers, some fill the server's buffer to the last byte
		sizes = append(sizes, size)
	}
	sizes = append(sizes, 0, 1, 4096, 8191, 8192, 8193, 20_000, 256<<10, 256<<10+1, 1<<20)
	for _, size := range sizes {
		all[fmt.Sprintf("/%d.bin", size)] = strings.Repeat("x", size)
	}
	s := newSite(t, content, nil, shop(content, all))
	server := httptest.NewUnstartedServer(s.gateway)
	l := &counter{Listener: server.Listener}
	server.Listener, server.Config.ConnContext = wire.Listener(l), wire.ConnContext
	server.Start()
	defer server.Close()
	s.url, s.client = server.URL, server.Client()

	for _, size := range sizes {
		for range 2 { // the first time it is loaded
			before := l.writes.Load()
			s.get(t, "shop.releases.test", fmt.Sprintf("/%d.bin", size)).want(t, http.StatusOK, "aaaaaaa2",
				strings.Repeat("x", size))
			if n := l.writes.Load() - before; size < 8000 && n != 1 {
				t.Errorf("a file of %d bytes was written in %d pieces, want one", size, n)
			}
		}
	}
}

// A handler that writes and flushes as it likes is not held up.
func TestFlushedAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			fmt.Fprint(w, strings.Repeat("y", 4096))
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
		<-r.Context().Done() // the client leaves when it has all
	}))
	server.Listener, server.Config.ConnContext = wire.Listener(server.Listener), wire.ConnContext
	server.Start()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 3*4096)); err != nil {
		t.Error(err)
	}
}

// dial sends text over a connection of its own to a server behind wire.Listener, and returns all that it answers until
// it closes.
func dial(t *testing.T, server *httptest.Server, text string) string {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", answers, err)
	}
	return string(answers)
}

// A request that says in two ways where it ends is the last one of its connection, behind those before it, which are
// answered.
func TestRequestThatEndsTwice(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q %v;", r.Method, r.URL, body, err)
	}))
	server.Listener, server.Config.ConnContext, server.Config.ConnState = wire.Listener(server.Listener), wire.ConnContext,
		wire.ConnState
	server.Start()
	defer server.Close()
	const (
		smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
		first    = "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET /second " +
			"HTTP/1.1\r\nHost: a\r\n\r\n"
	)
	for name, text := range map[string]string{
		"length first": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			smuggled,
		"coding first": "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\nX: y\r\ncontent-length: " +
			"5\r\n\r\n0\r\n\r\n" + smuggled,
		"no body": "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"large": "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("x", 500_000) + smuggled,
		"HTTP/1.0": "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"options": "OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			smuggled,
	} {
		for _, before := range []string{"", first} {
			got := dial(t, server, before+text)
			answered := strings.Contains(got, `POST /first "ab" <nil>;`) && strings.Contains(got, `GET /second "" <nil>;`)
			// K-020: a request with both Content-Length and Transfer-Encoding is refused and its connection closed
			refusal := got[max(0, strings.LastIndex(got, "HTTP/1.1 400")):]
			if strings.Count(got, "HTTP/1.1 400 Bad Request\r\n") != 1 || !strings.Contains(refusal, "Connection: close\r\n") ||
				!strings.Contains(refusal, "either Content-Length or Transfer-Encoding") || strings.Contains(got, "smuggled") ||
				answered != (before != "") {
				t.Errorf("%s: got %q", name, got)
			}
		}
	}
	right := dial(t, server, first+"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.Contains(right, `GET /last "" <nil>;`) {
		t.Errorf("what is all right: got %q", right)
	}
	if wrong := dial(t, server, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"); !strings.HasPrefix(wrong, "HTTP/1.1 400") ||
		strings.Contains(wrong, "Transfer-Encoding") {
		t.Errorf("what is wrong for another reason: got %q", wrong)
	}
}

// A chunk that is none is the end of what is read: nothing behind it is a request.
func TestBehindABrokenChunk(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s: %v;", r.URL, err)
	}))
	server.Listener, server.Config.ConnContext, server.Config.ConnState = wire.Listener(server.Listener), wire.ConnContext,
		wire.ConnState
	server.Start()
	defer server.Close()
	got := dial(t, server, "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nGET /smuggled "+
		"HTTP/1.1\r\nHost: a\r\n\r\n")
	if !strings.Contains(got, "/first: invalid byte") || strings.Contains(got, "smuggled") {
		t.Errorf("got %q", got)
	}
}

// What goes over a connection that a handler took over is nobody's request.
func TestConnectionTakenOver(t *testing.T) {
	t.Parallel()
	const text = "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		echo := make([]byte, len(text))
		_, _ = io.ReadFull(both, echo)
		_, _ = c.Write(echo)
	}))
	server.Listener, server.Config.ConnContext, server.Config.ConnState = wire.Listener(server.Listener), wire.ConnContext,
		wire.ConnState
	server.Start()
	defer server.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	r := bufio.NewReader(c)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, text)
	if got, err := io.ReadAll(r); err != nil || string(got) != text {
		t.Errorf("got %q, %v, want %q", got, err, text)
	}
}
