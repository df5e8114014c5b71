package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger"
)

// plain is a Caller of which a test sees the function and the event of every call.
type plain func(*landfall.Function, event.Event) (event.Event, error)

// Call implements function.Caller.
func (f plain) Call(_ context.Context, c function.Call) (event.Event, error) {
	return f(c.Function, c.Event)
}

// manager returns a manager whose calls f takes.
func manager(f plain) *trigger.Manager {
	return &trigger.Manager{Functions: f, Table: func() *registry.Table {
		return nil
	}, Address: func(f *landfall.Function) string {
		return "https://example.com/functions/" + f.Namespace + "/" + f.Name + ":" + string(f.Version)
	}}
}

// fire calls the function of a trigger, or one of them.
func fire(ctx context.Context, m *trigger.Manager, t *registry.Trigger, e event.Event) (event.Event, error) {
	return m.Call(ctx, function.Call{Function: t.Draw(), Trigger: t, Event: e})
}

// received returns an event as a caller sends it.
func received() event.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("/r/team/shop/checkout")
	e.SetType("order")
	event.SetConfig(&e, map[string]string{"currency": "mine"})
	return e
}

// A function finds in its event what app and trigger are configured to, and which version it is. It gets what the
// trigger allows it.
func TestInvoke(t *testing.T) {
	t.Parallel()
	checkout := &landfall.Function{
		ID: "c", Namespace: "team", Name: "checkout", Version: "owf2k7qa",
		Config: map[string]string{"currency": "EUR", "colour": "red"}, Resources: landfall.Resources{Memory: 1, MilliCPU: 2},
	}
	bound := &registry.Trigger{Trigger: landfall.Trigger{Config: map[string]string{"colour": "blue", "size": "L"},
		Resources: landfall.Resources{Memory: 7}}, Name: "pay", Release: "rrrrrrr2", Function: checkout}
	var called function.Call
	m := manager(nil)
	m.Functions = function.CallerFunc(func(_ context.Context, c function.Call) (event.Event, error) {
		called = c
		return event.Answer(c.Event, "2"), nil
	})
	for range 2 { // what is made for the first event is there for the second
		answer, err := fire(t.Context(), m, bound, received())
		// E-114: an extension fires a trigger without HTTP
		if err != nil || answer.ID() != "2" {
			t.Fatalf("got %v, %v, want the function's answer", answer, err)
		}
		const address = "https://example.com/functions/team/checkout:owf2k7qa"
		want := map[string]string{"currency": "EUR", "colour": "blue", "size": "L"}
		config, err := event.ConfigOf(called.Event)
		if diff := cmp.Diff(want, config); diff != "" || err != nil {
			t.Errorf("the configuration in the event differs (%v): %s", err, diff)
		}
		added, err := event.TriggerOf(called.Event)
		if diff := cmp.Diff(event.Trigger{FunctionURL: address, Config: want}, added); diff != "" || err != nil {
			t.Errorf("the trigger in the event differs (%v): %s", err, diff)
		}
		if called.Event.Extensions()["function"] != address {
			t.Errorf("the event names the function %v, want %s", called.Event.Extensions()["function"], address)
		}
		// E-085: what the trigger says of resources goes before what the function says
		if want := (landfall.Resources{Memory: 7, MilliCPU: 2}); called.Function.Resources != want ||
			called.Function.ID != "c" {
			t.Errorf("the function %s has %+v, want c with %+v", called.Function.ID, called.Function.Resources, want)
		}
		if called.Trigger != bound {
			t.Errorf("the function runs for %+v, want %+v", called.Trigger, bound)
		}
	}
	if checkout.Resources.Memory != 1 || len(checkout.Config) != 2 {
		t.Errorf("the function of all triggers is %+v now", checkout)
	}
}

// Without any configuration the event says so, and a version that is gone is an error.
func TestInvokeNothing(t *testing.T) {
	t.Parallel()
	m := manager(func(_ *landfall.Function, e event.Event) (event.Event, error) { return e, nil })
	answer, err := fire(t.Context(), m, &registry.Trigger{Function: &landfall.Function{}}, received())
	if config := answer.Extensions()["config"]; config != "{}" || err != nil {
		t.Errorf("the configuration is %v, %v, want {}", config, err)
	}
	if _, err := fire(t.Context(), m, &registry.Trigger{Name: "old"},
		received()); landfall.KindOf(err) != landfall.NotFound {
		t.Errorf("got %v of a trigger whose version is gone, want not found", err)
	}
}

// Who calls a function by its name configures it, as a trigger would.
func TestCall(t *testing.T) {
	t.Parallel()
	m := manager(func(_ *landfall.Function, e event.Event) (event.Event, error) { return e, nil })
	f := &landfall.Function{Namespace: "team", Name: "checkout", Version: "owf2k7qa",
		Config: map[string]string{"currency": "EUR", "colour": "red"}}
	got, err := m.Call(t.Context(), function.Call{Function: f, Event: received()})
	want := event.Trigger{FunctionURL: "https://example.com/functions/team/checkout:owf2k7qa",
		Config: map[string]string{"currency": "mine", "colour": "red"}}
	added, _ := event.TriggerOf(got)
	if diff := cmp.Diff(want, added); diff != "" || err != nil {
		t.Errorf("the function got other configuration (%v): %s", err, diff)
	}
	wrong := received()
	wrong.SetExtension("config", "7")
	if _, err := m.Call(t.Context(), function.Call{Function: f, Event: wrong}); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("got %v of a configuration that is none, want invalid", err)
	}
}

// What a function's contract refuses is not run, by whichever way it came; an answer that breaks the contract is passed
// on, and told of.
func TestContract(t *testing.T) {
	t.Parallel()
	runs, unfit := 0, map[trigger.Side]int{}
	m := manager(func(_ *landfall.Function, e event.Event) (event.Event, error) {
		runs++
		return event.Answer(e, "2"), nil
	})
	m.Functions = trigger.Checked(func(_ *landfall.Function, side trigger.Side) { unfit[side]++ }, m.Functions)
	f := &landfall.Function{Name: "checkout",
		Contract: json.RawMessage(`{"input":{"type":"object"},"output":{"type":"object"}}`)}
	ways := map[string]func(e event.Event) (event.Event, error){
		"a call": func(e event.Event) (event.Event, error) {
			return m.Call(t.Context(), function.Call{Function: f, Event: e})
		},
	}
	for _, kind := range []landfall.UnitKind{landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger} {
		ways[string(kind)] = func(e event.Event) (event.Event, error) {
			return fire(t.Context(), m, &registry.Trigger{Trigger: landfall.Trigger{Kind: kind}, Function: f}, e)
		}
	}
	for name, way := range ways {
		runs = 0
		clear(unfit)
		wrong, right := received(), received()
		wrong.DataEncoded, right.DataEncoded = []byte(`"text"`), []byte(`{}`)
		_, err := way(wrong)
		if _, refused := errors.AsType[*contract.MismatchError](err); !refused || runs != 0 {
			t.Errorf("by %s: %d runs and %v of what the contract refuses", name, runs, err)
		}
		answer, err := way(right)
		if err != nil || answer.ID() != "2" || runs != 1 || unfit[trigger.Input] != 1 || unfit[trigger.Output] != 1 {
			t.Errorf("by %s: %v, %v after %d runs, with %v told, want an answer, and each side told of once", name, answer, err,
				runs, unfit)
		}
	}
}

// Weights decide which function gets an event.
func TestInvokeShares(t *testing.T) {
	t.Parallel()
	m := manager(func(f *landfall.Function, e event.Event) (event.Event, error) {
		return event.Answer(e, f.ID), nil
	})
	bound := &registry.Trigger{Shares: []registry.Share{{Function: &landfall.Function{ID: "all"}, Percent: 100},
		{Function: &landfall.Function{ID: "none"}}}}
	for range 100 {
		if answer, err := fire(t.Context(), m, bound, received()); err != nil || answer.ID() != "all" {
			t.Fatalf("got an answer of %q, %v, want all of them of all", answer.ID(), err)
		}
	}
}

// What is made of a trigger is not kept longer than its table, whatever else gets events.
func TestPreparedGoesWithItsTable(t *testing.T) {
	t.Parallel()
	first, second := registry.New(nil), registry.New(nil)
	newest := first
	m := manager(func(_ *landfall.Function, e event.Event) (event.Event, error) { return e, nil })
	m.Table = func() *registry.Table { return newest }
	invoke := func(name string) weak.Pointer[registry.Trigger] {
		bound := &registry.Trigger{Name: name, Function: &landfall.Function{ID: name}}
		if _, err := fire(t.Context(), m, bound, received()); err != nil {
			t.Fatal(err)
		}
		return weak.Make(bound)
	}
	gone := invoke("pay")
	newest = second
	kept := invoke("pay")
	runtime.GC()
	if gone.Value() != nil || kept.Value() == nil {
		t.Errorf("the trigger of the old table is %v, that of the new one %v; want the new one alone", gone.Value(),
			kept.Value())
	}
	runtime.KeepAlive(m)
}
