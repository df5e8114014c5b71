package schedule_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// tagged returns a time trigger of a function tag.
func tagged(functions ...*landfall.Function) *registry.Trigger {
	t := timer("nightly", "* * * * *", "")
	t.Tag, t.Tagged = "v1.0.0", functions
	return t
}

// calls returns how often the functions of tags were called since the last time that it was asked.
func (w *world) calls() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.called
	w.called = map[string]int{}
	return got
}

// A firing of a trigger that names a function tag calls all functions of the tag, whatever becomes of the others.
func TestFunctionTag(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	foo, bar, baz := &landfall.Function{Name: "foo"}, &landfall.Function{Name: "bar"}, &landfall.Function{Name: "baz"}
	w.release("shop", first, tagged(foo, bar, baz))
	s := w.start("p")
	w.look(s)
	w.pass(time.Minute)
	w.look(s)
	// the group runs with one time trigger
	testkit.Same(t, "calls of one firing", w.calls(), map[string]int{"foo": 1, "bar": 1, "baz": 1})
	testkit.Equal(t, "the firing", w.last("shop", "nightly").State, store.FiringSucceeded)

	busyOnce := true
	w.each = func(name string) error {
		switch {
		case name == "foo":
			return &landfall.Error{Kind: landfall.Unavailable, Message: "it has no place to write to"}
		case name == "baz" && busyOnce:
			busyOnce = false
			return busy()
		}
		return nil
	}
	w.pass(time.Minute)
	w.look(s)
	testkit.Same(t, "calls when foo fails, and baz is busy once", w.calls(), map[string]int{"foo": 1, "bar": 1, "baz": 2})
	f := w.last("shop", "nightly")
	testkit.Equal(t, "the firing that failed by a third", f.State, store.FiringFailed)
	testkit.Equal(t, "what is told of it", f.Problem,
		"1 of 3 functions of the tag v1.0.0 failed: foo: it has no place to write to")

	w.each = nil
	w.release("shop", second, tagged())
	w.look(s)
	w.pass(time.Minute)
	w.look(s)
	testkit.Equal(t, "what is told of an empty tag", w.last("shop", "nightly").Problem,
		"the function tag v1.0.0 names no function")
}
