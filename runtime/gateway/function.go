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
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// The headers that name what answered, when a function did.
const (
	VersionHeader   = "Landfall-Version"   // uid of the function's version
	ExecutionHeader = "Landfall-Execution" // what its log is found by
)

// route answers a request whose path a route of the release takes, or that may see nothing of the release, and reports whether it
// did: what has no route for the method may be a file.
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
	a, err := g.manifests.find(r.Context(), found.Release, path)
	if err != nil {
		g.fail(w, r, err)
		return true
	}
	if a.moved != "" || a.status == http.StatusOK {
		if reads(r) {
			return false
		}
		methods = slices.Compact(slices.Sorted(slices.Values(append(methods, http.MethodGet, http.MethodHead))))
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	writePage(w, r, pageOtherMethods())
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
		writePage(w, r, pageNoVersion())
		return
	}
	named := []string{string(f.Version), ""} // what answers, in two headers
	h[VersionHeader] = named[:1:1]
	if r.ContentLength != 0 {
		// It holds for net/http too, which reads what is left of a body, and it ends with the body. A writer that has no connection
		// has no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.bodyTimeout))
	}
	by := g.admit(w, r, t.AppName, access)
	if by == nobody {
		return
	}
	if g.functions == nil {
		writePage(w, r, pageNoFunctions())
		return
	}
	var in input
	defer in.release(&g.bodies)
	body := g.upload(w, r, f)
	var refused page
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
		writePage(w, r, refused)
		return
	}
	execution := uuid.NewString()
	named[1] = execution
	h[ExecutionHeader] = named[1:]
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

// admit returns who calls a route, and answers when they may not.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request, app string, access landfall.Access) caller {
	switch access {
	case landfall.AccessPublic:
		return anybody
	case landfall.AccessSignedIn:
		return g.admitVisitor(w, r, app)
	case landfall.AccessToken:
	}
	err := error(&landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized})
	if g.allowed != nil {
		err = g.allowed(r, app, access)
	}
	if err == nil {
		return holder
	}
	g.refuse(w, r, app, access, err)
	return nobody
}

// refuse answers somebody who may not see or call something, for the error that says why.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, app string, access landfall.Access, err error) {
	kind := landfall.KindOf(err)
	switch {
	case r.Context().Err() != nil: // nobody waits for the answer
	case kind == landfall.Unauthorized && auth.BearerOf(r) != "" && (access == landfall.AccessToken || access == landfall.AccessSignedIn):
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		writeProblem(w, r, pageWrongToken())
	case kind == landfall.Unauthorized && access == landfall.AccessToken:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writePage(w, r, pageNoToken())
	case kind == landfall.Unauthorized && access == landfall.AccessSignedIn:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeProblem(w, r, pageNotSignedIn())
	case kind == landfall.Unauthorized || kind == landfall.Forbidden:
		writePage(w, r, pageNotAllowed(access))
	default:
		g.log.ErrorContext(r.Context(), "who may call a function is not known", "app", app, "error", err)
		w.Header().Set("Retry-After", "1")
		writePage(w, r, pageUnknownCaller())
	}
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
		delete(h, ExecutionHeader) // there was none
		writePage(w, r, pageMismatch(wrong))
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
			slog.String("version", string(f.Version)), slog.String("release", h.Get(ReleaseHeader)),
			slog.String("execution", h.Get(ExecutionHeader)), slog.Any("fault", faultOf(err)), slog.Any("error", err))
	}
	writePage(w, r, pageOfFailure(err))
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

// faultOf returns what is known of a failure, but for what the function logged, which is with the execution. It is for the operator
// alone.
func faultOf(err error) event.Error {
	fault := runner.ErrorOf(err)
	if answered, ok := errors.AsType[*answeredError](err); ok {
		fault = answered.fault
	}
	fault.Trace = ""
	return fault
}

// pageOfFailure returns the page for a call that failed. What the function wrote is not for everybody; only when it chose a
// status for its error that says the request is wrong, its message is for the caller.
func pageOfFailure(err error) page {
	if answered, ok := errors.AsType[*answeredError](err); ok {
		if answered.status == 0 || answered.status >= http.StatusInternalServerError {
			return newPage(cmp.Or(answered.status, http.StatusBadGateway), "The function failed", "It answered with an error.")
		}
		return newPage(answered.status, cmp.Or(http.StatusText(answered.status), "Error"), sentence(landfall.Printable(answered.fault.Message)))
	}
	if f, ok := errors.AsType[*runner.FunctionError](err); ok {
		return pageOfReason(f.Reason)
	}
	switch landfall.KindOf(err) {
	case landfall.Forbidden:
		return pageNoFunctions()
	case landfall.Canceled, landfall.Unavailable:
		return newPage(http.StatusServiceUnavailable, "Not right now", "The function cannot be run at this moment. Try again in a moment.")
	case landfall.Internal, landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized:
	}
	return newPage(http.StatusBadGateway, "The function cannot be run", "It did not get the request. The operator's log says more.")
}
