package functions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// Format is how an answer of a function is written.
type Format uint8

// The formats.
const (
	AsHTTP  Format = iota // its protocol has status and headers
	AsEvent               // the event, or for an error one that stands in its place, with more than visitors may know
)

// Serve answers those who have access with what the function of a trigger answers.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, t *registry.Trigger, who landfall.Access, as Format) {
	if s.config.Tracer == nil {
		s.call(w, r, t, who, as)
		return
	}
	noted, ok := w.(*page.Writer) // which is told when an answer breaks off
	if !ok {
		noted = &page.Writer{ResponseWriter: w}
	}
	r, span := s.config.Tracer.Serve(r, r.Pattern)
	defer func() { span.Answered(noted.Status) }()
	s.call(noted, r, t, who, as)
}

// call is Serve, with a writer that notes what is answered where that is traced.
func (s *Server) call(w http.ResponseWriter, r *http.Request, t *registry.Trigger, who landfall.Access, as Format) {
	h := w.Header()
	if t.Tag != "" {
		if s.config.Guard.Admit(w, r, t.AppName, who) != access.Nobody {
			page.Write(w, r, pageTag(t.Tag))
		}
		return
	}
	f := s.choose(w, r, t)
	if f == nil {
		page.Write(w, r, pageNoVersion())
		return
	}
	named := []string{string(f.Version), ""} // what answers, in two headers
	h[page.VersionHeader] = named[:1:1]
	if r.ContentLength != 0 {
		// It holds for net/http too, which reads what is left of a body, and it ends with the body. A writer that has no
		// connection has no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
	}
	by := s.config.Guard.Admit(w, r, t.AppName, who)
	if by == access.Nobody {
		return
	}
	if s.config.Caller == nil {
		page.Write(w, r, pageNoFunctions())
		return
	}
	var in input
	defer in.release(&s.bodies)
	body := s.upload(w, r, f)
	var refused page.Page
	if body == nil {
		refused = s.read(r, &in)
	} else {
		refused = body.refused
	}
	if refused.Status != 0 {
		h.Set("Connection", "close") // else net/http would wait for the rest before it answers
		if refused.Status == http.StatusServiceUnavailable {
			h.Set("Retry-After", "1")
		}
		page.Write(w, r, refused)
		return
	}
	execution := uuid.NewString()
	named[1] = execution
	h[page.ExecutionHeader] = named[1:]
	a := streamed{server: s, w: w, r: r, asked: s.event(r, t, by, execution, in.data), body: body}
	defer body.end()
	answer, err := s.config.Caller.Call(r.Context(), a.call(t, f, as))
	in.release(&s.bodies) // however long the answer takes, and before somebody hears it who sends the next one
	if a.began {
		a.end(f, answer, err)
		return
	}
	body.head(h)
	if err != nil && body.answer(w, r) {
		return
	}
	if as == AsEvent {
		replyEvent(w, a.asked, answer, err)
		return
	}
	a.finish(f, answer, err)
}

// call returns the call. An answer that is to be one event is put together, however many pieces it was made in.
func (s *streamed) call(t *registry.Trigger, f *landfall.Function, as Format) function.Call {
	c := function.Call{Function: f, Trigger: t, Event: s.asked}
	if as == AsHTTP {
		c.Stream, c.Recipient = s, s
	}
	if s.body != nil {
		c.Body = s.body
		if c.Event.DataContentType() == "" {
			event.SetMediaType(&c.Event, "application/octet-stream")
		}
	}
	return c
}

// finish answers as HTTP does with what came of the call.
func (s *streamed) finish(f *landfall.Function, answer event.Event, err error) {
	if err == nil && s.status == 0 {
		s.status, err = s.server.head(s.w.Header(), s.asked, answer)
	}
	if err != nil {
		s.server.failed(s.w, s.r, f, err)
		return
	}
	s.server.reply(s.w, s.r, s.status, answer)
}

// answeredError is the answer of a function that is an event with an error.
type answeredError struct {
	fault  event.Error
	status int // that it wants for it; 0: it does not say
}

// Error implements error.
func (e *answeredError) Error() string { return "the function answered with an error" }

// failed answers that a function did not, and says in the log why. Nothing was written yet.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, f *landfall.Function, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	h := w.Header()
	if wrong, refused := errors.AsType[*contract.MismatchError](err); refused {
		delete(h, page.ExecutionHeader) // there was none
		page.Write(w, r, pageMismatch(wrong))
		return
	}
	fault, _ := errors.AsType[*function.Error](err)
	busy := fault != nil && fault.Reason == function.ReasonBusy
	if after := function.RetryAfter(err); after != "" {
		h.Set("Retry-After", after)
	}
	err = s.loggable(f, err)
	if !busy { // the answers are counted; a line for each one that is too many would be a flood
		s.warn(r.Context(), "function failed", f, h, err)
	}
	page.Write(w, r, pageOfFailure(err))
}

// warn logs why a function failed. The error is loggable.
func (s *Server) warn(ctx context.Context, what string, f *landfall.Function, h http.Header, err error) {
	s.config.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("function", f.Name),
		slog.String("version", string(f.Version)), slog.String("release", h.Get(page.ReleaseHeader)),
		slog.String("execution", h.Get(page.ExecutionHeader)), slog.Any("fault", faultOf(err)), slog.Any("error", err))
}

// loggable returns an error as the log may have it: why the gateway refuses an answer has words of the answer in it.
func (s *Server) loggable(f *landfall.Function, err error) error {
	refusal, ok := errors.AsType[*landfall.Error](err)
	if !ok || refusal.Op != opReply || s.config.Redact == nil {
		return err
	}
	hidden := *refusal
	hidden.Message = s.config.Redact(f, refusal.Message)
	return &hidden
}

// faultOf returns what is known of a failure, but for what the function logged, which is with the execution. It is for
// the operator alone.
func faultOf(err error) event.Error {
	fault := function.EventError(err)
	if answered, ok := errors.AsType[*answeredError](err); ok {
		fault = answered.fault
	}
	fault.Trace = ""
	return fault
}

// pageOfFailure returns the page for a call that failed. What the function wrote is not for everybody; only when it
// chose a status for its error that says the request is wrong, its message is for the caller.
func pageOfFailure(err error) page.Page {
	if answered, ok := errors.AsType[*answeredError](err); ok {
		if answered.status == 0 || answered.status >= http.StatusInternalServerError {
			return page.New(cmp.Or(answered.status, http.StatusBadGateway), "The function failed", "It answered with an error.")
		}
		return page.New(answered.status, cmp.Or(http.StatusText(answered.status), "Error"),
			sentence(landfall.Printable(answered.fault.Message)))
	}
	if f, ok := errors.AsType[*function.Error](err); ok {
		return pageOfReason(f.Reason)
	}
	switch landfall.KindOf(err) {
	case landfall.Forbidden:
		return pageNoFunctions()
	case landfall.Canceled, landfall.Unavailable:
		return page.New(http.StatusServiceUnavailable, "Not right now",
			"The function cannot be run at this moment. Try again in a moment.")
	case landfall.Internal, landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized:
	}
	return page.New(http.StatusBadGateway, "The function cannot be run",
		"It did not get the request. The operator's log says more.")
}
