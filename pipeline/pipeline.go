package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"

	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// Pipeline takes runs through their steps.
type Pipeline struct {
	DB        *store.DB
	Mirrors   *builder.Mirrors
	Objects   assets.Store
	Manifests *assets.Manifests // of Objects
	Acceptor  *accept.Acceptor
	Rollout   *deploy.Rollout
	Runs      *runs.Runs

	Sandbox   Sandbox // nil: no push can have a build, and no source is checked
	Images    Images  // nil: no image is pulled
	Modules   Modules
	Trials    Trials
	Secrets   *secret.Keeper // nil: this process cannot read them
	Specs     spec.Limits    // of the spec files of a commit
	NoNetwork bool           // functions get no network; a person who pushes a function that asks for one is told

	Scratch string // folder for work in progress; everything in it may be deleted while no run works
	Builds  *Builds

	RequireTests bool // whether only functions with a passed test are released

	// whether FastAPI is installed where functions run; nil: they run elsewhere, and it is not known
	HasFastAPI func() bool

	Worker string        // this process, across restarts
	Lease  time.Duration // how long a worker owns a run without a heartbeat; 0: 30 s
	Now    func() time.Time
	Logger *slog.Logger
	Meter  Meter         // nil: nothing is counted
	Tracer *trace.Tracer // may be nil

	plans fetches
}

// Meter counts events. Many goroutines call it.
type Meter interface {
	// StepDone counts an attempt at a step that has ended in any way.
	StepDone(step landfall.Step, took time.Duration)
	// Released counts a commit that became a release, and how long that took since it was accepted.
	Released(took time.Duration)
}

// unmetered counts nothing.
type unmetered struct{}

// StepDone implements Meter.
func (unmetered) StepDone(landfall.Step, time.Duration) {}

// Released implements Meter.
func (unmetered) Released(time.Duration) {}

func (p *Pipeline) meter() Meter {
	if p.Meter == nil {
		return unmetered{}
	}
	return p.Meter
}

// Workers is how many jobs a process works on at once, in addition to a collection.
const Workers = 8

const (
	// How many runs of one app are worked on at once, so that long builds of one app do not block all others.
	appShare     = Workers / 2
	defaultLease = 30 * time.Second
)

// SweepEvery is how often WakeLost is called.
const SweepEvery = time.Second

// sweepBatch bounds how many runs one sweep wakes.
const sweepBatch = 100

// WakeLost enqueues a job for runs whose job was lost or whose worker died. New runs have a job of their own already.
func (p *Pipeline) WakeLost(ctx context.Context) error {
	return p.wakeDue(ctx, "", SweepEvery, sweepBatch)
}

// wakeDue enqueues a job for the oldest runs, of one app or of all, that could have started some time ago.
func (p *Pipeline) wakeDue(ctx context.Context, app string, ago time.Duration, limit int) error {
	now, err := p.DB.Now(ctx, p.Now())
	if err != nil {
		return err
	}
	due, err := p.DB.DueRuns(ctx, app, now.Add(-ago), appShare, limit)
	if err != nil || len(due) == 0 {
		return err
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for _, run := range due {
			tx.EnqueueOnce(runs.Topic, run.ID, run.Attempt)
		}
		return nil
	})
}

// wakeNext enqueues a job for an app's oldest run that waits for the end of another one.
func (p *Pipeline) wakeNext(ctx context.Context, app landfall.App) {
	if err := p.wakeDue(ctx, app.ID, 0, 1); err != nil && landfall.KindOf(err) != landfall.Canceled {
		p.Logger.With(app.LogAttrs()...).WarnContext(ctx, "runs that wait will be found by the sweep", "error", err)
	}
}

func (p *Pipeline) lease() time.Duration { return cmp.Or(p.Lease, defaultLease) }

// HeartbeatEvery is how often a process with workers calls Heartbeat.
func (p *Pipeline) HeartbeatEvery() time.Duration { return p.lease() / heartbeatsPerLease }
