package trigger_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger"
)

// BenchmarkRun measures what the trigger manager adds to a call, with as many callers as there are processors.
func BenchmarkRun(b *testing.B) {
	f := &landfall.Function{ID: "c", Namespace: "team", Name: "checkout", Version: "owf2k7qa",
		Config: map[string]string{"currency": "EUR"}}
	bound := &registry.Trigger{Trigger: landfall.Trigger{Config: map[string]string{"size": "L"}}, Name: "pay",
		Release: "rrrrrrr2", Function: f}
	m := manager(func(_ *landfall.Function, e event.Event) (event.Event, error) { return e, nil })
	m.Functions = trigger.Checked(nil, trigger.Traced(nil, m.Functions))
	b.RunParallel(func(pb *testing.PB) {
		e := received()
		for pb.Next() {
			if _, err := m.Call(b.Context(), function.Call{Function: f, Trigger: bound, Event: e}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
