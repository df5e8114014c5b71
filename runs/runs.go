package runs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/store"
)

// Topic is the topic of the jobs that take a run through its steps. The job has the run's ID.
const Topic = "run"

// TopicCommit is the topic of the jobs that look at the queued runs of a commit together. The job has the commit's
// name.
const TopicCommit = "commit"

// pendingWait is how long nothing is said of a run that began beside others of its commit: those in which the commit
// changes nothing are over by then, and their final state is the first thing that is said of them.
const pendingWait = 5 * time.Second

// Runs makes and ends runs, and reports them to people.
type Runs struct {
	DB       *store.DB
	Rollout  *deploy.Rollout
	Contents *inspect.Contents // of releases, for comments

	RunURL     func(run string) string                        // where people read about a run
	ReleaseURL func(app string, selector landfall.UID) string // where a release answers
	// whether commit statuses are sent to the forge also while no GitHub App is connected
	Reporting bool
	// whether comments are written on pull requests, where statuses are sent
	Commenting    bool
	RemoteWorkers bool // whether only other processes take runs through the steps

	Now    func() time.Time
	Logger *slog.Logger
}

// New returns a run for the push's commit, with a reserved UID, so its address is known from now on.
func New(ctx context.Context, tx *store.Tx, app landfall.App, push landfall.Push) (run landfall.Run, err error) {
	run = landfall.Run{
		ID: uuid.Must(uuid.NewV7()).String(), App: app.ID, Commit: push.After, Branch: branchOf(app, push),
		Step: landfall.StepAccept, Created: push.Accepted,
	}
	if push.OfFork() {
		run.Fork = push.PullRequest.Number
		named := landfall.CommitSHA(fmt.Sprintf("fork %d %s", run.Fork, run.Commit)) // its address is never the branch's
		run.UID, err = tx.FreeUID(ctx, app.ID, "", func(n int) landfall.UID {
			return landfall.CommitUID(app.UIDSpace, named, n)
		})
		return run, err
	}
	if push.Apply != nil && !push.Apply.Clean {
		run.UID, err = deploy.RandomUID(ctx, tx, app.ID)
		return run, err
	}
	run.UID, err = tx.FreeUID(ctx, app.ID, run.Commit, func(n int) landfall.UID {
		return landfall.CommitUID(app.UIDSpace, run.Commit, n)
	})
	return run, err
}

func branchOf(app landfall.App, push landfall.Push) string {
	if push.Apply != nil {
		return cmp.Or(push.Apply.Branch, app.Branch)
	}
	if branch, ok := push.Ref.Branch(); ok {
		return branch
	}
	if push.OfFork() {
		return landfall.ForkBranch(push.PullRequest.Number)
	}
	tag, _ := push.Ref.Tag()
	return tag
}

// Queue stores a run that must be worked on, with the pushes that want it, and queues a report that it is pending. Runs
// of one commit of a repository at a forge that a transaction queues, which are of different apps, have one job.
func (r *Runs) Queue(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run, why string,
	pushes ...landfall.Push) error {
	run.State = landfall.RunQueued
	if err := tx.CreateRun(ctx, run); err != nil {
		return err
	}
	for _, push := range pushes {
		if err := tx.AddRunRef(ctx, run.ID, push); err != nil {
			return err
		}
	}
	report := r.pending(why)
	if app.Repository == "" {
		tx.Enqueue(Topic, run.ID, time.Time{})
	} else if !tx.EnqueueFirst(TopicCommit, string(run.Commit)) {
		report.NextAt = report.NextAt.Add(pendingWait)
	}
	return r.queueStatus(ctx, tx, app, run, report)
}

// pending is what is told of a run that is not over, at once.
func (r *Runs) pending(why string) landfall.Report {
	return landfall.Report{State: landfall.StatusPending, Description: why, NextAt: r.Now()}
}

// Cancel ends an unfinished run. Conflict when it is over.
func (r *Runs) Cancel(ctx context.Context, id, actor string) (landfall.Run, error) {
	err := r.DB.Update(ctx, func(tx *store.Tx) error { return r.CancelIn(ctx, tx, id, actor) })
	if err != nil {
		return landfall.Run{}, err
	}
	return r.DB.Run(ctx, id)
}

// CancelIn is Cancel in the caller's transaction.
func (r *Runs) CancelIn(ctx context.Context, tx *store.Tx, id, actor string) error {
	run, err := tx.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.State.Final() {
		return landfall.Errorf("runs.Cancel", landfall.Conflict, "the run is over: %s", run.State)
	}
	app, err := tx.App(ctx, run.App)
	if err != nil {
		return err
	}
	run.State, run.Reason = landfall.RunCancelled, "Cancelled by "+actor
	return r.End(ctx, tx, app, run)
}

// View returns a run as people may see it: a run that made a release is over once gateways show the release. A run that
// ended long ago is over in any case.
func (r *Runs) View(ctx context.Context, run landfall.Run) landfall.Run {
	if run.State != landfall.RunSucceeded || r.Now().Sub(run.Finished) > swapLimit ||
		r.Rollout.Shows(ctx, run.App, run.Change) {
		return run
	}
	run.State, run.Step, run.Reason, run.Release, run.Finished = landfall.RunRunning, landfall.StepSwap, "", "",
		time.Time{}
	return run
}

// swapLimit is how long a run may be shown as running because gateways do not show its release.
const swapLimit = time.Minute

// NoWorker reports whether runs wait because no worker is alive, in this process or in another one.
func (r *Runs) NoWorker(ctx context.Context) (bool, error) {
	if !r.RemoteWorkers {
		return false, nil
	}
	now, err := r.DB.Now(ctx, r.Now())
	if err != nil {
		return false, err
	}
	alive, err := r.DB.Workers(ctx, now)
	return alive == 0 && err == nil, err
}
