package host

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

const (
	KeepUnneeded  = keepUnneeded
	KeepUnused    = keepUnused
	MostWarm      = mostWarm
	MostWarmOfApp = mostWarmOfApp
)

// TidyAt is what Tidy does at a time.
func (h *Host) TidyAt(now time.Time, needed map[string]*landfall.Function) error {
	return h.tidy(now, needed)
}

// WarmUp is what KeepWarm does with a new table.
func (h *Host) WarmUp(ctx context.Context, table *registry.Table) { h.warmUp(ctx, table) }

// SetMaxBytes is for a disk that is too small all of a sudden.
func (h *Host) SetMaxBytes(n int64) { h.MaxBytes = n }

// WantedWarm returns how many processes of each function are kept warm.
func WantedWarm(live map[string]*landfall.Function) map[*landfall.Function]int {
	wanted := map[*landfall.Function]int{}
	for _, w := range wantedWarm(live) {
		wanted[w.function] = w.processes
	}
	return wanted
}
