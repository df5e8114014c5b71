package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/schedule"
)

// Whatever clocks do and processes look at them, what is fired is what the rule says: at each look the latest time of
// the last hour, unless it was fired.
func TestClockModel(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2025-01-01T00:00:00Z")
	apps := 0
	rapid.Check(t, func(r *rapid.T) {
		apps++
		name := fmt.Sprintf("app%d", apps)
		clear(w.live)
		expression := rapid.SampledFrom([]string{"*/7 * * * *", "30 2 * * *", "0 * * * *", "*/20 * * * * *",
			"@every 50m"}).Draw(r, "expression")
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(r, "zone")
		rule, err := cron.Parse(expression, zone)
		if err != nil {
			r.Fatal(err)
		}
		w.set("2025-01-01T00:00:00Z")
		w.release(name, first, timer("t", expression, zone))
		w.fired()
		// Days around a change of clocks of each zone.
		w.set(rapid.SampledFrom([]string{"2026-03-29T00:30:00Z", "2026-10-25T00:10:00Z", "2026-04-04T14:40:00Z",
			"2026-10-03T15:10:00Z"}).Draw(r, "start"))
		processes, start := []*schedule.Scheduler{w.start("p"), w.start("q")}, w.clock()
		fired := map[time.Time]bool{}
		steps := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{
			time.Second, 10 * time.Second, time.Minute, 7 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour,
			-time.Second, -10 * time.Minute, -time.Hour, 24 * time.Hour, -24 * time.Hour,
		}), 1, 40).Draw(r, "steps")
		for _, step := range steps {
			if off := w.clock().Add(step).Sub(start); off.Abs() > 24*time.Hour {
				continue // firings are kept for two days
			}
			if step > 0 && step < time.Hour {
				w.pass(step)
			} else {
				w.now.Add(step.Microseconds())
			}
			who := rapid.IntRange(0, len(processes)).Draw(r, "who")
			if who == len(processes) {
				processes[0] = w.start("p")
				who = 0
			}
			w.look(processes[who])
			now, due := w.clock(), time.Time{}
			for next := rule.Next(now.Add(-schedule.MakeUp)); !next.After(now); next = rule.Next(next) {
				due = next.UTC()
			}
			var want []string
			if !due.IsZero() && !fired[due] {
				fired[due] = true
				want = []string{fmt.Sprintf("%s t %s", first, due.Format(time.RFC3339))}
			}
			// R16: no time is missed or fired twice beyond the documented rule, whatever clocks do
			if got := w.fired(); !slices.Equal(got, want) {
				r.Fatalf("at %s: fired %q, want %q; the log:\n%s", now, got, want, &w.logs)
			}
		}
	})
}

// A process that looks at many schedules at once fires each of them.
func TestMany(t *testing.T) {
	t.Parallel()
	const apps, triggers = 3, 100 // more than there is place for of an app
	w := sqlite(t, "2026-11-22T11:59:59Z")
	var want []string
	for i := range apps {
		var all []*registry.Trigger
		for j := range triggers {
			all = append(all, timer(fmt.Sprintf("t%d", j), "0 * * * *", ""))
			want = append(want, fmt.Sprintf("%s t%d 2026-11-22T12:00:00Z", landfall.UID("aaaaaaa2"), j))
		}
		w.release(fmt.Sprintf("app%d", i), first, all...)
	}
	s := w.start("p")
	w.look(s)
	w.pass(time.Second)
	for range 2 {
		w.look(s)
	}
	w.want("all of them", want...)
}
