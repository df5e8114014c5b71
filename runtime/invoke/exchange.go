package invoke

import (
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
)

// exchange answers the events of a request with those that functions give, in the form of the request.
type exchange struct {
	functions function.Caller
	deferred  Deferred // may be nil
	limits    event.Limits
	bodies    *Bodies
	logger    *slog.Logger
	source    string // of the answer to a request of which no event can be read
}

// maxAnswers is how many bytes the answers of one request may have together.
const maxAnswers = 32 << 20

// limitAnswers is its name.
const limitAnswers = "bytes of all answers"

// call is one event on its way to one function.
type call struct {
	function.Call

	err error // why there is nothing to call
}

// serve answers a request. Each of its events becomes calls, which are made one after the other. When there is one
// event and one call, the status is that of its answer; else the answers are a batch, in which events with errors stand
// for those that failed.
func (x exchange) serve(w http.ResponseWriter, r *http.Request, calls func(e event.Event) []call) {
	events, form, done, err := x.bodies.read(w, r, x.limits)
	defer done()
	if err != nil {
		// net/http takes a sender who is too slow for one who left.
		x.fail(w, r.WithContext(context.WithoutCancel(r.Context())), form, x.faulty(), err)
		return
	}
	answers, size := make([]event.Event, 0, len(events)), 0
	for _, e := range events {
		made := calls(e)
		if form != event.Batch && len(made) == 1 && x.defers(w, r, form, made[0]) {
			return
		}
		for _, c := range made {
			answer, err := x.make(r.Context(), w.Header(), &c)
			if err != nil && form != event.Batch && len(made) == 1 {
				x.fail(w, r, form, c.Event, err)
				return
			}
			if size += event.SizeOf(answer); err == nil && size > maxAnswers {
				err = landfall.Wrapf("invoke.serve", landfall.Internal, &function.Error{Reason: function.ReasonTooLarge},
					"the answers of the request are too large: the limit %q is %d", limitAnswers, maxAnswers)
			}
			if err != nil {
				answer = function.ErrorEvent(c.Event, err, StatusOf(err))
			}
			answers = append(answers, answer)
		}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(x.bodies.limit())) // a writer that has no connection has none
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	if err := event.Write(w, http.StatusOK, form, answers...); err != nil && r.Context().Err() == nil {
		x.logger.WarnContext(r.Context(), "an answer could not be written", "path", r.URL.Path, "error", err)
	}
}

// make makes the call, and says in the headers what answers it. Of several calls that is the last one; each answer
// names its own execution.
func (x exchange) make(ctx context.Context, h http.Header, c *call) (event.Event, error) {
	if c.err != nil {
		return event.Event{}, c.err
	}
	c.name(h)
	return x.functions.Call(ctx, c.Call)
}

// defers answers a request that does not wait for the function, and reports whether it is one.
func (x exchange) defers(w http.ResponseWriter, r *http.Request, form event.Form, c call) bool {
	if c.err != nil || c.Function == nil || x.deferred == nil {
		return false
	}
	c.name(w.Header())
	done, err := x.deferred(w, r, c.Call)
	if err != nil {
		x.fail(w, r, form, c.Event, err)
	}
	return done
}

// name gives the call an execution, and says in the headers what answers.
func (c *call) name(h http.Header) {
	execution := uuid.NewString()
	event.SetExecution(&c.Event, execution)
	h.Set(ExecutionHeader, execution)
	h.Del(ReleaseHeader)
	if c.Trigger != nil {
		h.Set(ReleaseHeader, string(c.Trigger.Release))
	}
	h.Del(VersionHeader)
	if c.Function != nil {
		h.Set(VersionHeader, string(c.Function.Version))
	}
}

// faulty stands for a request of which no event can be read.
func (x exchange) faulty() event.Event {
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetSource(x.source)
	e.SetType("dev.landfall.error")
	return e
}

// fail answers with an event that says what went wrong.
func (x exchange) fail(w http.ResponseWriter, r *http.Request, form event.Form, request event.Event, err error) {
	status := StatusOf(err)
	if _, refused := errors.AsType[*contract.MismatchError](err); refused {
		w.Header().Del(ExecutionHeader)
		_ = event.Write(w, status, form, function.ErrorEvent(request, err, status)) // the client may be gone
		return
	}
	if after := function.RetryAfter(err); after != "" {
		w.Header().Set("Retry-After", after)
	}
	if r.Context().Err() == nil { // else the client is gone, or says no more, and still has to be told
		x.logger.WarnContext(r.Context(), "function not called", "path", r.URL.Path, "status", status, "execution",
			event.ExecutionOf(request), "error", err)
	}
	_ = event.Write(w, status, form, function.ErrorEvent(request, err, status)) // the client may be gone
}
