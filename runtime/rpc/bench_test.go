package rpc_test

import (
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// echo answers each event with itself, by builtins of the shell.
const echo = `while read -r event; do printf '%s\n' "$event"; done`

// The processor time of a call of a hot function, of both ends and the function itself: here, in a runner elsewhere,
// and by way of a router.
func BenchmarkRun(b *testing.B) {
	w := newWorld(b)
	at, here, _ := w.runner()
	f := w.function("echo", echo)
	for _, way := range []struct {
		name string
		run  function.Caller
	}{
		{"here", here.Functions}, {"runner", w.router(nil, at)}, {"router", w.router(nil, w.serve(w.router(nil, at)))},
	} {
		b.Run(way.name, func(b *testing.B) { measure(b, way.run, f, ask("good", "")) })
	}
}

func measure(b *testing.B, run function.Caller, f *landfall.Function, e event.Event) {
	b.Helper()
	count(b, run, f, "good")
	b.ReportAllocs()
	before := used(b)
	for b.Loop() {
		if _, err := run.Call(b.Context(), function.Call{Function: f, Event: e}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((used(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// used returns the processor time that this process took.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
