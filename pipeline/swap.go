package pipeline

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// swap gives gateways the new table. The run is over in the store by then, and its report is owed: a process that dies
// here leaves a release that gateways read at their start, and a report that the outbox sends. Until then people are not
// told that the run is over: its release would not answer yet.
func (w *worker) swap(ctx context.Context) {
	// The heartbeat finds that the run is over, and ends what the run does; this belongs to it still.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickLimit)
	defer cancel()
	crashpoint.Here("swap.before")
	begin := w.Now()
	traced, span := w.Tracer.Start(ctx, string(landfall.StepSwap), trace.Step(landfall.StepSwap))
	w.Rollout.Show(traced, w.app)
	span.End(nil)
	w.meter().StepDone(landfall.StepSwap, w.Now().Sub(begin))
	crashpoint.Here("swap.after")
	err := w.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.RecordStep(ctx, w.run.ID, w.run.Attempt, landfall.StepSwap, begin, w.Now())
	})
	if err != nil {
		w.logger.WarnContext(ctx, "the step was not recorded", "step", landfall.StepSwap, "error", err)
	}
}

// Shown returns a run as people may see it: one that made a release is over once gateways show that. One that ended long
// ago is over, whatever became of a gateway since.
func (p *Pipeline) Shown(ctx context.Context, run landfall.Run) landfall.Run {
	if run.State != landfall.RunSucceeded || p.Now().Sub(run.Finished) > swapLimit || p.Rollout.Shows(ctx, run.App, run.Change) {
		return run
	}
	run.State, run.Step, run.Reason, run.Release, run.Finished = landfall.RunRunning, landfall.StepSwap, "", "", time.Time{}
	return run
}

const swapLimit = time.Minute

// Outbox is the store's, from which the reports of runs that are not over for people are not due.
type Outbox struct {
	store.Outbox

	Pipeline *Pipeline
}

// Due returns what the store's Due does, without what has to wait for gateways.
func (o Outbox) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Report, error) {
	due, err := o.Outbox.Due(ctx, now, limit)
	return slices.DeleteFunc(due, func(r landfall.Report) bool {
		if r.State != landfall.StatusSuccess {
			return false
		}
		run, err := o.DB.Run(ctx, r.Run)
		return err == nil && o.Pipeline.Shown(ctx, run).State != run.State
	}), err
}
