// Package schedule is the event source of time: it fires the time triggers of live releases when they are due.
//
// # Once
//
// Any number of processes keep the same schedules. Whoever makes the row of a firing in the store fires; there is one
// row for each trigger and time. So a time is fired once, whatever the processes' clocks say, and also when a clock
// goes back over it.
//
// # Missed times
//
// Of the times that passed while nobody looked (nothing ran, or a clock leapt), the latest one is fired, once, unless
// it is more than MakeUp ago. The others are not made up for. A schedule counts from the moment at which the release
// that has it became live; one that the release before had as well goes on.
//
// # Runs
//
// A firing is one run, unless its process dies: then another process runs it again, or the same one when it is back. So
// a run happens at least once, and events of the same firing have the same id. While a firing runs, the next ones of
// its trigger are skipped. One whose function is busy waits, until the next time is due at most.
package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
)

const (
	// MakeUp is how old a missed time may be to be fired all the same.
	MakeUp = time.Hour

	longestWait  = time.Second // between two looks at the clock, which may have been set
	beatInterval = 5 * time.Second
	// deadAfter is how long a process gives no sign of life before it is taken for dead, by the clock of who watches it.
	deadAfter = 30 * time.Second
	// maxAttempts is how often a firing is run at most when its process dies each time.
	maxAttempts = 3
	// keepFirings is how long firings are remembered: a clock that goes back by less fires nothing twice.
	keepFirings    = 48 * time.Hour
	forgetInterval = time.Minute

	// How many firings a process has under way. Those beyond it wait for a place.
	maxRunning       = 1024
	maxRunningPerApp = 64
)

// Scheduler fires. Its fields are set before Run.
type Scheduler struct {
	DB        *store.DB
	Table     func() *registry.Table
	Functions function.Caller
	Process   string                        // what others know this process by, across its lives
	Now       func() time.Time              // what the clock shows
	Elapsed   func() time.Duration          // since some moment, whatever the clock shows
	Fired     func(state store.FiringState) // told of each firing of this process that is over
	Patience  time.Duration                 // with firings under way, when Run is to end
	Logger    *slog.Logger

	// Only the goroutine of Run has these.
	table             *registry.Table
	apps              map[string]*app
	watched           map[firingKey]sighting
	beaten, forgotten time.Duration

	mu      sync.Mutex
	running map[firingKey]bool
	perApp  map[string]int
	group   sync.WaitGroup
}

// app is the schedules of an app's live release.
type app struct {
	release landfall.UID
	kept    bool // they are in the store
	entries map[string]*entry
}

// entry is one schedule.
type entry struct {
	trigger  *registry.Trigger
	schedule *cron.Schedule
	since    time.Time   // times up to this one do not count
	handled  time.Time   // the latest time that is dealt with; zero: none is
	looked   time.Time   // when it was looked at last
	next     time.Time   // nothing is due before it; zero: that is not known
	again    atomic.Bool // the time that was handled was not: look again
}

// firingKey names a firing.
type firingKey struct {
	app, trigger string
	due          int64
}

func keyOf(f store.Firing) firingKey { return firingKey{f.App, f.Trigger, f.Due.UnixMicro()} }

// Run fires until ctx ends. Then it gives the firings under way some time to end. What is cut off is run again, by the
// next start or by another process. It returns nil.
func (s *Scheduler) Run(ctx context.Context) error {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	for ctx.Err() == nil {
		wait := time.NewTimer(s.Pass(ctx, calls))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(s.Patience):
		cut()
		<-ended
	}
	return nil
}

// Pass starts what is due, with calls as the context of the firings, and returns how long nothing will be.
func (s *Scheduler) Pass(ctx, calls context.Context) time.Duration {
	s.keep(ctx)
	s.tend(ctx, calls)
	now := s.Now()
	wait := longestWait
	for _, id := range slices.Sorted(maps.Keys(s.apps)) {
		for _, e := range s.apps[id].entries {
			due := e.look(now)
			if !due.IsZero() && !s.start(calls, e, due) {
				e.again.Store(true) // there is no place for it now
			}
			wait = min(wait, e.next.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}

// look returns the latest time that is due now and is not dealt with, which it is from then on; zero when there is
// none.
func (e *entry) look(now time.Time) time.Time {
	if e.again.Swap(false) || now.Before(e.looked) {
		e.handled, e.next = time.Time{}, time.Time{}
	}
	if now.Before(e.since) {
		e.since = now // the clock went back: what comes now is due, and the store knows what was fired
	}
	e.looked = now
	if !e.next.IsZero() && now.Before(e.next) {
		return time.Time{}
	}
	e.next = e.schedule.Next(now)
	if e.next.IsZero() {
		e.next = now.Add(MakeUp)
	}
	due := e.latest(now)
	if !due.IsZero() {
		e.handled = due
	}
	return due
}

// latest returns the latest time that is due and not dealt with. It looks back in strides, so that seconds are not
// counted for an hour.
func (e *entry) latest(now time.Time) (due time.Time) {
	for _, stride := range []time.Duration{time.Second, time.Minute, MakeUp} {
		from := now.Add(-stride)
		for _, not := range []time.Time{e.since, e.handled} {
			if not.After(from) {
				from = not
			}
		}
		for next := e.schedule.Next(from); !next.IsZero() && !next.After(now); next = e.schedule.Next(next) {
			due = next
		}
		if !due.IsZero() {
			break
		}
	}
	return due
}

// keep brings the schedules to what the table has, and those in the store.
func (s *Scheduler) keep(ctx context.Context) {
	if table := s.Table(); table != nil && table != s.table {
		s.table = table
		s.read(table)
	}
	for id, a := range s.apps {
		if a.kept {
			continue
		}
		err := s.keepApp(ctx, id, a)
		if landfall.Ignore(err, landfall.Conflict) == nil { // a release that is not live any more: the table will tell
			continue
		}
		if ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "schedules are not kept, and fire nothing", "app", id, "error", err)
		}
		return // the store is away: it is tried again at the next look
	}
}

// read takes over the triggers of a table. Those of a release that was live before go on as they are.
func (s *Scheduler) read(table *registry.Table) {
	before := s.apps
	s.apps = map[string]*app{}
	for _, t := range table.Triggers(landfall.TimeTrigger) {
		a, ok := s.apps[t.App]
		if !ok {
			a = &app{release: t.Release, entries: map[string]*entry{}}
			if old := before[t.App]; old != nil && old.release == t.Release {
				a.kept = old.kept
			}
			s.apps[t.App] = a
		}
		if a.kept {
			if e := before[t.App].entries[t.Name]; e != nil {
				e.trigger = t
				a.entries[t.Name] = e
			}
			continue
		}
		schedule, err := cron.Parse(t.Time.Cron, t.Time.TimeZone)
		if err != nil {
			s.Logger.Warn("a time trigger cannot be read, and is never due", "app", t.AppName, "trigger", t.Name, "error", err)
			continue
		}
		a.entries[t.Name] = &entry{trigger: t, schedule: schedule}
	}
}

// keepApp keeps the schedules of an app in the store. Until then they fire nothing.
func (s *Scheduler) keepApp(ctx context.Context, id string, a *app) error {
	expressions := make(map[string]string, len(a.entries))
	for name, e := range a.entries {
		expressions[name] = e.trigger.Time.TimeZone + " " + e.trigger.Time.Cron
	}
	var kept map[string]store.Schedule
	err := s.DB.Update(ctx, func(tx *store.Tx) (err error) {
		kept, err = tx.KeepSchedules(ctx, id, a.release, expressions)
		return err
	})
	if err != nil {
		return err
	}
	for name, e := range a.entries {
		e.since = kept[name].Since
	}
	a.kept = true
	return nil
}

// start fires a trigger, unless there is no place for it.
func (s *Scheduler) start(calls context.Context, e *entry, due time.Time) bool {
	t, next := e.trigger, e.next
	f := store.Firing{App: t.App, Trigger: t.Name, Due: due, Release: t.Release, Process: s.Process, Fired: s.Now()}
	if s.has(f) {
		return true
	}
	if !s.enter(f) {
		return false
	}
	s.group.Go(func() {
		defer s.leave(f)
		crashpoint.Here("firing.due")
		claimed, err := s.claim(calls, &f)
		if err != nil {
			e.again.Store(true) // the release is not live any more, which the table will tell; or the store is away
			if landfall.KindOf(err) != landfall.Conflict && calls.Err() == nil {
				s.Logger.WarnContext(calls, "a time trigger is not fired yet", "app", t.AppName, "trigger", t.Name, "due", f.Due,
					"error", err)
			}
			return
		}
		switch {
		case !claimed:
		case f.State == store.FiringSkipped:
			s.over(calls, t, f)
		default:
			s.run(calls, t, f, next)
		}
	})
	return true
}

// claim makes a firing this process's, unless there is one for that time already.
func (s *Scheduler) claim(ctx context.Context, f *store.Firing) (claimed bool, err error) {
	wanted := *f // it may be claimed anew, when what shared the transaction failed
	err = s.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		*f, claimed, err = tx.ClaimFiring(ctx, wanted)
		return err
	})
	return claimed, err
}

// enter takes a place for a firing.
func (s *Scheduler) enter(f store.Firing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running, s.perApp = map[firingKey]bool{}, map[string]int{}
	}
	if len(s.running) >= maxRunning || s.perApp[f.App] >= maxRunningPerApp {
		return false
	}
	s.running[keyOf(f)] = true
	s.perApp[f.App]++
	return true
}

func (s *Scheduler) leave(f store.Firing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, keyOf(f))
	s.perApp[f.App]--
	if s.perApp[f.App] == 0 {
		delete(s.perApp, f.App)
	}
}

// has reports whether a firing is under way here.
func (s *Scheduler) has(f store.Firing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[keyOf(f)]
}

// over says how a firing ended.
func (s *Scheduler) over(ctx context.Context, t *registry.Trigger, f store.Firing) {
	s.Fired(f.State)
	level := slog.LevelDebug
	if f.State != store.FiringSucceeded {
		level = slog.LevelWarn
	}
	s.Logger.Log(ctx, level, "time trigger fired", "app", t.AppName, "app_id", f.App, "trigger", f.Trigger, "due", f.Due,
		"late", f.Fired.Sub(f.Due), "state", f.State, "attempt", f.Attempt, "problem", f.Problem)
}

// sighting is when a firing of another process was first seen as it is.
type sighting struct {
	attempt int
	beat    int64
	at      time.Duration
}

// tend gives signs of life, takes over what dead processes left, and forgets what is old.
func (s *Scheduler) tend(ctx, calls context.Context) {
	elapsed := s.Elapsed()
	if s.beaten != 0 && elapsed-s.beaten < beatInterval {
		return
	}
	s.beaten = max(elapsed, 1)
	err := s.beat(ctx, calls, elapsed)
	if err == nil && (s.forgotten == 0 || elapsed-s.forgotten >= forgetInterval) {
		s.forgotten = max(elapsed, 1)
		err = s.DB.Update(ctx, func(tx *store.Tx) error { return tx.ForgetFirings(ctx, s.Now().Add(-keepFirings)) })
	}
	if err != nil && ctx.Err() == nil {
		s.Logger.WarnContext(ctx, "the firings of time triggers cannot be looked after", "error", err)
	}
}

func (s *Scheduler) beat(ctx, calls context.Context, elapsed time.Duration) error {
	open, err := s.DB.OpenFirings(ctx)
	if err != nil {
		return err
	}
	seen := map[firingKey]sighting{}
	ours := false
	for _, f := range open {
		if s.has(f) {
			ours = ours || f.Process == s.Process
			continue
		}
		key := keyOf(f)
		last, known := s.watched[key]
		if !known || last.attempt != f.Attempt || last.beat != f.Heartbeat {
			last = sighting{f.Attempt, f.Heartbeat, elapsed}
		}
		seen[key] = last
		// What this process's own earlier life left needs no watching.
		if f.Process != s.Process && elapsed-last.at < deadAfter {
			continue
		}
		if err := s.take(ctx, calls, f); err != nil {
			return err
		}
	}
	s.watched = seen
	if !ours {
		return nil
	}
	return s.DB.Update(ctx, func(tx *store.Tx) error { return tx.RenewFirings(ctx, s.Process) })
}

// take runs a firing again whose process died, or ends it.
func (s *Scheduler) take(ctx, calls context.Context, f store.Firing) error {
	live, err := s.DB.IsLive(ctx, f.App, f.Release)
	if err != nil {
		return err
	}
	late := s.Now().Sub(f.Due)
	switch {
	case !live:
		return s.giveUp(ctx, f, "its process died, and its release is not live any more")
	case f.Attempt >= maxAttempts:
		return s.giveUp(ctx, f, fmt.Sprintf("its process died, %d times", f.Attempt))
	case late > MakeUp:
		return s.giveUp(ctx, f, fmt.Sprintf("its process died, and it was due more than %s ago", MakeUp))
	}
	a := s.apps[f.App]
	if a == nil || a.release != f.Release || a.entries[f.Trigger] == nil || !s.enter(f) {
		return nil // the table will tell
	}
	e := a.entries[f.Trigger]
	t, next := e.trigger, e.schedule.Next(f.Due)
	err = s.DB.Update(ctx, func(tx *store.Tx) (err error) {
		f, err = tx.TakeFiring(ctx, f, s.Process)
		return err
	})
	if err != nil {
		s.leave(f)
		return landfall.Ignore(err, landfall.Conflict)
	}
	s.group.Go(func() {
		defer s.leave(f)
		s.run(calls, t, f, next)
	})
	return nil
}

// giveUp ends a firing of a process that died.
func (s *Scheduler) giveUp(ctx context.Context, f store.Firing, why string) error {
	f.State, f.Finished, f.Problem = store.FiringFailed, s.Now(), why
	err := s.DB.Update(ctx, func(tx *store.Tx) error { return tx.MoveFiring(ctx, f) })
	if err == nil {
		s.over(ctx, &registry.Trigger{}, f) // whose release may not be known any more
	}
	return landfall.Ignore(err, landfall.Conflict)
}
