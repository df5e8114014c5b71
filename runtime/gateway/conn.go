package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// Listener returns l with connections on which small answers leave in one piece. net/http hands on what it has whenever its
// buffer is full, which cuts a page of a few KiB in two: two system calls, and two packets for the client to wake up for.
// The server also needs ConnContext.
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

type connKey struct{}

// ConnContext is for http.Server.ConnContext: a handler finds its connection by it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// bufferSize is that of the buffer through which net/http writes. If it were another one, nothing would be held.
const bufferSize = 4 << 10

// conn holds back a full buffer while more is certain to follow.
type conn struct {
	net.Conn

	following bool // a body is being written that begins in the buffer: when that is full, the rest follows
	held      *heldBytes
	buffers   *sync.Pool
}

// heldBytes has room for a full buffer, and for another one behind it.
type heldBytes [2 * bufferSize]byte

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	switch {
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

// writeWhole writes a body that is all there is to write.
func writeWhole(w http.ResponseWriter, r *http.Request, data []byte) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.following = true
		defer func() { c.following = false }()
	}
	_, _ = w.Write(data) // the status is out; a client that went away needs no answer
}
