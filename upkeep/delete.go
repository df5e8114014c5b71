package upkeep

import (
	"context"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// DeleteApp deletes an app. In one transaction it ends the unfinished runs and closes every way to reach the app, and
// records what it closed. The app's name stays reserved; the names of its functions and packages become free. A
// collection removes the content once KeepDeleted is over. NotFound when it was deleted before; Conflict when it has
// accessible releases and withReleases does not say that they go, too.
func (u *Upkeep) DeleteApp(ctx context.Context, app landfall.App, withReleases bool, actor string) error {
	by := deploy.Mover{Actor: actor, Reason: "the app was deleted", At: u.Now()}
	err := u.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		if !withReleases {
			if err := checkUnreleased(ctx, tx, app); err != nil {
				return err
			}
		}
		runs, err := tx.UnfinishedOfApp(ctx, app.ID)
		if err != nil {
			return err
		}
		for _, run := range runs {
			run.State, run.Reason = landfall.RunCancelled, "Cancelled: "+actor+" deleted the app"
			if err := u.Runs.End(ctx, tx, app, run); err != nil {
				return err
			}
		}
		app.Deleted = by.At
		if err := tx.WantComments(ctx, app, by.At); err != nil {
			return err
		}
		return u.takeDown(ctx, tx, app, by)
	})
	if err == nil {
		crashpoint.Here("delete.closed")
		u.Rollout.Show(ctx, app)
	}
	return err
}

// checkUnreleased returns a Conflict when an app has accessible releases.
func checkUnreleased(ctx context.Context, tx *store.Tx, app landfall.App) error {
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err == nil && len(releases) > 0 {
		err = landfall.Errorf("upkeep.DeleteApp", landfall.Conflict, "%s has %d accessible releases, whose addresses would "+
			"close: landfall app delete %[1]s --force, or DELETE /apps/%[1]s?force=true", app.Name, len(releases))
	}
	return err
}

// takeDown closes every way to reach a deleted app, and records what there was.
func (u *Upkeep) takeDown(ctx context.Context, tx *store.Tx, app landfall.App, by deploy.Mover) error {
	was, err := deploy.Unpublish(ctx, tx, &app, by)
	if err != nil {
		return err
	}
	crashpoint.Here("delete.expired")
	if err := versioning.Unpublish(ctx, tx, app, by.Actor, by.At, &was); err != nil {
		return err
	}
	for _, entry := range was.Entries {
		if _, err := deploy.ShowFunctionTags(ctx, tx, app.Namespace, entry.Tag); err != nil {
			return err
		}
	}
	if err := tx.CancelWork(ctx, app, by.At); err != nil {
		return err
	}
	if was.Tokens, err = tx.RevokeTokens(ctx, app); err != nil {
		return err
	}
	if err := tx.SetTombstone(ctx, app.ID, was); err != nil {
		return err
	}
	if u.KeepDeleted == 0 {
		if err := deploy.DropSecrets(ctx, tx, app); err != nil {
			return err
		}
	}
	deploy.CollectSoon(tx, app.ID)
	_, err = tx.Changed(ctx, app.ID)
	return err
}

// FinishDeletions closes what earlier programs left open of the apps that they deleted. When it is interrupted, the
// next call goes on.
func (u *Upkeep) FinishDeletions(ctx context.Context) error {
	apps, err := u.DB.DeletedWithoutTombstone(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		by := deploy.Mover{Actor: "landfall", Reason: "the app was deleted", At: u.Now()}
		if err := u.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error { return u.takeDown(ctx, tx, app, by) }); err != nil {
			return err
		}
		u.Logger.With(app.LogAttrs()...).InfoContext(ctx, "closed what was left open when the app was deleted")
	}
	return nil
}

// WakeRemovals enqueues the collection of the deleted apps whose content must be removed by now: the process may not
// live for long.
func (u *Upkeep) WakeRemovals(ctx context.Context) error {
	return u.wakeCollect(ctx, func(app landfall.App) bool { return app.Removed.IsZero() && u.retentionOver(app) })
}

// retentionOver reports whether an app was deleted, and the time for which its content is kept is over.
func (u *Upkeep) retentionOver(app landfall.App) bool {
	return !app.Deleted.IsZero() && !u.Now().Before(app.Deleted.Add(u.KeepDeleted))
}

// recheckAfter is how long after the removal of an app's content the content is checked again: a run that was working
// then may have stored something before it noticed its end.
const recheckAfter = time.Hour

// remove removes the content of a deleted app once its retention is over: objects, repository, mirror and build
// outputs. It may be repeated: it skips what is gone already.
func (u *Upkeep) remove(ctx context.Context, leader store.Leader, app landfall.App) error {
	now := u.Now()
	if !u.retentionOver(app) || !app.Removed.IsZero() && now.Sub(app.Removed) > recheckAfter {
		return nil
	}
	if err := leader.Update(ctx, func(tx *store.Tx) error { return tx.ForgetContent(ctx, app.ID) }); err != nil {
		return err
	}
	crashpoint.Here("remove.marked")
	collector := assets.Collector{Check: func(ctx context.Context) error {
		return leader.Update(ctx, func(*store.Tx) error { return nil })
	}}
	if err := collector.DeletePrefix(ctx, u.Objects, app.Objects); err != nil {
		return err
	}
	crashpoint.Here("remove.deleted")
	if err := u.Repositories.Remove(ctx, app.ID); err != nil {
		return err
	}
	if !app.Removed.IsZero() {
		return nil
	}
	err := leader.Update(ctx, func(tx *store.Tx) error {
		if err := tx.SetRemoved(ctx, app.ID, now); err != nil {
			return err
		}
		_, err := tx.Changed(ctx, app.ID) // this also deletes the messages of its queues
		return err
	})
	if err != nil {
		return err
	}
	u.Rollout.Refresh(ctx, app)
	u.Logger.With(app.LogAttrs()...).InfoContext(ctx, "the content of a deleted app was removed")
	return u.SweepRemoved(ctx)
}

// SweepRemoved removes mirrors and build outputs from this machine that belong to apps whose content was removed.
func (u *Upkeep) SweepRemoved(ctx context.Context) error {
	if err := u.Mirrors.Sweep(ctx, u.mirroredRepositories); err != nil {
		return err
	}
	apps, err := u.DB.Apps(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if app.Removed.IsZero() {
			continue
		}
		if err := u.Builds.Drop(app.ID); err != nil {
			return fmt.Errorf("what builds of %s made stays for now: %w", app.Name, err)
		}
	}
	return nil
}

// mirroredRepositories returns the repositories of which this process may have mirrors: those of all apps whose content
// exists.
func (u *Upkeep) mirroredRepositories(ctx context.Context) ([]builder.Remote, error) {
	apps, err := u.DB.Apps(ctx)
	if err != nil {
		return nil, err
	}
	var remotes []builder.Remote
	for _, app := range apps {
		if !app.Removed.IsZero() {
			continue
		}
		if app.Repository != "" {
			remotes = append(remotes, builder.Remote{Namespace: app.Namespace, URL: app.Repository})
		}
		if u.RemoteURL != nil {
			remotes = append(remotes, builder.Remote{Namespace: app.Namespace, URL: u.RemoteURL(app.Name)})
		}
	}
	return remotes, nil
}
