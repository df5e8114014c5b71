// Package files serves the files of releases: those of the release itself, and what open pages still load of earlier
// ones.
//
// What it serves from the store is checked against the digest in the manifest before the first byte leaves, and then
// kept, as it is and compressed, in memory and in a folder.
package files

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/wire"
)

// Config is what a server of files stands on.
type Config struct {
	Content  Content
	Registry interface{ Table() *registry.Table } // of what can be reached now

	CacheDir    string // a folder of the server's own; it is made when missing, and can be deleted while nothing runs
	CacheBytes  int64  // bound of CacheDir
	MemoryBytes int64  // bound of the bodies in memory

	// SeesPast reports whether a request may see files of an app's earlier releases, which are only for those who signed
	// in. It answers when nobody can tell.
	SeesPast func(w http.ResponseWriter, r *http.Request, app string) (known, answered bool)

	Log *slog.Logger // what could not be served
	Now func() time.Time
}

// Server serves files. It is safe for concurrent use.
type Server struct {
	manifests *manifests
	objects   *objects
	gone      *bounded[*registry.Release, struct{}] // releases whose manifests were collected
	seesPast  func(w http.ResponseWriter, r *http.Request, app string) (known, answered bool)
	log       *slog.Logger
	headers   headers
	now       func() time.Time
}

// headers are values of headers that are made once: nobody changes them.
type headers struct{ ranges, vary, varyPast, immutable, revalidated []string }

// New returns a server. A cache folder that cannot be used is Internal.
func New(c Config) (*Server, error) {
	objects, err := newObjects(c.Content, c.CacheDir, c.CacheBytes, c.MemoryBytes)
	if err != nil {
		return nil, err
	}
	return &Server{
		manifests: newManifests(c.Content, c.Registry.Table), objects: objects,
		gone:     newBounded[*registry.Release, struct{}](maxGone, nil),
		seesPast: c.SeesPast, log: c.Log, now: c.Now,
		headers: headers{
			ranges: []string{"bytes"}, vary: []string{"Accept-Encoding"},
			varyPast:    []string{"Accept-Encoding, Sec-Fetch-Dest, Service-Worker"},
			immutable:   []string{"public, max-age=31536000, immutable"},
			revalidated: []string{"public, max-age=0, must-revalidate"},
		},
	}, nil
}

// Close lets go of the cache folder.
func (s *Server) Close() error { return s.objects.disk.root.Close() }

// Serve answers with what the canonical path leads to. Whoever wants to do something else with it than read is told so
// where there is something, and that there is nothing elsewhere.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, found registry.Resolution, path string) {
	a, err := s.manifests.find(r.Context(), found.Release, path)
	if err == nil && !page.Reads(r) && a.exists() {
		w.Header().Set("Allow", "GET, HEAD")
		page.Write(w, r, pageMethod())
		return
	}
	if err == nil && a.moved != "" {
		page.Redirect(w, a.moved, r.URL.RawQuery)
		return
	}
	if err == nil && page.Reads(r) && (a.status != http.StatusOK || a.fallback) &&
		s.servePast(w, r, found, path, a.fallback) {
		return
	}
	if err == nil && a.status == 0 {
		page.Write(w, r, NoFile())
		return
	}
	if err == nil {
		err = s.send(w, r, a)
	}
	if err != nil {
		s.Fail(w, r, found.App, err)
	}
}

// send answers with a file. When it returns an error, nothing was written yet.
func (s *Server) send(w http.ResponseWriter, r *http.Request, a answer) error {
	h := w.Header()
	wanted := identity
	vary := compressible(a.file.Type)
	if vary && a.file.Size >= minCompressed && a.file.Size <= maxCompressed && r.Header.Get("Range") == "" {
		wanted = negotiate(strings.Join(r.Header.Values("Accept-Encoding"), ","))
	}
	content, coding, err := s.open(r.Context(), a.file, wanted)
	if err != nil {
		return err
	}
	defer content.Close()
	if vary {
		h["Vary"] = s.headers.vary
	}
	if a.past {
		h["Vary"] = s.headers.varyPast
	}
	if a.status == http.StatusOK && !matches(r.Header.Get("If-Match"), content.etag[0]) {
		page.Write(w, r, pagePrecondition())
		return nil
	}
	h["Content-Type"] = []string{cmp.Or(a.file.Type, "application/octet-stream")}
	if coding != identity {
		h["Content-Encoding"] = []string{string(coding)}
	}
	h["Content-Length"] = content.length
	if a.status != http.StatusOK {
		h.Set("Cache-Control", page.Uncached)
		w.WriteHeader(a.status)
		if r.Method != http.MethodHead {
			_, _ = io.Copy(w, content) // the status is out; a client that went away needs no answer
		}
		return nil
	}
	h["Etag"] = content.etag // as net/http writes ETag
	h["Cache-Control"] = s.headers.revalidated
	if hashed(a.path) {
		h["Cache-Control"] = s.headers.immutable
	}
	if content.data != nil && r.Method == http.MethodGet && unconditional(r) {
		h["Accept-Ranges"] = s.headers.ranges
		wire.WriteWhole(w, r, content.data)
		return nil
	}
	http.ServeContent(w, conditional(r, a.file.Size), "", time.Time{}, content)
	return nil
}

// open opens the file in the wanted coding, or as it is when the coding cannot be made.
func (s *Server) open(ctx context.Context, file File, wanted encoding) (*body, encoding, error) {
	content, coding, err := s.objects.open(ctx, file, wanted)
	if err == nil || wanted == identity || ctx.Err() != nil {
		return content, coding, err
	}
	plain, coding, plainErr := s.objects.open(ctx, file, identity)
	if plainErr == nil {
		s.log.WarnContext(ctx, "served uncompressed", "error", err)
	}
	return plain, coding, plainErr
}

// Fail answers that a file of the release cannot be had, and says so in the log.
func (s *Server) Fail(w http.ResponseWriter, r *http.Request, app string, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for the answer
	}
	s.log.ErrorContext(r.Context(), "release not served", "app", app, "release", w.Header().Get(page.ReleaseHeader),
		"path", r.URL.Path, "error", err)
	page.Write(w, r, pageBroken())
}

// Has reports whether there is something to read at the canonical path of a release.
func (s *Server) Has(ctx context.Context, release *registry.Release, path string) (bool, error) {
	a, err := s.manifests.find(ctx, release, path)
	return a.exists(), err
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

// conditional returns r, which asks for a file of size bytes, as http.ServeContent reads it right. Without If-Match,
// which was checked.
func conditional(r *http.Request, size int64) *http.Request {
	ranged := wire.NormalizeRange(r, size)
	if r.Header["If-Match"] == nil {
		return ranged
	}
	less := *ranged
	less.Header = maps.Clone(ranged.Header)
	less.Header.Del("If-Match")
	return &less
}

// Cache says how well the cache does. The counts go up from the start of the process.
type Cache struct {
	InMemory, InFolder, Missed int64 // look-ups
	Loaded                     int64 // bytes read from the store
	MemoryBytes, FolderBytes   int64 // kept now
}

// Cache returns how well the cache does. Many goroutines may call it.
func (s *Server) Cache() Cache {
	o := s.objects
	return Cache{
		InMemory: o.inMemory.Load(), InFolder: o.inFolder.Load(), Missed: o.missed.Load(), Loaded: o.loaded.Load(),
		MemoryBytes: o.hot.used(), FolderBytes: o.disk.files.used(),
	}
}
