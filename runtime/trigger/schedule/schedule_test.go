package schedule_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/schedule"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

const first, second landfall.UID = "aaaaaaa2", "bbbbbbb2"

// A function that is due gets an event that says what it is due by.
func TestEvent(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T07:59:00Z")
	var got event.Event
	w.call = func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
		got = e
		return event.Answer(e, "a"), nil
	}
	eight := timer("eight", "0 8 * * *", "")
	eight.Time.Method, eight.Time.Subpath = http.MethodPut, "/report?day=é"
	w.release("shop", first, eight)
	s := w.start("p")
	w.look(s)
	w.want("before eight")
	w.pass(time.Minute + 300*time.Millisecond)
	w.look(s)
	// E-031: a schedule runs a function every day at 8
	w.want("at eight", "aaaaaaa2 eight 2026-11-22T08:00:00Z")
	if got.Type() != "dev.landfall.schedule" || got.Source() != "/r/default/shop/eight" || got.Subject() != "eight" ||
		!got.Time().Equal(moment(t, "2026-11-22T08:00:00Z")) {
		t.Errorf("got the event %s", got)
	}
	p, err := event.ProtocolOf(got)
	// E-112: what is no HTTP source makes the equivalent of a call by HTTP
	if err != nil || p.Type != "http" || p.Method != http.MethodPut || !strings.HasPrefix(p.RequestURL, "/report?day=") ||
		p.Headers["X-Fission-Timer-Name"][0] != "eight" {
		t.Errorf("got the protocol %+v, %v, want the request of Fission's timer", p, err)
	}
	if event.ExecutionOf(got) == "" || len(got.Data()) > 0 {
		t.Errorf("got %s, want an execution and no data", got)
	}
	f := w.last("shop", "eight")
	if f.State != store.FiringSucceeded || f.Fired.Sub(f.Due) != 300*time.Millisecond || f.Finished.IsZero() ||
		w.states[store.FiringSucceeded] != 1 {
		t.Errorf("got the firing %+v, want one that succeeded 300 ms late", f)
	}
}

// What is fired while a clock goes on, leaps, goes back, or nothing runs.
func TestClock(t *testing.T) {
	t.Parallel()
	const restart = "restart"
	for _, c := range []struct {
		what, cron, zone, start string
		steps                   []string // a time to which the clock is set, or a duration that passes, or a restart
		want                    []string
	}{
		{
			"it goes on", "*/20 * * * * *", "", "2026-11-22T11:59:59Z",
			[]string{"1s", "10s", "10s", "100ms", "19s", "1s"},
			[]string{"2026-11-22T12:00:00Z", "2026-11-22T12:00:20Z", "2026-11-22T12:00:40Z"},
		},
		{
			// R16: the clock leaps an hour ahead: the latest of the times that it left out is fired, once
			"an hour ahead", "*/10 * * * *", "", "2026-11-22T11:59:59Z",
			[]string{"1s", "2026-11-22T13:03:00Z", "1s", "7m"},
			[]string{"2026-11-22T12:00:00Z", "2026-11-22T13:00:00Z", "2026-11-22T13:10:00Z"},
		},
		{
			// R16: the clock goes an hour back: nothing is fired twice, and what comes after it is
			"an hour back", "*/10 * * * *", "", "2026-11-22T11:59:59Z",
			[]string{"1s", "10m", "2026-11-22T11:05:00Z", "5m", "45m", "5m", "10m", "10m", "10m"},
			[]string{
				"2026-11-22T12:00:00Z", "2026-11-22T12:10:00Z", "2026-11-22T11:10:00Z", "2026-11-22T11:50:00Z",
				"2026-11-22T12:20:00Z", "2026-11-22T12:30:00Z",
			},
		},
		{
			// R16: the clock leaps a day ahead and is set right again: the real times are fired
			"a day ahead and back", "*/10 * * * *", "", "2026-11-22T11:59:59Z",
			[]string{"1s", "2026-11-23T12:05:00Z", "2026-11-22T12:05:00Z", "5m", "10m"},
			[]string{"2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z", "2026-11-22T12:10:00Z", "2026-11-22T12:20:00Z"},
		},
		{
			// R16: a day back
			"a day back", "0 8 * * *", "", "2026-11-22T07:59:59Z",
			[]string{"1s", "2026-11-21T08:00:01Z", "23h", "59m59s", "24h"},
			[]string{"2026-11-22T08:00:00Z", "2026-11-23T08:00:00Z"},
		},
		{
			"a second that is shown twice", "@every 1s", "", "2026-11-22T11:59:59Z",
			[]string{"1s", "2026-11-22T11:59:59Z", "1s", "1s"},
			[]string{"2026-11-22T12:00:00Z", "2026-11-22T12:00:01Z"},
		},
		{
			"nothing ran, for half an hour", "0 8 * * *", "", "2026-11-22T07:00:00Z",
			[]string{"50m", restart, "40m", "10m"},
			[]string{"2026-11-22T08:00:00Z"},
		},
		{
			"nothing ran, for too long", "0 8 * * *", "", "2026-11-22T07:00:00Z",
			[]string{"50m", restart, "70m1s", "1h"},
			nil,
		},
		{
			"many were missed", "* * * * *", "", "2026-11-22T07:00:30Z",
			[]string{"1s", restart, "30m", restart, "1s"},
			[]string{"2026-11-22T07:30:00Z"},
		},
		{
			// R16: the clock leaves out an hour
			"an hour is left out", "30 2 * * *", "Europe/Berlin", "2026-03-29T00:58:00Z",
			[]string{"1m", "1m", "1m", "30m", "30m", "22h30m"},
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		{
			// R16: the clock shows an hour twice
			"an hour is shown twice", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			[]string{"30m", "30m", "30m", "30m", "23h30m"},
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := sqlite(t, c.start)
			w.release("shop", first, timer("t", c.cron, c.zone))
			s := w.start("p")
			w.look(s)
			for _, step := range c.steps {
				d, err := time.ParseDuration(step)
				switch {
				case step == restart:
					s = w.start("p")
					continue
				case err == nil:
					w.pass(d)
				default:
					w.set(step)
				}
				w.look(s)
			}
			for i := range c.want {
				c.want[i] = "aaaaaaa2 t " + c.want[i]
			}
			w.want(c.what, c.want...)
		})
	}
}

// Whatever many processes do at the same time, a time is fired once.
func TestOnce(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(testing.TB) string{"SQLite": storetest.SQLite,
		"PostgreSQL": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storetest.Open(t, address(t)), "2026-11-22T11:59:59Z")
			var want []string
			for _, app := range []string{"blog", "shop"} {
				w.release(app, first, timer("a", "* * * * * *", ""), timer("b", "@every 2s", ""), timer("c", "0 0 0 1 1 *", ""))
			}
			var processes []*schedule.Scheduler
			for i := range 5 {
				processes = append(processes, w.start(fmt.Sprint(i)))
			}
			w.look(processes...)
			for i := range 6 {
				w.pass(time.Second)
				w.look(processes...)
				due := w.clock().Format(time.RFC3339)
				want = append(want, "aaaaaaa2 a "+due, "aaaaaaa2 a "+due)
				if i%2 == 0 {
					want = append(want, "aaaaaaa2 b "+due, "aaaaaaa2 b "+due)
				}
			}
			// E-063: the scheduler fires the trigger on its schedule: five processes, each time once
			w.want("by five processes", want...)
		})
	}
}

// After a switch the new release's schedules count, from then on, with its functions; and after a rollback those of the
// old one.
func TestSwitch(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:00:00Z")
	hourly, daily := "0 * * * *", "30 8 * * *"
	w.release("shop", first, timer("same", hourly, ""), timer("changed", daily, ""), timer("gone", hourly, ""))
	s := w.start("p")
	w.look(s)
	w.pass(time.Hour)
	w.look(s)
	w.want("the first release", "aaaaaaa2 same 2026-11-22T12:00:00Z", "aaaaaaa2 gone 2026-11-22T12:00:00Z")
	w.pass(10 * time.Minute)
	w.release("shop", second, timer("same", hourly, ""), timer("changed", hourly, ""), timer("new", "5 * * * *", ""))
	w.look(s)
	w.want("what was due before the switch")
	w.pass(50 * time.Minute)
	w.look(s)
	w.want("the second release", "bbbbbbb2 same 2026-11-22T13:00:00Z", "bbbbbbb2 changed 2026-11-22T13:00:00Z")
	// Nobody looks while what goes on is due, just before the release before comes back.
	w.pass(61 * time.Minute)
	w.release("shop", first, timer("same", hourly, ""), timer("changed", daily, ""), timer("gone", hourly, ""))
	w.look(s)
	w.want("after a rollback", "aaaaaaa2 same 2026-11-22T14:00:00Z")
	w.pass(time.Hour)
	w.look(s)
	w.want("later", "aaaaaaa2 same 2026-11-22T15:00:00Z", "aaaaaaa2 gone 2026-11-22T15:00:00Z")
}

// A process that does not know yet what is live fires nothing of what was, and the time is not lost.
func TestStaleTable(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	w.release("shop", first, timer("t", "@hourly", ""))
	s := w.start("p")
	w.look(s)
	shown := w.table.Load()
	w.release("shop", second, timer("t", "@hourly", ""))
	w.table.Store(shown)
	w.pass(time.Minute)
	w.look(s)
	w.want("a release that is not live any more")
	w.show()
	w.look(s)
	w.want("the one that is", "bbbbbbb2 t 2026-11-22T12:00:00Z")
}

// A trigger that cannot be read is not due, and the others are.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	w.release("shop", first, timer("good", "@hourly", ""), timer("bad", "0 25 * * *", ""),
		timer("nowhere", "@hourly", "Mars/Olympus"))
	w.release("blog", second, timer("fine", "@hourly", ""))
	s := w.start("p")
	w.look(s)
	w.pass(time.Minute)
	w.look(s)
	w.want("the readable ones", "aaaaaaa2 good 2026-11-22T12:00:00Z", "bbbbbbb2 fine 2026-11-22T12:00:00Z")
	if !strings.Contains(w.logs.String(), "trigger=bad") {
		t.Errorf("the log does not name the trigger: %s", &w.logs)
	}
}

// While a firing runs, the next ones of its trigger are skipped, and those of others are not.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	w.call = func(_ context.Context, t *registry.Trigger, e event.Event) (event.Event, error) {
		if t.Name == "slow" {
			entered <- struct{}{}
			<-leave
		}
		return event.Answer(e, "a"), nil
	}
	w.release("shop", first, timer("slow", "* * * * *", ""), timer("quick", "* * * * *", ""))
	one, other := w.start("p"), w.start("q")
	w.look(one, other)
	w.pass(time.Minute)
	one.Pass(t.Context(), t.Context())
	<-entered
	testkit.Eventually(t, "the quick one ends", func() bool {
		return w.last("shop", "quick").State == store.FiringSucceeded
	})
	w.pass(time.Minute)
	w.look(other)
	w.want("while one runs", "aaaaaaa2 slow 2026-11-22T12:00:00Z", "aaaaaaa2 quick 2026-11-22T12:00:00Z",
		"aaaaaaa2 quick 2026-11-22T12:01:00Z")
	f := w.last("shop", "slow")
	if f.State != store.FiringSkipped || !strings.Contains(f.Problem, "2026-11-22T12:00:00Z was still running") {
		t.Errorf("got %+v, want one that was skipped, and why", f)
	}
	close(leave)
	one.Wait()
	w.pass(time.Minute)
	w.look(other)
	<-entered
	w.want("after that", "aaaaaaa2 slow 2026-11-22T12:02:00Z", "aaaaaaa2 quick 2026-11-22T12:02:00Z")
}

func busy() error {
	return &landfall.Error{Op: "test", Kind: landfall.Unavailable, Message: "busy",
		Err: &function.Error{Reason: function.ReasonBusy, RetryAfter: time.Millisecond}}
}

// A firing whose function is busy is tried again, until the next time is due.
func TestBusy(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	tries := 0
	w.call = func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
		tries++
		if tries < 4 {
			return event.Event{}, busy()
		}
		return event.Answer(e, "a"), nil
	}
	w.release("shop", first, timer("t", "* * * * *", ""))
	s := w.start("p")
	w.look(s)
	w.pass(time.Minute)
	w.look(s)
	if f := w.last("shop", "t"); f.State != store.FiringSucceeded || tries != 4 || f.Attempt != 1 {
		t.Errorf("got %+v after %d tries, want a success at the fourth", f, tries)
	}

	// Busy for as long as it is the first time's turn.
	w.mu.Lock()
	w.call = func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
		if e.ID() == "2026-11-22T12:01:00Z" {
			return event.Event{}, busy()
		}
		return event.Answer(e, "a"), nil
	}
	w.mu.Unlock()
	w.pass(time.Minute)
	s.Pass(t.Context(), t.Context())
	testkit.Eventually(t, "it waits", func() bool { return w.last("shop", "t").State == store.FiringWaiting })
	w.pass(59 * time.Second)
	s.Wait()
	if f := w.last("shop", "t"); f.State != store.FiringFailed || f.Problem != "busy" {
		t.Errorf("got %+v, want one that was busy for too long", f)
	}
	w.pass(time.Second)
	w.look(s)
	if open, err := w.db.OpenFirings(t.Context()); len(open) > 0 || err != nil {
		t.Errorf("open is %+v, %v, want nothing", open, err)
	}
	if w.states[store.FiringFailed] != 1 || w.states[store.FiringSucceeded] != 2 {
		t.Errorf("counted are %v, want the one that waited in vain, and two that succeeded", w.states)
	}
}

// What a function makes of its firing is remembered.
func TestFailure(t *testing.T) {
	t.Parallel()
	for what, call := range map[string]caller{
		"the function crashed": func(context.Context, *registry.Trigger, event.Event) (event.Event, error) {
			return event.Event{}, &landfall.Error{Op: "test", Message: "the function crashed",
				Err: &function.Error{Reason: function.ReasonExit}}
		},
		"no such table": func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
			answer := event.Answer(e, "a")
			event.SetError(&answer, event.Error{Message: "no such table"})
			return answer, nil
		},
		"the status 500": func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
			answer := event.Answer(e, "a")
			event.SetProtocol(&answer, event.Protocol{Status: http.StatusInternalServerError})
			return answer, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := sqlite(t, "2026-11-22T11:59:00Z")
			w.call = call
			w.release("shop", first, timer("t", "* * * * *", ""))
			s := w.start("p")
			w.look(s)
			w.pass(time.Minute)
			w.look(s)
			if f := w.last("shop", "t"); f.State != store.FiringFailed || !strings.Contains(f.Problem, what) ||
				w.states[store.FiringFailed] != 1 {
				t.Errorf("got %+v, want one that failed with %q", f, what)
			}
			if !strings.Contains(w.logs.String(), what) {
				t.Errorf("the log has no %q: %s", what, &w.logs)
			}
		})
	}
}

// A firing whose process dies is run again: at once by its next life, else by another process when it gave no sign of
// life for a while, whatever the clocks show.
func TestDeath(t *testing.T) {
	t.Parallel()
	// begin lets a process die at a firing.
	begin := func(t *testing.T) (*world, []string) {
		t.Helper()
		w := sqlite(t, "2026-11-22T11:59:00Z")
		w.release("shop", first, timer("t", "@hourly", ""))
		s := w.start("dead")
		w.look(s)
		w.pass(time.Minute)
		w.die(s)
		return w, []string{"aaaaaaa2 t 2026-11-22T12:00:00Z"}
	}
	t.Run("its next life", func(t *testing.T) {
		t.Parallel()
		w, once := begin(t)
		w.want("at first", once...)
		w.look(w.start("dead"))
		w.want("again", once...)
		if f := w.last("shop", "t"); f.State != store.FiringSucceeded || f.Attempt != 2 {
			t.Errorf("got %+v, want a success of the second attempt", f)
		}
	})
	t.Run("another process", func(t *testing.T) {
		t.Parallel()
		w, once := begin(t)
		w.want("at first", once...)
		other := w.start("other")
		w.look(other)
		w.set("2026-11-22T12:40:00Z")
		w.look(other)
		w.pass(schedule.DeadAfter - time.Second)
		w.look(other)
		w.want("while it may live")
		w.pass(10 * time.Second)
		w.look(other)
		w.want("when it is dead", once...)
	})
	t.Run("another process, too late", func(t *testing.T) {
		t.Parallel()
		w, _ := begin(t)
		w.want("at first", "aaaaaaa2 t 2026-11-22T12:00:00Z")
		w.set("2026-11-22T13:01:00Z")
		w.look(w.start("dead"))
		w.want("the next one", "aaaaaaa2 t 2026-11-22T13:00:00Z")
		if open, err := w.db.OpenFirings(t.Context()); len(open) > 0 || err != nil {
			t.Errorf("open is %+v, %v, want nothing", open, err)
		}
	})
	t.Run("its release is not live any more", func(t *testing.T) {
		t.Parallel()
		w, _ := begin(t)
		w.release("shop", second)
		w.invoked = nil
		w.look(w.start("dead"))
		w.want("of a release that is not live")
		if f := w.last("shop", "t"); f.State != store.FiringFailed || !strings.Contains(f.Problem, "not live any more") {
			t.Errorf("got %+v, want one that failed, and why", f)
		}
	})
	t.Run("each time", func(t *testing.T) {
		t.Parallel()
		w, once := begin(t)
		for range 4 {
			w.die(w.start("dead"))
		}
		w.want("three times", once[0], once[0], once[0])
		if f := w.last("shop", "t"); f.State != store.FiringFailed || !strings.Contains(f.Problem, "3 times") {
			t.Errorf("got %+v, want one that failed, and why", f)
		}
	})
}

// die lets a process look at the clock and then be killed, with what it fires under way.
func (w *world) die(s *schedule.Scheduler) {
	calls, kill := context.WithCancel(w.t.Context())
	w.mu.Lock()
	w.call = func(ctx context.Context, _ *registry.Trigger, _ event.Event) (event.Event, error) {
		kill()
		<-ctx.Done()
		return event.Event{}, ctx.Err()
	}
	w.mu.Unlock()
	s.Pass(w.t.Context(), calls)
	s.Wait()
	kill()
	w.mu.Lock()
	w.call = nil
	w.mu.Unlock()
}

// A process that lives keeps what it fires, however long that runs.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	leave := make(chan struct{})
	w.call = func(_ context.Context, _ *registry.Trigger, e event.Event) (event.Event, error) {
		<-leave
		return event.Answer(e, "a"), nil
	}
	w.release("shop", first, timer("t", "@daily", ""), timer("now", "@hourly", ""))
	one, other := w.start("p"), w.start("q")
	w.look(one, other)
	w.pass(time.Minute)
	one.Pass(t.Context(), t.Context())
	testkit.Eventually(t, "it runs", func() bool { return w.last("shop", "now").State == store.FiringRunning })
	for range 20 {
		w.pass(10 * time.Second)
		one.Pass(t.Context(), t.Context())
		other.Pass(t.Context(), t.Context())
	}
	close(leave)
	one.Wait()
	other.Wait()
	w.want("once", "aaaaaaa2 now 2026-11-22T12:00:00Z")
}

// Run fires by the real clock, and ends when it is told to.
func TestRun(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T12:00:00Z")
	s := w.start("p")
	began := time.Now()
	s.Now, s.Elapsed, s.Patience = time.Now, func() time.Duration { return time.Since(began) }, time.Minute
	w.now.Store(began.UnixMicro())
	w.release("shop", first, timer("t", "@every 1s", ""))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	testkit.Eventually(t, "three times", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.states[store.FiringSucceeded] >= 3
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if open, err := w.db.OpenFirings(t.Context()); len(open) > 0 || err != nil {
		t.Errorf("open is %+v, %v, want nothing", open, err)
	}
}

// What runs for longer than a stop has patience is cut off, and run again by the next start.
func TestStop(t *testing.T) {
	t.Parallel()
	w := sqlite(t, "2026-11-22T11:59:00Z")
	begun := make(chan struct{})
	w.call = func(ctx context.Context, _ *registry.Trigger, _ event.Event) (event.Event, error) {
		close(begun)
		<-ctx.Done()
		return event.Event{}, ctx.Err()
	}
	w.release("shop", first, timer("t", "@hourly", ""))
	w.pass(time.Minute)
	s := w.start("p")
	s.Patience = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	<-begun
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.want("before the stop", "aaaaaaa2 t 2026-11-22T12:00:00Z")
	w.call = nil
	w.look(w.start("p"))
	w.want("after the start", "aaaaaaa2 t 2026-11-22T12:00:00Z")
	if f := w.last("shop", "t"); f.State != store.FiringSucceeded || f.Attempt != 2 {
		t.Errorf("got %+v, want a success of the second attempt", f)
	}
}
