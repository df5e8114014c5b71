package pipeline

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"

	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

// Pipeline accepts pushes and works runs.
type Pipeline struct {
	DB        *store.DB
	Mirrors   *builder.Mirrors
	Objects   assets.Store
	Manifests *assets.Manifests // of Objects
	Remote    Remote
	Gateways  Gateways

	Sandbox Sandbox
	Specs   spec.Limits // of the spec files of a commit
	Scratch string      // folder for work in progress; everything in it may go when no run works
	Builds  *Builds

	RunURL     func(run string) string                        // where people read about a run
	ReleaseURL func(app string, selector landfall.UID) string // where a release answers
	Reporting  bool                                           // whether commit statuses are owed to the forge
	Commenting bool                                           // whether comments on pull requests are, where statuses are

	Worker string        // this process, across its lives
	Lease  time.Duration // how long a worker owns a run without a sign of life; 0: 30 s
	Now    func() time.Time
	Logger *slog.Logger

	collecting sync.Mutex // one collection at a time
	swapping   sync.Map   // ids of the runs whose end is being stored, or is stored and not in the gateways' table yet
	moving     sync.Map   // the same for deliveries that move tags: movement
}

// References tells what the references of the built-in remote's repositories name.
type References interface {
	// Heads returns what the references of an app's repository name, peeled to commits.
	Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error)
	// Named returns what references of an app's repository name at this moment, peeled to commits; nothing for those that
	// are not there.
	Named(ctx context.Context, app string, refs []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error)
}

// Remote is the built-in git remote, as far as the pipeline needs it.
type Remote interface {
	References
	// Path returns the bare repository of an app.
	Path(app string) string
	// SetHead makes a branch what clones of the repository check out.
	SetHead(ctx context.Context, app, branch string) error
	// Repack joins the repository's packs when there are many. Nobody may open packs meanwhile.
	Repack(ctx context.Context, app string) error
}

// Gateways take new routing tables.
type Gateways interface {
	RefreshApp(ctx context.Context, app string) error
}

// The topics of durable jobs.
const (
	topicRun     = "run"
	topicCollect = "collect"
	topicPlace   = "place" // of an app and a reference, with a space between
)

const (
	workers      = 8           // how many jobs at once
	appShare     = workers / 2 // how many runs of one app at once: long builds of one do not hold up all others
	defaultLease = 30 * time.Second
	sweepEvery   = time.Second
	collectEvery = 10 * time.Minute
)

// Run works the durable jobs and sweeps up what no job points at, until ctx ends.
func (p *Pipeline) Run(ctx context.Context) error {
	if err := os.RemoveAll(p.Scratch); err != nil { // what an earlier life was killed at
		p.Logger.WarnContext(ctx, "the scratch folder cannot be emptied", "folder", p.Scratch, "error", err)
	}
	if err := p.DB.Update(ctx, func(tx *store.Tx) error { return tx.FreeLeases(ctx, p.Worker) }); err != nil {
		return err
	}
	if err := p.Reconcile(ctx); err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { p.sweep(ctx) })
	queue := store.Queue{DB: p.DB, Process: p.Worker, Workers: workers, Work: p.work, Logger: p.Logger}
	err := queue.Run(ctx)
	group.Wait()
	return err
}

// work does what a durable job asks for.
func (p *Pipeline) work(ctx context.Context, topic, id string) error {
	switch topic {
	case topicRun:
		return p.workRun(ctx, id)
	case topicCollect:
		return p.Collect(ctx, id)
	case topicPlace:
		app, ref, _ := strings.Cut(id, " ")
		return p.Place(ctx, app, landfall.RefName(ref))
	}
	return &landfall.Error{Op: "pipeline.work", Message: "unknown topic " + topic}
}

// sweep finds runs whose doorbell was lost or whose worker died, and rings again. It also collects now and then.
func (p *Pipeline) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	collected := p.Now()
	for {
		// Fresh runs have a job of their own on its way.
		if err := p.ringDue(ctx, "", p.Now().Add(-sweepEvery), sweepBatch); err != nil && landfall.KindOf(err) != landfall.Canceled {
			p.Logger.ErrorContext(ctx, "sweep failed", "error", err)
		}
		if p.Now().Sub(collected) >= collectEvery {
			collected = p.Now()
			if err := p.ringCollect(ctx); err != nil && landfall.KindOf(err) != landfall.Canceled {
				p.Logger.ErrorContext(ctx, "collection could not be queued", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepBatch bounds how many runs one sweep rings for.
const sweepBatch = 100

// ringDue rings for the oldest runs, of one app or of all, that may start by a time.
func (p *Pipeline) ringDue(ctx context.Context, app string, by time.Time, limit int) error {
	due, err := p.DB.DueRuns(ctx, app, by, appShare, limit)
	if err != nil || len(due) == 0 {
		return err
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for _, id := range due {
			if err := tx.EnqueueOnce(ctx, topicRun, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// ringNext rings for an app's oldest run that waits for one of the app's to end.
func (p *Pipeline) ringNext(ctx context.Context, app string) {
	if err := p.ringDue(ctx, app, p.Now(), 1); err != nil && landfall.KindOf(err) != landfall.Canceled {
		p.Logger.WarnContext(ctx, "runs that wait will be found by the sweep", "app", app, "error", err)
	}
}

func (p *Pipeline) ringCollect(ctx context.Context) error {
	apps, err := p.DB.Apps(ctx)
	if err != nil {
		return err
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for _, app := range apps {
			if err := tx.EnqueueOnce(ctx, topicCollect, app.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Pipeline) lease() time.Duration {
	if p.Lease == 0 {
		return defaultLease
	}
	return p.Lease
}
