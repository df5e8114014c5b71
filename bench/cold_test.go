package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// newVersions makes as many versions of a function as P3b has, each in a folder of its own. The function is cat: it
// hands back the event that it gets.
func newVersions(b *testing.B) []runner.Function {
	b.Helper()
	program, err := os.ReadFile("/bin/cat")
	if err != nil {
		b.Fatal(err)
	}
	all := make([]runner.Function, versions)
	home := b.TempDir()
	for i := range all {
		dir := filepath.Join(home, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		testkit.Program(b, filepath.Join(dir, "function"), program)
		all[i] = runner.Function{Function: landfall.Function{ID: fmt.Sprintf("version-%d", i)},
			Args: []string{"./function"}, Dir: dir}
	}
	return all
}

// coldRunner returns a runner with so many empty sandboxes in reserve. It has the small init, as a server has.
func coldRunner(b *testing.B, reserve int) *runner.Runner {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o",
		filepath.Join(filepath.Dir(self), "landfall-init"), "landfall.dev/landfall/cmd/landfall-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, text)
	}
	s := sandbox.Detect(b.Context(), sandbox.Auto)
	if s.Kind() != "bubblewrap" {
		b.Fatal("nothing can confine functions here")
	}
	for _, lack := range s.Lacks() {
		table.Notef("P3b: the machine lacks %s.", lack)
	}
	if reserve > 0 {
		b.Cleanup(s.Reserve(reserve))
	}
	r := &runner.Runner{Sandbox: s, Defaults: landfall.Resources{Timeout: testkit.Patience}}
	b.Cleanup(r.Close)
	return r
}

// firstAnswer returns how many milliseconds the first call of a version takes, which is stopped then.
func firstAnswer(b *testing.B, r *runner.Runner, f runner.Function, e event.Event) float64 {
	b.Helper()
	begin := time.Now()
	answer, err := r.Run(b.Context(), f, function.Call{Event: e})
	took := ms(time.Since(begin))
	if err != nil || answer.ID() != e.ID() {
		b.Fatalf("%s: got %v, %v", f.ID, answer, err)
	}
	r.Forget(f.ID)
	gone := time.NewTicker(time.Millisecond)
	defer gone.Stop()
	for running := 1; running > 0; running, _ = r.Count(f.ID) { // not while another is measured
		<-gone.C
	}
	return took
}

// firstLine is the same by bubblewrap, with the namespaces and folders that a program needs at least, and no limits.
func firstLine(b *testing.B, f runner.Function, line []byte) float64 {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), "bwrap", "--unshare-all", "--die-with-parent",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
		"/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", f.Dir, "/function", "--chdir",
		"/function", "--", "./function")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := in.Write(line); err != nil {
		b.Fatal(err)
	}
	answer, err := bufio.NewReader(out).ReadBytes('\n')
	took := ms(time.Since(begin))
	if err != nil || len(answer) != len(line) {
		b.Fatalf("bubblewrap: got %q, %v", answer, err)
	}
	in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkP3b calls many versions of a function for the first time: each needs a process in a sandbox of its own. The
// ways take turns of some calls in a row, so that a reserve must be filled while it is drawn from.
func BenchmarkP3b(b *testing.B) {
	const turn, reserve = 10, 2
	all := newVersions(b)
	e := event.New()
	e.SetID("1")
	e.SetSource("/bench")
	e.SetType("cold")
	line, err := event.Append(nil, event.Structured, e)
	if err != nil {
		b.Fatal(err)
	}
	line = append(line, '\n')
	ways := []struct {
		name   string
		runner *runner.Runner
	}{{"no sandbox waits", coldRunner(b, 0)}, {"two sandboxes wait", coldRunner(b, reserve)}}
	const peer = "bubblewrap, no limits"
	var rows, slow []*bench.Row
	for _, way := range ways {
		rows = append(rows, table.Row(bench.Row{
			Figure: "P3b median of 1,000 first calls, " + way.name, Unit: "ms", Peer: peer, Floor: 1, Target: 0.7,
		}))
		slow = append(slow,
			table.Row(bench.Row{Figure: "P3b 99th percentile of 1,000 first calls, " + way.name, Unit: "ms", Peer: peer}))
	}
	for b.Loop() {
		var theirs []float64
		ours := make([][]float64, len(ways))
		for first := 0; first < versions; first += turn {
			for _, f := range all[first : first+turn] {
				theirs = append(theirs, firstLine(b, f, line))
			}
			for i, way := range ways {
				for _, f := range all[first : first+turn] {
					ours[i] = append(ours[i], firstAnswer(b, way.runner, f, e))
				}
			}
		}
		b.Logf("%s: p10 %.3f, p50 %.3f, p99 %.3f ms", peer, bench.Quantile(theirs, 0.1), bench.Quantile(theirs, 0.5),
			bench.Quantile(theirs, 0.99))
		for i, way := range ways {
			rows[i].Add(bench.Quantile(ours[i], 0.5), bench.Quantile(theirs, 0.5))
			slow[i].Add(bench.Quantile(ours[i], 0.99), bench.Quantile(theirs, 0.99))
			b.Logf("%s: p10 %.3f, p50 %.3f, p99 %.3f ms", way.name, bench.Quantile(ours[i], 0.1), bench.Quantile(ours[i], 0.5),
				bench.Quantile(ours[i], 0.99))
		}
	}
	table.Notef("P3b: each call is the first of a version with a folder of its own; the function is cat. Ours has " +
		"limits, Landlock and a list of system calls; the peer has none.")
	summarize(b, rows[0])
}
