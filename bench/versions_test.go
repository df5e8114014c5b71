package bench_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// BenchmarkVersions calls the newest version of a function by its name, of which there are 10,000 versions, beside one
// with a single version.
func BenchmarkVersions(b *testing.B) {
	const versions, calls = 10_000, 500
	program := compiled(b, "./echo")
	one, many := newServer(b, ""), newServer(b, "")
	for _, s := range []*server{one, many} {
		newFunction(b, s, program)
	}
	for range versions - 1 {
		many.Call(http.MethodPost, "/functions/echo/versions", map[string]any{"description": "the same", "no_release": true},
			nil)
	}
	table.Notef("C-033: two servers; the versions were made by the REST API, and the calls come one after the other.")
	median := table.Row(bench.Row{Figure: "C-033 median of a call of a function's newest version, of 10,000", Unit: "ms",
		Peer: "of 1", Target: 1.1})
	slow := table.Row(bench.Row{Figure: "C-033 99th percentile of it", Unit: "ms", Peer: "of 1"})
	one.invoke(calls)
	many.invoke(calls)
	for b.Loop() {
		few, all := one.invoke(calls), many.invoke(calls)
		median.Add(bench.Quantile(all, 0.5), bench.Quantile(few, 0.5))
		slow.Add(bench.Quantile(all, 0.99), bench.Quantile(few, 0.99))
	}
	summarize(b, median)
}

// invoke calls the newest version of the function again and again, and returns how long each call took.
func (s *server) invoke(calls int) []float64 {
	s.T.Helper()
	var all []float64
	for range calls {
		r, err := http.NewRequest(http.MethodPost, s.URL+"/functions/default/echo:latest", strings.NewReader(echoed))
		if err != nil {
			s.T.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", echoType)
		for name, value := range map[string]string{"Specversion": "1.0", "Id": "1", "Source": "/bench", "Type": "echo"} {
			r.Header.Set("Ce-"+name, value)
		}
		begin := time.Now()
		resp, data := answered(s.T, &s.web, r)
		all = append(all, ms(time.Since(begin)))
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(data), echoed[:16]) {
			s.T.Fatalf("got %s %s", resp.Status, data)
		}
	}
	return all
}
