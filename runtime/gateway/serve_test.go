package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

const (
	revalidate = "public, max-age=0, must-revalidate"
	immutable  = "public, max-age=31536000, immutable"
)

// Each form of address reaches its release, and every answer says which one that was.
func TestAddresses(t *testing.T) {
	t.Parallel()
	content := newStore()
	release := func(id landfall.UID, commit landfall.CommitSHA) registry.Release {
		r := content.release(id, files{"/index.html": "page of " + string(id)})
		r.Commit = commit
		return r
	}
	app := registry.App{
		ID: "1", Name: "shop", Live: "bbbbbbb2", Latest: "ccccccc2",
		Releases: []registry.Release{
			release("bbbbbbb2", "2222222222222222222222222222222222222222"),
			release("ccccccc2", "2222222333333333333333333333333333333333"),
			release("ddddddd2", "4444444444444444444444444444444444444444"),
		},
		Tags: map[string]landfall.UID{"beta": "ddddddd2", "v1.2.0": "ddddddd2", "old": "aaaaaaa2"},
	}
	s := newSite(t, content, nil, app, registry.App{ID: "2", Name: "gone", Deleted: true},
		registry.App{ID: "3", Name: "empty"})
	s.tables.expired = map[string]landfall.UID{"shop.aaaaaaa2": "aaaaaaa2", "shop--aaaaaaa2": "aaaaaaa2",
		"shop.1111111": "aaaaaaa2"}
	slug := landfall.ReleaseLabel("v1.2.0")
	shows := func(t *testing.T, host string, want landfall.UID) {
		t.Helper()
		s.get(t, host, "/").want(t, http.StatusOK, want, "page of "+string(want))
	}

	t.Run("live", func(t *testing.T) {
		t.Parallel()
		// D-045: APP.DOMAIN reaches the app
		shows(t, "shop.releases.test", "bbbbbbb2")
		// D-050: without a release id the address is the live release's
		shows(t, "shop.releases.test:8080", "bbbbbbb2")
	})
	t.Run("release id", func(t *testing.T) {
		t.Parallel()
		// D-046: APP.RELEASE.DOMAIN reaches that release
		shows(t, "shop.ddddddd2.releases.test", "ddddddd2")
		// P-012: so does the form with one label, and both do for tags
		shows(t, "shop--ddddddd2.releases.test", "ddddddd2")
		// D-054: a tag is an address
		shows(t, "shop.beta.releases.test", "ddddddd2")
		shows(t, "shop--beta.releases.test", "ddddddd2")
		shows(t, "shop."+slug+".releases.test", "ddddddd2")
		shows(t, landfall.JoinedLabel("shop", "v1.2.0")+".releases.test", "ddddddd2")
	})
	t.Run("special releases", func(t *testing.T) {
		t.Parallel()
		// D-049: live, latest and tagged releases each have their address
		shows(t, "shop.live.releases.test", "bbbbbbb2")
		// D-051: latest is the newest release
		shows(t, "shop.latest.releases.test", "ccccccc2")
		shows(t, "shop--latest.releases.test", "ccccccc2")
		shows(t, "shop--live.releases.test", "bbbbbbb2")
	})
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		shows(t, "shop.2222222222222222222222222222222222222222.releases.test", "bbbbbbb2")
		shows(t, "shop--22222223.releases.test", "ccccccc2")
		s.get(t, "shop.2222222.releases.test", "/").wantPage(t, http.StatusNotFound, "", "Several commits")
	})
	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		// D-047: an invalid release id is an error
		s.get(t, "shop.zzzzzzz2.releases.test", "/").wantPage(t, http.StatusNotFound, "", "No such release")
		// D-048: an expired release id is an error
		s.get(t, "shop.aaaaaaa2.releases.test", "/").wantPage(t, http.StatusGone, "aaaaaaa2", "has expired")
		// P-013: in every form of address, and for every path
		s.get(t, "shop--aaaaaaa2.releases.test", "/app.js").wantPage(t, http.StatusGone, "aaaaaaa2", "has expired")
		s.get(t, "shop.old.releases.test", "/x?y").wantPage(t, http.StatusGone, "aaaaaaa2", "has expired")
		s.get(t, "shop.1111111.releases.test", "//").wantPage(t, http.StatusGone, "aaaaaaa2", "has expired")
		s.get(t, "shop--zzzzzzz2.releases.test", "/app.js").wantPage(t, http.StatusNotFound, "", "No such release")
		s.get(t, "nothing.releases.test", "/").wantPage(t, http.StatusNotFound, "", "No such app")
		s.get(t, "empty.releases.test", "/").wantPage(t, http.StatusNotFound, "", "Nothing is live")
		s.get(t, "gone.releases.test", "/").wantPage(t, http.StatusGone, "", "was deleted")
		s.get(t, "gone.bbbbbbb2.releases.test", "/").wantPage(t, http.StatusGone, "", "was deleted")
	})
	t.Run("only the live address is for search engines", func(t *testing.T) {
		t.Parallel()
		s.get(t, "shop.releases.test", "/").wantHeaders(t, "X-Robots-Tag", "")
		for _, host := range []string{"shop.bbbbbbb2", "shop--beta", "shop.latest", "shop.aaaaaaa2"} {
			s.get(t, host+".releases.test", "/").wantHeaders(t, "X-Robots-Tag", "noindex")
		}
	})
	t.Run("before the first table", func(t *testing.T) {
		t.Parallel()
		early := newSite(t, content, nil)
		early.tables.Store(nil)
		answer := early.get(t, "shop.releases.test", "/")
		answer.wantPage(t, http.StatusServiceUnavailable, "", "Starting")
		answer.wantHeaders(t, "Retry-After", "1")
	})
}

// A tag's address stays when the tag moves, and after each push the address of a preview shows the new release.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{"/index.html": "first"})
	app.Releases = append(app.Releases, content.release("bbbbbbb2", files{"/index.html": "second"}))
	app.Tags = map[string]landfall.UID{"pr-12": "aaaaaaa2"}
	s := newSite(t, content, nil, app)
	const address = "shop--pr-12.releases.test"
	first := s.get(t, address, "/")
	first.want(t, http.StatusOK, "aaaaaaa2", "first")

	app.Tags = map[string]landfall.UID{"pr-12": "bbbbbbb2"}
	s.tables.Store(registry.New([]registry.App{app}))
	second := s.get(t, address, "/", "If-None-Match", first.Header.Get("ETag"))
	// D-055: the address of a tag is stable while the tag moves
	second.want(t, http.StatusOK, "bbbbbbb2", "second")
	// L-014: a preview's answer names its release, is asked for again each time, and is never the one before
	second.wantHeaders(t, page.ReleaseHeader, "bbbbbbb2", "Cache-Control", revalidate)
	// D-056: live is a tag that is moved the same way, and the address stays
	s.get(t, "shop.live.releases.test", "/").want(t, http.StatusOK, "aaaaaaa2", "first")
	app.Live = "bbbbbbb2"
	s.tables.Store(registry.New([]registry.App{app}))
	s.get(t, "shop.live.releases.test", "/").want(t, http.StatusOK, "bbbbbbb2", "second")
	s.get(t, "shop.releases.test", "/").want(t, http.StatusOK, "bbbbbbb2", "second")
}

// nested is a release of several units, one inside the other.
func nested(s *store) registry.App {
	units := []registry.Unit{
		s.unit("a", "/", files{
			"/index.html": "app", "/about.html": "about", "/static/js/app.js": "hidden", "/static/old.js": "outer",
			"/docs/index.html": "hidden docs", "/404.html": "outer 404", "/LICENSE": "license", "/both.html": "page",
			"/both/index.html": "folder",
		}),
		s.unit("b", "/static", files{"/static/video/large.mp4": "hidden", "/static/css/app.css": "css",
			"/static/js/lib.js": "hidden"}),
		s.unit("c", "/static/js", files{"/static/js/app.js": "js", "/static/js/lib.js": "lib"}),
		s.unit("d", "/static/video/large.mp4", files{"/static/video/large.mp4": "movie"}),
		s.unit("e", "/docs", files{"/docs/index.html": "docs", "/docs/guide/start.html": "start",
			"/docs/404.html": "docs 404", "/docs/guide/404.html": "guide 404"}),
	}
	units[0].Fallback = "/index.html"
	return registry.App{ID: "1", Name: "shop", Live: "aaaaaaa2",
		Releases: []registry.Release{{ID: "aaaaaaa2", Units: units}}}
}

// Files, folders, clean addresses, fallbacks and pages for what is missing, where the most specific unit that has it
// serves.
func TestLookup(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(), nil)
	s.tables.Store(registry.New([]registry.App{nested(s.store)}))
	for _, c := range []struct {
		path   string
		status int
		want   string // body or Location
	}{
		{"/", 200, "app"},
		{"/index.html", 200, "app"},
		{"/about", 200, "about"},
		{"/about.html", 200, "about"},
		{"/about/", 308, "/about"},
		{"/LICENSE", 200, "license"},
		{"/both", 200, "page"},
		{"/both/", 200, "folder"},
		{"/static/js/app.js", 200, "js"},
		{"/static/js/lib.js", 200, "lib"},
		{"/static/old.js", 200, "outer"},
		{"/static/css/app.css", 200, "css"},
		{"/static/video/large.mp4", 200, "movie"},
		{"/docs", 308, "/docs/"},
		{"/docs/", 200, "docs"},
		{"/docs/guide/start", 200, "start"},
		{"/docs?page=2", 308, "/docs/?page=2"},

		{"/cart", 200, "app"},
		{"/cart/", 200, "app"},
		{"/users/7/orders", 200, "app"},
		{"/docs-of-mine", 200, "app"},
		{"/releases/v1.2", 200, "app"},
		{"/cart?x=a.js", 200, "app"},

		{"/missing.js", 404, "outer 404"},
		{"/static/js/missing.js", 404, "outer 404"},
		{"/static/js/app-B7cSm1tF.js", 404, "outer 404"},
		{"/missing.html", 404, "outer 404"},
		{"/favicon.ico", 404, "outer 404"},
		{"/.well-known/security", 404, "outer 404"},
		{"/docs/missing", 404, "docs 404"},
		{"/docs/missing.png", 404, "docs 404"},
		{"/docs/guide/missing", 404, "guide 404"},
		{"/docs/guide/deep/missing/", 404, "guide 404"},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				answer := s.do(t, method, "shop.releases.test", c.path)
				want := c.want
				if c.status == http.StatusPermanentRedirect {
					answer.wantHeaders(t, "Location", want, "Cache-Control", "no-store")
					want = ""
				} else {
					answer.wantHeaders(t, "Content-Length", fmt.Sprint(len(want)))
				}
				if method == http.MethodHead {
					want = ""
				}
				answer.want(t, c.status, "aaaaaaa2", want)
				answer.wantHeaders(t, "X-Content-Type-Options", "nosniff")
				if c.status == http.StatusNotFound {
					answer.wantHeaders(t, "Cache-Control", "no-store", "ETag", "")
				}
				// L-033: what looks like an asset is never answered with the app's page
				if strings.Contains(answer.body, "app") && !strings.Contains(c.path, "?") && strings.HasSuffix(c.path, ".js") {
					t.Errorf("got the page %q for %s", answer.body, c.path)
				}
			}
		})
	}
}

// Without pages of its own a release gets the gateway's, which names the release.
func TestNoPage(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, shop(content, files{"/index.html": "app"}))
	s.get(t, "shop.releases.test", "/missing").wantPage(t, http.StatusNotFound, "aaaaaaa2", "No such page")
	answer := s.get(t, "shop.releases.test", "/missing", "Accept", "application/json")
	answer.wantHeaders(t, "Content-Type", "application/problem+json", "Vary", "Accept")
	if !strings.HasPrefix(answer.body, `{"type":"about:blank","title":"No such page","status":404,`) {
		t.Errorf("got %s, want problem details", answer.body)
	}
	answer = s.get(t, "shop.releases.test", "/missing", "Accept", "text/plain")
	answer.wantHeaders(t, "Content-Type", "text/plain; charset=utf-8")
	if !strings.HasPrefix(answer.body, "No such page. ") {
		t.Errorf("got %q, want plain text", answer.body)
	}
	s.get(t, "shop.releases.test", "/missing", "Accept", "text/html,*/*;q=0.8").wantPage(t, http.StatusNotFound,
		"aaaaaaa2", "No such page")
}

// Files are read, and nothing else.
func TestMethods(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, shop(content,
		files{"/index.html": "app", "/folder/index.html": "folder", "/404.html": "own 404"}))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"} {
		answer := s.do(t, method, "shop.releases.test", "/")
		answer.wantPage(t, http.StatusMethodNotAllowed, "aaaaaaa2", "Only GET and HEAD")
		answer.wantHeaders(t, "Allow", "GET, HEAD")
		s.do(t, method, "shop.releases.test", "/folder").wantPage(t, http.StatusMethodNotAllowed, "aaaaaaa2",
			"Only GET and HEAD")
		answer = s.do(t, method, "shop.releases.test", "/nothing")
		answer.want(t, http.StatusNotFound, "aaaaaaa2", "own 404")
		answer.wantHeaders(t, "Allow", "")
	}
	s.do(t, "POST", "shop.releases.test", "//a").wantHeaders(t, "Location", "/a")
	s.do(t, "HEAD", "shop.missing.releases.test", "/").wantPage(t, http.StatusNotFound, "", "")
}

// A name with a hash lasts for a year; words, dates and pages are asked for again.
func TestLifetime(t *testing.T) {
	t.Parallel()
	names := map[string]bool{
		"/main.3f2a1b4c.js": true, "/static/js/main.3f2a1b4c.chunk.js": true, "/2.abcdef12.chunk.css": true,
		"/app.abcd1234.js": true, "/app.deadbeef.css": true, "/runtime~main.a8a9905a.js": true,
		"/application-" + strings.Repeat("0a", 32) + ".css": true, "/media/logo.6ce24c58023cc2f8fd88fe9d219db6c6.svg": true,
		"/_next/static/chunks/framework-2c79e2a64abdb08b.js": true, "/component---src-pages-index-js-1a2b3c4d5e6f.js": true,
		"/assets/index-B7cSm1tF.js": true, "/assets/index-BnTRWyZp.css": true, "/assets/index-CgkYLxqQ.js": true,
		"/assets/index-CgkYL3qQ.js.map": true, "/assets/index-B_x1-9aQ.js": true, "/chunks/index.d7c1a4b3.js": true,
		"/entry/start.B7cSm1tF.js": true, "/chunk-RX4V3J3S.js": true, "/polyfills-FFHMD2TL.js": true,
		"/main.k3j9x2q1.js": true, "/fonts/inter-8K2jQ0aZ.woff2": true, "/main.min.0123456789abcdef.css": true,

		"/app.js": false, "/index.html": false, "/": false, "/page-3f2a1b4c.html": false, "/jquery-3.6.0.min.js": false,
		"/main.controller.js": false, "/background.jpg": false, "/application.css": false, "/JavaScript.js": false,
		"/report-20241121.pdf": false, "/photo_20240101.jpg": false, "/2024-11-21.png": false, "/1700000000.json": false,
		"/UserProfile.js": false, "/page-UserList.js": false, "/my-MyButton.js": false, "/the-iPhone15Pro.png": false,
		"/annual-Report2024.pdf": false, "/sales-Report2024Q4.pdf": false, "/cam-DSC00012.jpg": false,
		"/img-1920x1080.png": false, "/bootstrap5.css": false, "/version-chapter10.txt": false, "/README-TEMPLATE.txt": false,
		"/x-HTMLPage.css": false, "/my-Big-Cat-Show.js": false, "/LICENSE": false, "/deadbeefdeadbeef": false,
		"/manifest.webmanifest": false, "/service-worker.js": false, "/i18n.messages.json": false, "/h264video.mp4": false,
		"/_buildManifest.js": false, "/apple-touch-icon.png": false, "/x-My_Thing.js": false, "/covid19data.csv": false,
		"/opensearchdescription.xml": false,
	}
	content := files{}
	for name := range names {
		if name != "/" {
			content[name] = "content of " + name
		}
	}
	src := newStore()
	s := newSite(t, src, nil, shop(src, content))
	for name, hashed := range names {
		want := revalidate
		if hashed {
			want = immutable
		}
		for _, host := range []string{"shop.releases.test", "shop.aaaaaaa2.releases.test"} {
			if got := s.get(t, host, name).Header.Get("Cache-Control"); got != want {
				t.Errorf("%s: got Cache-Control %q, want %q", name, got, want)
			}
		}
	}
}

// The type is the manifest's: nothing is guessed from the bytes.
func TestContentType(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{"/index.html": "<b>page</b>", "/script.js": "1", "/unknown": "<html><script>1</script>"})
	s := newSite(t, content, nil, app)
	for path, want := range map[string]string{
		"/": "text/html; charset=utf-8", "/script.js": "text/javascript; charset=utf-8",
		"/unknown": "application/octet-stream",
	} {
		s.get(t, "shop.releases.test", path).wantHeaders(t, "Content-Type", want, "X-Content-Type-Options", "nosniff")
	}
}

// Conditional requests by ETag.
func TestConditions(t *testing.T) {
	t.Parallel()
	content := newStore()
	text := strings.Repeat("some text. ", 400)
	s := newSite(t, content, nil, shop(content, files{"/a.txt": text, "/app-3f2a1b4c.js": text}))
	const host = "shop.releases.test"
	plain := s.get(t, host, "/a.txt")
	plain.want(t, http.StatusOK, "aaaaaaa2", text)
	etag := plain.Header.Get("ETag")
	if want := `"` + landfall.DigestOf([]byte(text)).Hex() + `"`; etag != want {
		t.Fatalf("got ETag %s, want %s", etag, want)
	}
	plain.wantHeaders(t, "Accept-Ranges", "bytes", "Last-Modified", "", "Vary", "Accept-Encoding")
	packed := s.get(t, host, "/a.txt", "Accept-Encoding", "br")
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"the same", []string{"If-None-Match", etag}, 304},
		{"weakly the same", []string{"If-None-Match", "W/" + etag}, 304},
		{"one of several", []string{"If-None-Match", `"x", ` + etag}, 304},
		{"any", []string{"If-None-Match", "*"}, 304},
		{"another", []string{"If-None-Match", `"x"`}, 200},
		{"another coding", []string{"If-None-Match", packed.Header.Get("ETag")}, 200},
		{"the same coding", []string{"If-None-Match", packed.Header.Get("ETag"), "Accept-Encoding", "br"}, 304},
		{"match", []string{"If-Match", etag}, 200},
		{"match any", []string{"If-Match", "*"}, 200},
		{"match one of several", []string{"If-Match", `"x", ` + etag}, 200},
		{"no match", []string{"If-Match", `"x"`}, 412},
		{"weak match", []string{"If-Match", "W/" + etag}, 412},
		{"dates do not count", []string{"If-Modified-Since", "Fri, 31 Dec 9999 23:59:59 GMT"}, 200},
		{"nor do old ones", []string{"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"}, 200},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				t.Parallel()
				answer := s.do(t, method, host, "/a.txt", c.headers...)
				if answer.StatusCode != c.status {
					t.Fatalf("got status %d, want %d", answer.StatusCode, c.status)
				}
				answer.wantHeaders(t, page.ReleaseHeader, "aaaaaaa2")
				if c.status == http.StatusNotModified {
					answer.wantHeaders(t, "Cache-Control", revalidate, "Vary", "Accept-Encoding")
					if answer.Header.Get("ETag") == "" || answer.body != "" {
						t.Errorf("got ETag %q and %d bytes, want a tag alone", answer.Header.Get("ETag"), len(answer.body))
					}
				}
			})
		}
	}
	t.Run("a failed condition is not kept", func(t *testing.T) {
		t.Parallel()
		answer := s.get(t, host, "/app-3f2a1b4c.js", "If-Match", `garbage, "x"`)
		answer.wantPage(t, http.StatusPreconditionFailed, "aaaaaaa2", "has changed")
		answer.wantHeaders(t, "ETag", "", "Content-Encoding", "")
	})
}

// Ranges are of the bytes as they are.
func TestRanges(t *testing.T) {
	t.Parallel()
	content := newStore()
	text := strings.Repeat("0123456789", 1000)
	large := strings.Repeat("abcdefghij", 100_000)
	s := newSite(t, content, nil, shop(content,
		files{"/a.txt": text, "/empty.txt": "", "/video.mp4": large, "/app-3f2a1b4c.js": text}))
	const host = "shop.releases.test"
	etag := s.get(t, host, "/a.txt").Header.Get("ETag")
	packed := s.get(t, host, "/a.txt", "Accept-Encoding", "br").Header.Get("ETag")
	for _, c := range []struct {
		path, ranges, ifRange string
		status                int
		body, contentRange    string
	}{
		{"/a.txt", "bytes=0-4", "", 206, "01234", "bytes 0-4/10000"},
		{"/a.txt", "bytes=9995-", "", 206, "56789", "bytes 9995-9999/10000"},
		{"/a.txt", "bytes=-3", "", 206, "789", "bytes 9997-9999/10000"},
		{"/a.txt", "bytes=9999-20000", "", 206, "9", "bytes 9999-9999/10000"},
		{"/a.txt", "bytes=10000-", "", 416, "", "bytes */10000"},
		{"/a.txt", "bytes=0-4", etag, 206, "01234", "bytes 0-4/10000"},
		{"/a.txt", "bytes=0-4", packed, 200, text, ""},
		{"/a.txt", "bytes=0-4", `"x"`, 200, text, ""},
		{"/a.txt", "bytes=0-4", "W/" + etag, 200, text, ""},
		{"/a.txt", "lines=0-4", "", 200, text, ""},
		{"/a.txt", "bytes=" + strings.Repeat("0-0,", 1000) + "1-1", "", 200, text, ""},
		{"/video.mp4", "bytes=500000-500009", "", 206, "abcdefghij", "bytes 500000-500009/1000000"},
		{"/video.mp4", "bytes=2000000-", "", 416, "", "bytes */1000000"},
		{"/app-3f2a1b4c.js", "bytes=20000-", "", 416, "", "bytes */10000"},
		// K-020: ranges follow RFC 9110 at their edges
		{"/a.txt", "bytes=-0", "", 416, "", "bytes */10000"},
		{"/a.txt", "bytes=9998-99999999999999999999", "", 206, "89", "bytes 9998-9999/10000"},
		{"/a.txt", "bytes=-99999999999999999999", etag, 206, text, "bytes 0-9999/10000"},
		{"/empty.txt", "bytes=-1", "", 200, "", ""},
	} {
		t.Run(fmt.Sprintf("%s %.30s %.12s", c.path, c.ranges, c.ifRange), func(t *testing.T) {
			t.Parallel()
			headers := []string{"Range", c.ranges, "Accept-Encoding", "br, gzip"}
			if c.ifRange != "" {
				headers = append(headers, "If-Range", c.ifRange)
			}
			answer := s.get(t, host, c.path, headers...)
			answer.wantHeaders(t, "Content-Range", c.contentRange, "Content-Encoding", "")
			if c.status == http.StatusRequestedRangeNotSatisfiable {
				if answer.StatusCode != c.status || strings.Contains(answer.Header.Get("Cache-Control"), "max-age") {
					t.Errorf("got status %d, Cache-Control %q, want %d that nobody keeps", answer.StatusCode,
						answer.Header.Get("Cache-Control"), c.status)
				}
				return
			}
			answer.want(t, c.status, "aaaaaaa2", c.body)
			head := s.do(t, http.MethodHead, host, c.path, headers...)
			if head.StatusCode != http.StatusOK || head.Header.Get("Content-Range") != "" {
				t.Errorf("got status %d for HEAD, want 200: it has no ranges", head.StatusCode)
			}
		})
	}
	t.Run("several", func(t *testing.T) {
		t.Parallel()
		answer := s.get(t, host, "/a.txt", "Range", "bytes=0-1,5-6,-1")
		_, params, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
		if err != nil || answer.StatusCode != http.StatusPartialContent {
			t.Fatalf("got status %d of type %q, want several parts", answer.StatusCode, answer.Header.Get("Content-Type"))
		}
		parts := multipart.NewReader(strings.NewReader(answer.body), params["boundary"])
		var got []string
		for {
			part, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("next part: %v", err)
			}
			data, err := io.ReadAll(part)
			if err != nil {
				t.Fatalf("part: %v", err)
			}
			got = append(got, part.Header.Get("Content-Range")+"="+string(data))
		}
		want := []string{"bytes 0-1/10000=01", "bytes 5-6/10000=56", "bytes 9999-9999/10000=9"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// No header that caches do not know of changes what is served.
func TestUnkeyedHeaders(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, shop(content, files{"/index.html": "app", "/app-3f2a1b4c.js": "js"}))
	for _, path := range []string{"/", "/app-3f2a1b4c.js", "/missing.js", "/a//b"} {
		want := s.get(t, "shop.releases.test", path)
		for _, header := range []string{
			"X-Forwarded-Proto", "X-Forwarded-For", "X-Forwarded-Prefix", "X-HTTP-Method-Override", "X-Original-URL",
			"Landfall-Release", "Origin", "Referer", "Cookie", "User-Agent", "Authorization", "Accept-Language",
			"X-Requested-With", "Sec-Fetch-Dest", "RSC",
		} {
			got := s.get(t, "shop.releases.test", path, header, "bbbbbbb2")
			if got.StatusCode != want.StatusCode || got.body != want.body ||
				got.Header.Get("Location") != want.Header.Get("Location") {
				t.Errorf("%s with %s: got status %d and %q, want %d and %q", path, header, got.StatusCode, got.body,
					want.StatusCode, want.body)
			}
			got.Header.Del("Date")
			want.Header.Del("Date")
			if fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
				t.Errorf("%s with %s: got headers %v, want %v", path, header, got.Header, want.Header)
			}
		}
	}
}

// While nobody can tell whether a release was there once, its address is neither unknown nor gone; all else is served.
func TestExpiredUnknown(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, shop(content, files{"/index.html": "one"}))
	s.tables.err = &landfall.Error{Kind: landfall.Unavailable, Message: "no database"}
	s.get(t, "shop.eeeeeee2.releases.test", "/").wantPage(t, http.StatusServiceUnavailable, "", "Not known right now")
	s.get(t, "shop.eeeeeee2.releases.test", "/").wantHeaders(t, "Retry-After", "1", "Cache-Control", "no-store")
	s.get(t, "shop.aaaaaaa2.releases.test", "/").want(t, http.StatusOK, "aaaaaaa2", "one")
	s.get(t, "none.eeeeeee2.releases.test", "/").wantPage(t, http.StatusNotFound, "", "No such app")
	if log := s.log.String(); !strings.Contains(log, "no database") {
		t.Errorf("got the log %s, want the cause", log)
	}
}

// A visitor who goes away while it is asked whether a release expired is no fault of the database's: anybody could fill
// the log so.
func TestExpiredNobodyWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(), nil, registry.App{ID: "1", Name: "shop"})
	s.tables.err = context.Canceled
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodGet, "http://shop.0123abc."+domain+"/", http.NoBody)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if cut := recover(); cut != http.ErrAbortHandler { //nolint:errorlint // it is what net/http looks for
				t.Errorf("the answer ended with %v, want that the connection is cut", cut)
			}
		}()
		s.gateway.ServeHTTP(w, r)
	}()
	if s.log.String() != "" || w.Body.Len() != 0 {
		t.Errorf("it logged %q and answered %q, want nothing", s.log.String(), w.Body.String())
	}
}
