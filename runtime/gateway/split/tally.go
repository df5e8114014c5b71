package split

import (
	"context"
	"sync"
	"time"
)

// Count is how many answers one side of a canary gave, and how many of them were failures.
type Count struct {
	Canary   string // its ID
	Newer    bool   // the canary's own release; otherwise the live one
	Requests int64
	Failures int64
}

// Tally counts the answers of canaries in memory, and hands them on from time to time. Its zero value counts.
type Tally struct {
	mu     sync.Mutex
	counts map[side]figures // since the last Flush
}

type side struct {
	canary string
	newer  bool
}

type figures struct{ requests, failures int64 }

// Add counts one answer. Many goroutines may call it.
func (t *Tally) Add(canary string, newer, failed bool) {
	f := figures{requests: 1}
	if failed {
		f.failures = 1
	}
	t.add(side{canary, newer}, f)
}

func (t *Tally) add(s side, more figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[side]figures{}
	}
	f := t.counts[s]
	t.counts[s] = figures{f.requests + more.requests, f.failures + more.failures}
}

// Flush hands on what was counted since the last Flush that did not fail.
func (t *Tally) Flush(ctx context.Context, write func(context.Context, []Count) error) error {
	t.mu.Lock()
	taken := t.counts
	t.counts = nil
	t.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	all := make([]Count, 0, len(taken))
	for s, f := range taken {
		all = append(all, Count{s.canary, s.newer, f.requests, f.failures})
	}
	err := write(ctx, all)
	if err != nil {
		for s, f := range taken {
			t.add(s, f)
		}
	}
	return err
}

// flushEvery is how old what others know of the counts may be.
const flushEvery = time.Second

// Run flushes until ctx ends, and then once more. What cannot be written is kept and told.
func (t *Tally) Run(ctx context.Context, write func(context.Context, []Count) error, failed func(error)) error {
	const patience = 3 * time.Second
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			if err := t.Flush(ctx, write); err != nil && ctx.Err() == nil {
				failed(err)
			}
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := t.Flush(last, write); err != nil {
		failed(err)
	}
	return nil
}
