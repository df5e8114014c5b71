package execution_test

import (
	"context"
	"testing"

	"landfall.dev/landfall/event"
)

// What recording adds to a call.
func BenchmarkRun(b *testing.B) {
	f := newFixture(b)
	ctx, stop := context.WithCancel(b.Context())
	kept := make(chan error)
	go func() { kept <- f.Keep(ctx) }()
	fn, e := function(), request("1")
	answer, err := greets(ctx, e)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = f.Run(ctx, fn, e, func(context.Context, event.Event) (event.Event, error) { return answer, nil })
		}
	})
	stop()
	if err := <-kept; err != nil {
		b.Fatal(err)
	}
}
