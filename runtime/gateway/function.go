package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// route answers a request whose path a route of the release takes, or that may see nothing of the release, and reports
// whether it did: what has no route for the method may be a file.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request, found registry.Resolution, path string) bool {
	var route *registry.Route
	var methods []string
	if utf8.ValidString(path) { // an event has no other text; a file may have such a name
		route, methods = found.Release.Routes.Find(r)
	}
	if route != nil {
		g.call(w, r, route.Trigger, stricter(route.Access(), found.SignedIn), nil)
		return true
	}
	if found.SignedIn && g.admitVisitor(w, r, found.App) == nobody {
		return true
	}
	if methods == nil {
		return false
	}
	exists, err := g.files.Has(r.Context(), found.Release, path)
	if err != nil {
		g.files.Fail(w, r, found.App, err)
		return true
	}
	if exists {
		if files.Reads(r) {
			return false
		}
		methods = slices.Compact(slices.Sorted(slices.Values(append(methods, http.MethodGet, http.MethodHead))))
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	page.Write(w, r, pageOtherMethods())
	return true
}

// replier answers a request with an answer of a function as it is, or for the error of its call.
type replier func(w http.ResponseWriter, asked, answer event.Event, err error)

// call answers those who have access with what the function of a trigger answers: as HTTP does, unless reply is given.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, t *registry.Trigger, access landfall.Access, reply replier) {
	if g.tracer == nil {
		g.callFunction(w, r, t, access, reply)
		return
	}
	noted, ok := w.(*counted) // which is told when an answer breaks off
	if !ok {
		noted = &counted{ResponseWriter: w}
	}
	r, span := g.tracer.Serve(r, r.Pattern)
	defer func() { span.Answered(noted.status) }()
	g.callFunction(noted, r, t, access, reply)
}

func (g *Gateway) callFunction(w http.ResponseWriter, r *http.Request, t *registry.Trigger, access landfall.Access, reply replier) {
	h := w.Header()
	f := t.Draw()
	if f == nil {
		page.Write(w, r, pageNoVersion())
		return
	}
	named := []string{string(f.Version), ""} // what answers, in two headers
	h[page.VersionHeader] = named[:1:1]
	if r.ContentLength != 0 {
		// It holds for net/http too, which reads what is left of a body, and it ends with the body. A writer that has no
		// connection has no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.bodyTimeout))
	}
	by := g.admit(w, r, t.AppName, access)
	if by == nobody {
		return
	}
	if g.functions == nil {
		page.Write(w, r, pageNoFunctions())
		return
	}
	var in input
	defer in.release(&g.bodies)
	body := g.upload(w, r, f)
	var refused page.Page
	if body == nil {
		refused = g.read(r, &in)
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
	s := streamed{g: g, w: w, r: r, asked: g.event(r, t, by, execution, in.data), body: body}
	defer body.end()
	answer, err := g.functions.Call(r.Context(), s.call(t, f, reply != nil))
	in.release(&g.bodies) // however long the answer takes, and before somebody hears it who sends the next one
	if s.began {
		s.end(f, answer, err)
		return
	}
	body.head(h)
	if err != nil && body.answer(w, r) {
		return
	}
	if reply != nil {
		reply(w, s.asked, answer, err)
		return
	}
	s.finish(f, answer, err)
}

// call returns the call. An answer that is to be one event is put together, however many pieces it was made in.
func (s *streamed) call(t *registry.Trigger, f *landfall.Function, whole bool) function.Call {
	c := function.Call{Function: f, Trigger: t, Event: s.asked}
	if !whole {
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
		s.status, err = s.g.head(s.w.Header(), s.asked, answer)
	}
	if err != nil {
		s.g.failed(s.w, s.r, f, err)
		return
	}
	s.g.reply(s.w, s.r, s.status, answer)
}

// answeredError is the answer of a function that is an event with an error.
type answeredError struct {
	fault  event.Error
	status int // that it wants for it; 0: it does not say
}

// Error implements error.
func (e *answeredError) Error() string { return "the function answered with an error" }

// failed answers that a function did not, and says in the log why. Nothing was written yet.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, f *landfall.Function, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	h := w.Header()
	if wrong, refused := errors.AsType[*contract.MismatchError](err); refused {
		delete(h, page.ExecutionHeader) // there was none
		page.Write(w, r, pageMismatch(wrong))
		return
	}
	fault, _ := errors.AsType[*runner.FunctionError](err)
	busy := fault != nil && fault.Reason == runner.Busy
	if kind := landfall.KindOf(err); kind == landfall.Unavailable || kind == landfall.Canceled {
		seconds := 1.0
		if busy {
			seconds = max(seconds, math.Ceil(fault.RetryAfter.Seconds()))
		}
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	err = g.loggable(f, err)
	if !busy { // the answers are counted; a line for each one that is too many would be a flood
		g.log.LogAttrs(r.Context(), slog.LevelWarn, "function failed", slog.String("function", f.Name),
			slog.String("version", string(f.Version)), slog.String("release", h.Get(page.ReleaseHeader)),
			slog.String("execution", h.Get(page.ExecutionHeader)), slog.Any("fault", faultOf(err)), slog.Any("error", err))
	}
	page.Write(w, r, pageOfFailure(err))
}

// loggable returns an error as the log may have it: why the gateway refuses an answer has words of the answer in it.
func (g *Gateway) loggable(f *landfall.Function, err error) error {
	refusal, ok := errors.AsType[*landfall.Error](err)
	if !ok || refusal.Op != opReply || g.redact == nil {
		return err
	}
	hidden := *refusal
	hidden.Message = g.redact(f, refusal.Message)
	return &hidden
}

// faultOf returns what is known of a failure, but for what the function logged, which is with the execution. It is for
// the operator alone.
func faultOf(err error) event.Error {
	fault := runner.ErrorOf(err)
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
		return page.New(answered.status, cmp.Or(http.StatusText(answered.status), "Error"), sentence(landfall.Printable(answered.fault.Message)))
	}
	if f, ok := errors.AsType[*runner.FunctionError](err); ok {
		return pageOfReason(f.Reason)
	}
	switch landfall.KindOf(err) {
	case landfall.Forbidden:
		return pageNoFunctions()
	case landfall.Canceled, landfall.Unavailable:
		return page.New(http.StatusServiceUnavailable, "Not right now", "The function cannot be run at this moment. Try again in a moment.")
	case landfall.Internal, landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized:
	}
	return page.New(http.StatusBadGateway, "The function cannot be run", "It did not get the request. The operator's log says more.")
}
