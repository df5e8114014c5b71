package sandbox_test

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"landfall.dev/landfall/sandbox"
)

// The start of a program until it answers: /bin/cat gives back the first byte. Beside it bubblewrap itself, with the
// namespaces and folders that a program needs at least, and no limits.
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
	for _, way := range []struct {
		name  string
		start func() (io.Writer, io.Reader, func(), error)
	}{
		{"bubblewrap", func() (io.Writer, io.Reader, func(), error) {
			cmd := exec.CommandContext(context.WithoutCancel(b.Context()), "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
				"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
				"--tmpfs", "/tmp", "--ro-bind", dir, "/function", "--", "/bin/cat")
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
		{"program", program(s)},
		{"program, with the small init", program(sandbox.WithInit(s, smallInit(b, b.TempDir())))},
	} {
		b.Run(way.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
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
				took = append(took, time.Since(begin))
				b.StopTimer()
				end()
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
		})
	}
}
