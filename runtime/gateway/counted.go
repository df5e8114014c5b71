package gateway

import (
	"io"
	"net/http"
)

// counted notes what goes out through a ResponseWriter.
type counted struct {
	http.ResponseWriter

	status  int // 0: nothing went out
	bytes   int64
	private bool // what goes out is for one person
	cut     bool // it breaks off, and must look so
}

// begin notes that an answer goes out.
func (c *counted) begin(status int) {
	if c.status == 0 {
		c.status = status
		if c.private {
			makePrivate(c.Header())
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (c *counted) WriteHeader(status int) {
	c.begin(status)
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *counted) Write(p []byte) (int, error) {
	c.begin(http.StatusOK)
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom: the server's own has a buffer that it uses again.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	c.begin(http.StatusOK)
	n, err := io.Copy(c.ResponseWriter, r)
	c.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
