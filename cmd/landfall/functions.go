package main

import (
	"context"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// functionHost runs the functions of releases on this machine.
type functionHost struct {
	runner   *runner.Runner
	packages *packages.Cache
	table    func() *registry.Table
	logger   *slog.Logger

	mu    sync.Mutex
	ready map[string]placed // by the function's ID
}

// placed is a function that can be run here.
type placed struct {
	function runner.Function
	folder   string    // of the package cache
	unneeded time.Time // since when no release has it; zero: one has
}

func newFunctionHost(r *runner.Runner, p *packages.Cache, table func() *registry.Table, logger *slog.Logger) *functionHost {
	return &functionHost{runner: r, packages: p, table: table, logger: logger, ready: map[string]placed{}}
}

var _ gateway.Functions = (*functionHost)(nil)

// Run implements gateway.Functions.
func (h *functionHost) Run(ctx context.Context, f *registry.Function, e event.Event) (event.Event, error) {
	function, err := h.place(ctx, f)
	if err != nil {
		return event.Event{}, err
	}
	return h.runner.Run(ctx, function, e)
}

// place returns how a function is run here. Its package is unpacked by its first call.
func (h *functionHost) place(ctx context.Context, f *registry.Function) (runner.Function, error) {
	h.mu.Lock()
	p, ok := h.ready[f.ID]
	h.mu.Unlock()
	if ok {
		return p.function, nil
	}
	if f.Package.Key == "" {
		return runner.Function{}, &landfall.Error{Op: "functions.place", Kind: landfall.NotFound, Message: "the package of " + f.Name +
			" is not stored here: archives that are given by a URL or as a literal are not fetched"}
	}
	env, err := environment.Of(f.Environment.Name, f.Environment.Image)
	if err != nil {
		return runner.Function{}, err
	}
	p.folder = f.Package.Digest.Hex() + "-" + env.Key()
	dir, err := h.packages.Open(ctx, p.folder, packages.Archive{Key: f.Package.Key, Digest: f.Package.Digest}, env.Install)
	if err != nil {
		return runner.Function{}, err
	}
	args, form, err := env.Command(dir, f.Entrypoint)
	if err != nil {
		return runner.Function{}, err
	}
	p.function = runner.Function{ID: f.ID, Args: args, Dir: dir, Env: variables(f), Form: form, Resources: f.Resources}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready[f.ID] = p
	return p.function, nil
}

// variables returns what a function gets as environment: the app's configuration, and who it is.
func variables(f *registry.Function) map[string]string {
	env := map[string]string{"LANDFALL_FUNCTION": f.Name, "LANDFALL_VERSION": string(f.Version), "LANDFALL_NAMESPACE": f.Namespace}
	for name, value := range f.Config {
		if _, ours := env[name]; !ours && variableName.MatchString(name) {
			env[name] = value
		}
	}
	return env
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const (
	tidyInterval = time.Minute
	// keepUnneeded is how long a function stays that no release has any more: a request may still be on its way to it.
	keepUnneeded = 2 * time.Minute
)

// tidyUp forgets functions that no release has any more, until ctx ends.
func (h *functionHost) tidyUp(ctx context.Context) error {
	tick := time.NewTicker(tidyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := h.tidy(now); err != nil {
				h.logger.WarnContext(ctx, "unpacked packages stay", "error", err)
			}
		}
	}
}

// tidy forgets the functions that no release has had for a while and that do nothing.
func (h *functionHost) tidy(now time.Time) error {
	needed := h.table().Functions()
	h.mu.Lock()
	defer h.mu.Unlock()
	folders := map[string]bool{}
	for id, p := range h.ready {
		_, has := needed[id]
		processes, idle := h.runner.Count(id)
		switch {
		case has:
			p.unneeded = time.Time{}
		case p.unneeded.IsZero():
			p.unneeded = now
		case now.Sub(p.unneeded) >= keepUnneeded && processes == idle:
			h.runner.Forget(id)
			delete(h.ready, id)
			continue
		}
		h.ready[id] = p
		folders[p.folder] = true
	}
	return h.packages.Keep(folders)
}

// functionLogs writes what functions log into the server's log.
type functionLogs struct{ *slog.Logger }

// Log implements runner.Logs.
func (l functionLogs) Log(function, execution string, text []byte) {
	l.Info("function log", "function", function, "execution", execution, "text", string(text))
}
