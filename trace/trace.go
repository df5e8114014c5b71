package trace

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"landfall.dev/landfall"
)

const name = "landfall.dev/landfall"

// Tracer makes spans. A nil one makes none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// Open returns a Tracer that sends spans to the address in the environment; nil when there is none. getenv is
// os.Getenv: the SDK reads the other variables (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_BSP_…) by itself. Invalid when a variable has a wrong value. The address need not be reachable; when it is
// not, that is logged.
func Open(ctx context.Context, getenv func(string) string, version string, logger *slog.Logger) (*Tracer, error) {
	s, wanted, err := read(getenv)
	if err != nil || !wanted {
		return nil, err
	}
	otel.SetLogger(logr.FromSlogHandler(logger.Handler()))
	otel.SetErrorHandler(&faults{logger: logger, often: rate.Sometimes{First: 1, Interval: time.Minute}})
	exporter, err := otlptrace.New(ctx, newClient(s))
	if err != nil {
		return nil, landfall.Wrapf("trace.Open", landfall.Internal, err, "traces cannot be sent")
	}
	of, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("landfall"), semconv.ServiceVersion(version)), resource.WithFromEnv())
	if err != nil {
		return nil, &landfall.Error{Op: "trace.Open", Kind: landfall.Invalid,
			Message: "OTEL_RESOURCE_ATTRIBUTES cannot be read: " + err.Error(), Err: err}
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(of))
	return &Tracer{provider.Tracer(name, trace.WithInstrumentationVersion(version)), provider}, nil
}

// faults logs errors of the delivery of spans, at intervals.
type faults struct {
	logger *slog.Logger
	often  rate.Sometimes
}

// Handle implements otel.ErrorHandler.
func (f *faults) Handle(err error) {
	f.often.Do(func() { f.logger.Warn("traces are not delivered", "error", err) })
}

// Close sends the remaining spans until ctx ends. No spans are made after it.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Span is work that takes a while. The zero Span records nothing.
type Span struct{ span trace.Span }

// Start begins a span below that of ctx.
func (t *Tracer) Start(ctx context.Context, name string, attributes ...Attribute) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.start(ctx, name, trace.WithAttributes(attributes...))
}

// Resume begins a span below one of another process, or of an earlier life of this one: parent is what Parent returned
// there. When parent is empty or wrong, it begins a trace.
func (t *Tracer) Resume(ctx context.Context, parent, name string, attributes ...Attribute) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.start(trace.ContextWithRemoteSpanContext(ctx, contextOf(parent)), name, trace.WithAttributes(attributes...))
}

// Call begins the span of a call to something else, below the span of ctx. told is the traceparent that the call gets,
// as Parent returns it, and the span has a link to it. Without a span in ctx, the new span is below told.
func (t *Tracer) Call(ctx context.Context, told, name string, attributes ...Attribute) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...)}
	switch from := contextOf(told); {
	case !from.IsValid():
	case trace.SpanContextFromContext(ctx).IsValid():
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	default:
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	}
	return t.start(ctx, name, options...)
}

func (t *Tracer) start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, Span) {
	ctx, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // who begins it ends it
	return ctx, Span{span}                             //nolint:spancheck // the same
}

const traceparent = "traceparent"

// Parent returns the span of ctx as a traceparent of W3C Trace Context; empty when there is none.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// contextOf returns the span in a traceparent; an invalid one when there is none.
func contextOf(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
	return trace.SpanContextFromContext(ctx)
}
