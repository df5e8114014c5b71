package deploy

import (
	"context"
	"log/slog"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Gateways take new routing tables: gateways of this process when they are told, others when they hear of the change.
type Gateways interface {
	RefreshApp(ctx context.Context, app string) error
	// Shown returns the newest change (landfall.App.Changed) that all gateways show of an app.
	Shown(ctx context.Context, app string) (int64, error)
}

// Rollout shows gateways what became visible.
type Rollout struct {
	DB       *store.DB
	Gateways Gateways
	Logger   *slog.Logger
}

// Refresh shows this process's gateways what became visible of an app. It does not wait for other processes.
func (r *Rollout) Refresh(ctx context.Context, app landfall.App) {
	if err := r.Gateways.RefreshApp(ctx, app.ID); err != nil {
		r.Logger.With(app.LogAttrs()...).WarnContext(ctx, "gateways will find the change by polling", "error", err)
	}
}

// Show shows gateways what became visible of an app, and waits until they show it, but only for a few seconds: a
// gateway that is cut off finds the change by polling.
func (r *Rollout) Show(ctx context.Context, app landfall.App) {
	r.Refresh(ctx, app)
	now, err := r.DB.App(ctx, app.ID)
	if err != nil {
		r.Logger.With(app.LogAttrs()...).WarnContext(ctx, "gateways were not waited for", "error", err)
		return
	}
	limited, cancel := context.WithTimeout(ctx, showLimit)
	defer cancel()
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for !r.Shows(limited, now.ID, now.Changed) {
		select {
		case <-limited.Done():
			r.Logger.With(app.LogAttrs()...).WarnContext(ctx, "a gateway does not show the change yet", "change", now.Changed)
			return
		case <-tick.C:
		}
	}
}

const (
	showLimit = 5 * time.Second
	showEvery = 2 * time.Millisecond
)

// Shows reports whether all gateways show a change of an app.
func (r *Rollout) Shows(ctx context.Context, app string, change int64) bool {
	shown, err := r.Gateways.Shown(ctx, app)
	return err == nil && shown >= change
}
