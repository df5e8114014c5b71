package execution_test

import (
	"context"
	"log/slog"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
)

// A canary knows how many requests both sides had, and how many failed: those that all processes ran, through its
// trigger or its alias alone. Who did not wait says nothing, and an answer with a status of 500 is a failure.
func TestCanaryCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := &execution.Recorder{DB: f.db, Process: "q", Logger: slog.New(slog.DiscardHandler)}
	err := f.db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), "default", 0); err != nil {
			return err
		}
		if err := tx.CreateApp(t.Context(), landfall.App{ID: "app", Namespace: "default", Name: "shop"}); err != nil {
			return err
		}
		side := func(number int64) landfall.CanarySide { return landfall.CanarySide{Function: "hello", Number: number} }
		for _, c := range []landfall.Canary{{ID: "route", Trigger: "greet"}, {ID: "alias", Alias: "prod"}} {
			c.Name, c.AppID, c.State, c.Older, c.Newer = c.ID, "app", landfall.CanaryRunning, side(3), side(4)
			if err := tx.PutCanary(t.Context(), c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fails := func(ctx context.Context, e event.Event) (event.Event, error) {
		answer, err := greets(ctx, e)
		event.SetError(&answer, event.Error{Type: "wrong"})
		return answer, err
	}
	answersWith := func(status int) answers {
		return func(ctx context.Context, e event.Event) (event.Event, error) {
			answer, err := greets(ctx, e)
			event.SetProtocol(&answer, event.Protocol{Status: status})
			return answer, err
		}
	}
	leaves := func(context.Context, event.Event) (event.Event, error) {
		return event.Event{}, &landfall.Error{Kind: landfall.Canceled}
	}
	for i, call := range []struct {
		by      *execution.Recorder
		number  int64
		trigger string
		alias   string
		does    answers
	}{
		{f.Recorder, 3, "greet", "", greets}, {f.Recorder, 4, "greet", "", greets}, {other, 4, "greet", "", fails},
		{other, 4, "greet", "", answersWith(500)}, {f.Recorder, 4, "greet", "", answersWith(404)},
		{f.Recorder, 4, "greet", "", leaves}, {other, 4, "another", "prod", greets}, {f.Recorder, 5, "greet", "", fails},
		// by their name: the version, another alias, the alias
		{f.Recorder, 4, "", "", fails}, {f.Recorder, 4, "", "qa", fails}, {f.Recorder, 4, "", "prod", fails},
		{other, 3, "", "prod", greets},
	} {
		fn := hello()
		fn.App, fn.Number, fn.Alias = "app", call.number, call.alias
		trigger := &registry.Trigger{Name: call.trigger, Shares: []registry.Share{{Function: fn, Percent: 100}},
			Alias: call.alias}
		if call.trigger == "" {
			trigger = nil
		}
		_, _ = call.by.Recorded(call.does).Call(t.Context(), function.Call{Function: fn, Trigger: trigger,
			Event: request(string(rune('a' + i)))})
	}
	for _, r := range []*execution.Recorder{f.Recorder, other} {
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.db.RunningCanaries(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("the canaries are %+v, %v", all, err)
	}
	want := map[string][2]landfall.CanaryFigures{
		"route": {{Requests: 1}, {Requests: 4, Failures: 2}}, "alias": {{Requests: 1}, {Requests: 2, Failures: 1}},
	}
	for _, c := range all {
		if got := [2]landfall.CanaryFigures{c.Older.Figures(), c.Newer.Figures()}; got != want[c.Name] {
			t.Errorf("%s: counted %+v, want %+v", c.Name, got, want[c.Name])
		}
	}
	// what the database does not take is told later
	ended, end := context.WithCancel(t.Context())
	end()
	fn := hello()
	fn.App, fn.Alias = "app", "prod"
	_, _ = f.Recorded(answers(greets)).Call(t.Context(), function.Call{Function: fn, Event: request("late")})
	if err := f.Flush(ended); err == nil {
		t.Error("the database took what it could not")
	}
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := f.db.Canary(t.Context(), "app", "alias"); err != nil || c.Older.Figures().Requests != 2 {
		t.Errorf("the old side has %+v, %v; want 2 requests", c.Older.Figures(), err)
	}
}
