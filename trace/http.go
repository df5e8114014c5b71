package trace

import (
	"net/http"
	"strconv"
	"strings"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Serve begins the span of a request, whose route is a pattern, and returns the request with the span. The
// span begins a trace: a trace in the request is only a link. Answered ends the span.
func (t *Tracer) Serve(r *http.Request, pattern string) (*http.Request, Span) {
	if t == nil {
		return r, Span{}
	}
	route := pattern[max(0, strings.IndexByte(pattern, '/')):] // after the method and the host
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(methodOf(r), semconv.HTTPRoute(route)),
	}
	if from := contextOf(r.Header.Get("Traceparent")); from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := t.start(r.Context(), knownMethod(r.Method)+" "+route, options...)
	return r.WithContext(ctx), span
}

// Answered ends the span of a request with the status of the answer; 0 when there was none.
func (s Span) Answered(status int) {
	s.answered(status, http.StatusInternalServerError)
	s.End(nil)
}

// other stands for unknown methods, of which a stranger can invent any number.
const other = "_OTHER"

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return other
}

func methodOf(r *http.Request) Attribute {
	return semconv.HTTPRequestMethodKey.String(knownMethod(r.Method))
}

// Handler gives each request that next answers a span. pattern is the route of next. For a nil Tracer it returns next.
func (t *Tracer) Handler(pattern string, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, span := t.Serve(r, pattern)
		noted := &statusRecorder{ResponseWriter: w}
		defer func() { span.Answered(noted.status) }()
		next.ServeHTTP(noted, r)
	})
}

// statusRecorder records the status of the answer.
type statusRecorder struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (s *statusRecorder) WriteHeader(status int) {
	if s.status < http.StatusOK { // not the final status, but an informational one
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.status < http.StatusOK {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Transport gives each request that is made within a span a span below it. The receiver is not told about it. For a nil
// Tracer it returns next.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{t, next}
}

type transport struct {
	tracer *Tracer
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.next.RoundTrip(r)
	}
	attributes := []Attribute{methodOf(r), semconv.ServerAddress(r.URL.Hostname()), semconv.URLPath(r.URL.Path)}
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	ctx, span := t.tracer.Call(r.Context(), "", knownMethod(r.Method), attributes...)
	answer, err := t.next.RoundTrip(r.WithContext(ctx))
	if err == nil {
		span.answered(answer.StatusCode, http.StatusBadRequest)
	}
	span.End(err)
	return answer, err
}
