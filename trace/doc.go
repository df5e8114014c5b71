// Package trace makes the spans of OpenTelemetry: who waited for whom, from a push to its release, and from a request to its
// function. It is the only room that speaks OpenTelemetry.
//
// Whoever starts the server turns it on, by the environment variables that OpenTelemetry's specification has for every program:
// OTEL_EXPORTER_OTLP_ENDPOINT says where spans go. Without it there is no Tracer. Every method of a nil Tracer returns at once: it
// allocates nothing, starts nothing and connects to nothing.
//
// # What is believed
//
// Anybody may send a traceparent. A request's is a link of the span that answers it, and never its parent: strangers neither choose
// what is recorded nor write into the traces of others. An event that has a traceparent came from somebody with a token, or from a
// queue of the app. It keeps its own, as the extension for distributed tracing of CloudEvents wants it, so that the function
// goes on with the trace of who made the event.
//
// # What is told
//
// Spans have names, numbers, kinds of errors, and the path of a call that Landfall makes itself. They have no text of an error, no
// address that a visitor typed, no query, no header and no body.
package trace
