package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/registry/stored"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// shared is what the parts of a server have in common.
type shared struct {
	*state

	listener net.Listener
	secrets  *secret.Keeper // nil: this process has no key
	sandbox  *sandbox.Sandbox
	modules  *wasm.Modules
	hosts    hostname.Hosts
	tracer   *trace.Tracer // nil: nobody wants spans
}

// openShared opens what the parts of a server stand on. It fills in the settings that only then are known: the URL and
// the administrator's token.
func openShared(ctx context.Context, c *config, logger *slog.Logger) (*shared, error) {
	tracer, err := trace.Open(ctx, os.Getenv, c.Version, logger)
	if err != nil {
		return nil, err
	}
	s := &shared{state: &state{config: c, logger: mux.Logger(tracer.Logger(logger))}, tracer: tracer}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens what holds state, and the port, and looks at the machine.
func (s *shared) open(ctx context.Context) error {
	c := s.config
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return badSetting("DATA", "is %q, which cannot be made: %v", c.Data, err)
	}
	if c.File != "" {
		s.logger.Info("settings were read from a file, besides the environment and the command line", "file", c.File)
	}
	err := s.state.open(ctx)
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
	if c.has(roleAPI) {
		if err := s.readToken(); err != nil {
			return err
		}
	}
	if s.secrets, err = s.openSecrets(ctx); err != nil {
		return err
	}
	s.sandbox = sandbox.Detect(ctx, sandbox.Mode(c.Sandbox))
	if s.modules, err = openModules(ctx, c); err != nil {
		return err
	}
	s.hosts, err = hostname.New(c.Domain, c.URL.Host)
	return err
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

// openModules opens what compiles and runs WebAssembly modules. This binary is the compiler: see Forward.
func openModules(ctx context.Context, c *config) (*wasm.Modules, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return wasm.Open(ctx, filepath.Join(c.Data, "cache", "wasm"), wasm.Limits{}, wasm.Compiler(self)...)
}

// content is what releases consist of.
func (s *shared) content() files.Stored {
	return files.Stored{Objects: s.objects, Manifests: s.manifests}
}

// source is where functions are found.
func (s *shared) source() stored.Source {
	return stored.Source{DB: s.db, Process: s.process, Logger: s.logger}
}

// lacks says what this machine lacks for the sandbox, where something runs in it.
func (s *shared) lacks() []string {
	if !s.config.has(roleRunner) && !s.config.has(rolePipeline) {
		return nil
	}
	return s.sandbox.Lacks()
}

// functionsNetwork says which network functions get that run in this process; empty: none run here.
func (s *shared) functionsNetwork() string {
	switch {
	case !s.config.has(roleRunner):
		return ""
	case s.sandbox.Kind() == "off":
		return "any, without a sandbox"
	case s.config.Network == networkOff:
		return "off, whatever their specs say"
	}
	return "as their specs say"
}

// about says what serves where, for the log. The public URL is that of the process with the role api.
func (s *shared) about() []any {
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
		"version", s.config.Version, "roles", s.config.Roles, "listen", s.listener.Addr().String(), place,
		s.config.URL.String(), "releases", s.releaseURL("APP", ""), "state", state, "objects", objects, "data", s.config.Data,
	}
}

// Close lets go of all that was opened.
func (s *shared) Close() error {
	var errs []error
	if s.listener != nil {
		_ = s.listener.Close() // closed already after a drain
	}
	if s.modules != nil {
		errs = append(errs, s.modules.Close())
	}
	errs = append(errs, s.state.Close())
	s.closeTracer()
	return errors.Join(errs...)
}

// closeTracer sends the last spans, unless that takes long.
func (s *shared) closeTracer() {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.tracer.Close(ctx); err != nil {
		s.logger.Warn("the last traces were not delivered", "error", err)
	}
}
