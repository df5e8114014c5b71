package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/store"
)

// server is the whole program, or the part of it that the process's roles are.
type server struct {
	config   config
	logger   *slog.Logger
	listener net.Listener

	lock      io.Closer // of the data folder, where the database does not lock it; nil otherwise
	process   string    // what others know this process by, across its lives
	db        *store.DB
	objects   objectStore
	manifests *assets.Manifests
	repos     *remote.Repositories // nil without git, and without the role api
	hosts     gateway.Hosts
	registry  *registry.Registry // nil without the role gateway
	gateway   *gateway.Gateway   // nil without the role gateway
	functions *functionHost      // nil without the role gateway
	pipeline  *pipeline.Pipeline
	sandbox   *sandbox.Sandbox
	sender    *github.Sender // nil without credentials, and without the role api
	metrics   *metrics.Metrics
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
	err := s.open(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.sandbox = sandbox.Detect(ctx, sandbox.Mode(c.Sandbox))
	if err := s.buildServing(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.buildDelivery(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.handler, err = s.routes(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens what holds state, and the port.
func (s *server) open(ctx context.Context) error {
	c := &s.config
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return badSetting("DATA", "is %q, which cannot be made: %v", c.Data, err)
	}
	err := s.openState(ctx)
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

// openState opens what holds state: the database, the objects, the repositories.
func (s *server) openState(ctx context.Context) (err error) {
	c := &s.config
	if err := backup.CheckFinished(c.Data); err != nil {
		return err
	}
	if store.IsPostgres(c.Database) { // mirrors, repositories and the worker's name are this folder's own
		if s.lock, err = store.Lock(filepath.Join(c.Data, "landfall.lock")); err != nil {
			return err
		}
	}
	if s.db, err = store.Open(ctx, c.Database); err != nil {
		return err
	}
	if s.process, err = processOf(c.Data); err != nil {
		return err
	}
	if change, ok := s.db.Upgraded(); ok {
		s.logger.InfoContext(ctx, "the database has a newer form now; only a backup leads back to the older program", "from", change.From, "to", change.To)
	}
	if s.objects, err = openObjects(ctx, c); err != nil {
		return err
	}
	s.manifests = &assets.Manifests{Store: s.objects}
	if !c.has(roleAPI) {
		return nil
	}
	git, err := remote.FindGit()
	if err != nil {
		s.logger.Warn("the built-in git remote is off; webhooks work", "reason", landfall.MessageOf(err))
		return nil
	}
	s.repos, err = remote.OpenRepositories(filepath.Join(c.Data, "git"), git)
	return err
}

// objectStore is where objects are kept.
type objectStore interface {
	assets.Store
	io.Closer
}

// openObjects opens the bucket that was configured, or the folder in the data folder.
func openObjects(ctx context.Context, c *config) (objectStore, error) {
	if c.S3.Endpoint != "" {
		bucket, err := s3.Open(ctx, c.S3)
		if err != nil {
			return nil, err
		}
		return bucket, nil
	}
	folder, err := disk.Open(filepath.Join(c.Data, "objects"))
	if err != nil {
		return nil, err
	}
	return folder, nil
}

// defaultURL is how this machine reaches a server that was told no public URL.
func defaultURL(listen string, addr net.Addr) *url.URL {
	host, _, err := net.SplitHostPort(listen)
	_, port, err2 := net.SplitHostPort(addr.String())
	if err != nil || err2 != nil {
		return &url.URL{Scheme: "http", Host: addr.String()}
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && (ip.IsLoopback() || ip.IsUnspecified())) {
		host = "localhost"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
}

// readToken reads the administrator's token, which it makes at the first start.
func (s *server) readToken() error {
	if s.config.Token != "" {
		return nil
	}
	path := filepath.Join(s.config.Data, tokenFile)
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badSetting("TOKEN", "cannot be read from the data folder: %v", err)
	}
	if s.config.Token = strings.TrimSpace(string(data)); s.config.Token != "" {
		return nil
	}
	s.config.Token = randomHex()
	if err := writeFile(path, s.config.Token+"\n"); err != nil {
		return err
	}
	s.logger.Info("made the administrator's token", "file", path)
	return nil
}

// storeTokens makes the administrator's token, and that of the other roles, known to the store, in place of those of earlier
// starts: only who owns the database may.
func (s *server) storeTokens(ctx context.Context) error {
	return s.db.UpdateAsOwner(ctx, func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, landfall.DefaultNamespace, time.Now().UnixMicro()); err != nil {
			return err
		}
		const roles = "roles"
		var err error
		if secret := s.config.RoleSecret; secret == "" {
			err = tx.ForgetToken(ctx, roles)
		} else {
			err = tx.ReplaceToken(ctx, store.Token{
				Hash: landfall.DigestOf([]byte(secret)), Name: roles, Scope: store.ScopeRead, Created: time.Now()})
		}
		if err != nil {
			return err
		}
		return tx.ReplaceToken(ctx, store.Token{
			Hash: landfall.DigestOf([]byte(s.config.Token)), Name: "admin", Scope: store.ScopeAdmin, Created: time.Now()})
	})
}

const tokenFile = "token"

func randomHex() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// writeFile writes a small secret file so that it is there whole or not at all.
func writeFile(path, text string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// buildServing builds the plane that answers visitors.
func (s *server) buildServing() error {
	var err error
	if s.hosts, err = gateway.NewHosts(s.config.Domain, s.config.URL.Host); err != nil {
		return err
	}
	s.metrics = metrics.New(metrics.Config{DB: s.db, Cache: s.cache, Now: time.Now, Logger: s.logger})
	if !s.config.has(roleGateway) {
		return nil
	}
	source := tableSource{s.db, s.process, s.logger}
	s.registry = &registry.Registry{Source: source, Peers: source, Log: s.logger}
	if err := s.buildFunctions(); err != nil {
		return err
	}
	s.gateway, err = gateway.New(gateway.Config{
		Functions: s.functions, Allowed: s.mayCall, Scheme: s.config.URL.Scheme,
		Domain: s.config.Domain, Control: s.config.URL.Host, Registry: s.registry, Content: gatewayContent{s.objects, s.manifests},
		CacheDir: filepath.Join(s.config.Data, "cache", "gateway"), Log: s.logger,
		Answered: s.metrics.Answered,
	})
	return err
}

// buildFunctions builds what runs functions in this process.
func (s *server) buildFunctions() error {
	unpacked, err := packages.New(filepath.Join(s.config.Data, "cache", "functions"), gatewayContent{s.objects, s.manifests}, packages.Limits{})
	if err != nil {
		return err
	}
	run := &runner.Runner{Sandbox: s.sandbox, Logs: functionLogs{s.logger}}
	s.functions = newFunctionHost(run, unpacked, s.registry.Table, s.logger)
	return nil
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
	dialer := &builder.Dialer{AllowedHosts: s.config.AllowedHosts}
	elsewhere := s.elsewhere()
	if elsewhere != nil {
		dialer.AllowedHosts = append(slices.Clone(dialer.AllowedHosts), hostPort(s.config.URL))
	}
	s.pipeline = &pipeline.Pipeline{
		Sandbox: buildSandbox{sandbox: s.sandbox, hosts: s.config.AllowedHosts},
		DB:      s.db, Objects: s.objects, Manifests: s.manifests, Gateways: gateways{s.registry, s.db, s.process},
		Remote: s.remote(), Elsewhere: elsewhere, OthersWork: !s.config.has(rolePipeline),
		Specs:     s.config.Specs,
		Retention: s.config.Retention,
		Mirrors:   &builder.Mirrors{Root: filepath.Join(s.config.Data, "mirrors"), Dialer: dialer, Limits: s.config.Limits},
		Scratch:   filepath.Join(s.config.Data, "scratch"),
		Builds:    &pipeline.Builds{Folder: filepath.Join(s.config.Data, "cache", "builds"), Bytes: s.config.MaxBuildCache},
		RunURL:    s.runURL,
		Reporting: s.config.GitHubToken != "", Commenting: s.config.Comments, ReleaseURL: s.releaseURL,
		Worker: s.process, Lease: s.config.Lease, Now: time.Now, Logger: s.logger, Meter: s.metrics,
	}
	if s.config.GitHubToken == "" || !s.config.has(roleAPI) {
		return nil
	}
	client, err := github.NewClient(s.config.GitHubAPI, github.Token(s.config.GitHubToken), &http.Client{Transport: dialer.Transport()})
	if err != nil {
		return err
	}
	s.sender = &github.Sender{
		Client: client, URL: s.config.URL.String(), Now: time.Now, Logger: s.logger, Allowed: s.owns,
		Outbox: pipeline.Outbox{Outbox: store.Outbox{DB: s.db}, Pipeline: s.pipeline},
	}
	if s.config.Comments { // one that was owed before it was turned off is not sent any more
		s.sender.Comments = pipeline.Comments{Comments: store.Comments{DB: s.db}, Pipeline: s.pipeline}
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

// processOf returns what others know a data folder's process by, across its lives.
func processOf(data string) (string, error) {
	path := filepath.Join(data, "worker")
	id, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		id := randomHex()
		return id, writeFile(path, id)
	}
	return string(id), err
}

// elsewhere returns where the built-in remote is for a process that has not got it; nil for the one that has.
func (s *server) elsewhere() *pipeline.Elsewhere {
	if s.config.has(roleAPI) {
		return nil
	}
	return &pipeline.Elsewhere{Password: builder.Secret(s.config.RoleSecret), URL: func(app string) string {
		return s.config.URL.JoinPath("git", app+".git").String()
	}}
}

// gateways are that of this process, if any, and those of others.
type gateways struct {
	own     *registry.Registry
	db      *store.DB
	process string
}

var _ pipeline.Gateways = gateways{}

// RefreshApp implements pipeline.Gateways. Others hear of it from the database.
func (g gateways) RefreshApp(ctx context.Context, app string) error {
	if g.own == nil {
		return nil
	}
	return g.own.RefreshApp(ctx, app)
}

// Shown implements pipeline.Gateways.
func (g gateways) Shown(ctx context.Context, app string) (int64, error) {
	shown, err := g.db.Seen(ctx, g.process)
	if g.own != nil {
		shown = min(shown, g.own.Shown(app))
	}
	return shown, err
}

// remote returns the built-in remote as the pipeline knows it.
func (s *server) remote() pipeline.Remote {
	if s.repos == nil {
		return noRemote{}
	}
	return s.repos
}

// noRemote stands for the built-in remote on a machine without git: it has no repositories.
type noRemote struct{}

// Path implements pipeline.Remote.
func (noRemote) Path(string) string { return "" }

// Heads implements pipeline.Remote.
func (noRemote) Heads(context.Context, string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return nil, &landfall.Error{Op: "remote", Kind: landfall.NotFound, Message: "the built-in remote is off"}
}

// Named implements pipeline.Remote.
func (n noRemote) Named(ctx context.Context, app string, _ []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return n.Heads(ctx, app)
}

// SetHead implements pipeline.Remote.
func (noRemote) SetHead(context.Context, string, string) error { return nil }

// Repack implements pipeline.Remote.
func (noRemote) Repack(context.Context, string) error { return nil }

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
	if s.config.has(roleAPI) {
		err = s.storeTokens(ctx)
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
		ConnContext: gateway.ConnContext,
		ErrorLog:    slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
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
	duties := pipeline.Duties{Work: s.config.has(rolePipeline), Keep: s.config.has(roleAPI)}
	if duties.Work || duties.Keep {
		group.Go(func() error { return s.pipeline.Run(ctx, duties) })
	}
	if s.registry != nil {
		group.Go(func() error {
			defer func() { _ = s.db.Leave(context.WithoutCancel(ctx), s.process) }() // others find out by themselves
			return s.registry.Run(ctx)
		})
	}
	if s.functions != nil {
		group.Go(func() error { return s.functions.tidyUp(ctx) })
	}
	if s.sender != nil {
		group.Go(func() error { return s.sender.Run(ctx) })
	}
	s.phase.CompareAndSwap(starting, serving)
	for _, what := range s.sandbox.Lacks() {
		s.logger.Warn("this machine lacks something for the sandbox, which confines all the same", "lacks", what)
	}
	s.logger.Info("serving", s.about()...)
	return group.Wait()
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
	if store.IsPostgres(s.config.Database) {
		state = "postgresql"
	}
	if s.config.S3.Endpoint != "" {
		objects = "s3"
	}
	if s.config.has(roleAPI) {
		place = "url"
	}
	return []any{
		"version", programVersion(), "roles", s.config.Roles, "listen", s.listener.Addr().String(), place, s.config.URL.String(),
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
	if s.functions != nil {
		s.functions.runner.Close()
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
	return errors.Join(errs...)
}
