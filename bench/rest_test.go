package bench_test

import (
	"net/http"
	"os/exec"
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
	s.Call(http.MethodGet, "/functions", nil, &page)
	if len(page.Items) != townApps {
		b.Fatalf("%d functions are deployed, want %d", len(page.Items), townApps)
	}
	memory := table.Row(bench.Row{Figure: "P10 resident memory at rest, 100 apps of 10 releases, 100 functions",
		Unit: "MiB", Absolute: true, Floor: 80, Target: 40})
	type resting struct {
		pid, times int
		beside     *bench.Row
	}
	peers := []resting{{pid: peer.pid, times: 1, beside: besideRest("MinIO, empty")}}
	program := compiled(b, "./echo")
	bare := newBare(b, program)
	peers = append(peers, resting{bare.pid, 1, besideRest(bare.name)})
	if _, err := exec.LookPath("of-watchdog"); err == nil {
		w := &web{name: "of-watchdog"}
		b.Cleanup(watchdog(b, w, program, "http"))
		peers = append(peers, resting{w.pid, townApps, besideRest("100 of of-watchdog, without their functions")})
	}
	<-time.After(rest)
	for b.Loop() {
		memory.Add(bench.Memory(strconv.Itoa(s.pid())), 0)
		for _, p := range peers {
			p.beside.Add(bench.Memory(strconv.Itoa(s.pid())), float64(p.times)*bench.Memory(strconv.Itoa(p.pid)))
		}
		<-time.After(time.Second)
	}
	table.Notef("P10: Gitea is not built here; its documentation finds 1 GB of memory sufficient for small teams " +
		"(docs.gitea.com).")
	table.Notef("P10: a minute after the last request, with the SQLite file, the object folder and the gateway in the "+
		"one process. "+
		"%.1f MiB of it are pages of the program's file, as the kernel has them in its cache.",
		bench.MappedFiles(strconv.Itoa(s.pid())))
	summarize(b, memory)
}

// besideRest returns the row of P10 for a peer.
func besideRest(name string) *bench.Row {
	return table.Row(bench.Row{Figure: "P10 resident memory at rest", Unit: "MiB", Peer: name})
}
