package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/registry"
)

// askEvery is how often Live asks.
const askEvery = 2 * time.Second

// Live are those functions of live releases that a process without a database makes ready before they are called.
type Live struct {
	source  func(ctx context.Context) ([]*landfall.Function, error)
	prepare func(ctx context.Context, functions map[string]*landfall.Function)
	logger  *slog.Logger
	table   atomic.Pointer[registry.Table] // in which one release has them all
	known   string
}

// NewLive returns the live functions that source names. prepare makes them ready.
func NewLive(source func(ctx context.Context) ([]*landfall.Function, error),
	prepare func(ctx context.Context, functions map[string]*landfall.Function), logger *slog.Logger) *Live {
	l := &Live{source: source, prepare: prepare, logger: logger}
	l.table.Store(registry.New(nil))
	return l
}

// Table returns the newest table with them.
func (l *Live) Table() *registry.Table { return l.table.Load() }

// Follow asks again and again, until ctx ends.
func (l *Live) Follow(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	failing := false
	for {
		err := l.ask(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.logger.WarnContext(ctx, "the registry does not say which functions are live; those that are known stay ready",
				"error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *Live) ask(ctx context.Context) error {
	live, err := l.source(ctx)
	if err != nil {
		return err
	}
	var known strings.Builder
	var triggers []*registry.Trigger
	for _, f := range live {
		fmt.Fprintln(&known, f.ID, f.Resources)
		triggers = append(triggers, &registry.Trigger{Name: f.ID, Function: f})
	}
	if known.String() == l.known {
		return nil
	}
	const all = "live"
	table := registry.New([]registry.App{{ID: all, Name: all, Live: all,
		Releases: []registry.Release{{ID: all, Triggers: triggers}}}})
	l.prepare(ctx, table.Functions())
	l.table.Store(table)
	l.known = known.String()
	return nil
}

// MadeReady returns the functions of a table's live releases that are made ready before they are called: those that are
// kept warm, and those that are compiled first.
func MadeReady(table *registry.Table) []*landfall.Function {
	if table == nil {
		return nil
	}
	live := table.Live()
	maps.DeleteFunc(live, func(_ string, f *landfall.Function) bool {
		env, err := environment.Of(f.Environment)
		return f.Resources.KeepWarm == 0 && (err != nil || !env.Modules())
	})
	return slices.SortedFunc(maps.Values(live), func(a, b *landfall.Function) int { return cmp.Compare(a.ID, b.ID) })
}
