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

	mu      sync.Mutex
	ready   map[string]*placed // by the function's ID
	opening map[string]int     // how many calls open a folder of the package cache
}

// placed is a function that can be run here.
type placed struct {
	function runner.Function
	folder   string    // of the package cache
	calls    int       // that are under way
	unneeded time.Time // since when no release has it; zero: one has
}

func newFunctionHost(r *runner.Runner, p *packages.Cache, table func() *registry.Table, logger *slog.Logger) *functionHost {
	return &functionHost{runner: r, packages: p, table: table, logger: logger, ready: map[string]*placed{}, opening: map[string]int{}}
}

var _ gateway.Functions = (*functionHost)(nil)

// Run implements gateway.Functions.
func (h *functionHost) Run(ctx context.Context, f *registry.Function, e event.Event) (event.Event, error) {
	p, err := h.place(ctx, f)
	if err != nil {
		return event.Event{}, err
	}
	defer h.leave(p)
	return h.runner.Run(ctx, p.function, e)
}

// place returns how a function is run here. Its package is unpacked by its first call. It stays until leave.
func (h *functionHost) place(ctx context.Context, f *registry.Function) (*placed, error) {
	if p := h.called(f.ID, nil); p != nil {
		return p, nil
	}
	if f.Package.Key == "" {
		return nil, &landfall.Error{Op: "functions.place", Kind: landfall.NotFound, Message: "the package of " + f.Name +
			" is not stored here: archives that are given by a URL or as a literal are not fetched"}
	}
	env, err := environment.Of(f.Environment.Name, f.Environment.Image)
	if err != nil {
		return nil, err
	}
	folder := f.Package.Digest.Hex() + "-" + env.Key()
	h.open(folder)
	defer h.opened(folder)
	dir, err := h.packages.Open(ctx, folder, packages.Archive{Key: f.Package.Key, Digest: f.Package.Digest}, env.Install)
	if err != nil {
		return nil, err
	}
	args, form, err := env.Command(dir, f.Entrypoint)
	if err != nil {
		return nil, err
	}
	function := runner.Function{ID: f.ID, Args: args, Dir: dir, Env: variables(f), Form: form, Resources: f.Resources}
	return h.called(f.ID, &placed{function: function, folder: folder}), nil
}

// called counts a call of a function: of the one that is ready, else of made, which is ready then. Without both it returns nil.
func (h *functionHost) called(id string, made *placed) *placed {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ready[id]
	if p == nil && made != nil {
		p, h.ready[id] = made, made
	}
	if p != nil {
		p.calls++
	}
	return p
}

func (h *functionHost) leave(p *placed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.calls--
}

// open keeps a folder until opened, also while no function that is ready has it.
func (h *functionHost) open(folder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[folder]++
}

func (h *functionHost) opened(folder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[folder]--
	if h.opening[folder] == 0 {
		delete(h.opening, folder)
	}
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
	h.forget(now, h.table().Functions())
	return h.packages.Keep(h.folders)
}

func (h *functionHost) forget(now time.Time, needed map[string]*registry.Function) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.ready {
		_, has := needed[id]
		switch {
		case has:
			p.unneeded = time.Time{}
		case p.unneeded.IsZero():
			p.unneeded = now
		case now.Sub(p.unneeded) >= keepUnneeded && p.calls == 0:
			h.runner.Forget(id)
			delete(h.ready, id)
		}
	}
}

// folders returns those of the package cache that a process runs in, or is about to.
func (h *functionHost) folders() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	folders := map[string]bool{}
	for _, p := range h.ready {
		folders[p.folder] = true
	}
	for folder := range h.opening {
		folders[folder] = true
	}
	return folders
}

// functionLogs writes what functions log into the server's log.
type functionLogs struct{ *slog.Logger }

// Log implements runner.Logs.
func (l functionLogs) Log(function, execution string, text []byte) {
	l.Info("function log", "function", function, "execution", execution, "text", string(text))
}
