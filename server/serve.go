// Package server is the server: its settings, the roles that a process has, and how the rooms are put together for them. It also gives the
// command line the commands that open data themselves.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/trigger"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/runtime/trigger/schedule"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
	"landfall.dev/landfall/upkeep"
)

// server is the whole program, or the part of it that the process's roles are.
type server struct {
	config   config
	logger   *slog.Logger
	listener net.Listener

	lock      io.Closer // of the data folder, where the database does not lock it; nil otherwise
	process   string    // what others know this process by, across its lives
	db        *store.DB // nil with no role but router and runner
	objects   objectStore
	manifests *assets.Manifests
	repos     *remote.Repositories // nil without git, and without the role api
	hosts     gateway.Hosts
	registry  *registry.Registry  // nil without the roles gateway, trigger and registry
	gateway   *gateway.Gateway    // nil without the roles gateway and trigger
	functions *host.Host          // nil without the roles runner and registry
	trials    *host.Trials        // for the tests of contracts; nil without the role pipeline
	live      *liveFunctions      // nil but for a runner without a database
	runs      *rpc.Handler        // nil without the role runner, and without other processes
	router    *rpc.Router         // nil where functions run here
	triggers  *trigger.Manager    // nil without the roles gateway and trigger
	images    *images.Builder     // nil without the role registry
	broker    *queue.Broker       // nil where there are no messages
	messages  *queue.Source       // nil without the role trigger, and where there are no messages
	scheduler *schedule.Scheduler // nil without the role trigger
	recorder  *execution.Recorder
	modules   *wasm.Modules
	contracts contract.Cache
	pipeline  *pipeline.Pipeline
	editor    *deploy.Editor
	rollout   *deploy.Rollout
	contents  *inspect.Contents
	allRuns   *runs.Runs
	acceptor  *accept.Acceptor
	upkeep    *upkeep.Upkeep
	jobs      *jobs.Worker
	sandbox   *sandbox.Sandbox
	unreserve func()         // lets go of the empty sandboxes for functions; nil without the role runner
	sender    *github.Sender // nil without credentials, and without the role api
	metrics   *metrics.Metrics
	secrets   *secret.Keeper // nil: this process has no key
	tracer    *trace.Tracer  // nil: nobody wants spans
	health    health
	standby   atomic.Bool // the data folder is taken for one that never had the repositories
	keyless   atomic.Bool // a part has no key of the installation yet, which could not be stored
	handler   http.Handler

	phase    atomic.Int32
	leaving  chan struct{} // closed when the server stops
	patience time.Duration // with requests under way, when the server stops
}

// The phases of a server's life.
const (
	starting int32 = iota
	serving
	stopping
)

// newServer builds the program. Close lets go of what it opened, also after an error.
func newServer(ctx context.Context, c config, logger *slog.Logger) (*server, error) {
	s := &server{config: c, logger: logger, leaving: make(chan struct{}), patience: drainTimeout}
	err := s.openTracer(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.openSecrets(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.sandbox = sandbox.Detect(ctx, sandbox.Mode(c.Sandbox))
	if err := s.openModules(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.buildServing(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.buildMessages()
	if s.db != nil {
		err = s.buildDelivery()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.health = s.buildHealth()
	if s.handler, err = s.routes(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openTracer opens what makes spans, where the environment of the program says that somebody wants them.
func (s *server) openTracer(ctx context.Context) (err error) {
	if s.tracer, err = trace.Open(ctx, os.Getenv, s.config.Version, s.logger); err != nil {
		return err
	}
	s.logger = s.tracer.Logger(s.logger)
	return nil
}

// closeTracer sends the last spans, unless that takes long.
func (s *server) closeTracer() {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.tracer.Close(ctx); err != nil {
		s.logger.Warn("the last traces were not delivered", "error", err)
	}
}

// open opens what holds state, and the port.
func (s *server) open(ctx context.Context) error {
	c := &s.config
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return badSetting("DATA", "is %q, which cannot be made: %v", c.Data, err)
	}
	if c.File != "" {
		s.logger.Info("settings were read from a file, besides the environment and the command line", "file", c.File)
	}
	err := s.openState(ctx)
	if err == nil {
		err = s.checkInstallation(ctx)
	}
	if err != nil {
		return err
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen); err != nil {
		return badSetting("LISTEN", "is %q, which cannot be used: %v", c.Listen, err)
	}
	if c.URL == nil {
		c.URL = defaultURL(c.Listen, s.listener.Addr())
	}
	if !c.has(roleAPI) {
		return nil
	}
	return s.readToken()
}

// defaultURL is how this machine reaches a server that was told no public URL.
func defaultURL(listen string, addr net.Addr) *url.URL {
	name, _, err := net.SplitHostPort(listen)
	_, port, err2 := net.SplitHostPort(addr.String())
	if err != nil || err2 != nil {
		return &url.URL{Scheme: "http", Host: addr.String()}
	}
	if ip := net.ParseIP(name); name == "" || (ip != nil && (ip.IsLoopback() || ip.IsUnspecified())) {
		name = "localhost"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(name, port)}
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 20 * time.Second
)

// Run serves until ctx ends, then drains: requests and runs at work come to an end, or to a point where the next start
// takes them up.
func (s *server) Run(ctx context.Context) error {
	lost, release, err := s.own(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	defer release() // when all is drained
	storesLater := false
	if err = s.settleInstallation(ctx); err == nil && s.config.has(roleAPI) {
		if err = s.storeTokens(ctx); landfall.KindOf(err) == landfall.Unavailable && err != nil {
			s.logger.Error("the tokens of this start are not known until the database takes writes again", "error", err)
			storesLater, err = true, nil
		}
	}
	if err == nil && s.registry != nil {
		// What changes from here on is waited for, so that nobody is told of a release that does not answer here.
		if err = s.db.Beat(ctx, s.process, 0); err == nil {
			err = s.registry.Open(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil // stopped before anything was served
	}
	if err != nil {
		return err
	}
	leave, requests := sync.OnceFunc(func() { close(s.leaving) }), context.WithoutCancel(ctx)
	defer leave()
	httpServer := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: gateway.ConnContext, ConnState: gateway.ConnState,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := httpServer.Serve(gateway.Listener(s.listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving ended: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.phase.Store(stopping)
		s.logger.Info("stopping", "reason", context.Cause(ctx))
		leave()
		s.refuse()
		return s.drain(ctx, httpServer)
	})
	group.Go(func() error {
		select {
		case err := <-lost:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	if storesLater {
		group.Go(func() error { return s.storeTokensLater(ctx) })
	}
	if s.keyless.Load() {
		group.Go(func() error { return s.setKeysLater(ctx) })
	}
	for _, duty := range s.duties() {
		group.Go(func() error { return duty(ctx) })
	}
	s.phase.CompareAndSwap(starting, serving)
	for _, what := range s.lacks() {
		said := "this machine lacks something for the sandbox, which confines all the same"
		if s.sandbox.Kind() == "none" {
			said = "build commands and functions are refused: nothing can confine them"
		}
		s.logger.Warn(said, "lacks", what)
	}
	s.logger.Info("serving", s.about()...)
	return group.Wait()
}

// duties returns what the roles of the process do by themselves, until their context ends.
func (s *server) duties() (all []func(context.Context) error) {
	add := func(has bool, duty func(context.Context) error) {
		if has {
			all = append(all, duty)
		}
	}
	delivery := jobs.Duties{Work: s.config.has(rolePipeline), Keep: s.config.has(roleAPI)}
	add(delivery.Work || delivery.Keep, func(ctx context.Context) error { return s.jobs.Run(ctx, delivery) })
	add(s.registry != nil, func(ctx context.Context) error {
		defer func() { _ = s.db.Leave(context.WithoutCancel(ctx), s.process) }() // others find out by themselves
		return s.registry.Run(ctx)
	})
	table := s.table()
	add(s.functions != nil, func(ctx context.Context) error { return s.functions.Tidy(ctx, table) })
	add(s.trials != nil, s.trials.Tidy)
	add(s.config.has(roleRunner), func(ctx context.Context) error { return s.functions.KeepWarm(ctx, table) })
	add(s.live != nil, s.live.follow)
	add(s.router != nil, s.router.Watch)
	add(s.triggers != nil, s.recorder.Keep)
	add(s.scheduler != nil, func(ctx context.Context) error { return s.recorder.Work(ctx, s.accepted, s.triggers) })
	add(s.scheduler != nil, s.scheduler.Run)
	add(s.messages != nil, s.messages.Run)
	add(s.sender != nil, s.sender.Run)
	return all
}

// refuse lets no more events of other processes in, and leaves them time to hear of it: one that is sent over a connection which is just
// being closed may have run, for all that its sender knows.
func (s *server) refuse() {
	if s.runs != nil {
		s.runs.Drain()
	}
	if s.config.has(roleRouter) {
		s.router.Drain()
	}
	const heard = 1500 * time.Millisecond // a router asks every second
	if s.config.has(roleRouter) || s.runs != nil && s.config.within() {
		<-time.After(heard)
	}
}

// drain waits for the requests under way, and then cuts off what is left: a visitor on a slow line makes no fault of a stop.
func (s *server) drain(ctx context.Context, httpServer *http.Server) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	err := httpServer.Shutdown(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		s.logger.Warn("requests under way were cut off", "after", s.patience)
		err = httpServer.Close()
	}
	return err
}

// about says what serves where, for the log. The public URL is that of the process with the role api.
func (s *server) about() []any {
	state, objects, place := "sqlite", "folder", "api"
	switch {
	case s.db == nil:
		state = "none"
	case store.IsPostgres(s.config.Database):
		state = "postgresql"
	}
	switch {
	case s.objects == nil:
		objects = "none"
	case s.config.S3.Endpoint != "":
		objects = "s3"
	}
	if s.config.has(roleAPI) {
		place = "url"
	}
	return []any{
		"version", s.config.Version, "roles", s.config.Roles, "listen", s.listener.Addr().String(), place, s.config.URL.String(),
		"releases", s.releaseURL("APP", ""), "state", state, "objects", objects, "data", s.config.Data,
	}
}

// own makes what one process does for all this one's until release is called; lost tells when it is another's before. It
// returns early when ctx ends. Without the role api it does nothing.
func (s *server) own(ctx context.Context) (lost <-chan error, release func(), err error) {
	if !s.config.has(roleAPI) {
		return nil, func() {}, nil
	}
	owning, release := context.WithCancel(context.WithoutCancel(ctx))
	owned, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.db.Own(owning, sync.OnceFunc(func() { close(owned) })) }()
	select {
	case <-owned:
		return ended, release, nil
	case err = <-ended:
	case <-ctx.Done():
	}
	release()
	return nil, release, err
}

// owns fails unless this process owns the database, as a transaction finds out.
func (s *server) owns(ctx context.Context) error {
	return s.db.UpdateAsOwner(ctx, func(*store.Tx) error { return nil })
}

// Close lets go of everything that the server opened.
func (s *server) Close() error {
	var errs []error
	if s.listener != nil {
		_ = s.listener.Close() // closed already after a drain
	}
	if s.router != nil {
		s.router.Close()
	}
	if s.functions != nil {
		s.functions.Close()
	}
	if s.trials != nil {
		s.trials.Close()
	}
	if s.unreserve != nil {
		s.unreserve()
	}
	if s.triggers != nil {
		s.recordRest()
	}
	if s.broker != nil {
		s.broker.Close()
	}
	if s.modules != nil {
		errs = append(errs, s.modules.Close())
	}
	if s.gateway != nil {
		errs = append(errs, s.gateway.Close())
	}
	if s.objects != nil {
		errs = append(errs, s.objects.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	s.closeTracer()
	return errors.Join(errs...)
}
