package runs

import (
	"context"
	"time"
)

const (
	owedBatch    = 50          // how many are looked at to find one of which the forge can be told
	composeAgain = time.Minute // until the next attempt, when it was not possible
)

// queue is a queue of what the forge must be told.
type queue[T any] interface {
	// Due returns that of which the forge may be told by now. What has waited longest comes first.
	Due(ctx context.Context, now time.Time, limit int) ([]T, error)

	// Postpone records that the forge is to be told at the given time, and why.
	Postpone(ctx context.Context, of T, at time.Time, problem string) error
}

// composer completes what waits in a queue with its report.
type composer[T any] struct {
	runs    *Runs
	noun    string // of one, for the log
	compose func(ctx context.Context, of *T) (ready bool, err error)
	name    func(T) []any // attributes for the log
}

// due returns at most limit of those in a queue that are due and ready, each with its report. One that cannot be
// composed does not hold back others.
func (c composer[T]) due(ctx context.Context, from queue[T], now time.Time, limit int) ([]T, error) {
	owed, err := from.Due(ctx, now, owedBatch)
	if err != nil {
		return nil, err
	}
	var due []T
	for _, one := range owed {
		ready, err := c.compose(ctx, &one)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			c.runs.Logger.ErrorContext(ctx, "a "+c.noun+" cannot be composed", append(c.name(one), "error", err)...)
			err := from.Postpone(ctx, one, now.Add(composeAgain), "It cannot be composed; the log says why.")
			if err != nil {
				return nil, err
			}
		case ready:
			due = append(due, one)
		}
		if len(due) == limit {
			break
		}
	}
	return due, nil
}
