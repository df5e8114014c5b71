package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
)

// sink is a ResponseWriter that keeps nothing, so that the gateway's own work is measured.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

// benchSite has 100 apps of 100 files of 4 KiB in four units.
func benchSite(b *testing.B, change func(*gateway.Config)) *site {
	b.Helper()
	content := newStore()
	var apps []registry.App
	for i := range 100 {
		id := landfall.UID(fmt.Sprintf("aaaaa%03d", i))
		var units []registry.Unit
		for _, mount := range []string{"/", "/static", "/static/js", "/docs"} {
			all := files{}
			for n := range 25 {
				all[strings.TrimSuffix(mount, "/")+fmt.Sprintf("/%d.js", n)] = strings.Repeat(fmt.Sprintf("%03d %03d ", i, n), 512)
			}
			units = append(units, content.unit(string(id), mount, all))
		}
		apps = append(apps, registry.App{ID: string(id), Name: fmt.Sprintf("app%03d", i), Live: id,
			Releases: []registry.Release{{ID: id, Units: units}}})
	}
	return newSite(b, content, change, apps...)
}

func BenchmarkHandler(b *testing.B) {
	s := benchSite(b, nil)
	onePath := func(s *site) func(b *testing.B) {
		return func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, "http://app007.releases.test/static/js/7.js", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				w := sink{header: http.Header{}}
				s.gateway.ServeHTTP(&w, request)
			}
		}
	}
	b.Run("one path", onePath(s))
	var answers atomic.Int64
	b.Run("one path, counted", onePath(benchSite(b, func(c *gateway.Config) {
		c.Answered = func(string, int, int64) { answers.Add(1) }
	})))
	b.Run("100 hosts, 100 paths", func(b *testing.B) {
		var requests []*http.Request
		for host := range 100 {
			for n := range 100 {
				mount := []string{"", "/static", "/static/js", "/docs"}[n%4]
				requests = append(requests, httptest.NewRequest(
					http.MethodGet, fmt.Sprintf("http://app%03d.releases.test%s/%d.js", host, mount, n/4), http.NoBody))
			}
		}
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			w := sink{header: http.Header{}}
			s.gateway.ServeHTTP(&w, requests[n*7919%len(requests)])
			if w.status >= http.StatusBadRequest {
				b.Fatalf("got status %d for %s", w.status, requests[n%len(requests)].URL)
			}
		}
	})
}

// A route whose function echoes, without a process behind it; and a file of a release that has routes.
func BenchmarkRoute(b *testing.B) {
	content := newStore()
	app := routed(content, files{"/index.html": strings.Repeat("page", 1000)}, "", "POST /echo", "GET /users/{id}")
	s := newSite(b, content, func(c *gateway.Config) { c.Functions = echo() }, app)
	body := strings.Repeat("x", 1000)
	measure := func(method, path, body string) func(b *testing.B) {
		return func(b *testing.B) {
			data := strings.NewReader(body)
			request := httptest.NewRequest(method, "http://shop.releases.test"+path, data)
			request.Header.Set("Content-Type", "text/plain")
			request.Header.Set("User-Agent", "bench")
			b.ReportAllocs()
			for b.Loop() {
				data.Reset(body)
				w := sink{header: http.Header{}}
				s.gateway.ServeHTTP(&w, request)
				if w.status != 0 && w.status != http.StatusOK {
					b.Fatalf("got status %d", w.status)
				}
			}
		}
	}
	b.Run("POST 1000 bytes", measure(http.MethodPost, "/echo", body))
	b.Run("GET with a parameter", measure(http.MethodGet, "/users/7", ""))
	b.Run("file beside routes", measure(http.MethodGet, "/", ""))
}

func BenchmarkLoopback(b *testing.B) {
	s := benchSite(b, nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if answer := s.get(b, "app007.releases.test", "/static/js/7.js"); answer.StatusCode != http.StatusOK {
				b.Errorf("got status %d", answer.StatusCode)
			}
		}
	})
}
