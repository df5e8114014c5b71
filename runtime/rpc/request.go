package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
)

// request is a call on its way out: it may be sent to one process after the other.
type request struct {
	Header http.Header
	Body   []byte

	function  string // its ID, for the log
	execution string
	to        function.Stream // takes an answer while it is made; nil: nobody does
	body      function.Body   // follows the event; nil: there is none

	accept, over func() // of the process to which it was sent
}

// newRequest returns a call of a function, to be answered in frames. Its body is read when a process has begun to read
// it, and from then on by that one alone. Invalid when the event cannot be written, or is too large.
func newRequest(c function.Call) (*request, error) {
	f, e := c.Function, c.Event
	execution := event.ExecutionOf(e)
	if execution == "" {
		execution = uuid.NewString()
		e = e.Clone()
		event.SetExecution(&e, execution)
	}
	body, err := event.Append(nil, event.Structured, e)
	if err != nil {
		return nil, landfall.Wrapf("rpc.NewRequest", landfall.Invalid, err, "the event cannot be written as JSON")
	}
	if len(body) > maxEvent {
		return nil, tooLarge()
	}
	q := &request{function: f.ID, execution: execution, to: c.Stream, Body: body, Header: http.Header{
		"Accept":        {contentType},
		"Content-Type":  {"application/cloudevents+json"},
		functionHeader:  {nameOf(f).String()},
		resourcesHeader: {resourcesText(f.Resources)},
	}}
	if q.to != nil {
		q.Header.Set(streamHeader, "yes")
	}
	if f.Body > 0 && c.Body != nil {
		q.upload(c.Body)
	}
	return q, nil
}

// forwarded are the headers of a request that are sent on as they are, beside the attributes of an event in binary
// form.
func forwarded() []string {
	return []string{"Accept", "Content-Type", "Traceparent", "Tracestate", functionHeader, resourcesHeader, streamHeader}
}

// forward returns the call that a request is, to be sent on as it came, with what follows its event; nil: nothing does.
// Invalid when it names no function. The event is read only when it is needed, and is what stands for the request
// otherwise.
func forward(r *http.Request, body []byte, rest *incoming) (q *request, form event.Form, e event.Event, err error) {
	q = &request{Header: http.Header{}, Body: body}
	if rest != nil {
		q.upload(rest)
	}
	for _, name := range forwarded() {
		if value := r.Header.Get(name); value != "" {
			q.Header.Set(name, value)
		}
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Ce-") {
			q.Header[name] = values
		}
	}
	if inFrames(r) && q.Header.Get(functionHeader) != "" {
		return q, event.Structured, standIn(), nil
	}
	if e, form, err = readEvent(r, body); err != nil {
		return nil, form, standIn(), err
	}
	name, err := named(r.Header, e)
	if err != nil {
		return nil, form, e, err
	}
	q.Header.Set(functionHeader, name.String())
	return q, form, e, nil
}

// Timeout returns how long the function may take, as far as the request says; 0 when it does not.
func (q *request) Timeout() time.Duration {
	resources, _ := parseResources(q.Header.Get(resourcesHeader)) // who runs it says what is wrong
	return resources.Timeout
}

// To returns the HTTP request by which it is sent to a process.
func (q *request) To(ctx context.Context, address string, role secret.Text) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+invoke.RunPath, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		q.parts(r)
	}
	maps.Copy(r.Header, q.Header)
	auth.SetBearer(r, role.Reveal())
	return r, nil
}

// Answer reads the answer to the request, and passes on what the function logged, and what is streamed. Its errors are
// those of runner.Runner.Run.
func (q *request) Answer(answer *http.Response, logs runner.Logs) (event.Event, error) {
	if answer.Header.Get("Content-Type") != contentType {
		return event.Event{}, strange(answer)
	}
	q.Accept(answer)
	limits := map[byte]int{logFrame: maxLog, answerFrame: maxAnswer, errorFrame: maxFault}
	if q.to != nil {
		limits[headFrame] = maxAnswer
	}
	for {
		kind, text, err := readFrame(answer.Body, limits)
		switch {
		case err != nil:
			return event.Event{}, lost(err)
		case kind == logFrame:
			limits[logFrame] -= len(text)
			if logs != nil {
				logs.Log(q.function, q.execution, text)
			}
		case kind == headFrame:
			delete(limits, headFrame)
			limits[pieceFrame] = maxPiece
			if err := q.begin(text); err != nil {
				return event.Event{}, err
			}
		case kind == pieceFrame:
			if _, err := q.to.Write(text); err != nil {
				return event.Event{}, runner.Untaken(err)
			}
		default:
			return q.last(answer.Body, kind, text)
		}
	}
}

// begin begins an answer that is streamed.
func (q *request) begin(text []byte) error {
	e, err := q.event(text)
	if err != nil {
		return err
	}
	return q.to.Begin(e)
}

// event returns the event of a frame.
func (q *request) event(text []byte) (event.Event, error) {
	e, _, err := event.Parse(text)
	if err != nil {
		return event.Event{}, lost(err)
	}
	event.SetExecution(&e, q.execution)
	return e, nil
}

// last returns what the last frame says.
func (q *request) last(rest io.Reader, kind byte, text []byte) (event.Event, error) {
	if !atEnd(rest) { // to know lets the connection be used again
		return event.Event{}, lost(errFrame)
	}
	if kind == errorFrame {
		if err := decodeFault("call", text); err != nil {
			return event.Event{}, err
		}
		return event.Event{}, lost(errFrame)
	}
	return q.event(text)
}

// errStrange is the cause of an error about an answer that no runner or router gives.
var errStrange = errors.New("what answered is no runner and no router")

// strange returns the error for an answer that is none of ours.
func strange(answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return refused("the function cannot be run: what runs it does not know this server's role secret", nil)
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return refused("the function cannot be run: where it is run, nothing runs functions", errStrange)
	}
	return lost(errStrange)
}
