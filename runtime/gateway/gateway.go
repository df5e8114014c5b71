// Package gateway is the public listener: it serves releases by host and path, by their functions and by their files.
//
// A request takes one table of the registry and stays with it, so that moving the live release never mixes two in one
// answer. No answer depends on a header that caches do not know of, and none repeats the request's host.
package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/gateway/functions"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/gateway/split"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/trace"
)

// Bounds that hold where Config says 0.
const (
	DefaultCacheBytes  = 1 << 30
	DefaultMemoryBytes = 64 << 20

	DefaultMaxRequest  = 6 << 20
	DefaultMaxRequests = 256 << 20
	DefaultBodyTimeout = time.Minute
)

// Config is what a gateway stands on.
type Config struct {
	Domain  string // the base domain: releases are below it
	Control string // host of the control host's public URL, if it is another; a port does not matter

	Registry Registry
	Content  files.Content

	CacheDir    string // a folder of the gateway's own; it is made when missing, and can be deleted while nothing runs
	CacheBytes  int64  // bound of CacheDir
	MemoryBytes int64  // bound of the bodies in memory

	Functions function.Caller // what routes lead to; nil: this process calls none, and says so

	// Allowed says who may call a route that is not public, or see what is for those alone who signed in, by a token: nil
	// is yes, Unauthorized that nobody is known by what the request has, Forbidden that who is known may not. Every other
	// error is a failure, and nobody may then. nil: nobody may.
	Allowed func(r *http.Request, app string, access landfall.Access) error

	// Sessions let people who are signed in at the control host see what is for them alone; nil: only tokens do.
	Sessions access.PreviewSessions

	// Hooks returns the trigger of the webhook whose address ends in a key. NotFound when there is none, or its function
	// is gone. nil: there are none.
	Hooks func(ctx context.Context, key string) (*registry.Trigger, error)

	MaxRequest  int64         // bytes of the body of a request to a function
	MaxRequests int64         // bytes of all of them together, while they are read and answered
	BodyTimeout time.Duration // for a body to arrive
	Scheme      string        // of the addresses that clients see; empty: what the connection is

	Log *slog.Logger // what could not be served; nil: nowhere

	// Redact takes what nobody may read out of what the log says of a function's answer; nil: nothing.
	Redact func(f *landfall.Function, text string) string

	Tracer *trace.Tracer // what makes spans of the calls of functions; may be nil

	// Answered is told of each answer: the app, or nothing where there is no such app, the status, and the bytes of the
	// body. Many goroutines call it. nil: nobody is told.
	Answered func(app string, status int, bytes int64)

	// Canaries counts what both sides of canaries answer; nil: nobody counts.
	Canaries *split.Tally

	Now func() time.Time // nil: time.Now
}

// Registry knows what can be reached; a *registry.Registry does.
type Registry interface {
	Table() *registry.Table
	Expired(ctx context.Context, app, selector string, joined bool) (landfall.UID, error)
}

// Gateway serves releases. It is an http.Handler for every host that hostname.Hosts does not call Control.
type Gateway struct {
	registry  Registry
	hosts     hostname.Hosts
	guard     *access.Guard
	files     *files.Server
	functions *functions.Server
	hooks     func(ctx context.Context, key string) (*registry.Trigger, error)
	log       *slog.Logger
	answered  func(app string, status int, bytes int64)
	canaries  *split.Tally
	nosniff   []string // the value of a header, which nobody changes
}

// New returns a gateway. A domain or control host that is no host name is Invalid; a cache folder that cannot be used
// is Internal.
func New(c Config) (*Gateway, error) {
	hosts, err := hostname.New(c.Domain, c.Control)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	guard := access.New(access.Config{Hosts: hosts, Sessions: c.Sessions, Allowed: c.Allowed, Log: c.Log})
	served, err := files.New(files.Config{
		Content: c.Content, Registry: c.Registry, CacheDir: c.CacheDir, CacheBytes: c.CacheBytes, MemoryBytes: c.MemoryBytes,
		SeesPast: guard.SeesPast, Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Gateway{
		registry: c.Registry, hosts: hosts, guard: guard, files: served, hooks: c.Hooks, log: c.Log, answered: c.Answered,
		canaries: c.Canaries,
		nosniff:  []string{"nosniff"}, functions: functions.New(functions.Config{
			Caller: c.Functions, Guard: guard, Hosts: hosts, MaxRequest: c.MaxRequest, MaxRequests: c.MaxRequests,
			BodyTimeout: c.BodyTimeout, Scheme: c.Scheme, Log: c.Log, Redact: c.Redact, Tracer: c.Tracer,
		}),
	}, nil
}

// withDefaults returns c with the bounds that hold where it says nothing.
func (c Config) withDefaults() Config {
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, DefaultMemoryBytes)
	c.MaxRequest = cmp.Or(c.MaxRequest, DefaultMaxRequest)
	c.MaxRequests = cmp.Or(c.MaxRequests, DefaultMaxRequests)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Canaries == nil {
		c.Canaries = &split.Tally{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Close lets go of the cache folder.
func (g *Gateway) Close() error { return g.files.Close() }

// Cache returns how well the cache of files does. Many goroutines may call it.
func (g *Gateway) Cache() files.Cache { return g.files.Cache() }

// ServeHTTP answers for the hosts of releases: the routes of a release first, then its files.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.count(w, r, (*Gateway).answer)
}

// count answers a request as soon as the table is there, and tells what the answer for an app was. It cuts the
// connection when the answer broke off, or when there is none because the client is taken for gone: net/http would
// answer 200 with nothing, and one that only says no more still listens.
func (g *Gateway) count(w http.ResponseWriter, r *http.Request,
	answer func(*Gateway, *page.Writer, *http.Request, *registry.Table) (app string)) {
	c := page.Writer{ResponseWriter: w}
	h := w.Header()
	h["X-Content-Type-Options"] = g.nosniff
	var app string
	if table := g.registry.Table(); table != nil {
		app = answer(g, &c, r, table)
	} else {
		h.Set("Retry-After", "1")
		page.Write(&c, r, pageStarting())
	}
	if g.answered != nil && c.Status != 0 { // else the client went away, and got none
		g.answered(app, c.Status, c.Bytes)
	}
	if c.Cut || c.Status == 0 {
		panic(http.ErrAbortHandler) //nolint:forbidigo // there is no other way to tell net/http
	}
}

// answer answers a request, and returns the app whose host it was for; none when there is no such app.
func (g *Gateway) answer(w *page.Writer, r *http.Request, table *registry.Table) (app string) {
	host := g.hosts.Classify(r.Host)
	if host.Kind != hostname.Release {
		page.Write(w, r, pageUnknownHost())
		return ""
	}
	if host.Selector != "" {
		w.Header().Set("X-Robots-Tag", "noindex")
	}
	found, app, ok := g.resolve(w, r, table, host)
	switch {
	case !ok:
	case found.Canary != nil:
		g.serveSide(w, r, found)
	default:
		g.serve(w, r, found)
	}
	return app
}

// serveSide serves one of the two releases of a canary that runs, and counts how that went. A client that went away
// says nothing of either.
func (g *Gateway) serveSide(w *page.Writer, r *http.Request, found registry.Resolution) {
	canary := split.Choose(w.Header(), r, found.Canary)
	found = found.Choose(canary)
	w.Chosen = true
	w.Header()[page.ReleaseHeader] = []string{string(found.Release.ID)}
	g.serve(w, r, found)
	if w.Status != 0 && r.Context().Err() == nil {
		g.canaries.Add(found.Canary.ID, canary, w.Cut || w.Status >= http.StatusInternalServerError)
	}
}

// resolve returns what a host leads to, and its app; none when there is no such app. When it leads to no release that
// can be served, it answers, and returns false.
func (g *Gateway) resolve(w http.ResponseWriter, r *http.Request, table *registry.Table,
	host hostname.Host) (found registry.Resolution, app string, ok bool) {
	h := w.Header()
	found = table.Resolve(host.App, host.Selector, host.Joined)
	if found.Outcome != registry.UnknownApp && found.Outcome != registry.DeletedApp {
		app = host.App
	}
	if found.Outcome == registry.UnknownRelease {
		id, err := g.registry.Expired(r.Context(), host.App, host.Selector, host.Joined)
		if err != nil && r.Context().Err() != nil {
			return found, app, false // nobody waits for the answer
		}
		if err != nil {
			g.log.WarnContext(r.Context(), "whether a release expired is not known", "app", app, "error", err)
			h.Set("Retry-After", "1")
			page.Write(w, r, pageUnsure())
			return found, app, false
		}
		if id != "" {
			found = registry.Resolution{Outcome: registry.ExpiredRelease, Release: &registry.Release{ID: id}}
		}
	}
	if found.Release != nil {
		h[page.ReleaseHeader] = []string{string(found.Release.ID)}
	}
	if found.Outcome == registry.UnreadApp {
		h.Set("Retry-After", "2")
	}
	if found.Outcome != registry.Found {
		page.Write(w, r, pageOf(found.Outcome))
		return found, app, false
	}
	return found, app, true
}

// serve answers from the release that was found.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, found registry.Resolution) {
	routed := found.Release.Routes != nil
	path, ok := r.URL.Path, r.URL.RawPath == "" && plain(r.URL.Path)
	if !ok {
		path, ok = canonicalPath(r.URL.EscapedPath())
	}
	if !ok {
		page.Write(w, r, files.NoFile())
		return
	}
	if path != r.URL.Path {
		page.Redirect(w, path, r.URL.RawQuery)
		return
	}
	if g.guard.BeginSession(w, r, path) {
		return
	}
	if (routed || found.SignedIn) && g.route(w, r, found, path) {
		return
	}
	g.files.Serve(w, r, found, path)
}
