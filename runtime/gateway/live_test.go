package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

const day = 24 * time.Hour

// ended returns a release that was live until some time ago.
func ended(r registry.Release, ago time.Duration) registry.Release {
	r.LiveUntil = time.Now().Add(-ago)
	return r
}

// A file that the live release lacks comes from the newest release that was live before and has it.
func TestPastAssets(t *testing.T) {
	t.Parallel()
	content := newStore()
	site := func(id landfall.UID, extra files) registry.Release {
		r := content.release(id, with(files{"/index.html": "app of " + string(id), "/style.css": string(id)}, extra))
		r.Units[0].Fallback = "/index.html"
		return r
	}
	oldest := site("aaaaaaa2", files{"/js/app-11111a11.js": "oldest", "/js/app-22222b22.js": "oldest too",
		"/old.js": "old"})
	older := site("bbbbbbb2", files{"/js/app-22222b22.js": "older", "/js/only-99999f99.js": "kept in memory"})
	live := site("ccccccc2", files{"/js/app-33333c33.js": "live"})
	preview := site("ddddddd2", files{"/js/app-44444d44.js": "never live"})
	app := registry.App{
		ID: "1", Name: "shop", Live: "ccccccc2", Latest: "ddddddd2", Tags: map[string]landfall.UID{"beta": "ccccccc2"},
		KeepFiles: day, Releases: []registry.Release{ended(oldest, 3*time.Hour), ended(older, 2*time.Hour),
			ended(live, time.Hour), preview},
	}
	s := newSite(t, content, nil, app)
	s.tables.expired = map[string]landfall.UID{"shop.eeeeeee2": "eeeeeee2"}

	// L-033: a chunk that the live release lacks comes from the newest earlier live release that has it
	s.get(t, host, "/js/app-22222b22.js").want(t, http.StatusOK, "bbbbbbb2", "older")
	s.get(t, host, "/js/app-22222b22.js").wantHeaders(t, "Cache-Control", immutable, "X-Robots-Tag", "")
	s.get(t, host, "/js/app-33333c33.js").want(t, http.StatusOK, "ccccccc2", "live")
	s.get(t, host, "/js/app-11111a11.js").want(t, http.StatusOK, "aaaaaaa2", "oldest")
	s.get(t, "shop.live.releases.test", "/js/app-11111a11.js").want(t, http.StatusOK, "aaaaaaa2", "oldest")
	etag := s.get(t, host, "/js/app-11111a11.js").Header.Get("ETag")
	s.get(t, host, "/js/app-11111a11.js", "If-None-Match", etag).want(t, http.StatusNotModified, "aaaaaaa2", "")
	s.do(t, http.MethodHead, host, "/js/app-11111a11.js").want(t, http.StatusOK, "aaaaaaa2", "")

	// L-033: what has no hash is asked for again each time
	s.get(t, host, "/old.js").want(t, http.StatusOK, "aaaaaaa2", "old")
	s.get(t, host, "/old.js").wantHeaders(t, "Cache-Control", revalidate)

	// L-033: never from a release that was not live, and never the app's page in its place
	s.get(t, host, "/js/app-44444d44.js").wantPage(t, http.StatusNotFound, "ccccccc2", "No such page")
	s.get(t, host, "/js/app-55555e55.js").wantPage(t, http.StatusNotFound, "ccccccc2", "No such page")
	s.get(t, host, "/style.css").want(t, http.StatusOK, "ccccccc2", "ccccccc2")
	s.get(t, host, "/cart").want(t, http.StatusOK, "ccccccc2", "app of ccccccc2")

	// L-033: a release's own address shows that release and nothing else
	s.get(t, "shop.ccccccc2.releases.test", "/js/app-22222b22.js").wantPage(t, http.StatusNotFound, "ccccccc2",
		"No such page")
	s.get(t, "shop--beta.releases.test", "/js/app-22222b22.js").wantPage(t, http.StatusNotFound, "ccccccc2",
		"No such page")
	s.get(t, "shop.latest.releases.test", "/js/app-22222b22.js").wantPage(t, http.StatusNotFound, "ddddddd2",
		"No such page")
	s.get(t, "shop.eeeeeee2.releases.test", "/js/app-11111a11.js").wantPage(t, http.StatusGone, "eeeeeee2", "has expired")
}

// Earlier releases are asked as long as their content is there; when it was collected the next one is, and then
// nothing.
func TestCollectedPast(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := registry.App{
		ID: "1", Name: "shop", Live: "ccccccc2", KeepFiles: day,
		Releases: []registry.Release{
			ended(content.release("aaaaaaa2", files{"/app-22222b22.js": "oldest"}), 2*time.Hour),
			ended(content.release("bbbbbbb2", files{"/app-22222b22.js": "older"}), time.Hour),
			content.release("ccccccc2", files{"/index.html": "live"}),
			ended(content.release("ddddddd2", files{"/app-77777a77.js": "unread"}), 3*time.Hour),
		},
	}
	s := newSite(t, content, nil, app)
	content.change(func() { delete(content.objects, "bbbbbbb2//app-22222b22.js") })
	s.get(t, host, "/app-22222b22.js").want(t, http.StatusOK, "aaaaaaa2", "oldest")

	content.change(func() { delete(content.manifests, "ddddddd2/.manifest") })
	s.get(t, host, "/app-77777a77.js").wantPage(t, http.StatusNotFound, "ccccccc2", "No such page")
	read := content.read.Load()
	for range 10 {
		s.get(t, host, "/app-77777a77.js").wantPage(t, http.StatusNotFound, "ccccccc2", "No such page")
	}
	if got := content.read.Load(); got != read {
		t.Errorf("got %d more manifests asked for, want none: the release has none left", got-read)
	}

	fresh := newSite(t, content, nil, app)
	content.change(func() { content.err = &landfall.Error{Kind: landfall.Unavailable, Err: errors.New("down")} })
	fresh.get(t, host, "/app-22222b22.js").wantPage(t, http.StatusBadGateway, "ccccccc2", "cannot be read")
}

// Moving live under load fails no request and mixes no releases: V6. Clients load the page and then the chunk that it
// names, while live moves as fast as it can between releases that do not have each other's chunks.
func TestSwapUnderLoad(t *testing.T) {
	t.Parallel()
	content := newStore()
	ids := []landfall.UID{"aaaaaaa2", "bbbbbbb2", "ccccccc2"}
	var releases []registry.Release
	for i, id := range ids {
		chunk := fmt.Sprintf("/js/app-%07da.js", i)
		releases = append(releases, content.release(id, files{
			"/index.html": fmt.Sprintf("%s %s %s", id, chunk, strings.Repeat("page ", 300)),
			chunk:         string(id) + strings.Repeat(" chunk", 300),
			"/shared.txt": string(id),
		}))
	}
	state := func(n int) registry.App {
		all := slices.Clone(releases)
		for i := 1; i < len(ids); i++ {
			was := (n + len(ids) - i) % len(ids)
			all[was] = ended(all[was], time.Duration(i)*time.Minute)
		}
		return registry.App{ID: "1", Name: "shop", Live: ids[n%len(ids)], Releases: all, KeepFiles: day}
	}
	s := newSite(t, content, nil, state(0))

	const clients, loads, fewestMoves = 8, 150, 1000
	var moves, asked atomic.Int64
	stop := make(chan struct{})
	var mover, visitors sync.WaitGroup
	mover.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				s.tables.Store(registry.New([]registry.App{state(n)}))
				moves.Add(1)
			}
		}
	})
	for range clients {
		visitors.Go(func() {
			for n := 0; n < loads || moves.Load() < fewestMoves; n++ {
				coding := []string{"br", "gzip", "identity"}[n%3]
				home := s.get(t, host, "/", "Accept-Encoding", coding)
				asked.Add(3)
				words := strings.Fields(home.decoded(t))
				if home.StatusCode != http.StatusOK || len(words) < 2 || home.Header.Get(page.ReleaseHeader) != words[0] {
					t.Errorf("got status %d, release %q and page %.40q, want a page of one release",
						home.StatusCode, home.Header.Get(page.ReleaseHeader), home.body)
					return
				}
				chunk := s.get(t, host, words[1], "Accept-Encoding", coding)
				chunk.want(t, http.StatusOK, landfall.UID(words[0]), chunk.body)
				if got := chunk.decoded(t); !strings.HasPrefix(got, words[0]+" chunk") {
					t.Errorf("got chunk %.40q for the page of %s", got, words[0])
				}
				shared := s.get(t, host, "/shared.txt")
				shared.want(t, http.StatusOK, landfall.UID(shared.body), shared.body)
			}
		})
	}
	visitors.Wait()
	close(stop)
	mover.Wait()
	t.Logf("%d requests during %d moves", asked.Load(), moves.Load())
}
