package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/split"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/trigger"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/runtime/trigger/schedule"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// serving is the part that answers visitors and runs functions, as far as the roles of the process go.
type serving struct {
	*shared
	hosting
	calling

	metrics  *metrics.Metrics
	recorder *execution.Recorder // nil without a database
	registry *registry.Registry  // nil without the roles gateway, trigger and registry
	router   *rpc.Router         // nil where functions run here
	broker   *queue.Broker       // nil where there are no messages
}

// hosting is what has functions in this process: to run them, or to make images of them. It is empty without the roles
// runner and registry.
type hosting struct {
	functions *host.Host
	runs      *rpc.Handler    // nil without the role runner, and without other processes
	live      *host.Live      // nil but for a runner without a database
	images    *images.Builder // nil without the role registry
	unreserve func()          // lets go of the empty sandboxes for functions; nil without the role runner
}

// calling is what has functions called, by visitors and by triggers. It is empty without the roles gateway and trigger.
type calling struct {
	triggers  *trigger.Manager
	gateway   *gateway.Gateway
	canaries  *split.Tally        // of the gateway
	scheduler *schedule.Scheduler // nil without the role trigger
	messages  *queue.Source       // nil without the role trigger, and where there are no messages
}

func newServing(s *shared) (*serving, error) {
	var v *serving // which is there when somebody reads the metrics
	counts := metrics.New(metrics.Config{
		DB: s.db, Cache: func() files.Cache { return v.cache() }, Deleted: func() []registry.App { return v.deleted() },
		Now: time.Now, Logger: s.logger,
	})
	redactors, contracts := &host.Redactors{}, &contract.Cache{}
	recorder := newRecorder(s, counts, redactors, contracts)
	here, err := newHosting(s, counts, redactors, recorder)
	if err != nil {
		return nil, err
	}
	v = &serving{
		shared: s, hosting: here, metrics: counts, recorder: recorder, registry: newRegistry(s, here.functions),
		router: newRouter(s, recorder),
		broker: newBroker(s),
	}
	if v.calling, err = newCalling(v, contracts); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// newRecorder returns what records executions; nil without a database. redactors are those of what runs here.
func newRecorder(s *shared, counts *metrics.Metrics, redactors *host.Redactors,
	contracts *contract.Cache) *execution.Recorder {
	if s.db == nil {
		return nil
	}
	redact := redactors.Redact
	if s.config.remoteFunctions() {
		redact = func(f *landfall.Function, text string) string { return host.Redact(s.secrets, f, text) }
	}
	return &execution.Recorder{
		DB: s.db, Process: s.process, Limits: s.config.Executions, Logger: s.logger, Meter: counts, Contracts: contracts,
		Redact: redact,
	}
}

func newHosting(s *shared, counts *metrics.Metrics, redactors *host.Redactors,
	recorder *execution.Recorder) (hosting, error) {
	if !s.config.has(roleRunner) && !s.config.has(roleRegistry) {
		return hosting{}, nil
	}
	cache := filepath.Join(s.config.Data, "cache")
	unpacked, err := packages.Reopen(filepath.Join(cache, "functions"), s.untouched(), s.content(), packages.Limits{})
	if err != nil {
		return hosting{}, err
	}
	var network *host.Network
	if s.config.Network == networkBySpec {
		network = &host.Network{AllowedHosts: s.config.AllowedHosts, Asked: counts.Asked, Count: counts.Proxied}
	}
	var logs runner.Logs
	if recorder != nil {
		logs = recorder
	}
	var peers *rpc.Logs // nil: no other process has functions run here
	if s.config.has(roleRunner) && s.config.RoleSecret != "" {
		peers = &rpc.Logs{Logger: s.logger, Next: logs}
		logs = peers
	}
	functions := host.New(host.Config{
		Runner:   &runner.Runner{Sandbox: s.sandbox, Modules: s.modules, Logs: logs},
		Packages: unpacked, Network: network, Secrets: s.secrets, Redactors: redactors, MaxBytes: s.config.MaxFunctions,
		Logger: s.logger,
	})
	var pulled *images.Builder
	if s.config.has(roleRegistry) {
		if pulled, err = images.New(filepath.Join(cache, "images"), s.config.MaxImageCache, functions.Image); err != nil {
			return hosting{}, err
		}
	}
	runs, live := newRunHandler(s, functions, peers)
	var unreserve func()
	if s.config.has(roleRunner) {
		const reserve = 2
		unreserve = s.sandbox.Reserve(reserve)
	}
	return hosting{functions: functions, runs: runs, live: live, images: pulled, unreserve: unreserve}, nil
}

// untouched returns the key of packages that were unpacked since the machine was started, and that functions could not
// write to: what an earlier life of this process left under it is whole. Empty when nobody can say that.
func (s *shared) untouched() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || s.sandbox.Kind() == "none" || s.config.Sandbox == string(sandbox.Off) {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + s.sandbox.Kind()
}

// newRunHandler returns the handler by which other processes have functions run in this one, and, without a
// database, the functions that it makes ready. Without logs no other process does.
func newRunHandler(s *shared, functions *host.Host, logs *rpc.Logs) (*rpc.Handler, *host.Live) {
	if logs == nil {
		return nil, nil
	}
	var live *host.Live
	key := secret.Text(s.config.RoleSecret)
	lookup := func(ctx context.Context, name rpc.Name) (*landfall.Function, error) {
		return s.source().FunctionInGroup(ctx, name.Reference, name.Group)
	}
	if s.db == nil {
		asked := &rpc.Registry{URL: s.config.Registry, Secret: key}
		lookup, live = asked.Function, host.NewLive(asked.Live, functions.Prepare, s.logger)
	}
	return &rpc.Handler{Functions: functions, Lookup: lookup, Logs: logs, Secret: key, Logger: s.logger}, live
}

// newRegistry returns what has the routes and functions of releases; nil without a role that needs it. functions makes
// them ready.
func newRegistry(s *shared, functions *host.Host) *registry.Registry {
	if !s.config.has(roleGateway) && !s.config.has(roleTrigger) && !s.config.has(roleRegistry) {
		return nil
	}
	source := s.source()
	var prepare func(ctx context.Context, functions map[string]*landfall.Function)
	if s.config.has(roleRunner) {
		prepare = functions.Prepare
	}
	return &registry.Registry{Source: source, Peers: source, Log: s.logger, Prepare: prepare}
}

// newRouter returns what sends events to other processes; nil where functions run here.
func newRouter(s *shared, recorder *execution.Recorder) *rpc.Router {
	calls := s.config.has(roleGateway) || s.config.has(roleTrigger)
	if !s.config.has(roleRouter) && (!calls || !s.config.remoteFunctions()) {
		return nil
	}
	runners := s.config.Runners
	if s.config.Router != "" {
		runners = []string{s.config.Router}
	}
	var logs runner.Logs
	if recorder != nil {
		logs = recorder
	}
	return &rpc.Router{Runners: runners, Secret: secret.Text(s.config.RoleSecret), Logs: logs, Logger: s.logger}
}

func newCalling(s *serving, contracts *contract.Cache) (calling, error) {
	if !s.config.has(roleGateway) && !s.config.has(roleTrigger) {
		return calling{}, nil
	}
	triggers := newTriggers(s, contracts)
	canaries := &split.Tally{}
	answers, err := gateway.New(gateway.Config{
		Functions: triggers, Hooks: s.source().Hook, Allowed: s.mayCall, Sessions: previewSessions{s.shared},
		Scheme: s.config.URL.Scheme,
		Domain: s.config.Domain, Control: s.config.URL.Host, Registry: s.registry, Content: s.content(),
		CacheDir: filepath.Join(s.config.Data, "cache", "gateway"), Log: s.logger,
		Redact: s.recorder.Redact, Answered: s.metrics.Answered, Tracer: s.tracer,
		Canaries: canaries,
	})
	if err != nil {
		return calling{}, err
	}
	if !s.config.has(roleTrigger) {
		return calling{triggers: triggers, gateway: answers, canaries: canaries}, nil
	}
	began := time.Now()
	return calling{triggers: triggers, gateway: answers, canaries: canaries, messages: newMessages(s, triggers),
		scheduler: &schedule.Scheduler{
			DB: s.db, Table: s.registry.Table, Functions: triggers, Process: s.process, Now: time.Now,
			Elapsed: func() time.Duration {
				return time.Since(began)
			}, Fired: s.metrics.Fired, Patience: drainTimeout, Logger: s.logger,
		}}, nil
}

// newTriggers returns the trigger manager, with what every call passes on its way to a function. A call from another
// process has passed it there: rpc.Handler gives it to the functions of this process as it is.
func newTriggers(s *serving, contracts *contract.Cache) *trigger.Manager {
	var functions function.Caller = s.functions // in this process
	if s.config.remoteFunctions() {
		functions = s.router
	}
	return &trigger.Manager{
		Functions: trigger.Checked(s.metrics.Unfit, trigger.Traced(s.tracer, s.recorder.Recorded(functions))),
		Table:     s.registry.Table,
		Contracts: contracts,
		Address:   func(f *landfall.Function) string { return s.config.URL.JoinPath(invoke.AddressOf(f)).String() },
		Release: func(host string) (app, selector string, joined, known bool) {
			h := s.hosts.Classify(host)
			return h.App, h.Selector, h.Joined, h.Kind == hostname.Release
		},
	}
}

// deleted returns the deleted apps that this process knows of.
func (s *serving) deleted() []registry.App {
	if s.registry == nil || s.registry.Table() == nil {
		return nil
	}
	return s.registry.Table().Deleted()
}

// cache tells how full the gateway's cache is.
func (s *serving) cache() files.Cache {
	if s.gateway == nil {
		return files.Cache{}
	}
	return s.gateway.Cache()
}

// open reads the routes and functions of releases for the first time.
func (s *serving) open(ctx context.Context) error {
	if s.registry == nil {
		return nil
	}
	// What changes from here on is waited for, so that nobody is told of a release that does not answer here.
	if err := s.db.AcknowledgeChange(ctx, s.process, 0); err != nil {
		return err
	}
	return s.registry.Open(ctx)
}

func (s *serving) duties() (all duties) {
	all.add(s.registry != nil, func(ctx context.Context) error {
		defer func() { _ = s.db.Leave(context.WithoutCancel(ctx), s.process) }() // others find out by themselves
		return s.registry.Run(ctx)
	})
	table := s.table()
	all.add(s.functions != nil, func(ctx context.Context) error { return s.functions.Tidy(ctx, table) })
	all.add(s.config.has(roleRunner), func(ctx context.Context) error { return s.functions.KeepWarm(ctx, table) })
	all.add(s.live != nil, s.live.Follow)
	all.add(s.router != nil, s.router.Watch)
	all.add(s.triggers != nil, s.recorder.Keep)
	all.add(s.canaries != nil, s.recordCanaries)
	all.add(s.scheduler != nil, func(ctx context.Context) error { return s.recorder.Work(ctx, s.accepted, s.triggers) })
	all.add(s.scheduler != nil, s.scheduler.Run)
	all.add(s.scheduler != nil, execution.Jobs{Requests: s.requests(), Now: time.Now}.Run)
	all.add(s.messages != nil, s.messages.Run)
	return all
}

// requests accepts executions by the names of functions.
func (s *serving) requests() execution.Requests {
	return execution.Requests{Recorder: s.recorder, Find: s.source().Function}
}

// table returns what has the newest table with the functions that this process makes ready.
func (s *serving) table() func() *registry.Table {
	switch {
	case s.registry != nil:
		return s.registry.Table
	case s.live != nil:
		return s.live.Table
	}
	none := registry.New(nil) // it hears of functions when others have them run
	return func() *registry.Table { return none }
}

// recordCanaries stores what this gateway counts of canaries, until ctx ends.
func (s *serving) recordCanaries(ctx context.Context) error {
	write := func(ctx context.Context, counts []split.Count) error {
		return s.db.Update(ctx, func(tx *store.Tx) error {
			for _, c := range counts {
				err := tx.AddReleaseCanaryCounts(ctx, c.Canary, s.process, c.Newer,
					landfall.CanaryFigures{Requests: c.Requests, Failures: c.Failures})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.canaries.Run(ctx, write, func(err error) {
		s.logger.Warn("what canaries answered is not recorded yet", "error", err)
	})
}

// accepted returns the function that an execution was accepted for, as it was then, whatever the names mean by now, and
// its trigger.
func (s *serving) accepted(ctx context.Context, x landfall.Execution) (*landfall.Function, *registry.Trigger, error) {
	ref := landfall.Reference{Namespace: x.Namespace, Name: x.Function, Selector: strconv.FormatInt(x.Number, 10)}
	f, err := s.source().FunctionInGroup(ctx, ref, x.Group)
	if err != nil || x.Trigger == "" {
		return f, nil, err
	}
	t := s.registry.Table().Trigger(x.Release, x.Trigger, f.ID)
	if t == nil {
		return nil, nil, landfall.Errorf("server.accepted", landfall.NotFound,
			"the release %s, whose trigger %s the execution came through, is not accessible any more", x.Release, x.Trigger)
	}
	return f, t, nil
}

// refuse lets no more events of other processes in, and leaves them time to hear of it: one that is sent over a
// connection which is just being closed may have run, for all that its sender knows.
func (s *serving) refuse() {
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

// Close ends what runs, and lets go of what is open.
func (s *serving) Close() error {
	if s.router != nil {
		s.router.Close()
	}
	if s.functions != nil {
		s.functions.Close()
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
	if s.gateway != nil {
		return s.gateway.Close()
	}
	return nil
}

// recordRest writes what is known of executions when nothing runs any more.
func (s *serving) recordRest() {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.recorder.Flush(ctx); err != nil {
		s.logger.Warn("the last executions are not recorded", "error", err)
	}
}
