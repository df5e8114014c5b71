package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
)

// Every answer is told of once, with the app that it was for: strangers cannot make up apps.
func TestAnswered(t *testing.T) {
	t.Parallel()
	var told []string
	content := newStore()
	page := strings.Repeat("<p>hello</p>", 500)
	gone := registry.App{ID: "gone", Name: "gone", Deleted: true}
	s := newSite(t, content, func(c *gateway.Config) {
		c.Answered = func(app string, status int, bytes int64) {
			told = append(told, fmt.Sprintf("%q %d %d", app, status, bytes))
		}
	}, shop(content, files{"/index.html": page, "/docs/index.html": "docs"}), gone)
	ask := func(method, address string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, address, http.NoBody)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.gateway.ServeHTTP(w, r)
		return w
	}
	etag := ask(http.MethodGet, "http://shop.releases.test/").Header().Get("ETag")
	ask(http.MethodHead, "http://shop.releases.test/")
	ask(http.MethodGet, "http://shop.releases.test/", "Range", "bytes=0-9")
	ask(http.MethodGet, "http://shop.releases.test/", "If-None-Match", etag)
	ask(http.MethodGet, "http://shop.releases.test/docs")
	missing := ask(http.MethodGet, "http://shop.releases.test/none")
	unknown := ask(http.MethodGet, "http://stranger.releases.test/")
	deleted := ask(http.MethodGet, "http://gone.releases.test/")
	foreign := ask(http.MethodGet, "http://example.com/")
	want := []string{
		fmt.Sprintf(`"shop" 200 %d`, len(page)), `"shop" 200 0`, `"shop" 206 10`, `"shop" 304 0`, `"shop" 308 0`,
		fmt.Sprintf(`"shop" 404 %d`, missing.Body.Len()), fmt.Sprintf(`"" 404 %d`, unknown.Body.Len()),
		fmt.Sprintf(`"" 410 %d`, deleted.Body.Len()), fmt.Sprintf(`"" 404 %d`, foreign.Body.Len()),
	}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

// The cache says what it had and what it had to read.
func TestCacheCounts(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, shop(content, files{"/index.html": "a page"}))
	for range 3 {
		s.get(t, "shop.releases.test", "/").want(t, http.StatusOK, "aaaaaaa2", "a page")
	}
	got := s.gateway.Cache()
	if got.Missed != 1 || got.InMemory != 2 || got.InFolder != 0 || got.Loaded != int64(len("a page")) ||
		got.MemoryBytes < got.Loaded || got.FolderBytes != 0 {
		t.Errorf("one small file, asked for three times: got %+v, want one miss, two from memory, and its bytes read once",
			got)
	}
}
