package registry_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

// Event sources see the triggers of live releases, each its own kind, in one order.
func TestTriggers(t *testing.T) {
	t.Parallel()
	triggers := func(namespace, app string) []*registry.Trigger {
		var all []*registry.Trigger
		for _, name := range []string{"b", "a"} {
			for _, kind := range []landfall.UnitKind{landfall.TimeTrigger, landfall.HTTPTrigger} {
				all = append(all, &registry.Trigger{Trigger: landfall.Trigger{Kind: kind}, Namespace: namespace, AppName: app,
					Name: name})
			}
		}
		return all
	}
	app := func(namespace, name string, deleted bool) registry.App {
		return registry.App{ID: name, Name: name, Deleted: deleted, Live: "bbbbbbbb", Releases: []registry.Release{
			{ID: "aaaaaaaa", Triggers: triggers("preview", name)}, {ID: "bbbbbbbb", Triggers: triggers(namespace, name)}}}
	}
	table := registry.New([]registry.App{app("team", "zoo", false), app("default", "shop", false),
		app("default", "gone", true), {ID: "new", Name: "new"}})
	got := ""
	for _, trigger := range table.Triggers(landfall.TimeTrigger) {
		got += strings.TrimPrefix(trigger.Source(), "/r") + " "
	}
	// E-113: each source has a table of its own
	if want := "/default/shop/a /default/shop/b /team/zoo/a /team/zoo/b "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if others := table.Triggers(landfall.QueueTrigger); others != nil {
		t.Errorf("got %v for a kind that nobody has", others)
	}
}

// A table knows every function that can still be called.
func TestFunctions(t *testing.T) {
	t.Parallel()
	triggers := func(id string) []*registry.Trigger {
		return []*registry.Trigger{{Function: &landfall.Function{ID: id}}, {},
			{Shares: []registry.Share{{}, {Function: &landfall.Function{ID: id}}}}}
	}
	table := registry.New([]registry.App{
		{ID: "1", Name: "shop", Live: "bbbbbbbb", Releases: []registry.Release{{ID: "aaaaaaaa", Triggers: triggers("old")},
			{ID: "bbbbbbbb", Triggers: triggers("new")}, {ID: "cccccccc"}}},
		{ID: "2", Name: "zoo", Deleted: true, Releases: []registry.Release{{ID: "aaaaaaaa", Triggers: triggers("deleted")}}},
	})
	got := table.Functions()
	if len(got) != 2 || got["old"] == nil || got["new"] == nil {
		t.Errorf("got %v, want old and new", got)
	}
}

// V5: every percent of the requests goes where the weights say, and only there.
func TestChoose(t *testing.T) {
	t.Parallel()
	old, next := &landfall.Function{ID: "old"}, &landfall.Function{ID: "next"}
	for percent := range 101 {
		trigger := registry.Trigger{Shares: []registry.Share{{Function: old, Percent: 100 - percent},
			{Function: next, Percent: percent}}}
		got := 0
		for drawn := range 100 {
			if trigger.Choose(drawn) == next {
				got++
			}
		}
		if got != percent {
			t.Errorf("%d of 100 requests go to a function with %d percent", got, percent)
		}
	}
	if got := (&registry.Trigger{Function: old}).Choose(99); got != old {
		t.Errorf("a trigger of one function leads to %v", got)
	}
}

// V5: clients that are known by keys are shared out as the weights say. The same key leads to the same function while
// the weights stay, and who got the new one keeps it when its weight grows, up to all.
func TestChooseFor(t *testing.T) {
	t.Parallel()
	old, next := &landfall.Function{ID: "old"}, &landfall.Function{ID: "next"}
	trigger := func(id string, percent int) *registry.Trigger {
		return &registry.Trigger{StickyID: id, Shares: []registry.Share{{Function: old, Percent: 100 - percent},
			{Function: next, Percent: percent}}}
	}
	const all = 20_000
	differs := 0
	for _, percent := range []int{0, 1, 10, 20, 50, 90, 100} {
		got := 0
		for i := range all {
			key := strconv.Itoa(i)
			chosen := trigger("a", percent).ChooseFor(key)
			if chosen == next {
				got++
				if more := trigger("a", min(percent+10, 100)).ChooseFor(key); more != next {
					t.Fatalf("client %d got the new one with %d percent, and does not with more", i, percent)
				}
			}
			if chosen != trigger("a", percent).ChooseFor(key) {
				t.Fatalf("client %d does not stay", i)
			}
			if chosen != trigger("b", percent).ChooseFor(key) {
				differs++
			}
		}
		mean := float64(all*percent) / 100
		if off := math.Abs(float64(got) - mean); off > 3*math.Sqrt(mean*(1-float64(percent)/100)) {
			t.Errorf("%d of %d clients get a function with %d percent", got, all, percent)
		}
	}
	if differs == 0 {
		t.Error("the same clients are the first ones everywhere")
	}
}

// Events are drawn, each anew: those of a trigger with two functions come to both.
func TestDraw(t *testing.T) {
	t.Parallel()
	old, next := &landfall.Function{ID: "old"}, &landfall.Function{ID: "next"}
	trigger := registry.Trigger{Shares: []registry.Share{{Function: old, Percent: 50}, {Function: next, Percent: 50}}}
	const all = 1000
	drawn := map[*landfall.Function]int{}
	for range all {
		drawn[trigger.Draw()]++
	}
	const off = 6 * 16 // standard deviations: as good as never
	if drawn[old]+drawn[next] != all || max(drawn[old], drawn[next]) > all/2+off {
		t.Errorf("of %d events %d and %d come to functions with 50 percent each", all, drawn[old], drawn[next])
	}
}
