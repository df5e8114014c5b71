package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"landfall.dev/landfall"
)

// stallTimeout is how long a client may read nothing of a long answer, unless Config.StallTimeout says otherwise.
const stallTimeout = time.Minute

// whileRead returns a writer of a long answer that fails when the client reads nothing for so long: what waits until
// the answer is over, as collection does, must not wait for a client that is paused.
func whileRead(w io.Writer, timeout time.Duration) *readWriter {
	r := &readWriter{w: w, timeout: timeout}
	if response, ok := w.(http.ResponseWriter); ok {
		r.control = http.NewResponseController(response)
	}
	if r.timeout == 0 {
		r.timeout = stallTimeout
	}
	return r
}

type readWriter struct {
	w       io.Writer
	control *http.ResponseController // nil: nothing bounds how long a write takes
	timeout time.Duration
}

// Write implements io.Writer.
func (r *readWriter) Write(p []byte) (int, error) {
	if r.control != nil {
		if err := r.control.SetWriteDeadline(time.Now().Add(r.timeout)); err != nil {
			return 0, &landfall.Error{Op: "api.write", Err: err}
		}
	}
	n, err := r.w.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &landfall.Error{Op: "api.write", Kind: landfall.Unavailable, Err: err,
			Message: "whoever asked has read nothing of the answer for " + r.timeout.String()}
	}
	return n, err
}

// done lets the connection be used for further requests.
func (r *readWriter) done() {
	if r.control != nil {
		_ = r.control.SetWriteDeadline(time.Time{}) // a connection that is gone is used for none
	}
}
