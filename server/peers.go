package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
)

// buildRouter builds what sends events to other processes.
func (s *server) buildRouter() {
	s.router = &rpc.Router{Runners: s.config.Runners, Secret: secret.Text(s.config.RoleSecret), Logger: s.logger}
	if s.config.Router != "" {
		s.router.Runners = []string{s.config.Router}
	}
	if s.recorder != nil {
		s.router.Logs = s.recorder
	}
}

// functionLogs returns what takes the logs of the functions that run here. peers takes them for other processes; nil: none has functions
// run here.
func (s *server) functionLogs(peers *rpc.Logs) runner.Logs {
	switch {
	case peers == nil:
		return s.recorder
	case s.recorder == nil:
		return peers
	}
	return bothLogs{s.recorder, peers}
}

// buildRunner builds the door by which other processes have functions run in this one.
func (s *server) buildRunner(logs *rpc.Logs) {
	shared := secret.Text(s.config.RoleSecret)
	lookup := s.lookUp
	if s.db == nil {
		asked := &rpc.Registry{URL: s.config.Registry, Secret: shared}
		lookup = asked.Function
		s.live = &liveFunctions{source: asked.Live, prepare: s.functions.Prepare, logger: s.logger}
		s.live.table.Store(registry.New(nil))
	}
	s.runs = &rpc.Handler{Functions: s.functions, Lookup: lookup, Logs: logs, Secret: shared, Logger: s.logger}
}

// table returns what has the newest table with the functions that this process makes ready.
func (s *server) table() func() *registry.Table {
	switch {
	case s.registry != nil:
		return s.registry.Table
	case s.live != nil:
		return s.live.table.Load
	}
	none := registry.New(nil) // it hears of functions when others have them run
	return func() *registry.Table { return none }
}

// lookUp finds the function that another process has run here.
func (s *server) lookUp(ctx context.Context, name rpc.Name) (*landfall.Function, error) {
	return s.source().FunctionInGroup(ctx, name.Reference, name.Group)
}

// bothLogs gives a log to who records the execution here, and to who has it run from elsewhere: each knows its own.
type bothLogs [2]runner.Logs

// Log implements runner.Logs.
func (b bothLogs) Log(function, of string, text []byte) {
	for _, logs := range b {
		logs.Log(function, of, text)
	}
}

// liveEvery is how often a runner without a database asks which functions it makes ready.
const liveEvery = 2 * time.Second

// liveFunctions are those functions of live releases that a runner without a database makes ready before they are called.
type liveFunctions struct {
	source  func(ctx context.Context) ([]*landfall.Function, error)
	prepare func(ctx context.Context, functions map[string]*landfall.Function)
	logger  *slog.Logger
	table   atomic.Pointer[registry.Table] // in which one release has them all
	known   string
}

// follow asks again and again, until ctx ends.
func (l *liveFunctions) follow(ctx context.Context) error {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	failing := false
	for {
		err := l.ask(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.logger.WarnContext(ctx, "the registry does not say which functions are live; those that are known stay ready", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *liveFunctions) ask(ctx context.Context) error {
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
	table := registry.New([]registry.App{{ID: all, Name: all, Live: all, Releases: []registry.Release{{ID: all, Triggers: triggers}}}})
	l.prepare(ctx, table.Functions())
	l.table.Store(table)
	l.known = known.String()
	return nil
}

// liveHere returns the functions of live releases that runners make ready: those that are kept warm, and those that are compiled first.
func (s *server) liveHere() []*landfall.Function {
	table := s.registry.Table()
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

// lacks says what this machine lacks for the sandbox, where something runs in it.
func (s *server) lacks() []string {
	if !s.config.has(roleRunner) && !s.config.has(rolePipeline) {
		return nil
	}
	return s.sandbox.Lacks()
}

// routeRun serves /run: to other processes, what runs or sends on events here; to everybody else, the trigger manager.
func (s *server) routeRun(control *http.ServeMux, events http.Handler) {
	var peers http.Handler
	switch {
	case s.runs != nil:
		peers = s.runs
	case s.config.has(roleRouter):
		peers = s.router
	}
	switch {
	case peers == nil && events == nil:
		control.HandleFunc(invoke.RunPath, invoke.Elsewhere(string(roleTrigger)))
	case peers == nil:
		control.Handle(invoke.RunPath, events)
	case events == nil:
		control.Handle(invoke.RunPath, peers)
	default:
		control.Handle(invoke.RunPath, rpc.Roles(secret.Text(s.config.RoleSecret), peers, events))
	}
}

// functionDoor is where functions are called by their names and described: to runners, with all that they need.
func (s *server) functionDoor(named http.Handler) http.Handler {
	if !s.config.has(roleRegistry) || s.config.RoleSecret == "" {
		return named
	}
	return &rpc.Door{Find: s.source().FunctionInGroup, Live: s.liveHere, Secret: secret.Text(s.config.RoleSecret), Next: named}
}
