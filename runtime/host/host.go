// Package host runs the functions of releases in this process: it unpacks their packages, keeps those that are called,
// and gives them their variables and secrets.
package host

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
)

// Config is what a Host is made of.
type Config struct {
	Runner    *runner.Runner  // ends with the host
	Packages  *packages.Cache // of no other host
	Network   *Network        // nil: no function gets one, whatever its spec says
	Secrets   *secret.Keeper  // nil: no function that names any is run
	Redactors *Redactors      // get to know the secrets of what runs here; nil: nobody asks for them
	MaxBytes  int64           // of packages that are kept unpacked while nothing of them runs; 0: any
	Logger    *slog.Logger
}

// Host runs functions on this machine. Its methods may be called at the same time.
type Host struct {
	Config

	began     time.Time
	preparing sync.WaitGroup
	ending    chan struct{} // closed when it ends

	mu      sync.Mutex
	ready   map[string]*placed    // by the function's ID
	opening map[string]int        // how many calls open a folder of the package cache
	warm    map[string]warmTarget // by the function's ID
}

// New returns a host. The caller closes it.
func New(c Config) *Host {
	c.Redactors = cmp.Or(c.Redactors, &Redactors{})
	return &Host{
		Config: c, began: time.Now(), ending: make(chan struct{}), ready: map[string]*placed{}, opening: map[string]int{},
	}
}

// placed is a function that can be run here.
type placed struct {
	function runner.Function
	folder   string    // of the package cache
	calls    int       // that are under way
	used     time.Time // by the last call
	unneeded time.Time // since when no release has it and nobody calls it; zero: one has, or somebody does
}

var _ function.Caller = (*Host)(nil)

// Call implements function.Caller. NotFound when the function's package is not stored, Conflict when it cannot have its
// secrets.
func (h *Host) Call(ctx context.Context, c function.Call) (event.Event, error) {
	p, err := h.place(ctx, c.Function)
	if err != nil {
		return event.Event{}, err
	}
	defer h.leave(p)
	f := p.function
	f.Resources = c.Function.Resources // of the trigger, which the others of the function need not have
	f.Resources.KeepWarm = h.keptWarm(f.ID)
	return h.Runner.Run(ctx, f, c)
}

// Close ends what runs, and what is being made ready. Nothing may be called any more.
func (h *Host) Close() {
	close(h.ending)
	h.Runner.Close()
	h.preparing.Wait()
}

// place returns how a function is run here. Its package is unpacked by its first call. It stays until leave.
func (h *Host) place(ctx context.Context, f *landfall.Function) (*placed, error) {
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
	ready := runner.Function{Function: *f, Args: args, Dir: u.dir, Env: variables(f), Form: form}
	if f.Network && h.Network != nil {
		ready.Proxy = h.Network.proxy(f, h.Logger)
	}
	if u.env.Modules() {
		if ready.Module, err = h.Runner.Modules.Load(ctx, filepath.Join(u.dir, args[0])); err != nil {
			return nil, err
		}
	}
	root, err := u.env.Root(u.dir)
	if err != nil {
		return nil, err
	}
	if root != nil {
		ready.Root, ready.Dir = root.Folder, root.Dir
		ready.Env = maps.Clone(root.Env)
		maps.Copy(ready.Env, variables(f))
	}
	if err := reveal(h.Secrets, f, &ready); err != nil {
		return nil, err
	}
	return h.called(f.ID, &placed{function: ready, folder: u.folder}), nil
}

// unpacked is a function's package, ready to run.
type unpacked struct {
	env    environment.Environment
	folder string // of the package cache
	dir    string
}

// unpack unpacks a function's package, unless it is. It stays until opened is called with its folder.
func (h *Host) unpack(ctx context.Context, f *landfall.Function) (unpacked, error) {
	if f.Package.Key == "" {
		return unpacked{}, &landfall.Error{Op: "functions.unpack", Kind: landfall.NotFound,
			Message: "the package of " + f.Name +
				" is not stored here: archives that are given by a URL or as a literal are not fetched"}
	}
	env, err := environment.Of(f.Environment)
	if err != nil {
		return unpacked{}, err
	}
	u := unpacked{env: env, folder: folderOf(f, env)}
	h.open(u.folder)
	u.dir, err = h.Packages.Open(ctx, u.folder, packages.Archive{Key: f.Package.Key, Digest: f.Package.Digest},
		env.Install)
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

// Prepare makes functions ready whose first call would otherwise take long: those that are modules. It waits for them,
// but not for long.
func (h *Host) Prepare(ctx context.Context, functions map[string]*landfall.Function) {
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

func (h *Host) placeModules(ctx context.Context, functions map[string]*landfall.Function) {
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
			h.Logger.WarnContext(ctx, "a function is not ready yet", "function", f.Name, "version", f.Version, "error", err)
			continue
		}
		h.leave(p)
	}
}

// called counts a call of a function: of the one that is ready, else of made, which is ready then. Without both it
// returns nil.
func (h *Host) called(id string, made *placed) *placed {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ready[id]
	if p == nil && made != nil {
		p, h.ready[id] = made, made
		h.Redactors.set(id, made.function.Hide)
	}
	if p != nil {
		p.calls++
		p.used = time.Now()
		p.unneeded = time.Time{} // who calls it needs it
	}
	return p
}

func (h *Host) leave(p *placed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.calls--
}

// open keeps a folder until opened, also while no function that is ready has it.
func (h *Host) open(folder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[folder]++
}

func (h *Host) opened(folder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[folder]--
	if h.opening[folder] == 0 {
		delete(h.opening, folder)
	}
}
