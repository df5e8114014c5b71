package accept

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// TopicAppHook is the topic of the jobs that look for what could not be delivered to the GitHub App. Its job has no ID
// that matters.
const TopicAppHook = QueueHooks + "/app"

// AppHook looks after what GitHub delivers to the webhook of the GitHub App. A nil AppHook does nothing.
type AppHook struct {
	*Acceptor

	Deliveries ForgeDeliveries // as the App
}

// Wake makes the job, as WakeCatchUp does, while an App is connected.
func (h *AppHook) Wake(ctx context.Context, round int64) error {
	if h == nil {
		return nil
	}
	return h.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		connected, err := tx.HasGitHubApp(ctx)
		if connected {
			tx.EnqueueOnceAt(TopicAppHook, "app", round, time.Time{})
		}
		return err
	})
}

// Look asks GitHub to deliver again what it could not deliver to the App, of the repositories that apps have.
// Unavailable when GitHub does not answer, or not now.
func (h *AppHook) Look(ctx context.Context) error {
	app, err := h.DB.GitHubApp(ctx)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	now := h.Now()
	since := app.Created.Add(-clockSkew)
	for _, later := range []time.Time{now.Add(-landfall.KeepPayloads), app.Heard} {
		if later.After(since) {
			since = later
		}
	}
	sent := attempts{Acceptor: h.Acceptor, at: h.Deliveries}
	failed, _, err := sent.failed(ctx, since)
	if err != nil {
		return err
	}
	apps, err := h.DB.Apps(ctx)
	if err != nil {
		return err
	}
	failed = slices.DeleteFunc(failed, func(d landfall.ForgeDelivery) bool {
		return !slices.ContainsFunc(apps, func(app landfall.App) bool {
			return app.Deleted.IsZero() && app.Repository != "" && (app.GitHub.ID == 0 || app.GitHub.ID == d.Repository)
		})
	})
	heard := now.Add(-clockSkew)
	if len(failed) > 0 {
		heard = failed[0].At
	}
	if err := sent.again(ctx, failed); err != nil {
		return err
	}
	return h.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error { return tx.SetGitHubHeard(ctx, app.ID, heard) })
}
