package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// table has the figures of the whole run.
var table bench.Table

var out = flag.String("out", "", "file that the results are added to")

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		if err := runChild(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

// patience is how long a figure may take: far longer than it does.
const patience = 2 * time.Minute

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

// environ is the environment of every program here: nothing of the person who runs it plays a part.
func environ(more ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "LANDFALL_") && !strings.HasPrefix(pair, "GIT_") && !strings.HasPrefix(pair, "RCLONE_") && !strings.HasPrefix(pair, "AWS_") {
			env = append(env, pair)
		}
	}
	env = append(env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "RCLONE_CONFIG=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	return append(env, more...)
}

// run runs a program in a folder and returns what it printed on its standard output.
func run(b *testing.B, dir, program string, args ...string) string {
	b.Helper()
	return feed(b, dir, nil, program, args...)
}

// feed is run with standard input.
func feed(b *testing.B, dir string, stdin []byte, program string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, environ()
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

// childVariable holds the job of a process that measures its own memory.
const childVariable = "LANDFALL_BENCH_JOB"

// inChild does a job in a process of its own, and returns how long it took and the most memory the process held, in MiB.
func inChild(b *testing.B, j job) (took, peak float64) {
	b.Helper()
	data, err := json.Marshal(j)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	syscall.Sync()
	cmd := exec.Command(self)
	cmd.Env = environ(childVariable + "=" + string(data))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		b.Fatalf("the process of a job ended badly: %v\n%s", err, stderr.String())
	}
	var r result
	if err := json.Unmarshal(stdout, &r); err != nil {
		b.Fatal(err)
	}
	return r.Took, r.Peak
}
