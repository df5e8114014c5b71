package execution_test

import (
	"context"
	"testing"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// What recording adds to a call.
func BenchmarkRun(b *testing.B) {
	f := newFixture(b)
	ctx, stop := context.WithCancel(b.Context())
	kept := make(chan error)
	go func() { kept <- f.Keep(ctx) }()
	fn, e := hello(), request("1")
	answer, err := greets(ctx, e)
	if err != nil {
		b.Fatal(err)
	}
	recorded := f.Recorded(answers(func(context.Context, event.Event) (event.Event, error) { return answer, nil }))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = recorded.Call(ctx, function.Call{Function: fn, Event: e})
		}
	})
	stop()
	if err := <-kept; err != nil {
		b.Fatal(err)
	}
}
