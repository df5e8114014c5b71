package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/environment/container"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/handmade"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/parcel"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
	"landfall.dev/landfall/webhook"
)

// delivery is the part that makes releases of pushes.
type delivery struct {
	*shared

	metrics  *metrics.Metrics
	rollout  *deploy.Rollout
	editor   *deploy.Editor
	contents *inspect.Contents
	runs     *runs.Runs
	acceptor *accept.Acceptor
	trials   *host.Trials // for the tests of contracts; nil without the role pipeline
	pipeline *pipeline.Pipeline
	upkeep   *upkeep.Upkeep
	uploads  *handmade.Uploads
	jobs     *jobs.Worker
	github   *connect.Connection
	sender   *github.Sender // nil without the role api
}

func newDelivery(s *shared, v *serving) (*delivery, error) {
	rollout := &deploy.Rollout{DB: s.db, Gateways: gateways{v.registry, s.db, s.process}, Logger: s.logger}
	contents := &inspect.Contents{DB: s.db, Objects: s.objects, Manifests: s.manifests}
	all := &runs.Runs{
		DB: s.db, Rollout: rollout, Contents: contents, RunURL: s.runURL, ReleaseURL: s.releaseURL,
		Reporting: s.config.GitHubToken != "", Commenting: s.config.Comments, RemoteWorkers: !s.config.has(rolePipeline),
		Now: time.Now, Logger: s.logger,
	}
	acceptor := newAcceptor(s, all)
	connection, err := newConnection(s, acceptor.Mirrors.Dialer)
	if err != nil {
		return nil, err
	}
	acceptor.GitHub = connection
	trials, err := newTrials(s)
	if err != nil {
		return nil, err
	}
	sender := newSender(s, acceptor, connection)
	if sender != nil {
		requests := &github.Hooks{Client: sender.Client, Pace: sender.Pace, Now: time.Now, Allowed: s.owns}
		acceptor.AppHook = &accept.AppHook{Acceptor: acceptor, Deliveries: requests}
		acceptor.Pulls = &accept.Pulls{Acceptor: acceptor, Forge: &github.Pulls{Requests: requests},
			Host: github.Host(s.config.GitHubAPI), Plain: s.config.GitHubToken != ""}
	}
	if sender != nil && s.config.GitHubToken != "" {
		if acceptor.Hooks, err = newHooks(s, acceptor, sender); err != nil {
			return nil, err
		}
	}
	line := newPipeline(s, acceptor, trials, v.metrics)
	kept := newUpkeep(s, acceptor, line.Builds)
	uploads := newUploads(s)
	kept.Uploads = uploads
	return &delivery{
		shared: s, metrics: v.metrics, rollout: rollout, contents: contents, runs: all, acceptor: acceptor, trials: trials,
		pipeline: line, upkeep: kept, uploads: uploads, github: connection, sender: sender,
		editor: &deploy.Editor{
			DB: s.db, Secrets: s.secrets, Specs: s.config.Specs, ReleaseURL: s.releaseURL, Rollout: rollout, Now: time.Now,
			RequireTests: s.config.RequireTests,
		},
		jobs: &jobs.Worker{
			DB: s.db, Process: s.process, Scratch: line.Scratch, Acceptor: acceptor, Pipeline: line, Upkeep: kept,
			Canaries: &canary.Controller{DB: s.db, Now: time.Now}, Logger: s.logger,
		},
	}, nil
}

// newAcceptor returns what accepts pushes, and fetches them: also from the process with the role api, where this one
// has not got it.
func newAcceptor(s *shared, all *runs.Runs) *accept.Acceptor {
	dialer := &builder.Dialer{AllowedHosts: s.config.AllowedHosts, Proxy: s.config.Proxy}
	var peerRemote *accept.PeerRemote
	if !s.config.has(roleAPI) {
		own := hostPort(s.config.URL)
		dialer = &builder.Dialer{AllowedHosts: append(slices.Clone(s.config.AllowedHosts), own),
			Proxy: s.config.Proxy.Except(own)}
		peerRemote = &accept.PeerRemote{Password: secret.Text(s.config.RoleSecret), URL: func(app string) string {
			return s.config.URL.JoinPath("git", app+".git").String()
		}}
	}
	return &accept.Acceptor{
		DB: s.db, Runs: all, Rollout: all.Rollout, Remote: s.remote(), PeerRemote: peerRemote, Secrets: s.secrets,
		Now: time.Now, Logger: s.logger,
		Mirrors: &builder.Mirrors{Root: filepath.Join(s.config.Data, "mirrors"), Dialer: dialer, Limits: s.config.Limits},
	}
}

// newTrials returns what runs the tests of this process's pipeline; nil without one.
func newTrials(s *shared) (trials *host.Trials, err error) {
	if !s.config.has(rolePipeline) {
		return trials, nil
	}
	unpacked, err := packages.New(filepath.Join(s.config.Data, "cache", "trials"), s.content(), packages.Limits{})
	if err != nil {
		return nil, err
	}
	return host.NewTrials(host.Config{
		Runner: &runner.Runner{Sandbox: s.sandbox, Modules: s.modules}, Packages: unpacked, Logger: s.logger,
	})
}

// newPipeline returns what takes runs through their steps. Without trials it plans them only.
func newPipeline(s *shared, acceptor *accept.Acceptor, trials *host.Trials,
	counts *metrics.Metrics) *pipeline.Pipeline {
	cache := filepath.Join(s.config.Data, "cache")
	var hasFastAPI func() bool
	if s.config.has(roleGateway) && !s.config.remoteFunctions() {
		hasFastAPI = environment.HasFastAPI
	}
	return &pipeline.Pipeline{
		Sandbox: &pipeline.BuildSandbox{
			Sandbox: s.sandbox, AllowedHosts: s.config.AllowedHosts, Upstream: s.config.Proxy,
			Warm: filepath.Join(cache, "warm"),
		},
		Images: container.Registries{Transport: acceptor.Mirrors.Dialer.Transport()}, Modules: s.modules, Trials: trials,
		HasFastAPI: hasFastAPI, DB: s.db, Objects: s.objects, Manifests: s.manifests, Secrets: s.secrets,
		Rollout: acceptor.Rollout, Runs: acceptor.Runs, Acceptor: acceptor, Specs: s.config.Specs,
		NoNetwork:    s.config.Network == networkOff,
		Mirrors:      acceptor.Mirrors,
		Scratch:      filepath.Join(s.config.Data, "scratch"),
		Builds:       &pipeline.Builds{Folder: filepath.Join(cache, "builds"), Bytes: s.config.MaxBuildCache},
		RequireTests: s.config.RequireTests,
		Worker:       s.process, Lease: s.config.Lease, Now: time.Now, Logger: s.logger, Meter: counts, Tracer: s.tracer,
	}
}

func newUpkeep(s *shared, acceptor *accept.Acceptor, builds *pipeline.Builds) *upkeep.Upkeep {
	var peerURL func(app string) string
	if acceptor.PeerRemote != nil {
		peerURL = acceptor.PeerRemote.URL
	}
	return &upkeep.Upkeep{
		DB: s.db, Runs: acceptor.Runs, Rollout: acceptor.Rollout, Objects: s.objects, Mirrors: acceptor.Mirrors,
		Repositories: s.remote(), Builds: builds, RemoteURL: peerURL, Retention: s.config.Retention,
		KeepDeleted: s.config.KeepDeleted, Now: time.Now, Logger: s.logger,
	}
}

// newConnection returns what this installation has of GitHub.
func newConnection(s *shared, dialer *builder.Dialer) (*connect.Connection, error) {
	return connect.New(connect.Config{
		DB: s.db, Secrets: s.secrets, URL: s.config.URL, API: s.config.GitHubAPI, Plain: github.Token(s.config.GitHubToken),
		Client: &http.Client{Transport: s.tracer.Transport(dialer.Transport())}, Now: time.Now, Logger: s.logger,
	})
}

// newSender returns what reports to GitHub; nil without the role api.
func newSender(s *shared, acceptor *accept.Acceptor, connection *connect.Connection) *github.Sender {
	if !s.config.has(roleAPI) {
		return nil
	}
	all := acceptor.Runs
	var comments github.Comments // nil: one that was owed before they were turned off is not sent any more
	if s.config.Comments {
		comments = runs.Comments{Comments: store.Comments{DB: s.db}, Runs: all}
	}
	var deployments github.Deployments
	if s.config.Deployments {
		deployments = runs.Deployments{Deployments: store.NewDeployments(s.db), Runs: all}
	}
	outbox := store.Outbox{DB: s.db}
	return &github.Sender{
		Client: connection.Tokens().Client(), AppLogin: connection.Login, URL: s.config.URL.String(), Now: time.Now,
		Logger: s.logger, Allowed: s.owns, Tracer: s.tracer, Outbox: runs.Outbox{Outbox: outbox, Runs: all},
		Comments: comments, DropOvertaken: outbox.DropOvertaken, Pace: connection.Tokens().Pace,
		Commands:    accept.Commands{Commands: store.Commands{DB: s.db}, Acceptor: acceptor},
		Deployments: deployments, Refusals: store.Refusals{DB: s.db},
		Checks:        runs.Checks{Checks: store.NewChecks(s.db), Runs: all},
		PullQuestions: accept.PullQuestions{PullQuestions: store.PullQuestions{DB: s.db}, Acceptor: acceptor},
	}
}

// newHooks returns what looks after webhooks at GitHub, with the installation's token.
func newHooks(s *shared, acceptor *accept.Acceptor, sender *github.Sender) (*accept.Hooks, error) {
	client, err := github.NewClient(s.config.GitHubAPI, github.Token(s.config.GitHubToken),
		&http.Client{Transport: s.tracer.Transport(acceptor.Mirrors.Dialer.Transport())})
	if err != nil {
		return nil, err
	}
	forge := &github.Hooks{Client: client, Pace: sender.Pace, Now: time.Now, Allowed: s.owns}
	return &accept.Hooks{
		Acceptor: acceptor, Forge: forge, Deliveries: forge, Host: github.Host(s.config.GitHubAPI),
		Address: func(hook string) string { return s.config.URL.JoinPath(webhook.Path, hook).String() },
	}, nil
}

func (s *delivery) duties() (all duties) {
	work := jobs.Duties{Work: s.config.has(rolePipeline), Keep: s.config.has(roleAPI)}
	all.add(work.Work || work.Keep, func(ctx context.Context) error { return s.jobs.Run(ctx, work) })
	all.add(s.trials != nil, s.trials.Tidy)
	all.add(s.sender != nil, s.sender.Run)
	return all
}

// Close ends what runs.
func (s *delivery) Close() {
	if s.trials != nil {
		s.trials.Close()
	}
}

// builtInRemote is the built-in remote.
type builtInRemote interface {
	accept.Remote
	upkeep.Repositories
}

// remote returns the built-in remote.
func (s *state) remote() builtInRemote {
	if s.repos == nil {
		return remote.None{}
	}
	return s.repos
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
	shown, err := g.db.AcknowledgedByAll(ctx, g.process)
	if g.own != nil {
		shown = min(shown, g.own.Shown(app))
	}
	return shown, err
}

// newExporter returns what makes archives of releases.
func newExporter(d *delivery) *parcel.Exporter {
	return &parcel.Exporter{DB: d.db, Objects: d.contents.Objects, Manifests: d.contents.Manifests}
}

// newImporter returns what makes releases of archives.
func newImporter(d *delivery) *parcel.Importer {
	const usual = 2 << 30 // bytes of a commit
	folder := filepath.Join(d.config.Data, "imports")
	_ = os.RemoveAll(folder) // what a process left that was killed; the next start tries again
	return &parcel.Importer{DB: d.db, Objects: d.contents.Objects, Specs: d.editor.Specs, Rollout: d.rollout,
		ReleaseURL: d.editor.ReleaseURL, Folder: folder,
		MaxBytes: cmp.Or(d.config.Limits.CommitBytes, usual), Now: time.Now,
		RequireTests: d.config.RequireTests, WithoutCollection: d.upkeep.WithoutCollection}
}

// newUploads returns what keeps the files that people send.
func newUploads(s *shared) *handmade.Uploads {
	return &handmade.Uploads{Folder: filepath.Join(s.config.Data, "uploads"),
		MaxBytes: s.config.Limits.WithDefaults().FileBytes, Now: time.Now} // which a file of a commit has at most
}

// newMaker returns what makes versions by hand.
func newMaker(d *delivery) *handmade.Maker {
	maker := &handmade.Maker{
		DB: d.db, Editor: d.editor, Acceptor: d.acceptor, Dialer: d.acceptor.Mirrors.Dialer, Uploads: d.uploads,
		Objects: d.contents.Objects, Now: time.Now,
	}
	if d.repos != nil {
		maker.Repositories = d.repos
	}
	return maker
}
