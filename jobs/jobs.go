package jobs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
)

// Worker works on the durable jobs of a process.
type Worker struct {
	DB       *store.DB
	Process  string // this one, across restarts
	Scratch  string // folder for work in progress; everything in it may go when no run works
	Acceptor *accept.Acceptor
	Pipeline *pipeline.Pipeline
	Upkeep   *upkeep.Upkeep
	Canaries *canary.Controller
	Logger   *slog.Logger
}

// upkeepQueue is the queue of what one process does for all. The topics of its jobs begin with it.
const upkeepQueue = "keep"

// lookers is how many repositories at forges a process looks at in one moment.
const lookers = 4

// Duties say what a process does.
type Duties struct {
	Work bool // it takes runs through the steps
	// it does what one process does for all: it has the built-in repositories, and collects; the process is the leader
	Keep bool
}

// Run does a process's duties until ctx ends: it works on the durable jobs, and looks for work that has no job. While
// the database takes no writes, as on a full disk, it tries again; reading goes on meanwhile.
func (w *Worker) Run(ctx context.Context, duties Duties) error {
	for said := false; ; said = true {
		err := w.runOnce(ctx, duties)
		if err == nil || ctx.Err() != nil || landfall.KindOf(err) != landfall.Unavailable {
			return err
		}
		if !said {
			w.Logger.ErrorContext(ctx, "runs wait until the database takes writes again, and pushes and webhooks are refused",
				"error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
}

// expireEvery is how often it is looked whether runs have waited for approval too long.
const expireEvery = time.Minute

// retryEvery is how often a process tries to begin its duties after it could not.
const retryEvery = 2 * time.Second

func (w *Worker) runOnce(ctx context.Context, duties Duties) error {
	working, stop := context.WithCancel(ctx)
	var sweeps sync.WaitGroup
	err := w.run(working, duties, &sweeps)
	stop() // the jobs may have ended by themselves
	sweeps.Wait()
	if kind := landfall.KindOf(err); ctx.Err() != nil && (kind == landfall.Canceled || kind == landfall.Unavailable) {
		return nil // stopped while it started: the driver may report the stop as a lost connection
	}
	return err
}

func (w *Worker) run(ctx context.Context, duties Duties, sweeps *sync.WaitGroup) error {
	if err := os.RemoveAll(w.Scratch); err != nil { // what an earlier life left when it was killed
		w.Logger.WarnContext(ctx, "the scratch folder cannot be emptied", "folder", w.Scratch, "error", err)
	}
	if err := w.DB.Update(ctx, func(tx *store.Tx) error { return tx.FreeLeases(ctx, w.Process) }); err != nil {
		return err
	}
	queues := map[string]int{}
	if duties.Keep {
		if err := w.Upkeep.FinishDeletions(ctx); err != nil {
			return err
		}
		if err := w.Upkeep.WakeRemovals(ctx); err != nil {
			return err
		}
		if err := errors.Join(w.Acceptor.Reconcile(ctx), w.Acceptor.SealCredentials(ctx)); err != nil {
			return err
		}
		round := time.Now().UnixNano()
		if err := w.wakeLooks(ctx, round, 0); err != nil {
			return err
		}
		w.keepQueues(queues)
		if err := w.Upkeep.WakeForget(ctx); err != nil { // also for a process that never lives for long
			return err
		}
		sweeps.Go(func() { w.repeat(ctx, upkeep.CollectEvery, w.Upkeep.WakeCollect) })
		sweeps.Go(func() { w.repeat(ctx, w.Upkeep.Retention.Every(), w.Upkeep.WakeForget) })
		sweeps.Go(func() { w.repeat(ctx, pipeline.SweepEvery, w.Acceptor.RetryUnrecorded) })
		sweeps.Go(func() {
			w.repeat(ctx, accept.CatchUpEvery, func(ctx context.Context) error {
				return w.wakeLooks(ctx, round, accept.CatchUpEvery)
			})
		})
		sweeps.Go(func() { w.repeat(ctx, expireEvery, w.Acceptor.Runs.ExpireWaiting) })
		sweeps.Go(func() { w.repeat(ctx, upkeep.CanariesEvery, w.Upkeep.DriveCanaries) })
		sweeps.Go(func() { w.repeat(ctx, canary.TurnEvery, w.Canaries.Turn) })
	}
	if duties.Work {
		queues[""] = pipeline.Workers
		queues[accept.QueueCatchUp] = lookers
		if err := w.Pipeline.WakeLost(ctx); err != nil {
			return err
		}
		if !duties.Keep { // that process answers whether anybody works, and knows about itself
			defer w.Pipeline.Leave(ctx)
			if err := w.Pipeline.Heartbeat(ctx); err != nil {
				return err
			}
			sweeps.Go(func() { w.repeat(ctx, w.Pipeline.HeartbeatEvery(), w.Pipeline.Heartbeat) })
		}
		sweeps.Go(func() { w.repeat(ctx, pipeline.SweepEvery, w.Pipeline.WakeLost) })
	}
	sweeps.Go(func() {
		w.sweep(ctx, w.Upkeep.SweepRemoved) // what was removed while this process was not running
		w.repeat(ctx, upkeep.CollectEvery, w.Upkeep.SweepRemoved)
	})
	queue := store.Queue{DB: w.DB, Process: w.Process, Queues: queues, Work: w.work, Logger: w.Logger}
	return queue.Run(ctx)
}

// keepQueues adds the queues on which one process works for all.
func (w *Worker) keepQueues(queues map[string]int) {
	queues[upkeepQueue] = 1
	if w.Acceptor.AppHook != nil {
		queues[accept.QueueHooks] = 1
	}
}

// wakeLooks makes the jobs that look at repositories at forges, and at their webhooks.
func (w *Worker) wakeLooks(ctx context.Context, round int64, within time.Duration) error {
	return errors.Join(w.Acceptor.WakeCatchUp(ctx, round, within), w.Acceptor.Hooks.Wake(ctx, round, within),
		w.Acceptor.AppHook.Wake(ctx, round), w.Acceptor.Pulls.Wake(ctx, round, within))
}

// work does what a durable job asks for, and logs errors with the names that the job has.
func (w *Worker) work(ctx context.Context, topic, id string) error {
	err := w.workOn(ctx, topic, id)
	if err == nil || landfall.KindOf(err) == landfall.Canceled {
		return nil
	}
	logger := w.Logger.With("topic", topic)
	switch topic {
	case runs.Topic:
		logger = logger.With("run", id)
	case runs.TopicCommit:
		logger = logger.With("commit", id)
	case accept.TopicLook:
		logger = logger.With("repository", id)
	case deploy.TopicCollect, accept.TopicCatchUp, accept.TopicHook:
		logger = logger.With("app_id", id)
	case accept.TopicPulls:
		logger = logger.With("repository_id", id)
	case accept.TopicPlace:
		app, ref, _ := strings.Cut(id, " ")
		logger = logger.With("app_id", app, "ref", ref)
	}
	logger.ErrorContext(ctx, "job failed", "error", err)
	return nil
}

func (w *Worker) workOn(ctx context.Context, topic, id string) error {
	switch topic {
	case runs.Topic:
		return w.Pipeline.Work(ctx, id)
	case runs.TopicCommit:
		return w.Pipeline.WorkCommit(ctx, landfall.CommitSHA(id))
	case deploy.TopicCollect:
		return w.Upkeep.Collect(ctx, id)
	case upkeep.TopicForget:
		return w.Upkeep.Forget(ctx)
	case accept.TopicPlace:
		app, ref, _ := strings.Cut(id, " ")
		return w.Acceptor.Place(ctx, app, landfall.RefName(ref))
	case accept.TopicCatchUp:
		return w.Acceptor.CatchUp(ctx, id)
	case accept.TopicLook:
		return w.Acceptor.CatchUpRepository(ctx, id)
	case accept.TopicHook:
		return w.Acceptor.Hooks.Look(ctx, id)
	case accept.TopicAppHook:
		return w.Acceptor.AppHook.Look(ctx)
	case accept.TopicPulls:
		return w.Acceptor.Pulls.Look(ctx, id)
	}
	return &landfall.Error{Op: "jobs.work", Message: "unknown topic " + topic}
}

// repeat calls do at an interval until ctx ends.
func (w *Worker) repeat(ctx context.Context, interval time.Duration, do func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.sweep(ctx, do)
	}
}

func (w *Worker) sweep(ctx context.Context, do func(context.Context) error) {
	if err := do(ctx); err != nil && landfall.KindOf(err) != landfall.Canceled {
		w.Logger.ErrorContext(ctx, "a sweep failed", "error", err)
	}
}
