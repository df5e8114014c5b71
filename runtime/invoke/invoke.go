// Package invoke has the endpoints at which programs give CloudEvents to functions: to one by its name and version, of
// which GET tells what is needed to run it, and to those of the triggers that an event is for.
package invoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/images"
)

// Path is where Handler is served: Path + NAMESPACE/NAME:SELECTOR.
const Path = "/functions/"

// The headers that name what answered.
const (
	ReleaseHeader   = "Landfall-Release"
	VersionHeader   = "Landfall-Version"
	ExecutionHeader = "Landfall-Execution"
)

// Deferred answers a request for one event that would rather not wait for the function, and reports whether it is one;
// with an error nothing was answered.
type Deferred func(w http.ResponseWriter, r *http.Request, c function.Call) (bool, error)

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
	Find func(ctx context.Context, ref landfall.Reference) (*landfall.Function, error)

	// Owner returns the id of the app whose function has a name. NotFound when there is none. nil: whoever may ask is told
	// which versions there are.
	Owner func(ctx context.Context, ref landfall.Reference) (app string, err error)

	// Admit returns an error unless the request may do that with the function: Unauthorized when nobody knows who asks,
	// NotFound when it must not even know of it, Forbidden otherwise. Without a function it says whether there is any for
	// which it may.
	Admit func(r *http.Request, action Action, f *landfall.Function) error

	Functions function.Caller // nil: this process calls none
	Deferred  Deferred        // nil: every request waits
	Host      string          // of the registry that functions are pulled from as images
	Limits    event.Limits
	Bodies    Bodies
	Logger    *slog.Logger
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if h.Functions != nil && validated(w, r) {
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		f, err := h.find(r, Read)
		if err != nil {
			problem(w, err)
			return
		}
		write(w, http.StatusOK, "application/json", describe(f, h.Host))
	case http.MethodPost:
		h.call(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		problem(w, &statusError{http.StatusMethodNotAllowed, "a function is shown by GET and called by POST"})
	}
}

// find returns the function that the request's path names.
func (h *Handler) find(r *http.Request, action Action) (*landfall.Function, error) {
	if err := h.Admit(r, action, nil); err != nil {
		return nil, err
	}
	ref, err := landfall.ParseReference(strings.TrimPrefix(r.URL.Path, Path))
	if err != nil {
		return nil, &landfall.Error{Op: "invoke", Kind: landfall.NotFound,
			Message: "the address is " + Path + "NAMESPACE/NAME:VERSION", Err: err}
	}
	f, err := h.Find(r.Context(), ref)
	if err != nil {
		return nil, h.missing(r, action, ref, err)
	}
	return f, h.Admit(r, action, f)
}

// missing returns err, which says which versions a function has, to who may know of the function; to others that there
// is none.
func (h *Handler) missing(r *http.Request, action Action, ref landfall.Reference, err error) error {
	if h.Owner == nil || landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	app, unknown := h.Owner(r.Context(), ref)
	if unknown != nil {
		return err // nobody knows of it
	}
	namespace := cmp.Or(ref.Namespace, landfall.DefaultNamespace)
	return cmp.Or(h.Admit(r, action, &landfall.Function{App: app, Namespace: namespace, Name: ref.Name}), err)
}

// Elsewhere answers in a process that has not the role which would answer.
func Elsewhere(role string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		problem(w, &statusError{http.StatusNotFound, "this process does not do this: ask one that has the role " + role})
	}
}

// call gives the request's events to a function, one after the other, and answers in their form.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	if h.Functions == nil {
		Elsewhere("trigger")(w, r)
		return
	}
	f, err := h.find(r, Call)
	if err != nil {
		problem(w, err)
		return
	}
	w.Header().Set(VersionHeader, string(f.Version))
	exchange{h.Functions, h.Deferred, h.Limits, &h.Bodies, h.Logger, AddressOf(f)}.serve(w, r, func(e event.Event) []call {
		return []call{{Call: function.Call{Function: f, Event: e}}}
	})
}

// AddressOf returns the path at which a function's version is called.
func AddressOf(f *landfall.Function) string {
	return Path + f.Namespace + "/" + f.Name + ":" + string(f.Version)
}

// StatusOf returns the status for an error of reading an event or of Run: 413, 400 and 404 for the request's faults,
// 503 while a function cannot be run, 504 when it did not answer in time, 502 for what it did instead of answering.
func StatusOf(err error) int {
	if _, large := errors.AsType[*event.TooLargeError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	if fault, ok := errors.AsType[*function.Error](err); ok {
		switch fault.Reason {
		case function.ReasonBusy:
			return http.StatusServiceUnavailable
		case function.ReasonTimeout:
			return http.StatusGatewayTimeout
		case function.ReasonExit, function.ReasonMemory, function.ReasonProtocol, function.ReasonTooLarge,
			function.ReasonLost:
		}
		return http.StatusBadGateway
	}
	if errors.Is(err, errNoTrigger) {
		return http.StatusNotFound
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

// description is what a runner needs to run a function, and who made it knows, by the names of the Fn document.
// Resources that the function leaves to the runner are left out. Its configuration is named only: values may be secret.
type description struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Version   landfall.UID    `json:"version"`
	Number    int64           `json:"number"`
	URL       string          `json:"url"`
	Image     string          `json:"image"`
	Runtime   runtime         `json:"environment"`
	Entry     string          `json:"entrypoint,omitempty"`
	Package   landfall.Digest `json:"package,omitempty"`
	Resources resources       `json:"resources"`
	Config    []string        `json:"config"`
	Contract  json.RawMessage `json:"contract,omitempty"`
}

// runtime is the environment, as its document has it.
type runtime struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
}

// resources are the document's ResourceConfig.
type resources struct {
	Memory      int64 `json:"memory,omitempty"` // bytes
	CPUs        int   `json:"cpus,omitempty"`   // thousandths
	Disk        int64 `json:"disk,omitempty"`   // bytes
	Timeout     int64 `json:"timeout,omitempty"`
	IdleTimeout int64 `json:"idle_timeout,omitempty"`
	KeepWarm    int   `json:"keep_warm,omitempty"` // ours: processes that do not sleep
}

func describe(f *landfall.Function, host string) description {
	d := description{
		ID: AddressOf(f), Namespace: f.Namespace, Name: f.Name, Version: f.Version, Number: f.Number, URL: AddressOf(f),
		Image:   path.Join(host, images.Reference(f)),
		Runtime: runtime{f.Environment.Name, f.Environment.Image}, Entry: f.Entrypoint, Package: f.Package.Digest,
		Config: []string{}, Resources: resources{
			Memory: f.Resources.Memory, CPUs: f.Resources.MilliCPU, Disk: f.Resources.Disk,
			Timeout: int64(f.Resources.Timeout.Seconds()), IdleTimeout: int64(f.Resources.IdleTimeout.Seconds()),
			KeepWarm: f.Resources.KeepWarm,
		},
		Contract: f.Contract,
	}
	for name := range f.Config {
		d.Config = append(d.Config, name)
	}
	slices.Sort(d.Config)
	return d
}

// statusError says that there is no such operation, with a status of its own.
type statusError struct {
	status  int
	message string
}

// Error implements error.
func (e *statusError) Error() string { return e.message }

// problem answers with problem details (RFC 9457).
func problem(w http.ResponseWriter, err error) {
	detail, kind := landfall.MessageOf(err), landfall.KindOf(err)
	status := kind.HTTPStatus()
	switch e, own := errors.AsType[*statusError](err); {
	case own:
		status, detail, kind = e.status, e.message, landfall.NotFound
	case kind == landfall.Unauthorized:
		w.Header().Set(auth.Challenge())
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case kind == landfall.Conflict: // it is nothing that the caller could resolve
		status = http.StatusInternalServerError
	}
	write(w, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Kind   string `json:"kind"`
	}{http.StatusText(status), status, detail, kind.String()})
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
