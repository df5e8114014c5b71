package rpc

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"
)

const (
	longest   = time.Hour // of a call of which no timeout is known: who runs it knows it
	pieceSize = 32 << 10
)

// ServeHTTP implements http.Handler: it is what a runner is at /run.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.gate.Serve(w, request, served{Secret: r.Secret, Healthy: r.healthy, Answer: r.pass})
}

// Drain lets no event in any more that came over HTTP. What is under way comes to its end.
func (r *Router) Drain() { r.gate.Drain() }

// pass sends an event on, and its answer back, as they are.
func (r *Router) pass(w http.ResponseWriter, request *http.Request, body []byte, rest *incoming) {
	q, form, e, err := forward(request, body, rest)
	if err != nil {
		writeError(w, request, form, e, err)
		return
	}
	defer q.Over()
	limit := longest
	if timeout := q.Timeout(); timeout > 0 {
		limit = timeout + slack
	}
	ctx, cancel := context.WithTimeout(request.Context(), limit)
	defer cancel()
	s, err := r.send(ctx, q)
	if err != nil {
		writeError(w, request, form, e, late(request.Context(), ctx, limit, err))
		return
	}
	well := false
	defer func() { s.close(well) }()
	h := w.Header()
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Date", "X-Request-Id"} {
		s.Header.Del(name)
	}
	maps.Copy(h, s.Header)
	if h.Get(refusedHeader) != "" {
		h.Set(refusedHeader, busy) // this process does not stop
	}
	w.WriteHeader(s.StatusCode)
	if q.Accept(s.Response) {
		_ = http.NewResponseController(w).Flush() // who sends the body waits for it
	}
	if !copyAnswer(w, s.Response) {
		panic(http.ErrAbortHandler) //nolint:forbidigo // it is how net/http ends a connection in the middle
	}
	well = s.StatusCode == http.StatusOK
}

// copyAnswer copies an answer, each piece when it comes, and reports whether that was all of it.
func copyAnswer(w http.ResponseWriter, answer *http.Response) bool {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // a writer that has no connection has no deadline
	size := int64(pieceSize)
	if answer.ContentLength >= 0 {
		size = min(size, answer.ContentLength+1) // one more, to see its end
	}
	piece := make([]byte, size)
	for {
		n, err := answer.Body.Read(piece)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(pieceLimit))
			if _, err := w.Write(piece[:n]); err != nil {
				return false
			}
			if answer.ContentLength < 0 {
				_ = control.Flush()
			}
		}
		if err != nil {
			return err == io.EOF
		}
	}
}
