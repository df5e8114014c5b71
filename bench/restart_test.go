package bench_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// BenchmarkP13 starts a server that was killed at work, with a long history and many runs that wait: when it serves a
// page, and when it begins with the first run.
func BenchmarkP13(b *testing.B) {
	const jobs = " with 1,000,000 versions and 10,000 queued jobs"
	page := table.Row(bench.Row{Figure: "P13 killed, until the first page is served," + jobs, Unit: "ms", Absolute: true,
		Floor: 2000, Target: 200})
	job := table.Row(bench.Row{Figure: "P13 killed, until the first job is at work," + jobs, Unit: "ms", Absolute: true,
		Floor: 2000, Target: 1000})
	cold := table.Row(bench.Row{Figure: "P13 killed, until ready," + jobs, Unit: "ms",
		Peer: "a first start, with nothing"})
	data := newArchive(b, 1_000_000)
	queue(b, data)
	// of a server that has ended: nobody else reads its file while it runs
	atWork := func(since time.Time) (first time.Time) {
		rows, err := sql.Open("sqlite", "file:"+filepath.Join(data, "landfall.db")+"?_pragma=query_only(1)")
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		var us sql.NullInt64
		query := `SELECT MIN(started) FROM runs WHERE started > ? AND id LIKE 'waiting-%'`
		if err := rows.QueryRowContext(b.Context(), query, since.UnixMicro()).Scan(&us); err != nil {
			b.Fatal(err)
		}
		return time.UnixMicro(us.Int64)
	}
	// kill is what a round begins with: the server is at work when its power is cut.
	kill := func() (untilReady, untilPage, untilJob float64) {
		s := startServer(b, data, "")
		ready := ms(s.took)
		if s.live("bench")(name(0)) == nil {
			b.Fatalf("the page is not there; the server's log:\n%s", s.Log)
		}
		served := ms(time.Since(s.begin))
		s.Eventually("a run was at work", func() bool { return strings.Contains(s.Log.String(), `"run":"waiting-`) })
		s.kill()
		first := atWork(s.begin)
		return ready, served, ms(first.Sub(s.begin))
	}
	kill()
	for b.Loop() {
		ready, served, first := kill()
		page.Add(served, 0)
		job.Add(first, 0)
		s := newServer(b, "")
		cold.Add(ready, ms(s.took))
		s.Stop()
	}
	summarize(b, page)
}
