package runs

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Outbox is the store's, without the reports of runs that are not over for people yet.
type Outbox struct {
	store.Outbox

	Runs *Runs
}

// Due returns what the store's Due does, without the reports that must wait for gateways.
func (o Outbox) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Report, error) {
	due, err := o.Outbox.Due(ctx, now, limit)
	return slices.DeleteFunc(due, func(r landfall.Report) bool {
		if r.State != landfall.StatusSuccess {
			return false
		}
		run, err := o.DB.Run(ctx, r.Run)
		return err == nil && o.Runs.View(ctx, run).State != run.State
	}), err
}
