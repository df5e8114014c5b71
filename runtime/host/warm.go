package host

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

const (
	warmLook  = 200 * time.Millisecond // how often it is looked whether another release is live
	warmAgain = 30 * time.Second       // how often processes are started that ended meanwhile

	// Processes that are kept warm take room from functions that are called. So only half of what the runner has, and a
	// quarter of that for one app, are kept: what is more waits as any process does.
	mostWarm      = 32
	mostWarmOfApp = mostWarm / 4
)

// KeepWarm makes the functions of the table ready, starts processes of the functions of live releases that keep some,
// and lets those of others go when there is a newer table, until ctx ends.
func (h *Host) KeepWarm(ctx context.Context, table func() *registry.Table) error {
	h.preparing.Go(func() { h.placeModules(ctx, table().Functions()) })
	tick := time.NewTicker(warmLook)
	defer tick.Stop()
	var seen *registry.Table
	var last time.Time
	for {
		if newest := table(); newest != seen || time.Since(last) >= warmAgain {
			h.warmUp(ctx, newest)
			seen, last = newest, time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// warmUp makes as many processes ready as the live releases of a table want.
func (h *Host) warmUp(ctx context.Context, table *registry.Table) {
	wanted := wantedWarm(table.Live())
	h.mu.Lock()
	before := h.warm
	h.warm = wanted
	var cooled []warmTarget
	for id, w := range before {
		if h.ready[id] != nil && wanted[id].function == nil {
			cooled = append(cooled, w)
		}
	}
	h.mu.Unlock()
	for _, w := range cooled {
		_ = h.warmOne(ctx, warmTarget{w.function, 0}) // it starts none
	}
	for _, w := range wanted {
		if err := h.warmOne(ctx, w); err != nil && ctx.Err() == nil {
			h.Logger.WarnContext(ctx, "a function is not kept warm", "function", w.function.Name, "version", w.function.Version,
				"error", err)
		}
	}
}

func (h *Host) warmOne(ctx context.Context, w warmTarget) error {
	p, err := h.place(ctx, w.function)
	if err != nil {
		return err
	}
	defer h.leave(p)
	function := p.function
	function.Resources = w.function.Resources
	function.Resources.KeepWarm = w.processes
	return h.Runner.Warm(function)
}

// warmTarget is how many processes of a function are kept warm.
type warmTarget struct {
	function  *landfall.Function
	processes int
}

// wantedWarm returns what is kept warm of the functions of live releases, by their IDs.
func wantedWarm(live map[string]*landfall.Function) map[string]warmTarget {
	wanted := map[string]warmTarget{}
	all, ofApp := 0, map[string]int{}
	byName := slices.SortedFunc(maps.Values(live), func(a, b *landfall.Function) int { return cmp.Compare(a.ID, b.ID) })
	for _, f := range byName {
		n := min(f.Resources.KeepWarm, mostWarm-all, mostWarmOfApp-ofApp[f.App])
		if n > 0 {
			wanted[f.ID] = warmTarget{f, n}
			all += n
			ofApp[f.App] += n
		}
	}
	return wanted
}

// keptWarm returns how many processes of a function are kept warm.
func (h *Host) keptWarm(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.warm[id].processes
}
