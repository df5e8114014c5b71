package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// swap gives gateways the new table. The run is over in the store by then, and its report is queued. If the process
// dies here, gateways read the release at their start, and the outbox sends the report. Until gateways have the table,
// people do not see the run as over, because its release would not answer yet.
func (a *attempt) swap(ctx context.Context) {
	// The heartbeat finds that the run is over and ends its context, but this step still belongs to the run.
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
