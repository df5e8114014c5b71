package bench_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// BenchmarkP10 is the memory of a server in which nothing happens any more: the town is deployed, each app was visited.
func BenchmarkP10(b *testing.B) {
	const rest = time.Minute
	t := newTown(b)
	s := startServer(b, t.data, "", "LANDFALL_BENCH_PROFILE=")
	peer := newMinIO(b)
	for app := range townApps {
		if s.live(townApp(app))(townPage(1)) == nil {
			b.Fatalf("app %d is not there", app)
		}
	}
	var page struct{ Items []struct{ Name string } }
	s.call(http.MethodGet, "/functions", nil, &page)
	if len(page.Items) != townApps {
		b.Fatalf("%d functions are deployed, want %d", len(page.Items), townApps)
	}
	memory := table.Row(bench.Row{Figure: "P10 resident memory at rest, 100 apps of 10 releases, 100 functions", Unit: "MiB", Absolute: true, Floor: 80, Target: 40})
	beside := table.Row(bench.Row{Figure: "P10 resident memory at rest", Unit: "MiB", Peer: "MinIO, empty"})
	<-time.After(rest)
	for b.Loop() {
		memory.Add(bench.Memory(strconv.Itoa(s.pid)), 0)
		beside.Add(bench.Memory(strconv.Itoa(s.pid)), bench.Memory(strconv.Itoa(peer.pid)))
		<-time.After(time.Second)
	}
	table.Notef("P10: a minute after the last request, with the SQLite file, the object folder and the gateway in the one process.")
	summarize(b, memory)
}
