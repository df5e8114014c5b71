package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// swap gives gateways the new table. The run is over in the store by then, and its report is owed: a process that dies
// here leaves a release that gateways read at their start, and a report that the outbox sends. Until then people are not
// told that the run is over: its release would not answer yet.
func (w *attempt) swap(ctx context.Context) {
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
