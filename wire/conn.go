package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Listener returns l with connections on which small answers leave in one piece. net/http hands on what it has whenever
// its buffer is full, which cuts a page of a few KiB in two: two system calls, and two packets for the client to wake
// up for. A request that says in two ways where it ends is refused, and its connection closed. The server also needs
// ConnContext and ConnState.
func Listener(l net.Listener) net.Listener {
	return listener{l, &sync.Pool{New: func() any { return new(heldBytes) }}}
}

type listener struct {
	net.Listener

	buffers *sync.Pool // of *heldBytes
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, buffers: l.buffers}, nil
}

// connKey is that of the connection in the context of its requests: net/http has no other way to hand one to a handler.
type connKey struct{}

// ConnContext is for http.Server.ConnContext: a handler finds its connection by it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// ConnState is for http.Server.ConnState: a connection that a handler takes over carries no requests any more.
func ConnState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok && state == http.StateHijacked {
		c.framing.Release()
	}
}

// bufferSize is that of the buffer through which net/http writes. If it were another one, nothing would be held.
const bufferSize = 4 << 10

// conn holds back a full buffer while more is certain to follow.
type conn struct {
	net.Conn

	following bool // a body is being written that begins in the buffer: when that is full, the rest follows
	held      *heldBytes
	buffers   *sync.Pool

	framing Framing     // of the requests; net/http reads in one goroutine at a time
	refused atomic.Bool // the request that is read next says its end twice
}

// heldBytes has room for a full buffer, and for another one behind it.
type heldBytes [2 * bufferSize]byte

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.framing.Ended() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	n, refused := c.framing.Follow(p[:n])
	if refused {
		c.refused.Store(true)
	}
	return n, err
}

// badRequest is how net/http answers a request that it cannot read. The answers of handlers have other headers.
const badRequest = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// endsTwice is the answer to a request that says its end twice.
const endsTwice = badRequest + "A request has either Content-Length or Transfer-Encoding, and the latter in " +
	"HTTP/1.1 only (RFC 9112, section 6.1).\n"

// refuse answers the request that says its end twice, which is the last one of the connection. It reads on for a
// moment, since a connection that is closed with something unread takes the answer away from the client.
func (c *conn) refuse() error {
	const patience, most = time.Second, 1 << 20
	_, err := io.WriteString(c.Conn, endsTwice)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // the client may be gone
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.CopyN(io.Discard, c.Conn, most)
	}
	return err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	switch {
	case c.refused.Load() && bytes.HasPrefix(p, []byte(badRequest)):
		return len(p), c.refuse()
	case c.held != nil:
		return c.release(p)
	case c.following && len(p) == bufferSize:
		c.held, _ = c.buffers.Get().(*heldBytes)
		return copy(c.held[:], p), nil
	}
	return c.Conn.Write(p)
}

// release writes what was held, and p behind it.
func (c *conn) release(p []byte) (int, error) {
	held := c.held
	c.held = nil
	defer c.buffers.Put(held)
	if len(p) <= bufferSize {
		_, err := c.Conn.Write(held[:bufferSize+copy(held[bufferSize:], p)])
		if err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if _, err := c.Conn.Write(held[:bufferSize]); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ReadFrom implements io.ReaderFrom: large files go from the disk to the network without a copy.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// WriteWhole writes a body that is all there is to write.
func WriteWhole(w http.ResponseWriter, r *http.Request, data []byte) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.following = true
		defer func() { c.following = false }()
	}
	_, _ = w.Write(data) // the status is out; a client that went away needs no answer
}
