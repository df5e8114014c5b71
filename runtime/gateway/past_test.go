package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// pushed is an app of which old was live until an hour ago, and new is live.
func pushed(content *store, earlier, now files) registry.App {
	return registry.App{ID: "1", Name: "shop", Live: "bbbbbbb2", KeepFiles: day, Releases: []registry.Release{
		ended(content.release("aaaaaaa2", earlier), time.Hour), content.release("bbbbbbb2", now),
	}}
}

// An open page still loads what it needs after a push, whatever the names are; nothing else of what was live is to be
// had.
func TestFilesOfEarlierReleases(t *testing.T) {
	t.Parallel()
	loaded := []string{
		"/app.js", "/lib.MJS", "/theme.css", "/data.json", "/app.webmanifest", "/core.wasm", "/inter.woff2", "/old.eot",
		"/logo.svg", "/photo.avif", "/bell.mp3", "/intro.mp4", "/intro.vtt", "/about.DcCKc2Dd.js",
		"/assets/chunks/theme.CFnvYgjx.js", "/img/größe.png", "/a b.js",
	}
	kept := []string{
		"/page.html", "/old.htm", "/feed.xml", "/notes.txt", "/README.md", "/price.pdf", "/all.zip", "/tool.exe", "/unknown",
		"/app.js.map", "/APP.MAP", "/.hidden.js", "/.git/config.json", "/.well-known/keys.json", "/a/.b/c.css",
	}
	types := map[string]string{
		"/lib.MJS": "text/javascript; charset=utf-8", "/app.webmanifest": "application/manifest+json",
		"/old.eot": "application/vnd.ms-fontobject", "/core.wasm": "application/wasm", "/inter.woff2": "font/woff2",
		"/photo.avif": "image/avif", "/bell.mp3": "audio/mpeg", "/intro.mp4": "video/mp4",
		"/intro.vtt": "text/vtt; charset=utf-8", "/app.js.map": "application/json", "/APP.MAP": "application/json",
		"/.hidden.js": "text/javascript", "/.git/config.json": "application/json",
		"/.well-known/keys.json": "application/json", "/a/.b/c.css": "text/css", "/data.json": "application/json",
		"/tool.exe": "application/octet-stream", "/README.md": "text/markdown",
	}
	content := newStore()
	old := files{}
	for _, name := range append(append([]string{}, loaded...), kept...) {
		old[name] = "old " + name
	}
	app := pushed(content, old, files{"/index.html": "new"})
	for name, media := range types {
		file := content.manifests["aaaaaaa2/.manifest"].Files[name]
		file.Type = media
		content.manifests["aaaaaaa2/.manifest"].Files[name] = file
	}
	s := newSite(t, content, nil, app)
	escaped := strings.NewReplacer(" ", "%20", "ö", "%C3%B6", "ß", "%C3%9F")
	for _, name := range loaded {
		// K-003: what a page loads is served whatever its name
		s.get(t, host, escaped.Replace(name)).want(t, http.StatusOK, "aaaaaaa2", "old "+name)
	}
	for _, name := range kept {
		// K-003: never a page, a name with a dot at its beginning, or a source map
		s.get(t, host, escaped.Replace(name)).wantPage(t, http.StatusNotFound, "bbbbbbb2", "No such page")
	}
	for _, c := range []struct {
		why     string
		status  int
		headers []string
	}{
		{"a script that a page loads", 200, []string{"Sec-Fetch-Dest", "script", "Sec-Fetch-Mode", "cors"}},
		{"a worker", 200, []string{"Sec-Fetch-Dest", "worker"}},
		{"fetch", 200, []string{"Sec-Fetch-Dest", "empty", "Accept", "text/html, */*"}},
		{"a program", 200, []string{"Accept", "*/*"}},
		{"a service worker", 404, []string{"Service-Worker", "script", "Sec-Fetch-Dest", "serviceworker"}},
		{"a service worker without the newer header", 404, []string{"Service-Worker", "script"}},
		{"a service worker without the older header", 404, []string{"Sec-Fetch-Dest", "serviceworker"}},
		{"somebody goes there", 404, []string{"Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate"}},
		{"somebody goes there, without https", 404, []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"}},
		{"a frame", 404, []string{"Sec-Fetch-Dest", "iframe", "Sec-Fetch-Mode", "navigate"}},
		{"a plugin", 404, []string{"Sec-Fetch-Dest", "object", "Sec-Fetch-Mode", "navigate"}},
		{"an embedded document", 404, []string{"Sec-Fetch-Dest", "embed"}},
		{"a frame of the newest kind", 404, []string{"Sec-Fetch-Dest", "fencedframe"}},
		{"any way to go there", 404, []string{"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "navigate"}},
	} {
		// K-003: never a service worker, and nothing that somebody goes to as to a page
		if got := s.get(t, host, "/app.js", c.headers...).StatusCode; got != c.status {
			t.Errorf("%s: got status %d, want %d", c.why, got, c.status)
		}
	}
	if got := s.do(t, http.MethodPost, host, "/app.js").StatusCode; got != http.StatusNotFound {
		t.Errorf("got status %d for a POST to a file of an earlier release, want 404", got)
	}
}

// Caches that stand between know what the answer depends on, and keep it for long only when its name is certainly a
// hash. Ranges and conditions are as with any file.
func TestEarlierFilesInHTTP(t *testing.T) {
	t.Parallel()
	content := newStore()
	text := strings.Repeat("old text. ", 400)
	s := newSite(t, content, nil, pushed(content, files{"/app.js": text, "/app-DUS3Xapw.js": text, "/photo.png": text},
		files{"/index.html": "new"}))
	plain := s.get(t, host, "/app.js")
	plain.want(t, http.StatusOK, "aaaaaaa2", text)
	plain.wantHeaders(t, "Cache-Control", revalidate, "Vary", "Accept-Encoding, Sec-Fetch-Dest, Service-Worker",
		"Accept-Ranges", "bytes")
	s.get(t, host, "/photo.png").wantHeaders(t, "Cache-Control", revalidate, "Vary",
		"Accept-Encoding, Sec-Fetch-Dest, Service-Worker")
	s.get(t, host, "/app-DUS3Xapw.js").wantHeaders(t, "Cache-Control", immutable, "Vary",
		"Accept-Encoding, Sec-Fetch-Dest, Service-Worker")
	etag := plain.Header.Get("ETag")
	s.get(t, host, "/app.js", "If-None-Match", etag).want(t, http.StatusNotModified, "aaaaaaa2", "")
	s.get(t, host, "/app.js", "If-None-Match", etag, "Service-Worker", "script").wantPage(t, http.StatusNotFound,
		"bbbbbbb2", "No such page")
	s.get(t, host, "/app.js", "If-Match", `"other"`).wantPage(t, http.StatusPreconditionFailed, "aaaaaaa2", "")
	s.get(t, host, "/app.js", "Range", "bytes=4-7").want(t, http.StatusPartialContent, "aaaaaaa2", "text")
	s.get(t, host, "/app.js", "Range", "bytes=4-7", "If-Range", `"other"`).want(t, http.StatusOK, "aaaaaaa2", text)
	s.get(t, host, "/app.js", "Range", "bytes=99999-").wantHeaders(t, "Content-Range",
		fmt.Sprintf("bytes */%d", len(text)))
	s.do(t, http.MethodHead, host, "/app.js").want(t, http.StatusOK, "aaaaaaa2", "")
	s.do(t, http.MethodHead, host, "/app.js").wantHeaders(t, "Content-Length", fmt.Sprint(len(text)), "ETag", etag)
	if got := s.get(t, host, "/app.js", "Accept-Encoding", "br"); got.Header.Get("Content-Encoding") != "br" ||
		got.decoded(t) != text {
		t.Errorf("got the coding %q, want br of the old text", got.Header.Get("Content-Encoding"))
	}
}

// Whatever the live release has at a path goes before an earlier file: a file, a page, a folder, a route.
func TestLiveGoesBeforeEarlier(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := pushed(content, files{"/app.js": "old", "/folder.js": "old", "/page.js": "old", "/image": "old",
		"/api.json": "old", "/posted.json": "old"},
		files{"/index.html": "new", "/app.js": "new", "/folder.js/index.html": "new", "/page.js.html": "new"})
	manifest := content.manifests["aaaaaaa2/.manifest"]
	image := manifest.Files["/image"]
	image.Type = "image/png" // by its bytes
	manifest.Files["/image"] = image
	app.Releases[1].Units[0].Fallback = "/index.html"
	at := func(name, pattern string) registry.Route {
		return registry.Route{Trigger: &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.HTTPTrigger}, Name: name,
			AppName: "shop"}, Patterns: []string{pattern}}
	}
	app.Releases[1].Routes = registry.NewRoutes([]registry.Route{at("api", "GET /api.json"),
		at("posted", "POST /posted.json")})
	s := newSite(t, content, nil, app)
	s.get(t, host, "/app.js").want(t, http.StatusOK, "bbbbbbb2", "new")
	s.get(t, host, "/page.js").want(t, http.StatusOK, "bbbbbbb2", "new")
	if got := s.get(t, host, "/folder.js").Header.Get("Location"); got != "/folder.js/" {
		t.Errorf("got the location %q, want the live release's folder", got)
	}
	for path, status := range map[string]int{"/api.json": http.StatusServiceUnavailable,
		"/posted.json": http.StatusMethodNotAllowed} {
		if got := s.get(t, host, path); got.Header.Get(page.ReleaseHeader) != "bbbbbbb2" || got.body == "old" {
			t.Errorf("%s: got status %d of %s, want %d of the live release's route", path, got.StatusCode,
				got.Header.Get(page.ReleaseHeader), status)
		}
	}
	// A path without an extension is the app's own page for who goes there, and the image for the page that shows it.
	s.get(t, host, "/image").want(t, http.StatusOK, "bbbbbbb2", "new")
	s.get(t, host, "/image", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate").want(t, http.StatusOK,
		"bbbbbbb2", "new")
	s.get(t, host, "/image", "Sec-Fetch-Dest", "image").want(t, http.StatusOK, "aaaaaaa2", "old")
	s.get(t, host, "/cart", "Sec-Fetch-Dest", "empty").want(t, http.StatusOK, "bbbbbbb2", "new")
}

// A file that stood behind a route of its release was never to be had, and is not now.
func TestRouteOverEarlierFile(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := pushed(content, files{"/keys.json": "secret", "/open.json": "open"}, files{"/index.html": "new"})
	app.Releases[0].Routes = registry.NewRoutes([]registry.Route{{
		Trigger: &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.HTTPTrigger,
			HTTP: landfall.HTTPSource{Access: landfall.AccessToken}}, Name: "keys", AppName: "shop"},
		Patterns: []string{"GET /keys.json", "POST /open.json"},
	}})
	s := newSite(t, content, nil, app)
	s.get(t, host, "/keys.json").wantPage(t, http.StatusNotFound, "bbbbbbb2", "No such page")
	s.do(t, http.MethodHead, host, "/keys.json").want(t, http.StatusNotFound, "bbbbbbb2", "")
	s.get(t, host, "/open.json").want(t, http.StatusOK, "aaaaaaa2", "open")
}

// The time that an app says counts from the moment on at which its release was not live any more.
func TestEarlierFilesEnd(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := pushed(content, files{"/app.js": "old"}, files{"/index.html": "new"})
	now := app.Releases[0].LiveUntil
	s := newSite(t, content, func(c *gateway.Config) { c.Now = func() time.Time { return now } }, app)
	served := func(when string, after time.Duration, want int) {
		t.Helper()
		now = app.Releases[0].LiveUntil.Add(after)
		if got := s.get(t, host, "/app.js").StatusCode; got != want {
			t.Errorf("%s: got status %d, want %d", when, got, want)
		}
	}
	served("at the push", 0, http.StatusOK)
	served("a day after it", day, http.StatusOK)
	served("a moment later", day+time.Second, http.StatusNotFound)
	app.KeepFiles = 7 * day
	s.tables.Store(registry.New([]registry.App{app}))
	served("with seven days", 7*day, http.StatusOK)
	app.KeepFiles = 0
	s.tables.Store(registry.New([]registry.App{app}))
	served("with no time at all", 0, http.StatusNotFound)
	app.KeepFiles = day
	app.Releases = app.Releases[1:] // it expired
	s.tables.Store(registry.New([]registry.App{app}))
	now = now.Add(time.Minute)
	s.get(t, host, "/app.js").wantPage(t, http.StatusNotFound, "bbbbbbb2", "No such page")
}

// Of an app whose releases that are not live are for those who signed in, their files are so at the live address, too.
func TestEarlierFilesOfAClosedApp(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := pushed(content, files{"/app.js": "old"}, files{"/index.html": "new"})
	app.SignedIn = true
	var failure error
	s := newSite(t, content, func(c *gateway.Config) {
		c.Allowed = func(r *http.Request, _ string, _ landfall.Access) error {
			if failure == nil && r.Header.Get("Authorization") != "Bearer good" {
				return &landfall.Error{Kind: landfall.Unauthorized}
			}
			return failure
		}
	}, app)
	s.get(t, host, "/app.js").wantPage(t, http.StatusNotFound, "bbbbbbb2", "No such page")
	s.get(t, host, "/app.js", "Authorization", "Bearer bad").wantPage(t, http.StatusNotFound, "bbbbbbb2", "No such page")
	known := s.get(t, host, "/app.js", "Authorization", "Bearer good")
	known.want(t, http.StatusOK, "aaaaaaa2", "old")
	known.wantHeaders(t, "Cache-Control", "private, no-cache", "Cross-Origin-Resource-Policy", "same-origin")
	failure = &landfall.Error{Kind: landfall.Unavailable, Err: errors.New("down")}
	if got := s.get(t, host, "/app.js", "Authorization", "Bearer good").StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("got status %d while nobody can tell who may, want 503", got)
	}
	s.get(t, host, "/", "Authorization", "Bearer good").want(t, http.StatusOK, "bbbbbbb2", "new")
}

// After 500 pushes a day, a path that no release has costs no look at the store, and the files of all of them are
// there.
func TestManyEarlierReleases(t *testing.T) {
	t.Parallel()
	const pushes, shared = 500, 450 // more files than manifests in memory may list
	content := newStore()
	common := files{}
	for n := range shared {
		common[fmt.Sprintf("/assets/part-%d.js", n)] = "part"
	}
	app := registry.App{ID: "1", Name: "shop", Live: "live2222", KeepFiles: day,
		Releases: []registry.Release{content.release("live2222", files{"/index.html": "new"})}}
	for n := range pushes {
		id := landfall.UID(fmt.Sprintf("aaaaa%03d", n))
		own := fmt.Sprintf("/assets/own-%d.js", n)
		app.Releases = append(app.Releases, ended(content.release(id, with(common, files{own: string(id)})),
			time.Duration(n+1)*time.Minute))
	}
	s := newSite(t, content, nil, app)
	s.get(t, host, "/assets/missing.js").wantPage(t, http.StatusNotFound, "live2222", "No such page")
	read := content.read.Load()
	for n := range 200 {
		s.get(t, host, fmt.Sprintf("/assets/missing-%d.js", n)).wantPage(t, http.StatusNotFound, "live2222", "No such page")
	}
	if got := content.read.Load(); got != read {
		t.Errorf("200 missing paths cost %d looks at the store, want none", got-read)
	}
	for _, n := range []int{0, 49, 50, 250, 499} {
		id := fmt.Sprintf("aaaaa%03d", n)
		s.get(t, host, fmt.Sprintf("/assets/own-%d.js", n)).want(t, http.StatusOK, landfall.UID(id), id)
	}
}
