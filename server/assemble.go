package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/environment/container"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/trigger"
	"landfall.dev/landfall/runtime/trigger/schedule"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
)

// buildServing builds the plane that answers visitors.
func (s *server) buildServing() error {
	var err error
	if s.hosts, err = gateway.NewHosts(s.config.Domain, s.config.URL.Host); err != nil {
		return err
	}
	s.metrics = metrics.New(metrics.Config{DB: s.db, Cache: s.cache, Deleted: s.deleted, Now: time.Now, Logger: s.logger})
	redactors := &host.Redactors{} // of what runs here
	if s.db != nil {
		redact := redactors.Redact
		if s.config.afar() {
			redact = func(f *landfall.Function, text string) string { return host.Redact(s.secrets, f, text) }
		}
		s.recorder = &execution.Recorder{
			DB: s.db, Process: s.process, Limits: s.config.Executions, Logger: s.logger, Meter: s.metrics,
			Contracts: &s.contracts, Redact: redact,
		}
	}
	if s.config.has(roleRunner) || s.config.has(roleRegistry) {
		if err := s.buildFunctions(redactors); err != nil {
			return err
		}
	}
	if s.config.has(roleGateway) || s.config.has(roleTrigger) || s.config.has(roleRegistry) {
		source := s.source()
		var prepare func(ctx context.Context, functions map[string]*landfall.Function)
		if s.config.has(roleRunner) {
			prepare = s.functions.Prepare
		}
		s.registry = &registry.Registry{Source: source, Peers: source, Log: s.logger, Prepare: prepare}
	}
	calls := s.config.has(roleGateway) || s.config.has(roleTrigger)
	if s.config.has(roleRouter) || calls && s.config.afar() {
		s.buildRouter()
	}
	if !calls {
		return nil
	}
	s.buildTriggers()
	s.gateway, err = gateway.New(gateway.Config{
		Functions: s.triggers, Allowed: s.mayCall, Visits: visits{s}, Scheme: s.config.URL.Scheme,
		Domain: s.config.Domain, Control: s.config.URL.Host, Registry: s.registry, Content: s.content(),
		CacheDir: filepath.Join(s.config.Data, "cache", "gateway"), Log: s.logger,
		Redact: s.recorder.Redact, Answered: s.metrics.Answered, Tracer: s.tracer,
	})
	return err
}

// content is what releases consist of.
func (s *server) content() gateway.Stored {
	return gateway.Stored{Objects: s.objects, Manifests: s.manifests}
}

// buildFunctions builds what has the functions in this process: to run them, or to make images of them.
func (s *server) buildFunctions(redactors *host.Redactors) error {
	unpacked, err := packages.Reopen(filepath.Join(s.config.Data, "cache", "functions"), s.untouched(), s.content(), packages.Limits{})
	if err != nil {
		return err
	}
	var network *host.Network
	if s.config.Network == networkBySpec {
		network = &host.Network{AllowedHosts: s.config.AllowedHosts, Asked: s.metrics.Asked, Count: s.metrics.Proxied}
	}
	var peers *rpc.Logs // nil: no other process has functions run here
	if s.config.has(roleRunner) && s.config.RoleSecret != "" {
		peers = &rpc.Logs{Logger: s.logger}
	}
	s.functions = host.New(host.Config{
		Runner:   &runner.Runner{Sandbox: s.sandbox, Modules: s.modules, Logs: s.functionLogs(peers)},
		Packages: unpacked, Network: network, Secrets: s.secrets, Redactors: redactors, MaxBytes: s.config.MaxFunctions, Logger: s.logger,
	})
	if s.config.has(roleRunner) {
		const reserve = 2
		s.unreserve = s.sandbox.Reserve(reserve)
	}
	if peers != nil {
		s.buildRunner(peers)
	}
	if s.config.has(roleRegistry) {
		s.images, err = images.New(filepath.Join(s.config.Data, "cache", "images"), s.config.MaxImageCache, s.functions.Image)
	}
	return err
}

// untouched returns the key of packages that were unpacked since the machine was started, and that functions could not write to: what
// an earlier life of this process left under it is whole. Empty when nobody can say that.
func (s *server) untouched() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || s.sandbox.Kind() == "none" || s.config.Sandbox == string(sandbox.Off) {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + s.sandbox.Kind()
}

// buildTriggers builds the trigger manager, with what every call passes on its way to a function, and what fires triggers by itself. A
// call from another process has passed it there: rpc.Handler gives it to the functions of this process as it is.
func (s *server) buildTriggers() {
	var functions function.Caller = s.functions // in this process
	if s.config.afar() {
		functions = s.router
	}
	s.triggers = &trigger.Manager{
		Functions: trigger.Checked(s.metrics.Unfit, trigger.Traced(s.tracer, s.recorder.Recorded(functions))),
		Table:     s.registry.Table,
		Contracts: &s.contracts,
		Address:   func(f *landfall.Function) string { return s.config.URL.JoinPath(invoke.AddressOf(f)).String() },
		Release: func(host string) (app, selector string, joined, known bool) {
			h := s.hosts.Classify(host)
			return h.App, h.Selector, h.Joined, h.Kind == gateway.ReleaseHost
		},
	}
	if s.config.has(roleTrigger) {
		s.scheduler = s.newScheduler()
	}
}

// newScheduler returns what fires time triggers in this process.
func (s *server) newScheduler() *schedule.Scheduler {
	began := time.Now()
	return &schedule.Scheduler{
		DB: s.db, Table: s.registry.Table, Functions: s.triggers, Process: s.process, Now: time.Now,
		Elapsed: func() time.Duration { return time.Since(began) }, Fired: s.metrics.Fired, Patience: s.patience, Logger: s.logger,
	}
}

// buildTrials builds what runs the tests of this process's pipeline.
func (s *server) buildTrials() error {
	unpacked, err := packages.New(filepath.Join(s.config.Data, "cache", "trials"), s.content(), packages.Limits{})
	if err != nil {
		return err
	}
	s.trials, err = host.NewTrials(host.Config{
		Runner: &runner.Runner{Sandbox: s.sandbox, Modules: s.modules}, Packages: unpacked, Logger: s.logger,
	})
	return err
}

// openModules opens what compiles and runs WebAssembly modules. This binary is the compiler: see forward.
func (s *server) openModules(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.modules, err = wasm.Open(ctx, filepath.Join(s.config.Data, "cache", "wasm"), wasm.Limits{}, wasm.Compiler(self)...)
	return err
}

// deleted returns the deleted apps that this process knows of.
func (s *server) deleted() []registry.App {
	if s.registry == nil || s.registry.Table() == nil {
		return nil
	}
	return s.registry.Table().Deleted()
}

// cache tells how full the gateway's cache is.
func (s *server) cache() gateway.Cache {
	if s.gateway == nil {
		return gateway.Cache{}
	}
	return s.gateway.Cache()
}

// buildDelivery builds the plane that makes releases of pushes.
func (s *server) buildDelivery() error {
	dialer := &builder.Dialer{AllowedHosts: s.config.AllowedHosts, Proxy: s.config.Proxy}
	elsewhere := s.elsewhere()
	if elsewhere != nil { // another process of this installation
		own := hostPort(s.config.URL)
		dialer.AllowedHosts, dialer.Proxy = append(slices.Clone(dialer.AllowedHosts), own), dialer.Proxy.Except(own)
	}
	s.rollout = &deploy.Rollout{DB: s.db, Gateways: gateways{s.registry, s.db, s.process}, Logger: s.logger}
	s.editor = &deploy.Editor{
		DB: s.db, Secrets: s.secrets, Specs: s.config.Specs, ReleaseURL: s.releaseURL, Rollout: s.rollout, Now: time.Now,
		RequireTests: s.config.RequireTests,
	}
	s.contents = &inspect.Contents{DB: s.db, Objects: s.objects, Manifests: s.manifests}
	s.allRuns = &runs.Runs{
		DB: s.db, Rollout: s.rollout, Contents: s.contents, RunURL: s.runURL, ReleaseURL: s.releaseURL,
		Reporting: s.config.GitHubToken != "", Commenting: s.config.Comments, OthersWork: !s.config.has(rolePipeline), Now: time.Now, Logger: s.logger,
	}
	mirrors := &builder.Mirrors{Root: filepath.Join(s.config.Data, "mirrors"), Dialer: dialer, Limits: s.config.Limits}
	s.acceptor = &accept.Acceptor{
		DB: s.db, Runs: s.allRuns, Rollout: s.rollout, Mirrors: mirrors, Remote: s.remote(), Elsewhere: elsewhere, Now: time.Now, Logger: s.logger,
	}
	s.pipeline = &pipeline.Pipeline{
		Sandbox: buildSandbox{
			sandbox: s.sandbox, hosts: s.config.AllowedHosts, upstream: s.config.Proxy, warm: filepath.Join(s.config.Data, "cache", "warm"), warming: new(sync.Mutex),
		},
		Images: container.Registries{Transport: dialer.Transport()}, Modules: s.modules,
		DB: s.db, Objects: s.objects, Manifests: s.manifests, Secrets: s.secrets, Rollout: s.rollout, Runs: s.allRuns, Acceptor: s.acceptor,
		Specs:        s.config.Specs,
		NoNetwork:    s.config.Network == networkOff,
		Mirrors:      mirrors,
		Scratch:      filepath.Join(s.config.Data, "scratch"),
		Builds:       &pipeline.Builds{Folder: filepath.Join(s.config.Data, "cache", "builds"), Bytes: s.config.MaxBuildCache},
		RequireTests: s.config.RequireTests,
		Worker:       s.process, Lease: s.config.Lease, Now: time.Now, Logger: s.logger, Meter: s.metrics, Tracer: s.tracer,
	}
	s.upkeep = &upkeep.Upkeep{
		DB: s.db, Runs: s.allRuns, Rollout: s.rollout, Objects: s.objects, Mirrors: mirrors, Repositories: s.remote(), Builds: s.pipeline.Builds,
		Retention: s.config.Retention, KeepDeleted: s.config.KeepDeleted, Now: time.Now, Logger: s.logger,
	}
	if elsewhere != nil {
		s.upkeep.ElsewhereURL = elsewhere.URL
	}
	s.jobs = &jobs.Worker{
		DB: s.db, Process: s.process, Scratch: s.pipeline.Scratch, Acceptor: s.acceptor, Pipeline: s.pipeline, Upkeep: s.upkeep, Logger: s.logger,
	}
	if s.config.has(roleGateway) && !s.config.afar() {
		s.pipeline.HasFastAPI = environment.HasFastAPI
	}
	if s.config.has(rolePipeline) {
		if err := s.buildTrials(); err != nil {
			return err
		}
		s.pipeline.Trials = s.trials
	}
	if s.config.GitHubToken == "" || !s.config.has(roleAPI) {
		return nil
	}
	client, err := github.NewClient(s.config.GitHubAPI, github.Token(s.config.GitHubToken), &http.Client{Transport: s.tracer.Transport(dialer.Transport())})
	if err != nil {
		return err
	}
	s.sender = &github.Sender{
		Client: client, URL: s.config.URL.String(), Now: time.Now, Logger: s.logger, Allowed: s.owns, Tracer: s.tracer,
		Outbox: runs.Outbox{Outbox: store.Outbox{DB: s.db}, Runs: s.allRuns},
	}
	if s.config.Comments { // one that was owed before it was turned off is not sent any more
		s.sender.Comments = runs.Comments{Comments: store.Comments{DB: s.db}, Runs: s.allRuns}
	}
	return nil
}

// hostPort is where a URL leads, and no other port of that machine.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// gateways are that of this process, if any, and those of others.
type gateways struct {
	own     *registry.Registry
	db      *store.DB
	process string
}

var _ deploy.Gateways = gateways{}

// RefreshApp implements deploy.Gateways. Others hear of it from the database.
func (g gateways) RefreshApp(ctx context.Context, app string) error {
	if g.own == nil {
		return nil
	}
	return g.own.RefreshApp(ctx, app)
}

// Shown implements deploy.Gateways.
func (g gateways) Shown(ctx context.Context, app string) (int64, error) {
	shown, err := g.db.Seen(ctx, g.process)
	if g.own != nil {
		shown = min(shown, g.own.Shown(app))
	}
	return shown, err
}
