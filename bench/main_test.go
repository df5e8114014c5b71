package bench_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// table has the figures of the whole run.
var table bench.Table

var out = flag.String("out", "", "file that the results are added to")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	err := table.Print(os.Stdout)
	if *out != "" {
		err = errors.Join(err, table.Keep(*out))
	}
	for _, folder := range lasting {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// lasting are the folders of what several benchmarks share.
var lasting []string

// newFolder makes a folder that lasts as long as the run.
func newFolder(b *testing.B) string {
	b.Helper()
	folder, err := os.MkdirTemp("", "landfall-bench-")
	if err != nil {
		b.Fatal(err)
	}
	lasting = append(lasting, folder)
	return folder
}

// ms is a duration as the table shows it.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timed returns how long f takes. What was written before is on the disk, so that nobody pays for another.
func timed(f func()) float64 {
	syscall.Sync()
	begin := time.Now()
	f()
	return ms(time.Since(begin))
}

// summarize shows the row's median in the benchmark's own line.
func summarize(b *testing.B, r *bench.Row) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	if judged := r.Judged(); len(judged) > 0 {
		b.ReportMetric(bench.Quantile(judged, 0.5), "median")
	}
}

// run runs a program in a folder and returns what it printed on its standard output.
func run(b testing.TB, dir, program string, args ...string) string {
	b.Helper()
	return feed(b, dir, nil, program, args...)
}

// feed is run with standard input.
func feed(b testing.TB, dir string, stdin []byte, program string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, site.Environ()
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	stdout, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(stdout))
}

// version returns the first line of what a program says its version is.
func version(b *testing.B, program, argument string) string {
	b.Helper()
	first, _, _ := strings.Cut(run(b, "", program, argument), "\n")
	return first
}

// compiled compiles a program of the benchmarks, and returns its path.
func compiled(b *testing.B, folder string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), filepath.Base(folder))
	build := exec.Command("go", "build", "-o", path, folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}
