// Package gateway is the public listener: it serves releases by host and path, by their functions and by their files.
//
// A request takes one table of the registry and stays with it, so that moving the live release never mixes two in one
// answer. What it serves from the store is checked against the digest in the manifest before the first byte leaves, and
// then kept, as it is and compressed, in memory and in a folder. No answer depends on a header that caches do not know
// of, and none repeats the request's host.
package gateway

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/trace"
	"landfall.dev/landfall/wire"
)

// ReleaseHeader names the release that an answer comes from.
const ReleaseHeader = "Landfall-Release"

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
	Content  Content

	CacheDir    string // a folder of the gateway's own; it is made when missing, and can be deleted while nothing runs
	CacheBytes  int64  // bound of CacheDir
	MemoryBytes int64  // bound of the bodies in memory

	Functions function.Caller // what routes lead to; nil: this process calls none, and says so

	// Allowed says who may call a route that is not public, or see what is for those alone who signed in, by a token: nil is yes,
	// Unauthorized that nobody is known by what the request has, Forbidden that who is known may not. Every other error is a
	// failure, and nobody may then. nil: nobody may.
	Allowed func(r *http.Request, app string, access landfall.Access) error

	// Visits lets people who are signed in at the control host see what is for them alone; nil: only tokens do.
	Visits Visits

	MaxRequest  int64         // bytes of the body of a request to a function
	MaxRequests int64         // bytes of all of them together, while they are read and answered
	BodyTimeout time.Duration // for a body to arrive
	Scheme      string        // of the addresses that clients see; empty: what the connection is

	Log *slog.Logger // what could not be served; nil: nowhere

	// Redact takes what nobody may read out of what the log says of a function's answer; nil: nothing.
	Redact func(f *landfall.Function, text string) string

	Tracer *trace.Tracer // what makes spans of the calls of functions; may be nil

	// Answered is told of each answer: the app, or nothing where there is no such app, the status, and the bytes of the body.
	// Many goroutines call it. nil: nobody is told.
	Answered func(app string, status int, bytes int64)

	Now func() time.Time // nil: time.Now
}

// Registry knows what can be reached; a *registry.Registry does.
type Registry interface {
	Table() *registry.Table
	Expired(ctx context.Context, app, selector string, joined bool) (landfall.UID, error)
}

// Gateway serves releases. It is an http.Handler for every host that Hosts does not call Control.
type Gateway struct {
	Hosts

	registry  Registry
	manifests *manifests
	objects   *objects
	gone      *bounded[*registry.Release, struct{}] // releases whose manifests were collected
	log       *slog.Logger
	redact    func(f *landfall.Function, text string) string
	answered  func(app string, status int, bytes int64)
	tracer    *trace.Tracer
	headers   headers

	functions   function.Caller
	allowed     func(r *http.Request, app string, access landfall.Access) error
	visits      Visits
	bodies      atomic.Int64 // bytes that bodies of requests take now
	maxRequest  int64
	maxRequests int64
	bodyTimeout time.Duration
	scheme      string
	now         func() time.Time
}

// headers are values of headers that are made once: nobody changes them.
type headers struct{ nosniff, ranges, vary, varyPast, immutable, revalidated, answered []string }

// New returns a gateway. A domain or control host that is no host name is Invalid; a cache folder that cannot be used is
// Internal.
func New(c Config) (*Gateway, error) {
	hosts, err := NewHosts(c.Domain, c.Control)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	objects, err := newObjects(c.Content, c.CacheDir, c.CacheBytes, c.MemoryBytes)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		Hosts: hosts, registry: c.Registry, manifests: newManifests(c.Content, c.Registry.Table), objects: objects,
		gone: newBounded[*registry.Release, struct{}](maxGone, nil), log: c.Log, redact: c.Redact,
		answered: c.Answered, tracer: c.Tracer,
		headers: headers{
			nosniff: []string{"nosniff"}, ranges: []string{"bytes"}, vary: []string{"Accept-Encoding"},
			varyPast:  []string{"Accept-Encoding, Sec-Fetch-Dest, Service-Worker"},
			immutable: []string{"public, max-age=31536000, immutable"}, revalidated: []string{"public, max-age=0, must-revalidate"},
			answered: []string{"private, no-cache"},
		},
		functions: c.Functions, allowed: c.Allowed, visits: c.Visits, maxRequest: c.MaxRequest, maxRequests: c.MaxRequests,
		bodyTimeout: c.BodyTimeout, scheme: c.Scheme, now: c.Now,
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
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Close lets go of the cache folder.
func (g *Gateway) Close() error { return g.objects.disk.root.Close() }

// ServeHTTP answers for the hosts of releases: the routes of a release first, then its files.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := counted{ResponseWriter: w}
	g.count(g.answer(&c, r), &c)
}

// count tells what an answer for an app was. It cuts the connection when the answer broke off, or when there is none because the client
// is taken for gone: net/http would answer 200 with nothing, and one that only says no more still listens.
func (g *Gateway) count(app string, c *counted) {
	if g.answered != nil && c.status != 0 { // else the client went away, and got none
		g.answered(app, c.status, c.bytes)
	}
	if c.cut || c.status == 0 {
		panic(http.ErrAbortHandler) //nolint:forbidigo // there is no other way to tell net/http
	}
}

// answer answers a request, and returns the app whose host it was for; none when there is no such app.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request) (app string) {
	h := w.Header()
	h["X-Content-Type-Options"] = g.headers.nosniff
	table := g.registry.Table()
	if table == nil {
		h.Set("Retry-After", "1")
		writePage(w, r, pageStarting())
		return ""
	}
	host := g.Classify(r.Host)
	if host.Kind != ReleaseHost {
		writePage(w, r, pageUnknownHost())
		return ""
	}
	if host.Selector != "" {
		h.Set("X-Robots-Tag", "noindex")
	}
	found, app, ok := g.resolve(w, r, table, host)
	if ok {
		g.serve(w, r, found)
	}
	return app
}

// resolve returns what a host leads to, and its app; none when there is no such app. When it leads to no release that can be
// served, it answers, and returns false.
func (g *Gateway) resolve(w http.ResponseWriter, r *http.Request, table *registry.Table, host Host) (found registry.Resolution, app string, ok bool) {
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
			writePage(w, r, pageUnsure())
			return found, app, false
		}
		if id != "" {
			found = registry.Resolution{Outcome: registry.ExpiredRelease, Release: &registry.Release{ID: id}}
		}
	}
	if found.Release != nil {
		h[ReleaseHeader] = []string{string(found.Release.ID)}
	}
	if found.Outcome == registry.UnreadApp {
		h.Set("Retry-After", "2")
	}
	if found.Outcome != registry.Found {
		writePage(w, r, pageOf(found.Outcome))
		return found, app, false
	}
	return found, app, true
}

// reads reports whether a request wants to read a file.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// serve answers from the release that was found.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, found registry.Resolution) {
	routed := found.Release.Routes != nil
	path, ok := r.URL.Path, r.URL.RawPath == "" && plain(r.URL.Path)
	if !ok {
		path, ok = canonicalPath(r.URL.EscapedPath())
	}
	if !ok {
		writePage(w, r, pageNoFile())
		return
	}
	if path != r.URL.Path {
		redirect(w, path, r.URL.RawQuery)
		return
	}
	if path == VisitPath && g.visits != nil && reads(r) {
		g.beginVisit(w, r)
		return
	}
	if (routed || found.SignedIn) && g.route(w, r, found, path) {
		return
	}
	g.serveFile(w, r, found, path)
}

// onlyReads answers that there is nothing but files.
func onlyReads(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	writePage(w, r, pageMethod())
}

// serveFile answers with what the canonical path leads to. Whoever wants to do something else with it than read is told so where there
// is something, and that there is nothing elsewhere.
func (g *Gateway) serveFile(w http.ResponseWriter, r *http.Request, found registry.Resolution, path string) {
	a, err := g.manifests.find(r.Context(), found.Release, path)
	if err == nil && !reads(r) && (a.moved != "" || a.status == http.StatusOK) {
		onlyReads(w, r)
		return
	}
	if err == nil && a.moved != "" {
		redirect(w, a.moved, r.URL.RawQuery)
		return
	}
	if err == nil && reads(r) && (a.status != http.StatusOK || a.fallback) && g.servePast(w, r, found, path, a.fallback) {
		return
	}
	if err == nil && a.status == 0 {
		writePage(w, r, pageNoFile())
		return
	}
	if err == nil {
		err = g.send(w, r, a)
	}
	if err != nil {
		g.fail(w, r, err)
	}
}

// send answers with a file. When it returns an error, nothing was written yet.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, a answer) error {
	h := w.Header()
	wanted := identity
	vary := compressible(a.file.Type)
	if vary && a.file.Size >= minCompressed && a.file.Size <= maxCompressed && r.Header.Get("Range") == "" {
		wanted = negotiate(strings.Join(r.Header.Values("Accept-Encoding"), ","))
	}
	content, coding, err := g.open(r.Context(), a.file, wanted)
	if err != nil {
		return err
	}
	defer content.Close()
	if vary {
		h["Vary"] = g.headers.vary
	}
	if a.past {
		h["Vary"] = g.headers.varyPast
	}
	if a.status == http.StatusOK && !matches(r.Header.Get("If-Match"), content.etag[0]) {
		writePage(w, r, pagePrecondition())
		return nil
	}
	h["Content-Type"] = []string{cmp.Or(a.file.Type, "application/octet-stream")}
	if coding != identity {
		h["Content-Encoding"] = []string{string(coding)}
	}
	h["Content-Length"] = content.length
	if a.status != http.StatusOK {
		h.Set("Cache-Control", uncached)
		w.WriteHeader(a.status)
		if r.Method != http.MethodHead {
			_, _ = io.Copy(w, content) // the status is out; a client that went away needs no answer
		}
		return nil
	}
	h["Etag"] = content.etag // as net/http writes ETag
	h["Cache-Control"] = g.headers.revalidated
	if hashed(a.path) {
		h["Cache-Control"] = g.headers.immutable
	}
	if content.data != nil && r.Method == http.MethodGet && unconditional(r) {
		h["Accept-Ranges"] = g.headers.ranges
		writeWhole(w, r, content.data)
		return nil
	}
	http.ServeContent(w, conditional(r, a.file.Size), "", time.Time{}, content)
	return nil
}

// open opens the file in the wanted coding, or as it is when the coding cannot be made.
func (g *Gateway) open(ctx context.Context, file File, wanted encoding) (*body, encoding, error) {
	content, coding, err := g.objects.open(ctx, file, wanted)
	if err == nil || wanted == identity || ctx.Err() != nil {
		return content, coding, err
	}
	plain, coding, plainErr := g.objects.open(ctx, file, identity)
	if plainErr == nil {
		g.log.WarnContext(ctx, "served uncompressed", "error", err)
	}
	return plain, coding, plainErr
}

// fail answers that a file of the release cannot be had, and says so in the log.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	g.log.ErrorContext(r.Context(), "release not served", "app", g.Classify(r.Host).App, "release", w.Header().Get(ReleaseHeader),
		"path", r.URL.Path, "error", err)
	writePage(w, r, pageBroken())
}

// uncached is the Cache-Control of everything that is no file of a release.
const uncached = "no-store"

// redirect sends the client to another path of the same host. The release may move, so nobody keeps the answer.
func redirect(w http.ResponseWriter, path, query string) {
	w.Header().Set("Cache-Control", uncached)
	w.Header().Set("Location", location(path, query))
	w.WriteHeader(http.StatusPermanentRedirect)
}

// entityTag returns the strong ETag of a digest's bytes in a coding.
func entityTag(digest landfall.Digest, coding encoding) string {
	if coding == identity {
		return `"` + digest.Hex() + `"`
	}
	return `"` + digest.Hex() + "-" + string(coding) + `"`
}

// matches reports whether an If-Match header lets etag pass.
func matches(header, etag string) bool {
	if header == "" || header == "*" {
		return true
	}
	for tag := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(tag) == etag {
			return true
		}
	}
	return false
}

// unconditional reports whether r wants the whole file, whatever the client has.
func unconditional(r *http.Request) bool {
	return r.Header["Range"] == nil && r.Header["If-None-Match"] == nil && r.Header["If-Match"] == nil
}

// conditional returns r, which asks for a file of size bytes, as http.ServeContent reads it right. Without If-Match, which was checked.
func conditional(r *http.Request, size int64) *http.Request {
	ranged := wire.Ranged(r, size)
	if r.Header["If-Match"] == nil {
		return ranged
	}
	less := *ranged
	less.Header = maps.Clone(ranged.Header)
	less.Header.Del("If-Match")
	return &less
}
