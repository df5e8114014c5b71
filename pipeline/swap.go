package pipeline

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
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
	if err := w.Gateways.RefreshApp(ctx, w.app.ID); err != nil {
		w.logger.WarnContext(ctx, "gateways will find the new release by polling", "error", err)
	}
	w.swapping.Delete(w.run.ID)
	crashpoint.Here("swap.after")
	err := w.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.RecordStep(ctx, w.run.ID, w.run.Attempt, landfall.StepSwap, begin, w.Now())
	})
	if err != nil {
		w.logger.WarnContext(ctx, "the step was not recorded", "step", landfall.StepSwap, "error", err)
	}
}

// Shown returns a run as people may see it: one that made a release is over once the gateways of this process have that.
// The run must have been read before.
func (p *Pipeline) Shown(run landfall.Run) landfall.Run {
	if _, swapping := p.swapping.Load(run.ID); swapping && run.State == landfall.RunSucceeded {
		run.State, run.Step, run.Reason, run.Release, run.Finished = landfall.RunRunning, landfall.StepSwap, "", "", time.Time{}
	}
	return run
}

// movement is a delivery that may move what an app's addresses show.
type movement struct{ app, hook, delivery string }

// behind reports whether the gateways of this process may not have what the store says of an app, or of the newest of the
// runs. Both must have been read before.
func (p *Pipeline) behind(app string, runs []landfall.Run) bool {
	if len(runs) > 0 && p.Shown(runs[0]).State != runs[0].State {
		return true
	}
	moving := false
	p.moving.Range(func(key, _ any) bool {
		m, ok := key.(movement)
		moving = ok && m.app == app
		return !moving
	})
	return moving
}

// Outbox is the store's, from which the reports of runs that are not over for people are not due.
type Outbox struct {
	store.Outbox

	Pipeline *Pipeline
}

// Due returns what the store's Due does, without what has to wait for the gateways of this process.
func (o Outbox) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Report, error) {
	due, err := o.Outbox.Due(ctx, now, limit)
	return slices.DeleteFunc(due, func(r landfall.Report) bool {
		_, swapping := o.Pipeline.swapping.Load(r.Run)
		return swapping && r.State == landfall.StatusSuccess
	}), err
}
