// Package trace makes the spans of OpenTelemetry: they show who waited for whom, from a push to its release, and from a
// request to its function. No other room uses OpenTelemetry.
//
// The operator turns it on by the environment variables of OpenTelemetry's specification: OTEL_EXPORTER_OTLP_ENDPOINT
// says where spans are sent. Without it there is no Tracer. Every method of a nil Tracer returns at once: it allocates
// nothing, starts nothing and connects to nothing.
//
// # What is believed
//
// Anybody may send a traceparent. That of a request becomes a link of the span for the request, and never its parent:
// strangers can neither choose what is recorded nor write into the traces of others. An event with a traceparent comes
// from somebody with a token, or from a queue of the app. It keeps its traceparent, according to the extension for
// distributed tracing of CloudEvents, so that the function continues the trace of the event's maker.
//
// # What is told
//
// Spans have names, numbers, kinds of errors, and the path of a call that Landfall makes itself. They have no text of
// an error, no address that a visitor typed, no query, no header and no body.
package trace
