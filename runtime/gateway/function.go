package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// The headers that name what answered, when a function did.
const (
	VersionHeader   = "Landfall-Version"   // uid of the function's version
	ExecutionHeader = "Landfall-Execution" // what its log is found by
)

// Functions runs functions.
type Functions interface {
	// Run gives an event to a function and returns its answer. Its errors are those of runner.Runner.Run. It keeps nothing of
	// the event's data.
	Run(ctx context.Context, f *registry.Function, e event.Event) (event.Event, error)
}

// route answers a request whose path a route of the release takes, and reports whether it did: what has no route for the
// method may be a file.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request, app string, found registry.Resolution, path string) bool {
	if !utf8.ValidString(path) {
		return false // an event has no such text; a file may have such a name
	}
	route, methods := found.Release.Routes.Find(r)
	if route != nil {
		g.call(w, r, app, route)
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

// call answers with what the function of a route answers.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, app string, route *registry.Route) {
	h := w.Header()
	const percent = 100
	f := route.Choose(rand.IntN(percent))
	if f == nil {
		writePage(w, r, pageNoVersion())
		return
	}
	h[VersionHeader] = []string{string(f.Version)}
	if r.ContentLength != 0 {
		// It holds for net/http too, which reads what is left of a body, and it ends with the body. A writer that has no connection
		// has no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.bodyTimeout))
	}
	if !g.admit(w, r, app, route.Access) {
		return
	}
	if g.functions == nil {
		writePage(w, r, pageNoFunctions())
		return
	}
	var in input
	defer in.release(&g.bodies)
	if refused := g.read(r, &in); refused.Status != 0 {
		h.Set("Connection", "close") // else net/http would wait for the rest before it answers
		if refused.Status == http.StatusServiceUnavailable {
			h.Set("Retry-After", "1")
		}
		writePage(w, r, refused)
		return
	}
	execution := uuid.NewString()
	h[ExecutionHeader] = []string{execution}
	answer, err := g.functions.Run(r.Context(), f, g.event(r, app, f.Namespace, route, execution, in.data))
	if err == nil {
		err = g.reply(w, r, answer)
	}
	if err != nil {
		g.failed(w, r, f, err)
	}
}

// admit reports whether the request may call a route, and answers when it may not.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request, app string, access registry.Access) bool {
	if access == "" || access == registry.Public {
		return true
	}
	err := error(&landfall.Error{Op: "gateway.admit", Kind: landfall.Unauthorized})
	if g.allowed != nil {
		err = g.allowed(r, app, access)
	}
	kind := landfall.KindOf(err)
	switch {
	case err == nil:
		return true
	case r.Context().Err() != nil: // nobody waits for the answer
	case kind == landfall.Unauthorized && access == registry.Token:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writePage(w, r, pageNoToken())
	case kind == landfall.Unauthorized || kind == landfall.Forbidden:
		writePage(w, r, pageNotAllowed(access))
	default:
		g.log.ErrorContext(r.Context(), "who may call a function is not known", "app", app, "error", err)
		w.Header().Set("Retry-After", "1")
		writePage(w, r, pageUnknownCaller())
	}
	return false
}

// answeredError is the answer of a function that is an event with an error.
type answeredError struct {
	fault  event.Error
	status int // that it wants for it; 0: it does not say
}

// Error implements error.
func (e *answeredError) Error() string { return "the function answered with an error" }

// failed answers that a function did not, and says in the log why. Nothing was written yet.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, f *registry.Function, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	h := w.Header()
	fault, _ := errors.AsType[*runner.FunctionError](err)
	busy := fault != nil && fault.Reason == runner.Busy
	if kind := landfall.KindOf(err); kind == landfall.Unavailable || kind == landfall.Canceled {
		seconds := 1.0
		if busy {
			seconds = max(seconds, math.Ceil(fault.RetryAfter.Seconds()))
		}
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	if !busy { // the answers are counted; a line for each one that is too many would be a flood
		g.log.LogAttrs(r.Context(), slog.LevelWarn, "function failed", slog.String("function", f.Name),
			slog.String("version", string(f.Version)), slog.String("release", h.Get(ReleaseHeader)),
			slog.String("execution", h.Get(ExecutionHeader)), slog.Any("fault", faultOf(err)), slog.Any("error", err))
	}
	writePage(w, r, pageOfFailure(err))
}

// faultOf returns what is known of a failure. It is for the operator alone.
func faultOf(err error) event.Error {
	if answered, ok := errors.AsType[*answeredError](err); ok {
		return answered.fault
	}
	return runner.ErrorOf(err)
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
