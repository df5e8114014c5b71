package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
)

// Upkeep does what one process does for all: it collects what nothing holds, and deletes old records.
type Upkeep struct {
	DB           *store.DB
	Runs         *runs.Runs
	Rollout      *deploy.Rollout
	Objects      assets.Store
	Mirrors      *builder.Mirrors
	Repositories Repositories
	// of the repository of the app with that name, when another process has the built-in remote; else nil
	RemoteURL func(app string) string
	Builds    Builds
	Uploads   Uploads // nil: there are none here

	Retention   Retention
	KeepDeleted time.Duration // how long the content of a deleted app stays; 0: the next collection removes it

	Now    func() time.Time
	Logger *slog.Logger

	collecting sync.RWMutex         // a collection writes; what goes on without one reads
	applies    map[string]time.Time // when the references of an app's applies were looked at; of a collection
}

// Builds holds the build outputs on this machine.
type Builds interface {
	// Drop removes the build outputs of an app, unless a run uses some of them.
	Drop(app string) error
}

// Uploads are the files that people send in parts.
type Uploads interface {
	// Sweep removes those that nobody went on with.
	Sweep() error
}

// Repositories are the repositories of the built-in remote.
type Repositories interface { //nolint:interfacebloat // one for each thing that upkeep does to a repository
	// Path returns the bare repository of an app.
	Path(app string) string
	// Repack joins an app's packs when there are many. Nobody may open packs meanwhile.
	Repack(ctx context.Context, app string) error
	// OldApplies returns the references of applies that were pushed long ago. NotFound when there is no repository.
	OldApplies(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error)
	// DropApplies removes such references.
	DropApplies(ctx context.Context, app string, refs []landfall.RefName) error
	// Remove deletes an app's repository, if there is one.
	Remove(ctx context.Context, app string) error
}

// TopicForget is the topic of the job that deletes old records.
const TopicForget = "keep/forget"

// CollectEvery is how often WakeCollect is called.
const CollectEvery = 10 * time.Minute

// WakeCollect enqueues a collection of each app.
func (u *Upkeep) WakeCollect(ctx context.Context) error {
	return u.wakeCollect(ctx, func(landfall.App) bool { return true })
}

// wakeCollect enqueues a collection of the apps that are due.
func (u *Upkeep) wakeCollect(ctx context.Context, due func(landfall.App) bool) error {
	apps, err := u.DB.Apps(ctx)
	if err != nil {
		return err
	}
	return u.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		for _, app := range apps {
			if due(app) {
				tx.EnqueueOnce(deploy.TopicCollect, app.ID, 0)
			}
		}
		return nil
	})
}

// WakeForget enqueues Forget.
func (u *Upkeep) WakeForget(ctx context.Context) error {
	return u.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		tx.EnqueueOnce(TopicForget, "", 0)
		return nil
	})
}

// CanariesEvery is how often DriveCanaries is called: a canary that fails returns as soon.
const CanariesEvery = time.Second

// DriveCanaries does what is due for the canaries of releases that run, each in a transaction of its own. One that
// cannot go on keeps no other from it.
func (u *Upkeep) DriveCanaries(ctx context.Context) error {
	running, err := u.DB.RunningReleaseCanaries(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, c := range running {
		changed := false
		err := u.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) {
			changed, err = deploy.DriveCanary(ctx, tx, c.App, u.Now())
			return err
		})
		failed = errors.Join(failed, err)
		if err == nil && changed {
			u.Rollout.Show(ctx, landfall.App{ID: c.App})
		}
	}
	return failed
}
