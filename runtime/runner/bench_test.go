package runner_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
)

// A call of a hot function, beside the same bytes through the same pipes and nothing else. The function is cat.
func BenchmarkHot(b *testing.B) {
	e := ask("bench", "x1")
	if err := e.SetData("text/plain", strings.Repeat("x", 1000)); err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"confined", "off"} {
		b.Run("bare pipe/"+kind, func(b *testing.B) {
			line, err := event.Append(nil, event.Structured, e)
			if err != nil {
				b.Fatal(err)
			}
			line = append(line, '\n')
			p, err := box(b, kind).Start(sandbox.Program{Args: []string{"/bin/cat"}, Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				p.Kill()
				<-p.Done()
				p.Close()
			}()
			answer := make([]byte, 8<<10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Stdin.Write(line); err != nil {
					b.Fatal(err)
				}
				for n := 0; n < len(line); {
					more, err := p.Stdout.Read(answer)
					if err != nil {
						b.Fatal(err)
					}
					n += more
				}
			}
		})
		f := runner.Function{Function: landfall.Function{ID: "echo"}, Args: []string{"/bin/cat"}, Dir: b.TempDir()}
		b.Run("function/"+kind, func(b *testing.B) {
			r := start(b, &runner.Runner{Sandbox: box(b, kind)})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Run(b.Context(), f, function.Call{Event: e}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("function, two callers a processor/"+kind, func(b *testing.B) {
			r := start(b, &runner.Runner{Sandbox: box(b, kind)})
			b.ReportAllocs()
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := r.Run(b.Context(), f, function.Call{Event: e}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
