package schedule_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/schedule"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// caller is how a test answers a call.
type caller func(ctx context.Context, t *registry.Trigger, e event.Event) (event.Event, error)

// callers is the Caller of a world.
type callers struct{ w *world }

// Call implements function.Caller.
func (c callers) Call(ctx context.Context, call function.Call) (event.Event, error) {
	if call.Function != nil {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.called[call.Function.Name]++
		if c.w.each != nil {
			return event.Answer(call.Event, "answer"), c.w.each(call.Function.Name)
		}
		return event.Answer(call.Event, "answer"), nil
	}
	return c.w.invoke(ctx, call.Trigger, call.Event)
}

// world is a store, a table of live releases, and a clock that the test sets.
type world struct {
	t       *testing.T
	db      *store.DB
	apps    map[string]*landfall.App
	live    map[string][]*registry.Trigger
	table   atomic.Pointer[registry.Table]
	now     atomic.Int64 // microseconds
	elapsed atomic.Int64
	logs    logtest.Buffer

	mu      sync.Mutex
	called  map[string]int          // functions of tags, by name
	each    func(name string) error // how each of them answers; nil: it succeeds
	invoked []string                // RELEASE NAME DUE
	states  map[store.FiringState]int
	call    caller // nil: succeeds
}

func newWorld(t *testing.T, db *store.DB, now string) *world {
	t.Helper()
	w := &world{t: t, db: db, apps: map[string]*landfall.App{}, live: map[string][]*registry.Trigger{},
		states: map[store.FiringState]int{}, called: map[string]int{}}
	w.set(now)
	w.table.Store(registry.New(nil))
	return w
}

// sqlite returns a world whose store is a file.
func sqlite(t *testing.T, now string) *world {
	t.Helper()
	return newWorld(t, storetest.Open(t, storetest.SQLite(t)), now)
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// set sets the clock, and no time passes.
func (w *world) set(now string) {
	w.t.Helper()
	w.now.Store(moment(w.t, now).UnixMicro())
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.now.Add(d.Microseconds())
	w.elapsed.Add(int64(d))
}

func (w *world) clock() time.Time { return time.UnixMicro(w.now.Load()).UTC() }

// timer returns a time trigger.
func timer(name, cron, zone string) *registry.Trigger {
	return &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.TimeTrigger,
		Time: landfall.TimeSource{Cron: cron, TimeZone: zone, Method: "POST", Subpath: "/"}}, Name: name}
}

// release makes a release of an app live.
func (w *world) release(name string, release landfall.UID, triggers ...*registry.Trigger) {
	w.t.Helper()
	ctx := w.t.Context()
	err := w.db.Update(ctx, func(tx *store.Tx) error {
		app, ok := w.apps[name]
		if !ok {
			app = &landfall.App{ID: "id-" + name, Namespace: "default", Name: name, Created: w.clock(), Branch: "main"}
			w.apps[name] = app
			if err := tx.EnsureNamespace(ctx, "default", 1); err != nil {
				return err
			}
			if err := tx.CreateApp(ctx, *app); err != nil {
				return err
			}
		}
		if err := tx.CreateMove(ctx, landfall.Move{App: app.ID, Pointer: landfall.LivePointer, From: app.Live, To: release,
			At: w.clock()}); err != nil {
			return err
		}
		app.Live = release
		return tx.UpdateApp(ctx, *app)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.live[name] = triggers
	w.show()
}

// show makes what is live what the processes see.
func (w *world) show() {
	var apps []registry.App
	for name, triggers := range w.live {
		app := w.apps[name]
		for _, t := range triggers {
			t.App, t.AppName, t.Namespace, t.Release = app.ID, name, "default", app.Live
		}
		apps = append(apps, registry.App{ID: app.ID, Name: name, Live: app.Live,
			Releases: []registry.Release{{ID: app.Live, Triggers: triggers}}})
	}
	w.table.Store(registry.New(apps))
}

// start starts a process.
func (w *world) start(process string) *schedule.Scheduler {
	return &schedule.Scheduler{
		DB: w.db, Table: w.table.Load, Functions: callers{w}, Process: process, Now: w.clock,
		Elapsed: func() time.Duration { return time.Duration(w.elapsed.Load()) },
		Fired: func(state store.FiringState) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.states[state]++
		},
		Logger: slog.New(slog.NewTextHandler(&w.logs, nil)),
	}
}

func (w *world) invoke(ctx context.Context, t *registry.Trigger, e event.Event) (event.Event, error) {
	w.mu.Lock()
	w.invoked = append(w.invoked, string(t.Release)+" "+t.Name+" "+e.ID())
	call := w.call
	w.mu.Unlock()
	if call == nil {
		return event.Answer(e, "answer"), nil
	}
	return call(ctx, t, e)
}

// look lets processes look at the clock, and waits for what they fire.
func (w *world) look(processes ...*schedule.Scheduler) {
	for _, s := range processes {
		s.Pass(w.t.Context(), w.t.Context())
	}
	for _, s := range processes {
		s.Wait()
	}
}

// fired returns what was fired since the last time that it was asked, sorted: RELEASE NAME DUE.
func (w *world) fired() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.invoked
	w.invoked = nil
	slices.Sort(got)
	return got
}

// want fails unless these were fired since the last time that it was asked, in any order.
func (w *world) want(what string, want ...string) {
	w.t.Helper()
	got := w.fired()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: fired\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// last returns the newest firing of a trigger.
func (w *world) last(app, name string) store.Firing {
	w.t.Helper()
	all, err := w.db.LastFirings(w.t.Context(), w.apps[app].ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return all[name]
}
