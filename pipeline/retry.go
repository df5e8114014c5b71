package pipeline

import (
	"time"

	"landfall.dev/landfall"
)

// action is what happens with a run whose attempt ended in an error.
type action uint8

const (
	fail     action = iota // the run is over
	tryAgain               // after a delay
	giveBack               // at once, by any worker; the attempt does not count
)

type decision struct {
	action action
	state  landfall.RunState // for fail
	after  time.Duration     // for tryAgain
}

// These bound how often and how soon a run is tried again.
const (
	maxFailures = 6
	firstDelay  = 2 * time.Second
	maxDelay    = 2 * time.Minute
)

// decide returns what happens after an attempt that ended in an error of the given kind, when failures attempts have
// failed before.
func decide(kind landfall.Kind, failures int) decision {
	switch kind {
	case landfall.Invalid, landfall.NotFound, landfall.Conflict:
		return decision{action: fail, state: landfall.RunFailed}
	case landfall.Unauthorized, landfall.Forbidden:
		return decision{action: fail, state: landfall.RunError}
	case landfall.Canceled:
		return decision{action: giveBack}
	case landfall.Unavailable, landfall.Internal:
		if failures+1 >= maxFailures {
			return decision{action: fail, state: landfall.RunError}
		}
		return decision{action: tryAgain, after: min(firstDelay<<failures, maxDelay)}
	}
	return decision{action: fail, state: landfall.RunError}
}
