package rpc

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/secret"
)

// maxEvent is how many bytes an event may have between roles: more than any endpoint takes, also when its data becomes
// base64.
const maxEvent = 16 << 20

const (
	maxCalls  = 1024             // under way at one gate
	bodyLimit = 30 * time.Second // for the event to arrive
)

// knows reports whether a request has the secret that roles share. Nobody knows an empty one.
func knows(r *http.Request, role secret.Text) bool {
	return auth.Equal(auth.BearerOf(r), role.Reveal())
}

// Roles gives requests that have the secret of the roles to one handler, and all others to the other one.
func Roles(role secret.Text, known, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if knows(r, role) {
			known.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// gate is what the address /run is at a runner and at a router alike. Its zero value is open.
type gate struct {
	mu       sync.Mutex
	calls    int
	stopping bool
}

// served says what is behind a gate.
type served struct {
	Secret  secret.Text
	Healthy func() error                                                               // nil: while it does not stop
	Answer  func(w http.ResponseWriter, r *http.Request, event []byte, rest *incoming) // nil: nothing follows the event
}

// Drain lets no event in any more; those that are in come out. Who asks for the health is told.
func (g *gate) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
}

// health is what GET tells about a gate.
type health struct {
	Calls int `json:"calls"` // under way
}

// Serve answers a request: POST is a call, GET asks for the health. Who does not know the secret is told nothing.
func (g *gate) Serve(w http.ResponseWriter, r *http.Request, s served) {
	w.Header().Set("Cache-Control", "no-store")
	if inParts(r) {
		w.Header().Set("Connection", "close") // what is left of a body is nobody's request
	}
	switch {
	case !knows(r, s.Secret):
		unauthorized(w)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		g.health(w, r, s.Healthy)
	case r.Method == http.MethodPost:
		g.call(w, r, s.Answer)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "Events are sent by POST; GET asks for the health.", http.StatusMethodNotAllowed)
	}
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set(auth.Challenge())
	http.Error(w, "This address is for the processes of the server: Authorization: Bearer ROLE_SECRET.",
		http.StatusUnauthorized)
}

func (g *gate) health(w http.ResponseWriter, r *http.Request, healthy func() error) {
	g.mu.Lock()
	health, stopping := health{g.calls}, g.stopping
	g.mu.Unlock()
	var err error
	switch {
	case stopping:
		err = errStopping()
	case healthy != nil:
		err = healthy()
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	write(w, health)
}

func errStopping() error { return refused("the process is stopping", nil) }

// call reads an event and has it answered.
func (g *gate) call(w http.ResponseWriter, r *http.Request,
	answer func(http.ResponseWriter, *http.Request, []byte, *incoming)) {
	if err := g.enter(); err != nil {
		w.Header().Set("Connection", "close") // or net/http would read the event first
		refuse(w, r, err)
		return
	}
	defer g.leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // a writer that has no connection has no deadline
	var body []byte
	var rest *incoming
	var err error
	if inParts(r) {
		if body, rest, err = receive(w, r); rest != nil {
			defer rest.end()
		}
	} else {
		body, err = readBody(r)
	}
	if err != nil {
		w.Header().Set("Connection", "close")
		writeError(w, r, event.Structured, standIn(), err)
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	answer(w, r, body, rest)
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopping:
		return errStopping()
	case g.calls >= maxCalls:
		return landfall.Wrapf("call", landfall.Unavailable, &function.Error{Reason: function.ReasonBusy,
			RetryAfter: time.Second}, "%d calls are under way, which is the limit of the process; try again later", maxCalls)
	}
	g.calls++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
}

func readBody(r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if r.ContentLength <= maxEvent {
		body.Grow(int(min(max(r.ContentLength, 0), atFirst)) + bytes.MinRead)
		if _, err := body.ReadFrom(io.LimitReader(r.Body, maxEvent+1)); err != nil {
			return nil, landfall.Wrapf("call", landfall.Invalid, err, "the event could not be read to its end")
		}
	}
	if r.ContentLength > maxEvent || body.Len() > maxEvent {
		return nil, tooLarge()
	}
	return body.Bytes(), nil
}

func tooLarge() error {
	return landfall.Wrapf("call", landfall.Invalid, &event.TooLargeError{Limit: "event bytes", Max: maxEvent},
		"the event is too large: the limit between roles is %d bytes", maxEvent)
}

// inFrames reports whether who asks takes an answer in frames.
func inFrames(r *http.Request) bool { return r.Header.Get("Accept") == contentType }

// inPieces reports whether who asks takes an answer while it is made.
func inPieces(r *http.Request) bool { return inFrames(r) && r.Header.Get(streamHeader) != "" }

// These are why a function did not begin, in refusedHeader.
const (
	busy     = "busy"     // as many executions as may be are under way
	stopping = "stopping" // the process is, and takes no other call either
)

// refuse answers that the function did not begin, and that the process takes no events.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if reasonOf(err) != function.ReasonBusy {
		w.Header().Set(refusedHeader, stopping)
	}
	writeError(w, r, event.Structured, standIn(), err)
}

// reasonOf returns why a function gave no answer; empty when that is not its doing.
func reasonOf(err error) function.Reason {
	if fault, ok := errors.AsType[*function.Error](err); ok {
		return fault.Reason
	}
	return ""
}

// standIn stands for a request of which no event was read.
func standIn() event.Event {
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetSource(invoke.RunPath)
	e.SetType("dev.landfall.error")
	return e
}

// writeError answers with an error: in a frame to who takes it, else by an event in a form that answers the request's.
// That the function was busy says also that it did not begin.
func writeError(w http.ResponseWriter, r *http.Request, form event.Form, request event.Event, err error) {
	h := w.Header()
	status := invoke.StatusOf(err)
	if reasonOf(err) == function.ReasonBusy {
		h.Set(refusedHeader, busy)
	}
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	if !inFrames(r) {
		_ = event.Write(w, status, form, function.ErrorEvent(request, err, status)) // the caller may be gone
		return
	}
	writeFrames(w, status, appendFrame(nil, errorFrame, encodeFault(err)))
}

// writeFrames answers with frames, which are all that there is.
func writeFrames(w http.ResponseWriter, status int, frames []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(frames)))
	w.WriteHeader(status)
	_, _ = w.Write(frames) // the caller may be gone
}
