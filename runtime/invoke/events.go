package invoke

import (
	"errors"
	"log/slog"
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
)

// The paths where Events is served: both are the same.
const (
	RunPath  = "/run"
	FirePath = "/fire"
)

// Triggers is the trigger manager.
type Triggers interface {
	function.Caller

	// Find returns the triggers that an event is for. Invalid when the event says something that cannot be read.
	Find(e event.Event) ([]*registry.Trigger, error)
}

// Events takes events for whatever triggers they are for, of which their sender knows nothing. Its fields are set
// before the first request.
type Events struct {
	Triggers Triggers

	// Admit returns of which apps the request may invoke functions. Unauthorized when nobody knows who asks, Forbidden
	// when it may not invoke any.
	Admit func(r *http.Request) (may func(app string) bool, err error)

	Deferred Deferred // nil: every request waits
	Limits   event.Limits
	Bodies   Bodies
	Logger   *slog.Logger
}

// errNoTrigger is the cause of an error about an event that is for no trigger.
var errNoTrigger = errors.New("no trigger")

// ServeHTTP implements http.Handler.
func (h *Events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if validated(w, r) {
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		problem(w, &statusError{http.StatusMethodNotAllowed, "events are sent by POST"})
		return
	}
	may, err := h.Admit(r)
	if err != nil {
		problem(w, err)
		return
	}
	exchange{h.Triggers, h.Deferred, h.Limits, &h.Bodies, h.Logger, r.URL.Path}.serve(w, r, func(e event.Event) []call {
		return h.calls(may, e)
	})
}

// calls returns a call for each trigger that an event is for, of apps that may be invoked. When there is none, it is
// one that says so: it is not told whether there are others.
func (h *Events) calls(may func(app string) bool, e event.Event) []call {
	found, err := h.Triggers.Find(e)
	var calls []call
	for _, t := range found {
		if !may(t.App) {
			continue
		}
		for _, f := range t.Targets() {
			own := e
			own.Context = e.Context.Clone()
			calls = append(calls, call{Call: function.Call{Function: f, Trigger: t, Event: own}})
		}
	}
	if err == nil && len(calls) == 0 {
		err = landfall.Wrapf("invoke.Events", landfall.NotFound, errNoTrigger,
			"no trigger of an app that the token may invoke has the source of the event; it would be "+
				"/r/NAMESPACE/APP/TRIGGER, the URL of a route, or NAMESPACE.APP.TOPIC")
	}
	if err != nil {
		return []call{{Call: function.Call{Event: e}, err: err}}
	}
	return calls
}
