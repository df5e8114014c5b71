package registry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
)

// DefaultInterval is how often Run looks for changes whose notice was lost.
const DefaultInterval = 2 * time.Second

// Source is where apps are read from.
type Source interface {
	// Apps returns every app, deleted ones included.
	Apps(ctx context.Context) ([]App, error)
	// App returns the app with that ID, or a NotFound error.
	App(ctx context.Context, id string) (App, error)
	// Changes returns a number that differs from every earlier one after anything changed that Apps shows.
	Changes(ctx context.Context) (int64, error)
}

// Registry keeps the newest table. While its Source fails it keeps the table that it has.
// Its methods may be called at the same time.
type Registry struct {
	Source   Source
	Interval time.Duration // of Run; 0: DefaultInterval
	Log      *slog.Logger  // what Run could not read; nil: nowhere

	table atomic.Pointer[Table]

	mu    sync.Mutex
	reads uint64            // counts the reads of Source in the order in which they began
	full  uint64            // the newest Refresh that the table shows
	apps  map[string]uint64 // app ID to the RefreshApp, newer than full, that the table shows
}

// Table returns the newest table; nil until the first Refresh succeeded.
func (r *Registry) Table() *Table { return r.table.Load() }

// Refresh reads all apps and swaps the table. It returns the Source's error and then changes nothing.
// An app that RefreshApp began to read later stays as that read it.
func (r *Registry) Refresh(ctx context.Context) error {
	read := r.begin()
	apps, err := r.Source.Apps(ctx)
	if err != nil {
		return &landfall.Error{Op: "registry.refresh", Kind: landfall.KindOf(err), Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full > read {
		return nil // a read that began later was faster
	}
	r.full = read
	next := New(apps)
	for id, later := range r.apps {
		if later < read {
			delete(r.apps, id)
			continue
		}
		next = next.without(id)
		if s, ok := r.table.Load().ids[id]; ok {
			next.put(s.app)
		}
	}
	r.table.Store(next)
	return nil
}

// RefreshApp reads one app and swaps the table. An app that the Source does not find leaves the table. It returns the
// Source's other errors and then changes nothing. Before the first Refresh it reads all.
func (r *Registry) RefreshApp(ctx context.Context, id string) error {
	if r.Table() == nil {
		return r.Refresh(ctx)
	}
	read := r.begin()
	app, err := r.Source.App(ctx, id)
	gone := err != nil && landfall.KindOf(err) == landfall.NotFound
	if err != nil && !gone {
		return &landfall.Error{Op: "registry.refreshApp", Kind: landfall.KindOf(err), Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if max(r.full, r.apps[id]) > read {
		return nil // a read that began later was faster
	}
	if r.apps == nil {
		r.apps = make(map[string]uint64)
	}
	r.apps[id] = read
	if gone {
		r.table.Store(r.table.Load().without(id))
		return nil
	}
	r.table.Store(r.table.Load().with(app))
	return nil
}

func (r *Registry) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	return r.reads
}

// Run refreshes at once and then whenever the Source's counter moved, until ctx ends. It returns nil.
func (r *Registry) Run(ctx context.Context) error {
	interval := r.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for seen := int64(0); ; {
		changes, err := r.poll(ctx, seen)
		if err == nil {
			seen = changes
		} else if ctx.Err() == nil && r.Log != nil {
			r.Log.WarnContext(ctx, "routes not refreshed; the old ones stay", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// poll refreshes unless nothing changed since seen, and returns the counter as it was before.
func (r *Registry) poll(ctx context.Context, seen int64) (int64, error) {
	changes, err := r.Source.Changes(ctx)
	if err != nil {
		return 0, &landfall.Error{Op: "registry.poll", Kind: landfall.KindOf(err), Err: err}
	}
	if changes == seen && r.Table() != nil {
		return changes, nil
	}
	return changes, r.Refresh(ctx)
}
