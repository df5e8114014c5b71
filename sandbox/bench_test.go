package sandbox_test

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
)

// way is one way to start /bin/cat, which gives back what it gets.
type way struct {
	name  string
	start func() (io.Writer, io.Reader, func(), error)
	took  []time.Duration
	spent time.Duration // of the processors, in what it started
}

// used returns the processor time of the processes that this one started, and that have ended.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The start of a program until it answers: /bin/cat gives back the first byte. Beside it bubblewrap itself, with the
// namespaces and folders that a program needs at least, and no limits. The ways take turns, so that all have the same
// machine.
func BenchmarkStart(b *testing.B) {
	s := sandbox.Detect(b.Context(), sandbox.Auto)
	dir := b.TempDir()
	program := func(s *sandbox.Sandbox) func() (io.Writer, io.Reader, func(), error) {
		return func() (io.Writer, io.Reader, func(), error) {
			p, err := s.Start(sandbox.Program{Args: []string{"/bin/cat"}, Dir: dir})
			if err != nil {
				return nil, nil, nil, err
			}
			return p.Stdin, p.Stdout, func() { p.Stdin.Close(); <-p.Done(); p.Close() }, nil
		}
	}
	small := sandbox.WithInit(s, smallInit(b, b.TempDir()))
	ready := sandbox.WithInit(small, "")
	b.Cleanup(ready.Reserve(2))
	ways := []*way{
		{name: "bubblewrap", start: func() (io.Writer, io.Reader, func(), error) {
			cmd := exec.CommandContext(context.WithoutCancel(b.Context()), "bwrap", "--unshare-all", "--die-with-parent",
				"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink",
				"usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", dir, "/function", "--",
				"/bin/cat")
			in, err := cmd.StdinPipe()
			if err != nil {
				return nil, nil, nil, err
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				return nil, nil, nil, err
			}
			return in, out, func() { in.Close(); _ = cmd.Wait() }, cmd.Start()
		}},
		{name: "program-from-the-reserve", start: program(ready)},
		{name: "program", start: program(small)},
		{name: "program-without-groups", start: program(sandbox.WatchOnly(small))},
		{name: "program-by-bubblewrap", start: program(sandbox.WithoutAlone(small))},
	}
	for b.Loop() {
		for _, way := range ways {
			begin, before := time.Now(), used(b)
			in, out, end, err := way.start()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := in.Write([]byte{'x'}); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			way.took = append(way.took, time.Since(begin))
			end()
			way.spent += used(b) - before
		}
	}
	for _, way := range ways {
		slices.Sort(way.took)
		b.ReportMetric(float64(way.took[len(way.took)/2].Microseconds()), way.name+"-µs-median")
		b.ReportMetric(float64(way.took[len(way.took)*99/100].Microseconds()), way.name+"-µs-p99")
		b.ReportMetric(float64(way.spent.Microseconds())/float64(len(way.took)), way.name+"-µs-processor")
	}
}
