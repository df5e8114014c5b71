package gateway_test

import (
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway"
	static "landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/registry"
)

const host = "shop.releases.test"

// decoded returns the body as it was before its Content-Encoding.
func (r response) decoded(t testing.TB) string {
	t.Helper()
	var reader io.Reader = strings.NewReader(r.body)
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "":
	case "br":
		reader = brotli.NewReader(reader)
	case "gzip":
		unzip, err := gzip.NewReader(reader)
		if err != nil {
			t.Fatalf("gzip: %v", err)
		}
		reader = unzip
	default:
		t.Fatalf("got Content-Encoding %q, want br, gzip or none", coding)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return string(data)
}

// The client's wish decides the coding, and each coding has the same bytes in it and an ETag of its own.
func TestEncodings(t *testing.T) {
	t.Parallel()
	content := newStore()
	text := strings.Repeat("body { color: red } ", 1000)
	large := strings.Repeat("abcdefghijklmnopqrstuvwxyz ", 100_000)
	noise := rand.Text()
	for len(noise) < 1<<15 {
		noise += rand.Text()
	}
	noisy := []byte(noise)
	if _, err := rand.Read(noisy); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, content, nil, shop(content, files{
		"/a.css": text, "/large.txt": large, "/noise.txt": string(noisy), "/small.css": "body{}", "/image.png": text,
		"/404.html": text,
	}))
	tags := map[string]string{}
	for _, c := range []struct{ path, accept, want string }{
		{"/a.css", "", ""},
		{"/a.css", "br", "br"},
		{"/a.css", "gzip", "gzip"},
		{"/a.css", "x-gzip", "gzip"},
		{"/a.css", "gzip, deflate, br, zstd", "br"},
		{"/a.css", "GZIP;Q=1.0, BR;q=0.5", "gzip"},
		{"/a.css", "br;q=0, gzip", "gzip"},
		{"/a.css", "br;q=0.001,gzip;q=0", "br"},
		{"/a.css", "*", "br"},
		{"/a.css", "br;q=0, *;q=0.5", "gzip"},
		{"/a.css", "*;q=0", ""},
		{"/a.css", "identity", ""},
		{"/a.css", "identity;q=1, br;q=0.5", ""},
		{"/a.css", "deflate, zstd", ""},
		{"/a.css", "br;q=nonsense", ""},
		{"/a.css", "br;q=2", ""},
		{"/a.css", "br;q=NaN", ""},
		{"/a.css", ",,;;,", ""},
		{"/a.css", "brotli", ""},
		{"/large.txt", "br", "br"},
		{"/large.txt", "gzip", "gzip"},
		{"/large.txt", "", ""},
		{"/noise.txt", "br, gzip", ""},
		{"/small.css", "br, gzip", ""},
		{"/image.png", "br, gzip", ""},
		{"/missing", "br", "br"},
	} {
		t.Run(c.path+" "+c.accept, func(t *testing.T) {
			var headers []string
			if c.accept != "" {
				headers = []string{"Accept-Encoding", c.accept}
			}
			want, ok := map[string]string{"/large.txt": large, "/noise.txt": string(noisy), "/small.css": "body{}"}[c.path]
			if !ok {
				want = text
			}
			for range 2 { // made, then kept
				answer := s.get(t, host, c.path, headers...)
				if got := answer.decoded(t); got != want {
					t.Errorf("got %d bytes after decoding, want the %d of the file", len(got), len(want))
				}
				vary := "Accept-Encoding"
				if c.path == "/image.png" {
					vary = ""
				}
				answer.wantHeaders(t, "Content-Encoding", c.want, "Vary", vary, "Content-Length", fmt.Sprint(len(answer.body)))
				head := s.do(t, http.MethodHead, host, c.path, headers...)
				head.wantHeaders(t, "Content-Encoding", c.want, "Content-Length", fmt.Sprint(len(answer.body)), "ETag",
					answer.Header.Get("ETag"))
				key := answer.Header.Get("ETag")
				if before, ok := tags[key]; ok && key != "" && before != answer.body {
					t.Errorf("got ETag %s for two bodies", key)
				}
				tags[key] = answer.body
			}
		})
	}
}

// However many ask, an object is loaded once, and its compressed form is made once, also for the next process.
func TestOnce(t *testing.T) {
	t.Parallel()
	content := newStore()
	large := strings.Repeat("0123456789 abcdef", 50_000)
	app := shop(content, files{"/small.txt": strings.Repeat("small ", 500), "/large.txt": large, "/copy.txt": large})
	folder := t.TempDir()
	inFolder := func(c *gateway.Config) { c.CacheDir = folder }
	s := newSite(t, content, inFolder, app)
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for _, path := range []string{"/small.txt", "/large.txt", "/copy.txt"} {
				for _, coding := range []string{"br", "gzip", "identity"} {
					if answer := s.get(t, host, path, "Accept-Encoding", coding); answer.StatusCode != http.StatusOK {
						t.Errorf("got status %d for %s in %s, want 200", answer.StatusCode, path, coding)
					}
				}
			}
		})
	}
	clients.Wait()
	if got := content.opened.Load(); got != 2 {
		t.Errorf("got %d objects opened in the store, want 2: one for each digest", got)
	}
	if got := content.read.Load(); got != 1 {
		t.Errorf("got %d manifests read, want 1", got)
	}
	before := modified(t, folder)
	if len(before) != 5 {
		t.Errorf("got %d cached files, want 5: two digests in two codings, and the large one as it is: %v",
			len(before), before)
	}

	// What a killed process left behind goes; what it finished is used.
	if err := os.WriteFile(filepath.Join(folder, "tmp-left"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newSite(t, content, inFolder, app)
	for _, coding := range []string{"br", "gzip", "identity"} {
		if got := again.get(t, host, "/large.txt", "Accept-Encoding", coding).decoded(t); got != large {
			t.Errorf("got %d bytes in %s after a restart, want %d", len(got), coding, len(large))
		}
	}
	if got := content.opened.Load(); got != 2 {
		t.Errorf("got %d objects opened after a restart, want no more than the 2 before", got)
	}
	if after := modified(t, folder); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("got cached files %v after a restart, want %v", after, before)
	}

	// What has become other bytes meanwhile is made again, and not served.
	for name := range before {
		path := filepath.Join(folder, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	healed := newSite(t, content, inFolder, app)
	for _, coding := range []string{"br", "gzip", "identity"} {
		if got := healed.get(t, host, "/large.txt", "Accept-Encoding", coding).decoded(t); got != large {
			t.Errorf("got %d other bytes in %s when the cache was damaged", len(got), coding)
		}
	}
}

// modified returns when each file of the folder was written.
func modified(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int64{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		times[entry.Name()] = info.ModTime().UnixNano()
	}
	return times
}

// The cache folder stays within its bound, and what had to go is made again.
func TestBounds(t *testing.T) {
	t.Parallel()
	content := newStore()
	all := files{}
	for i := range 20 {
		all[fmt.Sprintf("/%d.bin", i)] = strings.Repeat(fmt.Sprintf("%07d ", i), 40_000)
	}
	folder := t.TempDir()
	const bound = 1 << 20
	s := newSite(t, content, func(c *gateway.Config) {
		c.CacheDir, c.CacheBytes, c.MemoryBytes = folder, bound, 1
	}, shop(content, all))
	for range 2 {
		for name, text := range all {
			s.get(t, host, name).want(t, http.StatusOK, "aaaaaaa2", text)
			var size int64
			for file := range modified(t, folder) {
				info, err := os.Stat(filepath.Join(folder, file))
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			if size > bound {
				t.Fatalf("got %d bytes in the cache folder, want at most %d", size, bound)
			}
		}
	}
	for name := range modified(t, folder) { // somebody empties the folder under us
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range all {
		s.get(t, host, name).want(t, http.StatusOK, "aaaaaaa2", text)
	}
}

// What is not the bytes that were uploaded is never served, and the operator is told.
func TestTampered(t *testing.T) {
	t.Parallel()
	content := newStore()
	large := strings.Repeat("large ", 100_000)
	s := newSite(t, content, nil, shop(content,
		files{"/a.css": strings.Repeat("a{} ", 500), "/large.txt": large, "/short.txt": "short", "/gone.txt": "gone"}))
	content.change(func() {
		for key, data := range content.objects {
			switch {
			case strings.HasSuffix(key, "/short.txt"):
				content.objects[key] = data[:2]
			case strings.HasSuffix(key, "/gone.txt"):
				delete(content.objects, key)
			default:
				changed := []byte(string(data))
				changed[len(changed)-1] ^= 1
				content.objects[key] = changed
			}
		}
	})
	for _, path := range []string{"/a.css", "/large.txt", "/short.txt", "/gone.txt"} {
		for _, headers := range [][]string{nil, {"Accept-Encoding", "br"}, {"Range", "bytes=0-1"}} {
			answer := s.get(t, host, path, headers...)
			answer.wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
			answer.wantHeaders(t, "ETag", "", "Content-Encoding", "")
		}
	}
	if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "other bytes") ||
		!strings.Contains(log, "/large.txt") {
		t.Errorf("got log %s, want an error that names the object", log)
	}
	content.change(func() { content.objects["aaaaaaa2//large.txt"] = []byte(large) })
	s.get(t, host, "/large.txt").want(t, http.StatusOK, "aaaaaaa2", large)
}

// What was served once is served on while the store is down; the rest is an error that nobody keeps, until it is back.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{"/index.html": "home", "/other.html": "other"})
	app.Releases = append(app.Releases, content.release("bbbbbbb2", files{"/index.html": "preview"}))
	s := newSite(t, content, nil, app)
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "home")
	content.change(func() {
		content.err = &landfall.Error{Kind: landfall.Unavailable, Err: errors.New("connection refused")}
	})
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "home")
	s.get(t, host, "/other").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
	s.get(t, "shop--bbbbbbb2.releases.test", "/").wantPage(t, http.StatusBadGateway, "bbbbbbb2", "cannot be read")
	s.get(t, host, "/missing-3f2a1b4c.js").wantPage(t, http.StatusNotFound, "aaaaaaa2", "No such page")
	content.change(func() { content.err = nil })
	s.get(t, host, "/other").want(t, http.StatusOK, "aaaaaaa2", "other")
	s.get(t, "shop--bbbbbbb2.releases.test", "/").want(t, http.StatusOK, "bbbbbbb2", "preview")
}

// Without room for compressed forms files are served as they are.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	content := newStore()
	text := strings.Repeat("text ", 1000)
	folder := filepath.Join(t.TempDir(), "cache")
	s := newSite(t, content, func(c *gateway.Config) { c.CacheDir = folder }, shop(content, files{"/a.css": text}))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	answer := s.get(t, host, "/a.css", "Accept-Encoding", "br")
	answer.want(t, http.StatusOK, "aaaaaaa2", text)
	answer.wantHeaders(t, "Content-Encoding", "")
	if log := s.log.String(); !strings.Contains(log, "level=WARN") {
		t.Errorf("got log %q, want a warning", log)
	}
}

// A wrong setting stops the start with a sentence.
func TestNew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config gateway.Config
		kind   landfall.Kind
	}{
		"no domain":            {gateway.Config{CacheDir: t.TempDir()}, landfall.Invalid},
		"an address as domain": {gateway.Config{Domain: "127.0.0.1", CacheDir: t.TempDir()}, landfall.Invalid},
		"a domain with a path": {gateway.Config{Domain: "a.test/x", CacheDir: t.TempDir()}, landfall.Invalid},
		"a control host with @": {gateway.Config{Domain: "a.test", Control: "u@b.test", CacheDir: t.TempDir()},
			landfall.Invalid},
		"a file as cache folder": {gateway.Config{Domain: "a.test", CacheDir: file}, landfall.Internal},
	} {
		g, err := gateway.New(c.config)
		if g != nil || err == nil || landfall.KindOf(err) != c.kind || landfall.MessageOf(err) == "internal error" {
			t.Errorf("%s: got %v, want an error of kind %s with a sentence", name, err, c.kind)
		}
	}
}

// A manifest that names no digest leads nowhere, least of all out of the cache folder.
func TestBadDigest(t *testing.T) {
	t.Parallel()
	content := newStore()
	content.manifests["m"] = &static.Manifest{Files: map[string]static.File{
		"/a.txt": {Key: "k", SHA256: "sha256:../../../../etc/passwd", Size: 1},
	}}
	content.objects["k"] = []byte("a")
	s := newSite(t, content, nil, registry.App{ID: "1", Name: "shop", Live: "aaaaaaa2", Releases: []registry.Release{
		{ID: "aaaaaaa2", Units: []registry.Unit{{Path: "/", Manifest: "m"}}},
	}})
	s.get(t, host, "/a.txt").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
}

// What lists the files of releases leaves the memory when nobody can reach them any more, and no sooner.
func TestManifestsOfExpiredReleases(t *testing.T) {
	t.Parallel()
	content := newStore()
	const half, expired = 100, 90
	app := registry.App{ID: "1", Name: "shop"}
	for i := range 2 * half {
		app.Releases = append(app.Releases, content.release(landfall.UID(fmt.Sprintf("r%d", i)),
			files{"/index.html": fmt.Sprint(i)}))
	}
	s := newSite(t, content, nil, app)
	visit := func(i int) (read int64) {
		t.Helper()
		before := content.read.Load()
		s.get(t, fmt.Sprintf("shop--r%d.releases.test", i), "/").want(t, http.StatusOK, landfall.UID(fmt.Sprintf("r%d", i)),
			fmt.Sprint(i))
		return content.read.Load() - before
	}
	for i := range half {
		visit(i)
	}
	later := app
	later.Releases = app.Releases[expired:]
	s.tables.Store(registry.New([]registry.App{later}))
	for i := range half {
		visit(half + i)
	}
	s.tables.Store(registry.New([]registry.App{app}))
	if read := visit(0); read != 1 {
		t.Errorf("a release that had expired is served again with %d manifests read, want 1", read)
	}
	if read := visit(half - 1); read != 0 {
		t.Errorf("a release that was there all the time is served with %d manifests read, want none", read)
	}
}
