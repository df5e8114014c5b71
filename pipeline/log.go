package pipeline

import (
	"context"
	"log/slog"

	"landfall.dev/landfall"
)

// loggerOf returns a logger that names an app in every line.
func (p *Pipeline) loggerOf(app landfall.App) *slog.Logger { return p.Logger.With(app.LogAttrs()...) }

// arrival is a push that was accepted, and the run that its commit has; empty when it has none.
type arrival struct {
	app  landfall.App
	push landfall.Push
	run  string
}

// logArrivals says which pushes were accepted, once they are stored: a run's first line.
func (p *Pipeline) logArrivals(ctx context.Context, all []arrival) {
	for _, t := range all {
		logger := p.loggerOf(t.app).With("source", t.push.Source, "ref", t.push.Ref, "commit", t.push.After)
		if t.run != "" {
			logger = logger.With("run", t.run)
		}
		if t.push.Delivery != "" {
			logger = logger.With("delivery", t.push.Delivery)
		}
		logger.InfoContext(ctx, "push accepted")
	}
}
