package invoke_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/registry"
)

// triggers are those that any event is for.
type triggers struct {
	found []*registry.Trigger
	err   error
	run   func(t *registry.Trigger, e event.Event) (event.Event, error)
}

// Find implements invoke.Triggers.
func (m triggers) Find(event.Event) ([]*registry.Trigger, error) { return m.found, m.err }

// Call implements invoke.Triggers.
func (m triggers) Call(_ context.Context, c function.Call) (event.Event, error) {
	return m.run(c.Trigger, c.Event)
}

// events returns the door of triggers, for tokens that may invoke the app that they are called by.
func events(m triggers) http.Handler {
	return invoke.Confined(&invoke.Events{
		Triggers: m, Logger: slog.New(slog.NewJSONHandler(&logtest.Buffer{}, nil)),
		Limits: event.Limits{Bytes: 1000, Events: 3}, Admit: func(r *http.Request) (func(app string) bool, error) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if token == "" {
				return nil, &landfall.Error{Op: "test", Kind: landfall.Unauthorized, Message: "send a token"}
			}
			return func(app string) bool { return app == token || token == "all" }, nil
		},
	})
}

func bound(app, name string) *registry.Trigger {
	return &registry.Trigger{App: app, Name: name, Release: "rrrrrrr2", Function: hello()}
}

// byName answers with the name of the trigger, which it also adds to the event.
func byName(t *registry.Trigger, e event.Event) (event.Event, error) {
	if seen, there := e.Extensions()["seen"]; there {
		return event.Event{}, errors.New("another trigger's attribute: " + seen.(string))
	}
	e.SetExtension("seen", t.Name)
	answer := event.Answer(e, "answer")
	event.SetExecution(&answer, event.ExecutionOf(e))
	err := answer.SetData("text/plain", "by "+t.Name)
	return answer, err
}

// An event for several triggers fires all that the token may invoke, each with an event of its own, and the answers are
// a batch.
func TestEventsForSeveral(t *testing.T) {
	t.Parallel()
	h := events(triggers{found: []*registry.Trigger{bound("shop", "a"), bound("zoo", "b"), bound("shop", "c")},
		run: byName})
	for token, want := range map[string]string{"all": "by a,by b,by c", "shop": "by a,by c"} {
		for name, body := range map[string]string{"1.0": greet, "0.1": old} {
			w := ask(h, "POST", invoke.FirePath, token, "application/json", body)
			var got []string
			for i, part := range strings.Split(w.Body.String(), `"data":"`) {
				if i > 0 {
					said, _, _ := strings.Cut(part, `"`)
					got = append(got, said)
				}
			}
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/cloudevents-batch+json" ||
				strings.Join(got, ",") != want {
				t.Errorf("%s of %s: got %d %s, want a batch of %s", name, token, w.Code, w.Body, want)
			}
		}
	}
	w := ask(h, "POST", invoke.RunPath, "zoo", structured, greet)
	if w.Header().Get("Content-Type") != structured || w.Header().Get(invoke.ReleaseHeader) != "rrrrrrr2" ||
		w.Header().Get(invoke.VersionHeader) != "owf2k7qa" {
		t.Errorf("got %s with %v, want one event, its release and version", w.Body, w.Header())
	}
}

// An error of the trigger manager has the fields that a function's has: alone, and in a batch.
func TestErrorOfManager(t *testing.T) {
	t.Parallel()
	slow := &landfall.Error{Message: "too slow", Err: &function.Error{Reason: function.ReasonTimeout, Trace: "line 7"}}
	for name, c := range map[string]struct {
		found  []*registry.Trigger
		err    error
		names  string // of the extensions
		status int
	}{
		"none found": {nil, nil, "eventtypeversion,protocol", http.StatusNotFound},
		"too slow": {[]*registry.Trigger{bound("shop", "a")}, slow, "eventtypeversion,execution,protocol",
			http.StatusGatewayTimeout},
		"in a batch": {[]*registry.Trigger{bound("shop", "a"), bound("shop", "b")}, slow,
			"eventtypeversion,execution,protocol", http.StatusGatewayTimeout},
	} {
		h := events(triggers{found: c.found, run: func(*registry.Trigger, event.Event) (event.Event, error) {
			return event.Event{}, c.err
		}})
		sent := strings.Replace(old, `"event-type"`, `"event-type-version":"v1.5","event-type"`, 1)
		body := strings.Trim(ask(h, "POST", invoke.RunPath, "shop", structured, sent).Body.String(), "[]")
		if len(c.found) > 1 {
			body, _, _ = strings.Cut(body, "},{")
			body += "}"
		}
		answer, _, err := event.Parse([]byte(body))
		if err != nil {
			t.Fatalf("%s: %s: %v", name, body, err)
		}
		fault, _, err := event.ErrorOf(answer)
		p, _ := event.ProtocolOf(answer)
		names := strings.Replace(strings.Join(slices.Sorted(maps.Keys(answer.Extensions())), ","), "error,", "", 1)
		// E-019, E-020: the manager's own error has content type, time, and the extensions of a function's
		if err != nil || fault.Message == "" || answer.Time().IsZero() || answer.DataContentType() != "application/json" ||
			names != c.names || answer.Extensions()["eventtypeversion"] != "v1.5" || p.Status != c.status ||
			!slices.Equal(p.Headers["Content-Type"], []string{"application/json"}) {
			t.Errorf("%s: got %s with %s and %+v, %v", name, body, names, p, err)
		}
	}
}

// A sender of webhooks that asks whether it may send is told so, without a token, at every address that takes events,
// whatever is there.
func TestValidation(t *testing.T) {
	t.Parallel()
	all, one := events(triggers{}), door(echo)
	for path, h := range map[string]http.Handler{invoke.RunPath: all, invoke.FirePath: all, path: one,
		"/functions/default/nobody": one} {
		r := httptest.NewRequest(http.MethodOptions, path, http.NoBody)
		r.Header.Set("Webhook-Request-Origin", "sender.example.com")
		r.Header.Set("Webhook-Request-Callback", "http://sender.example.com/confirm")
		r.Header.Set("Webhook-Request-Rate", "120")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Webhook-Allowed-Origin") != "*" ||
			w.Header().Get("Webhook-Allowed-Rate") != "*" || w.Header().Get("Allow") != "POST" || w.Body.Len() > 0 {
			t.Errorf("%s: got %d with %v, want the leave to send", path, w.Code, w.Header())
		}
		if other := ask(h, http.MethodOptions, path, "", "", ""); other.Code != http.StatusMethodNotAllowed ||
			other.Header().Get("Webhook-Allowed-Origin") != "" {
			t.Errorf("%s, which nobody asked to validate: got %d with %v", path, other.Code, other.Header())
		}
	}
}

// Why an event was not answered is said as at the door of one function.
func TestEventsFail(t *testing.T) {
	t.Parallel()
	busy := &landfall.Error{Kind: landfall.Unavailable, Message: "all are at work",
		Err: &function.Error{Reason: function.ReasonBusy, RetryAfter: 1500 * time.Millisecond}}
	for name, c := range map[string]struct {
		found  []*registry.Trigger
		find   error
		run    error
		status int
		retry  string
	}{
		"nothing":       {nil, nil, nil, http.StatusNotFound, ""},
		"another app's": {[]*registry.Trigger{bound("zoo", "a")}, nil, nil, http.StatusNotFound, ""},
		"not read yet": {nil, &landfall.Error{Kind: landfall.Unavailable, Message: "wait"}, nil,
			http.StatusServiceUnavailable, "1"}, "not readable": {nil,
			&landfall.Error{Kind: landfall.Invalid, Message: "protocol"}, nil, http.StatusBadRequest, ""},
		"busy": {[]*registry.Trigger{bound("shop", "a")}, nil, busy, http.StatusServiceUnavailable, "2"},
		"timeout": {[]*registry.Trigger{bound("shop", "a")}, nil,
			&landfall.Error{Err: &function.Error{Reason: function.ReasonTimeout}}, http.StatusGatewayTimeout, ""},
		"ended": {[]*registry.Trigger{bound("shop", "a")}, nil, &landfall.Error{Err: &function.Error{Reason: function.ReasonExit}},
			http.StatusBadGateway, ""}, "gone": {[]*registry.Trigger{bound("shop", "a")}, nil,
			&landfall.Error{Kind: landfall.NotFound}, http.StatusBadGateway, ""},
	} {
		h := events(triggers{c.found, c.find, func(_ *registry.Trigger, e event.Event) (event.Event, error) {
			return e, c.run
		}})
		w := ask(h, "POST", invoke.FirePath, "shop", structured, greet)
		if w.Code != c.status || w.Header().Get("Retry-After") != c.retry || !strings.Contains(w.Body.String(), `"error":`) {
			t.Errorf("%s: got %d %q %s, want %d %q", name, w.Code, w.Header().Get("Retry-After"), w.Body, c.status, c.retry)
		}
		if ran := w.Header().Get(invoke.ExecutionHeader) != ""; ran != (c.run != nil) {
			t.Errorf("%s: whether there is an execution is %t", name, ran)
		}
	}
}

// What requests hold of memory is bounded for all of them, and so is the time for which they hold it: one that says
// that it is large and sends nothing takes neither from others.
func TestBodies(t *testing.T) {
	t.Parallel()
	h := &invoke.Events{
		Triggers: triggers{found: []*registry.Trigger{bound("shop", "a")}, run: byName},
		Logger:   slog.New(slog.DiscardHandler), Admit: func(*http.Request) (func(app string) bool, error) {
			return func(string) bool { return true }, nil
		},
		Bodies: invoke.Bodies{Bytes: 3 * int64(len(greet)) / 2, Limit: 100 * time.Millisecond},
	}
	server := httptest.NewServer(h)
	defer server.Close()
	send := func(promised int, body string) net.Conn {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "POST /run HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", structured,
			promised, body)
		return c
	}
	status := func(c net.Conn) int {
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	for range 5 { // one after the other, all are answered
		if got := status(send(len(greet), greet)); got != http.StatusOK {
			t.Fatalf("got %d", got)
		}
	}
	if got := status(send(len(greet)+1, greet)); got != http.StatusBadRequest {
		t.Errorf("one that does not end: got %d", got)
	}
	h.Bodies.Bytes = int64(len(greet)) - 1
	if got := status(send(len(greet), greet)); got != http.StatusServiceUnavailable {
		t.Errorf("one too many: got %d", got)
	}
}

// The answers of one request have a bound together, wherever in them the bytes are, and what is beyond is an error.
func TestEventsTooLarge(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 20<<20)
	for where, fill := range map[string]func(answer *event.Event){
		"data":      func(answer *event.Event) { _ = answer.SetData("text/plain", large) },
		"attribute": func(answer *event.Event) { answer.SetExtension("large", large) },
		"subject":   func(answer *event.Event) { answer.SetSubject(large) },
		"error":     func(answer *event.Event) { event.SetError(answer, event.Error{Message: large}) },
	} {
		h := events(triggers{found: []*registry.Trigger{bound("shop", "a"), bound("shop", "b")},
			run: func(_ *registry.Trigger, e event.Event) (event.Event, error) {
				answer := event.Answer(e, "answer")
				fill(&answer)
				return answer, nil
			}})
		w := ask(h, "POST", invoke.FirePath, "shop", structured, greet)
		if w.Code != http.StatusOK || strings.Count(w.Body.String(), large) != 1 ||
			!strings.Contains(w.Body.String(), "bytes of all answers") {
			t.Errorf("%s: got %d and %d bytes, want one answer and an error that names the limit", where, w.Code, w.Body.Len())
		}
	}
}

// Who says no more after the request, and is taken for gone, is not told that all is well.
func TestEventsCanceled(t *testing.T) {
	t.Parallel()
	h := events(triggers{found: []*registry.Trigger{bound("shop", "a")},
		run: func(*registry.Trigger, event.Event) (event.Event, error) {
			return event.Event{}, &landfall.Error{Op: "test", Kind: landfall.Canceled, Message: "the call was given up"}
		}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, invoke.FirePath, strings.NewReader(greet))
	r.Header.Set("Authorization", "Bearer shop")
	r.Header.Set("Content-Type", structured)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "given up") {
		t.Errorf("got %d and %q, want that the call was given up", w.Code, w.Body)
	}
}
