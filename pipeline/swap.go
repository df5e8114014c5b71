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
func (a *attempt) swap(ctx context.Context) {
	// The heartbeat finds that the run is over, and ends what the run does; this belongs to it still.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickLimit)
	defer cancel()
	crashpoint.Here("swap.before")
	begin := a.Now()
	traced, span := a.Tracer.Start(ctx, string(landfall.StepSwap), trace.Step(landfall.StepSwap))
	a.Rollout.Show(traced, a.app)
	span.End(nil)
	a.meter().StepDone(landfall.StepSwap, a.Now().Sub(begin))
	crashpoint.Here("swap.after")
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.RecordStep(ctx, a.run.ID, a.run.Attempt, landfall.StepSwap, begin, a.Now())
	})
	if err != nil {
		a.logger.WarnContext(ctx, "the step was not recorded", "step", landfall.StepSwap, "error", err)
	}
}
