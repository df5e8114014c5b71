// Package invoke is the door by which a function is called by its name and version: GET tells what is needed to run it, and
// POST gives it CloudEvents.
package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// Path is where Handler is served: Path + NAMESPACE/NAME:SELECTOR.
const Path = "/functions/"

// The headers that name what answered.
const (
	VersionHeader   = "Landfall-Version"
	ExecutionHeader = "Landfall-Execution"
)

// Functions runs functions.
type Functions interface {
	// Run gives an event to a function and returns its answer. Its errors are those of runner.Runner.Run.
	Run(ctx context.Context, f *registry.Function, e event.Event) (event.Event, error)
}

// Action is what a request wants of a function.
type Action uint8

// The actions.
const (
	Read Action = iota // what is needed to run it
	Call
)

// Handler answers at Path. Its fields are set before the first request.
type Handler struct {
	// Find returns the function that a reference means. NotFound, with a sentence, when there is none.
	Find func(ctx context.Context, ref landfall.Reference) (*registry.Function, error)

	// Admit returns an error unless the request may do that with the function: Unauthorized when nobody knows who asks, NotFound
	// when it must not even know of it, Forbidden otherwise. Without a function it says whether there is any for which it may.
	Admit func(r *http.Request, action Action, f *registry.Function) error

	Functions Functions
	Limits    event.Limits
	Logger    *slog.Logger
}

// ServeHTTP implements http.Handler. Bytes that a function made leave with headers by which no browser runs them.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		w.Header().Set(name, value)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		f, err := h.find(r, Read)
		if err != nil {
			problem(w, err)
			return
		}
		write(w, http.StatusOK, "application/json", describe(f))
	case http.MethodPost:
		h.call(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		problem(w, &statusError{http.StatusMethodNotAllowed, "a function is shown by GET and called by POST"})
	}
}

// find returns the function that the request's path names.
func (h *Handler) find(r *http.Request, action Action) (*registry.Function, error) {
	if err := h.Admit(r, action, nil); err != nil {
		return nil, err
	}
	ref, err := landfall.ParseReference(strings.TrimPrefix(r.URL.Path, Path))
	if err != nil {
		return nil, &landfall.Error{Op: "invoke", Kind: landfall.NotFound, Message: "the address is " + Path + "NAMESPACE/NAME:VERSION", Err: err}
	}
	f, err := h.Find(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	return f, h.Admit(r, action, f)
}

// call gives the request's events to a function, one after the other, and answers in their form.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	f, err := h.find(r, Call)
	if err != nil {
		problem(w, err)
		return
	}
	w.Header().Set(VersionHeader, string(f.Version))
	events, form, err := event.Read(r, h.Limits)
	if err != nil {
		h.fail(w, r, form, faulty(f), err)
		return
	}
	answers := make([]event.Event, 0, len(events))
	for _, e := range events {
		execution := uuid.NewString()
		event.SetExecution(&e, execution)
		w.Header().Set(ExecutionHeader, execution) // of a batch the last one's; each answer names its own
		answer, err := h.Functions.Run(r.Context(), f, e)
		if err != nil && form != event.Batch {
			h.fail(w, r, form, e, err)
			return
		}
		if err != nil {
			answer = errorEvent(e, err)
		}
		answers = append(answers, answer)
	}
	if err := event.Write(w, http.StatusOK, form, answers...); err != nil && r.Context().Err() == nil {
		h.Logger.WarnContext(r.Context(), "an answer could not be written", "function", f.Name, "error", err)
	}
}

// faulty stands for a request of which no event can be read.
func faulty(f *registry.Function) event.Event {
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetSource(AddressOf(f))
	e.SetType("dev.landfall.error")
	return e
}

// AddressOf returns the path at which a function's version is called.
func AddressOf(f *registry.Function) string {
	return Path + f.Namespace + "/" + f.Name + ":" + string(f.Version)
}

// errorEvent is the answer to an event that has none.
func errorEvent(request event.Event, err error) event.Event {
	answer := event.Answer(request, uuid.NewString())
	if execution := event.ExecutionOf(request); execution != "" {
		event.SetExecution(&answer, execution)
	}
	event.SetError(&answer, runner.ErrorOf(err))
	return answer
}

// fail answers with an event that says what went wrong.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, form event.Form, request event.Event, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	status := StatusOf(err)
	if fault, ok := errors.AsType[*runner.FunctionError](err); ok && fault.Reason == runner.Busy {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(fault.RetryAfter.Seconds()))))
	}
	h.Logger.WarnContext(r.Context(), "function not called", "path", r.URL.Path, "status", status, "execution", event.ExecutionOf(request), "error", err)
	_ = event.Write(w, status, form, errorEvent(request, err)) // the client may be gone
}

// StatusOf returns the status for an error of reading an event or of Run: 413 and 400 for the request's faults, 503 while a
// function cannot be run, 504 when it did not answer in time, 502 for what it did instead of answering.
func StatusOf(err error) int {
	if _, large := errors.AsType[*event.TooLargeError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	if fault, ok := errors.AsType[*runner.FunctionError](err); ok {
		switch fault.Reason {
		case runner.Busy:
			return http.StatusServiceUnavailable
		case runner.Timeout:
			return http.StatusGatewayTimeout
		case runner.Exit, runner.Memory, runner.Protocol, runner.TooLarge:
		}
		return http.StatusBadGateway
	}
	switch landfall.KindOf(err) {
	case landfall.Invalid:
		return http.StatusBadRequest
	case landfall.Unavailable, landfall.Canceled, landfall.Forbidden:
		return http.StatusServiceUnavailable
	case landfall.Internal, landfall.NotFound, landfall.Conflict, landfall.Unauthorized:
	}
	return http.StatusBadGateway
}

// description is what a runner needs to run a function, and who made it knows, by the names of the Fn document. Resources that the
// function leaves to the runner are left out. Its configuration is named only: values may be secret.
type description struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Version   landfall.UID    `json:"version"`
	Number    int64           `json:"number"`
	URL       string          `json:"url"`
	Image     string          `json:"image,omitempty"`
	Entry     string          `json:"entrypoint,omitempty"`
	Package   landfall.Digest `json:"package,omitempty"`
	Resources resources       `json:"resources"`
	Config    []string        `json:"config"`
}

// resources are the document's ResourceConfig.
type resources struct {
	Memory      int64 `json:"memory,omitempty"` // bytes
	CPUs        int   `json:"cpus,omitempty"`   // thousandths
	Disk        int64 `json:"disk,omitempty"`   // bytes
	Timeout     int64 `json:"timeout,omitempty"`
	IdleTimeout int64 `json:"idle_timeout,omitempty"`
}

func describe(f *registry.Function) description {
	d := description{
		ID: AddressOf(f), Namespace: f.Namespace, Name: f.Name, Version: f.Version, Number: f.Number, URL: AddressOf(f),
		Image: f.Environment.Image, Entry: f.Entrypoint, Package: f.Package.Digest, Config: []string{},
		Resources: resources{
			Memory: f.Resources.Memory, CPUs: f.Resources.MilliCPU, Disk: f.Resources.Disk,
			Timeout: int64(f.Resources.Timeout.Seconds()), IdleTimeout: int64(f.Resources.IdleTimeout.Seconds()),
		},
	}
	for name := range f.Config {
		d.Config = append(d.Config, name)
	}
	slices.Sort(d.Config)
	return d
}

// statusError is an error with a status of its own.
type statusError struct {
	status  int
	message string
}

// Error implements error.
func (e *statusError) Error() string { return e.message }

// problem answers with problem details (RFC 9457).
func problem(w http.ResponseWriter, err error) {
	status, detail := http.StatusInternalServerError, landfall.MessageOf(err)
	if e, ok := errors.AsType[*statusError](err); ok {
		status, detail = e.status, e.message
	} else {
		switch landfall.KindOf(err) {
		case landfall.Invalid:
			status = http.StatusBadRequest
		case landfall.NotFound:
			status = http.StatusNotFound
		case landfall.Forbidden:
			status = http.StatusForbidden
		case landfall.Unauthorized:
			status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", `Bearer realm="landfall"`)
		case landfall.Unavailable, landfall.Canceled:
			status = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		case landfall.Internal, landfall.Conflict:
		}
	}
	write(w, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Kind   string `json:"kind"`
	}{http.StatusText(status), status, detail, landfall.KindOf(err).String()})
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
