package invoke

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

// Bodies bounds what the requests at an endpoint hold at a time: a token for one app must not take the memory of
// all. Its zero value has the usual bounds.
type Bodies struct {
	Bytes int64         // of all bodies that are being read and answered; 256 MiB
	Limit time.Duration // for a body to arrive, and for an answer to be taken; a minute

	held atomic.Int64
}

// limit returns how long a body or an answer may take.
func (b *Bodies) limit() time.Duration { return cmp.Or(b.Limit, time.Minute) }

// errFull says that the bodies of all requests are as many bytes as may be.
var errFull = errors.New("too much is being read")

// read reads the events of a request. What it holds of the body counts until done is called.
func (b *Bodies) read(w http.ResponseWriter, r *http.Request, limits event.Limits) (events []event.Event,
	form event.Form, done func(), err error) {
	// It ends with the body. A writer that has no connection has no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.limit()))
	body := &heldBody{ReadCloser: r.Body, all: b}
	r.Body = body
	events, form, err = event.Read(r, limits)
	if body.failed {
		w.Header().Set("Connection", "close") // else net/http would wait for the rest before it answers
	}
	switch {
	case errors.Is(err, errFull):
		err = landfall.Wrapf("invoke.read", landfall.Unavailable, err,
			"the server is reading as many events as it may; try again later")
	case err != nil && body.failed:
		err = landfall.Wrapf("invoke.read", landfall.Invalid, err, "the body did not arrive to its end within %s", b.limit())
	}
	return events, form, func() { b.held.Add(-body.taken) }, err
}

// heldBody is a body that counts.
type heldBody struct {
	io.ReadCloser

	all    *Bodies
	taken  int64
	failed bool
}

// Read implements io.Reader.
func (h *heldBody) Read(p []byte) (int, error) {
	const usual = 256 << 20
	n, err := h.ReadCloser.Read(p)
	h.taken += int64(n)
	if h.all.held.Add(int64(n)) > cmp.Or(h.all.Bytes, usual) {
		err = errFull
	}
	h.failed = err != nil && !errors.Is(err, io.EOF)
	return n, err
}
