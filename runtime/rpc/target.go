package rpc

import (
	"slices"
	"time"
)

// target is a process to which events are sent. The router's lock guards it.
type target struct {
	name    string // of Runners, by which it was found
	address string
	calls   int // of this router, that are under way
	hot     map[string]*hotness

	down     time.Time // until when it gets no events, unless it answers before
	checking bool
}

// hotness is what is known of a function in a process.
type hotness struct {
	calls int // under way
	most  int // that were answered at once: so many processes it has
	last  time.Time
}

const (
	// warmFor is how long a process of a function waits, unless it is told otherwise.
	warmFor = 30 * time.Second
	// knownFor is how long a process is better than another one for having run a function.
	knownFor = 10 * time.Minute
	// mostKnown is of how many functions that is known in one process.
	mostKnown = 10_000
)

func newTarget(name, address string) *target {
	return &target{name: name, address: address, hot: map[string]*hotness{}}
}

// isHot reports whether the function has a process there that waits.
func (h *hotness) isHot(now time.Time) bool {
	return h != nil && h.calls < h.most && now.Sub(h.last) < warmFor
}

// pick returns the best process for a function, and counts a call of it; nil when there is none beside those that were
// tried. One that gets no events is the last resort: it may be back.
func (r *Router) pick(key string, tried []*target) (*target, *hotness) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *target
	r.turn++
	for i := range r.targets {
		t := r.targets[(r.turn+i)%len(r.targets)]
		if !slices.Contains(tried, t) && (best == nil || t.better(best, key, now)) {
			best = t
		}
	}
	if best == nil {
		return nil, nil
	}
	hot := best.hot[key]
	if hot == nil {
		hot = &hotness{}
		if len(best.hot) < mostKnown {
			best.hot[key] = hot
		}
	}
	best.calls++
	hot.calls++
	return best, hot
}

// better reports whether a process is better for a function than another one.
func (t *target) better(other *target, key string, now time.Time) bool {
	if up := !now.Before(t.down); up == now.Before(other.down) {
		return up
	}
	a, b := t.hot[key], other.hot[key]
	switch ahot, bhot := a.isHot(now), b.isHot(now); {
	case ahot != bhot:
		return ahot
	case t.calls != other.calls:
		return t.calls < other.calls
	}
	return a != nil && b == nil
}

// done counts a call that is over. well says that the function's process is there for the next one.
func (r *Router) done(t *target, hot *hotness, well bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.calls--
	if well {
		hot.most, hot.last = max(hot.most, hot.calls), time.Now()
	} else {
		hot.most = max(0, hot.most-1)
	}
	hot.calls--
}

// forget forgets functions that were not called for long. The caller holds the lock.
func (t *target) forget(now time.Time) {
	for key, hot := range t.hot {
		if hot.calls == 0 && now.Sub(hot.last) > knownFor {
			delete(t.hot, key)
		}
	}
}
