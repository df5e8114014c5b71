package execution

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/store"
)

// called is a version of a function as a trigger leads to it, or as it is called by its name.
type called struct {
	app, function string
	number        int64
	trigger       string
	alias         string // with weights, that decided
}

// count adds a call to what canaries are told: those of an alias, only of what called it by that. Who did not wait for
// the answer says nothing. The caller holds the lock.
func (r *Recorder) count(x *running, outcome Outcome, answer event.Event) {
	if outcome == Canceled {
		return
	}
	if r.counts == nil {
		r.counts = map[called]*landfall.CanaryFigures{}
	}
	of := called{x.AppID, x.Function, x.Number, x.Trigger, x.alias}
	n := r.counts[of]
	if n == nil {
		n = &landfall.CanaryFigures{}
		r.counts[of] = n
	}
	n.Requests++
	if outcome != Succeeded || x.shared && isFailure(answer) {
		n.Failures++
	}
}

// isFailure reports whether an answer has a status that says that the server failed.
func isFailure(answer event.Event) bool {
	p, err := event.ProtocolOf(answer)
	return err != nil || p.Status >= http.StatusInternalServerError
}

// tellCanaries adds what was counted to the canaries that move calls between these versions. When the store does not
// take it, it is added later.
func (r *Recorder) tellCanaries(ctx context.Context) error {
	r.mu.Lock()
	counts := r.counts
	r.counts = nil
	r.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	canaries, err := r.DB.RunningCanaries(ctx)
	if err == nil && len(canaries) > 0 {
		slices.SortFunc(canaries, func(x, y landfall.Canary) int { return cmp.Compare(x.ID, y.ID) }) // all in one order
		err = r.DB.Update(ctx, func(tx *store.Tx) error { return addCounts(ctx, tx, canaries, counts) })
	}
	if err != nil {
		r.takeBack(counts)
	}
	return err
}

func addCounts(ctx context.Context, tx *store.Tx, canaries []landfall.Canary,
	counts map[called]*landfall.CanaryFigures) error {
	for _, c := range canaries {
		for newer, side := range []landfall.CanarySide{c.Older, c.Newer} {
			var sum landfall.CanaryFigures
			for of, n := range counts {
				if of.app == c.AppID && of.function == side.Function && of.number == side.Number &&
					(c.Trigger == "" || c.Trigger == of.trigger) && (c.Alias == "" || c.Alias == of.alias) {
					sum.Requests, sum.Failures = sum.Requests+n.Requests, sum.Failures+n.Failures
				}
			}
			if sum.Requests == 0 {
				continue
			}
			if err := tx.CountCanary(ctx, c.ID, newer == 1, sum.Requests, sum.Failures); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeBack adds counts that were not written to those that came meanwhile.
func (r *Recorder) takeBack(counts map[called]*landfall.CanaryFigures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = counts
		return
	}
	for of, n := range counts {
		if later := r.counts[of]; later != nil {
			n.Requests, n.Failures = n.Requests+later.Requests, n.Failures+later.Failures
		}
		r.counts[of] = n
	}
}
