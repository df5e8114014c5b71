package pipeline

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
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

// Pipeline accepts pushes and works runs.
type Pipeline struct {
	DB        *store.DB
	Mirrors   *builder.Mirrors
	Objects   assets.Store
	Manifests *assets.Manifests // of Objects
	Remote    Repositories
	Elsewhere *accept.Elsewhere // where the built-in remote is when it is another process's
	Acceptor  *accept.Acceptor
	Rollout   *deploy.Rollout
	Runs      *runs.Runs

	Sandbox   Sandbox
	Images    Images // nil: none is pulled
	Modules   Modules
	Trials    Trials
	Secrets   *secret.Keeper // nil: this process cannot read them
	Specs     spec.Limits    // of the spec files of a commit
	NoNetwork bool           // functions get none, whatever they ask for; who pushes one that asks is told so
	Retention Retention

	KeepDeleted time.Duration // how long the content of a deleted app stays; 0: the next collection removes it

	Scratch string // folder for work in progress; everything in it may go when no run works
	Builds  *Builds

	RequireTests bool // whether only functions that have passed a test are released

	HasFastAPI func() bool // whether functions find FastAPI where they run; nil: that is elsewhere, and nobody here knows

	Worker string        // this process, across its lives
	Lease  time.Duration // how long a worker owns a run without a sign of life; 0: 30 s
	Now    func() time.Time
	Logger *slog.Logger
	Meter  Meter         // nil: nothing is counted
	Tracer *trace.Tracer // may be nil

	collecting sync.Mutex
}

// Meter counts what happens. Many goroutines call it.
type Meter interface {
	// StepDone counts an attempt at a step that came to an end, whichever.
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

// keeping is the queue of what one process does for all.
const keeping = "keep"

// The topics of durable jobs.
const (
	topicForget = keeping + "/forget"
)

const (
	workers      = 8           // how many jobs at once, beside a collection
	appShare     = workers / 2 // how many runs of one app at once: long builds of one do not hold up all others
	defaultLease = 30 * time.Second
	sweepEvery   = time.Second
	collectEvery = 10 * time.Minute
)

// Duties are what a process does of the pipeline.
type Duties struct {
	Work bool // takes runs through the steps
	Keep bool // does what one process does for all: it has the built-in repositories, and collects; the process owns the database
}

// Run does a process's duties until ctx ends: it works the durable jobs and sweeps up what no job points at. While the database takes
// no writes, as on a full disk, it tries again: what can be read is served all the same.
func (p *Pipeline) Run(ctx context.Context, duties Duties) error {
	for said := false; ; said = true {
		err := p.runOnce(ctx, duties)
		if err == nil || ctx.Err() != nil || landfall.KindOf(err) != landfall.Unavailable {
			return err
		}
		if !said {
			p.Logger.ErrorContext(ctx, "runs wait until the database takes writes again, and pushes and webhooks are refused", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
}

// retryEvery is how often a process tries to begin its duties that could not.
const retryEvery = 2 * time.Second

func (p *Pipeline) runOnce(ctx context.Context, duties Duties) error {
	working, stop := context.WithCancel(ctx)
	var sweeps sync.WaitGroup
	err := p.run(working, duties, &sweeps)
	stop() // the jobs may have ended by themselves
	sweeps.Wait()
	if kind := landfall.KindOf(err); ctx.Err() != nil && (kind == landfall.Canceled || kind == landfall.Unavailable) {
		return nil // stopped while it started: a driver may say that it lost the connection, which the stop broke off
	}
	return err
}

func (p *Pipeline) run(ctx context.Context, duties Duties, sweeps *sync.WaitGroup) error {
	if err := os.RemoveAll(p.Scratch); err != nil { // what an earlier life was killed at
		p.Logger.WarnContext(ctx, "the scratch folder cannot be emptied", "folder", p.Scratch, "error", err)
	}
	if err := p.DB.Update(ctx, func(tx *store.Tx) error { return tx.FreeLeases(ctx, p.Worker) }); err != nil {
		return err
	}
	queues := map[string]int{}
	if duties.Keep {
		if err := p.FinishDeletions(ctx); err != nil {
			return err
		}
		if err := p.ringRemovals(ctx); err != nil {
			return err
		}
		if err := p.Acceptor.Reconcile(ctx); err != nil {
			return err
		}
		queues[keeping] = 1
		if err := p.ringForget(ctx); err != nil { // also where the process never lives for long
			return err
		}
		sweeps.Go(func() { p.every(ctx, collectEvery, p.ringCollect) })
		sweeps.Go(func() { p.every(ctx, p.Retention.every(), p.ringForget) })
		sweeps.Go(func() { p.every(ctx, sweepEvery, p.Acceptor.RecordKept) })
	}
	if duties.Work {
		queues[""] = workers
		if err := p.ringLost(ctx); err != nil {
			return err
		}
		if !duties.Keep { // that one is asked whether anybody works, and knows of itself
			defer p.leave(ctx)
			if err := p.beat(ctx); err != nil {
				return err
			}
			sweeps.Go(func() { p.every(ctx, p.lease()/beats, p.beat) })
		}
		sweeps.Go(func() { p.every(ctx, sweepEvery, p.ringLost) })
	}
	sweeps.Go(func() {
		p.sweep(ctx, p.sweepRemoved) // what was removed while this process was not there
		p.every(ctx, collectEvery, p.sweepRemoved)
	})
	queue := store.Queue{DB: p.DB, Process: p.Worker, Queues: queues, Work: p.work, Logger: p.Logger}
	return queue.Run(ctx)
}

// work does what a durable job asks for, and logs what goes wrong with the names that the job has.
func (p *Pipeline) work(ctx context.Context, topic, id string) error {
	err := p.workOn(ctx, topic, id)
	if err == nil || landfall.KindOf(err) == landfall.Canceled {
		return nil
	}
	logger := p.Logger.With("topic", topic)
	switch topic {
	case runs.Topic:
		logger = logger.With("run", id)
	case deploy.TopicCollect:
		logger = logger.With("app_id", id)
	case accept.TopicPlace:
		app, ref, _ := strings.Cut(id, " ")
		logger = logger.With("app_id", app, "ref", ref)
	}
	logger.ErrorContext(ctx, "job failed", "error", err)
	return nil
}

func (p *Pipeline) workOn(ctx context.Context, topic, id string) error {
	switch topic {
	case runs.Topic:
		return p.workRun(ctx, id)
	case deploy.TopicCollect:
		return p.Collect(ctx, id)
	case topicForget:
		return p.Forget(ctx)
	case accept.TopicPlace:
		app, ref, _ := strings.Cut(id, " ")
		return p.Acceptor.Place(ctx, app, landfall.RefName(ref))
	}
	return &landfall.Error{Op: "pipeline.work", Message: "unknown topic " + topic}
}

// every does something now and then until ctx ends.
func (p *Pipeline) every(ctx context.Context, interval time.Duration, do func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.sweep(ctx, do)
	}
}

func (p *Pipeline) sweep(ctx context.Context, do func(context.Context) error) {
	if err := do(ctx); err != nil && landfall.KindOf(err) != landfall.Canceled {
		p.Logger.ErrorContext(ctx, "a sweep failed", "error", err)
	}
}

// sweepBatch bounds how many runs one sweep rings for.
const sweepBatch = 100

// ringLost rings for runs whose doorbell was lost or whose worker died. Fresh ones have a job of their own on its way.
func (p *Pipeline) ringLost(ctx context.Context) error {
	return p.ringDue(ctx, "", sweepEvery, sweepBatch)
}

// ringDue rings for the oldest runs, of one app or of all, that may have started some time ago.
func (p *Pipeline) ringDue(ctx context.Context, app string, ago time.Duration, limit int) error {
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

// ringNext rings for an app's oldest run that waits for one of the app's to end.
func (p *Pipeline) ringNext(ctx context.Context, app landfall.App) {
	if err := p.ringDue(ctx, app.ID, 0, 1); err != nil && landfall.KindOf(err) != landfall.Canceled {
		p.Logger.With(app.LogAttrs()...).WarnContext(ctx, "runs that wait will be found by the sweep", "error", err)
	}
}

func (p *Pipeline) ringCollect(ctx context.Context) error {
	apps, err := p.DB.Apps(ctx)
	if err != nil {
		return err
	}
	return p.DB.UpdateAsOwner(ctx, func(tx *store.Tx) error {
		for _, app := range apps {
			tx.EnqueueOnce(deploy.TopicCollect, app.ID, 0)
		}
		return nil
	})
}

func (p *Pipeline) ringForget(ctx context.Context) error {
	return p.DB.UpdateAsOwner(ctx, func(tx *store.Tx) error {
		tx.EnqueueOnce(topicForget, "", 0)
		return nil
	})
}

func (p *Pipeline) lease() time.Duration {
	if p.Lease == 0 {
		return defaultLease
	}
	return p.Lease
}

// Repositories are those of the built-in remote as collection knows them.
type Repositories interface {
	// Path returns the bare repository of an app.
	Path(app string) string
	// Repack joins an app's packs when there are many. Nobody may open packs meanwhile.
	Repack(ctx context.Context, app string) error
	// Remove deletes an app's repository, if there is one.
	Remove(ctx context.Context, app string) error
}
