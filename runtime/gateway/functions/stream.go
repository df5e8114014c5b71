package functions

import (
	"errors"
	"net/http"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/page"
)

// streamed is an answer that goes out while the function makes it. Nothing of it is held: a client that reads slowly
// holds the function up, and one that reads nothing for the time that a body has is cut off.
type streamed struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	asked    event.Event
	body     *upload // of the request, which comes meanwhile; nil: it is there
	began    bool
	status   int // of an answer that was judged; 0: none was, or it is an error
	bodiless bool
	sent     int64 // bytes of the body
}

var (
	_ function.Stream    = (*streamed)(nil)
	_ function.Recipient = (*streamed)(nil)
)

// Begin implements function.Stream.
func (s *streamed) Begin(answer event.Event) error {
	status, err := s.server.head(s.w.Header(), s.asked, answer)
	if err != nil {
		return err
	}
	s.body.head(s.w.Header())
	s.began, s.bodiless = true, bodiless(status) || s.r.Method == http.MethodHead
	s.w.WriteHeader(status)
	_, err = s.Write(answer.Data())
	return err
}

// Judge implements function.Recipient: it says why HTTP cannot answer with what was not streamed. When it can, the head
// is there then.
func (s *streamed) Judge(answer event.Event) (err error) {
	if s.began {
		return nil
	}
	s.status, err = s.server.head(s.w.Header(), s.asked, answer)
	if _, failed := errors.AsType[*answeredError](err); failed {
		return nil // which it says itself
	}
	return err
}

// Write implements function.Stream.
func (s *streamed) Write(p []byte) (int, error) {
	if s.bodiless {
		return len(p), nil
	}
	c := http.NewResponseController(s.w)
	_ = c.SetWriteDeadline(time.Now().Add(s.server.config.BodyTimeout)) // a writer that has no connection has none
	n, err := s.w.Write(p)
	s.sent += int64(n)
	if err == nil {
		err = c.Flush()
	}
	return n, err
}

// Sent implements function.Recipient.
func (s *streamed) Sent() int64 { return s.sent }

// end ends the answer: as it should, or, when it broke off, so that the client sees that.
func (s *streamed) end(f *landfall.Function, answer event.Event, err error) {
	if err == nil {
		_, err = s.server.head(http.Header{}, s.asked, answer)
	}
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Time{})
	if err == nil {
		return
	}
	if c, ok := s.w.(*page.Writer); ok {
		c.Cut = true
	}
	if s.r.Context().Err() != nil {
		return // nobody waits for the rest
	}
	s.server.warn(s.r.Context(), "function failed in the middle of its answer", f, s.w.Header(), s.server.loggable(f, err))
}
