package main

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/trigger"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
)

// functionHost runs the functions of releases on this machine.
type functionHost struct {
	runner   *runner.Runner
	packages *packages.Cache
	table    func() *registry.Table
	network  func(f *landfall.Function) *sandbox.Proxy // of a function whose spec asks for one; nil: none gets one
	secrets  *secret.Keeper                            // nil: no function that names any is run
	recorder *execution.Recorder                       // nil: nothing is recorded
	logger   *slog.Logger
	most     int64 // bytes of packages that are kept unpacked while nothing of them runs; 0: any

	began     time.Time
	preparing sync.WaitGroup
	ending    chan struct{} // closed when it ends

	mu      sync.Mutex
	ready   map[string]*placed // by the function's ID
	opening map[string]int     // how many calls open a folder of the package cache
	warm    map[string]*warmth // by the function's ID
}

// placed is a function that can be run here.
type placed struct {
	function runner.Function
	folder   string    // of the package cache
	calls    int       // that are under way
	used     time.Time // by the last call
	unneeded time.Time // since when no release has it and nobody calls it; zero: one has, or somebody does
}

func newFunctionHost(r *runner.Runner, p *packages.Cache, table func() *registry.Table, logger *slog.Logger) *functionHost {
	return &functionHost{
		runner: r, packages: p, table: table, logger: logger, began: time.Now(), ending: make(chan struct{}), ready: map[string]*placed{},
		opening: map[string]int{},
	}
}

var _ trigger.Functions = (*functionHost)(nil)

// Run implements trigger.Functions. It records the execution.
func (h *functionHost) Run(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
	return h.recorder.Run(ctx, f, e, func(ctx context.Context, e event.Event) (event.Event, error) { return h.run(ctx, f, e) })
}

func (h *functionHost) run(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
	p, err := h.place(ctx, f)
	if err != nil {
		return event.Event{}, err
	}
	defer h.leave(p)
	function := p.function
	function.Resources = f.Resources // of the trigger, which the others of the function need not have
	function.Resources.KeepWarm = h.keptWarm(f.ID)
	return h.runner.Run(ctx, function, e)
}

// byName runs functions that are called by their names.
type byName struct{ *trigger.Manager }

var _ invoke.Functions = byName{}

// Run implements invoke.Functions.
func (b byName) Run(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
	return b.Call(ctx, f, e)
}

// redact takes a function's secrets out of a text.
func (h *functionHost) redact(f *landfall.Function, text string) string {
	h.mu.Lock()
	p := h.ready[f.ID]
	h.mu.Unlock()
	if p == nil || p.function.Hide == nil {
		return text // it has not run here: it said nothing
	}
	return p.function.Hide.String(text)
}

// place returns how a function is run here. Its package is unpacked by its first call. It stays until leave.
func (h *functionHost) place(ctx context.Context, f *landfall.Function) (*placed, error) {
	if p := h.called(f.ID, nil); p != nil {
		return p, nil
	}
	u, err := h.unpack(ctx, f)
	if err != nil {
		return nil, err
	}
	defer h.opened(u.folder)
	args, form, err := u.env.Command(u.dir, f.Entrypoint)
	if err != nil {
		return nil, err
	}
	function := runner.Function{Function: *f, Args: args, Dir: u.dir, Env: variables(f), Form: form}
	if f.Network && h.network != nil {
		function.Proxy = h.network(f)
	}
	if u.env.Modules() {
		if function.Module, err = h.runner.Modules.Load(ctx, filepath.Join(u.dir, args[0])); err != nil {
			return nil, err
		}
	}
	root, err := u.env.Root(u.dir)
	if err != nil {
		return nil, err
	}
	if root != nil {
		function.Root, function.Dir = root.Folder, root.Dir
		function.Env = maps.Clone(root.Env)
		maps.Copy(function.Env, variables(f))
	}
	if err := reveal(h.secrets, f, &function); err != nil {
		return nil, err
	}
	return h.called(f.ID, &placed{function: function, folder: u.folder}), nil
}

// unpacked is a function's package, ready to run.
type unpacked struct {
	env    environment.Environment
	folder string // of the package cache
	dir    string
}

// unpack unpacks a function's package, unless it is. It stays until opened is called with its folder.
func (h *functionHost) unpack(ctx context.Context, f *landfall.Function) (unpacked, error) {
	if f.Package.Key == "" {
		return unpacked{}, &landfall.Error{Op: "functions.unpack", Kind: landfall.NotFound, Message: "the package of " + f.Name +
			" is not stored here: archives that are given by a URL or as a literal are not fetched"}
	}
	env, err := environment.Of(f.Environment)
	if err != nil {
		return unpacked{}, err
	}
	u := unpacked{env: env, folder: folderOf(f, env)}
	h.open(u.folder)
	u.dir, err = h.packages.Open(ctx, u.folder, packages.Archive{Key: f.Package.Key, Digest: f.Package.Digest}, env.Install)
	if err != nil {
		h.opened(u.folder)
	}
	return u, err
}

// folderOf returns the name of the folder of a function's package.
func folderOf(f *landfall.Function, env environment.Environment) string {
	return f.Package.Digest.Hex() + "-" + env.Key()
}

// prepareLimit is how long a change waits for its functions. What takes longer goes on, and calls wait for it.
const prepareLimit = 10 * time.Second

// prepare makes functions ready whose first call would otherwise take long: those that are modules.
func (h *functionHost) prepare(ctx context.Context, functions map[string]*landfall.Function) {
	ready := make(chan struct{})
	h.preparing.Go(func() {
		defer close(ready)
		h.placeModules(context.WithoutCancel(ctx), functions)
	})
	limit := time.NewTimer(prepareLimit)
	defer limit.Stop()
	select {
	case <-ready:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func (h *functionHost) placeModules(ctx context.Context, functions map[string]*landfall.Function) {
	for _, f := range functions {
		env, err := environment.Of(f.Environment)
		if err != nil || !env.Modules() || f.Package.Key == "" {
			continue // which its calls are told
		}
		select {
		case <-h.ending:
			return
		default:
		}
		p, err := h.place(ctx, f)
		if err != nil {
			h.logger.WarnContext(ctx, "a function is not ready yet", "function", f.Name, "version", f.Version, "error", err)
			continue
		}
		h.leave(p)
	}
}

// Close ends what runs, and what is being made ready. Nothing may be called any more.
func (h *functionHost) Close() {
	close(h.ending)
	h.runner.Close()
	h.preparing.Wait()
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
		p.used = time.Now()
		p.unneeded = time.Time{} // who calls it needs it
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

// identity tells a function who it is, and an adaptor how the function takes bodies.
func identity(f *landfall.Function) map[string]string {
	env := map[string]string{"LANDFALL_FUNCTION": f.Name, "LANDFALL_VERSION": string(f.Version), "LANDFALL_NAMESPACE": f.Namespace}
	if f.Body > 0 {
		env["LANDFALL_STREAM_BODY"] = "true"
	}
	return env
}

// variables returns what a function gets as environment: the app's configuration over what its environment says, and who it is.
func variables(f *landfall.Function) map[string]string {
	env := identity(f)
	for name, value := range f.Environment.Env {
		if _, ours := env[name]; !ours {
			env[name] = value
		}
	}
	who := identity(f)
	for name, value := range f.Config {
		if _, ours := who[name]; !ours && variableName.MatchString(name) {
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
	// keepUnused is how long a function stays that nobody calls. Its next call unpacks its package again.
	keepUnused = 24 * time.Hour
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
	functions := h.table().Functions()
	h.forget(now, functions)
	inherited := h.inherited(now, functions)
	return h.packages.Keep(func() map[string]bool {
		folders := h.folders()
		maps.Copy(folders, inherited)
		return folders
	})
}

// inherited returns the folders of functions that an earlier start of the server unpacked and nobody has called since: they stay as
// long as those that were called once, while there is room for all.
func (h *functionHost) inherited(now time.Time, functions map[string]*landfall.Function) map[string]bool {
	var all int64
	for _, size := range h.packages.Sizes() {
		all += size
	}
	if now.Sub(h.began) >= keepUnused || (h.most > 0 && all > h.most) {
		return nil
	}
	folders := map[string]bool{}
	for _, f := range functions {
		if env, err := environment.Of(f.Environment); err == nil {
			folders[folderOf(f, env)] = true
		}
	}
	return folders
}

func (h *functionHost) forget(now time.Time, needed map[string]*landfall.Function) {
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
	h.forgetUnused(now)
}

// forgetUnused forgets functions of which nothing runs, those that were not called for longest first: what was not called for long,
// and what has more than its share of the disk. The caller holds the lock.
func (h *functionHost) forgetUnused(now time.Time) {
	sizes, users := h.packages.Sizes(), map[string]int{}
	var all int64
	for _, size := range sizes {
		all += size
	}
	var unused []string
	for id, p := range h.ready {
		users[p.folder]++
		processes, _ := h.runner.Count(id)
		if p.calls == 0 && processes == 0 && now.Sub(p.used) >= keepUnneeded {
			unused = append(unused, id)
		}
	}
	slices.SortFunc(unused, func(a, b string) int { return h.ready[a].used.Compare(h.ready[b].used) })
	for _, id := range unused {
		p := h.ready[id]
		if now.Sub(p.used) < keepUnused && (h.most == 0 || all <= h.most) {
			return
		}
		users[p.folder]--
		if users[p.folder] == 0 {
			all -= sizes[p.folder]
		}
		h.runner.Forget(id)
		delete(h.ready, id)
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
