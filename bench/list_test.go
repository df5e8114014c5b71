package bench_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// BenchmarkP8 lists versions by the API, 50 on a page that somebody is anywhere in a list: the versions of a function,
// and those of an app.
func BenchmarkP8(b *testing.B) {
	small, large := startServer(b, newArchive(b, 1_000), ""), startServer(b, newArchive(b, 1_000_000), "")
	type list struct {
		path        string
		few, many   []string
		slow, grown *bench.Row
	}
	var lists []list
	for _, l := range []struct{ name, path string }{
		{"a function's versions", "/functions/f3/versions"}, {"an app's versions", "/apps/bench/groups"},
	} {
		lists = append(lists, list{
			l.path, small.pages(l.path), large.pages(l.path),
			table.Row(bench.Row{Figure: "P8 99th percentile of a page of " + l.name + ", of 1,000,000", Unit: "ms",
				Absolute: true, Floor: 5, Target: 1}),
			table.Row(bench.Row{Figure: "P8 median of a page of " + l.name + ", of 1,000,000", Unit: "ms", Peer: "of 1,000",
				Target: 1.2}),
		})
	}
	for b.Loop() {
		for _, l := range lists {
			before := small.look(l.path, l.few)
			took := large.look(l.path, l.many)
			l.slow.Add(bench.Quantile(took, 0.99), 0)
			l.grown.Add(bench.Quantile(took, 0.5), bench.Quantile(before, 0.5))
		}
	}
	table.Notef("P8, P13: ten functions with 100,000 versions each, made by 100,000 pushes to one app, of which ten " +
		"have an accessible release.")
	summarize(b, lists[0].slow)
}

const pageSize = 50

// pages returns cursors of pages all over a list.
func (s *server) pages(path string) []string {
	s.T.Helper()
	const most = 1000
	cursors := []string{""}
	for {
		var page struct{ Next string }
		s.Call(http.MethodGet, fmt.Sprintf("%s?limit=%d&cursor=%s", path, most, cursors[len(cursors)-1]), nil, &page)
		if page.Next == "" {
			return cursors
		}
		cursors = append(cursors, page.Next)
	}
}

// look looks at pages in any order, and returns how long each took to come.
func (s *server) look(path string, cursors []string) []float64 {
	s.T.Helper()
	const looks = 500
	var all []float64
	for range looks {
		address := fmt.Sprintf("%s/api/v1%s?limit=%d&cursor=%s", s.URL, path, pageSize, cursors[rand.IntN(len(cursors))])
		r, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			s.T.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		begin := time.Now()
		resp, data := answered(s.T, &s.web, r)
		all = append(all, ms(time.Since(begin)))
		if resp.StatusCode != http.StatusOK || len(data) < pageSize {
			s.T.Fatalf("%s: got %s %s", address, resp.Status, data)
		}
	}
	return all
}
