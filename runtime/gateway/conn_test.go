package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall/runtime/gateway"
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
	server.Listener, server.Config.ConnContext = gateway.Listener(l), gateway.ConnContext
	server.Start()
	defer server.Close()
	s.url, s.client = server.URL, server.Client()

	for _, size := range sizes {
		for range 2 { // the first time it is loaded
			before := l.writes.Load()
			s.get(t, "shop.releases.test", fmt.Sprintf("/%d.bin", size)).want(t, http.StatusOK, "aaaaaaa2", strings.Repeat("x", size))
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
	server.Listener, server.Config.ConnContext = gateway.Listener(server.Listener), gateway.ConnContext
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
