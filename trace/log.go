package trace

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Logger returns a logger that adds the trace of the context to its lines. For a nil Tracer it returns logger.
func (t *Tracer) Logger(logger *slog.Logger) *slog.Logger {
	if t == nil {
		return logger
	}
	return slog.New(handler{logger.Handler()})
}

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, line slog.Record) error {
	if of := trace.SpanContextFromContext(ctx); of.IsValid() {
		line.AddAttrs(slog.String("trace", of.TraceID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
