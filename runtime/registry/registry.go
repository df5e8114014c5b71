package registry

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
)

// DefaultInterval is how often Run looks for changes whose notice was lost.
const DefaultInterval = 2 * time.Second

// Source is where apps are read from.
type Source interface {
	// Apps returns every app, deleted ones included. One that cannot be read by itself is Unread.
	Apps(ctx context.Context) ([]App, error)
	// App returns the app with that ID, or a NotFound error.
	App(ctx context.Context, id string) (App, error)
	// Expired returns the expired release of an app with that ID, or else the newest one of those whose commits begin with
	// the digits, or a NotFound error.
	Expired(ctx context.Context, app, idOrDigits string) (Release, error)

	Journal
}

// Journal numbers the changes of what a Source returns.
type Journal interface {
	// Changes returns the number of the newest change of what Apps shows: they ascend by one.
	Changes(ctx context.Context) (int64, error)
	// ChangesSince returns the newest change of each app that has one behind a number.
	ChangesSince(ctx context.Context, number int64) ([]landfall.AppChange, error)
}

// Peers are the processes that share a Source.
type Peers interface {
	// Notices calls listening, and from then on changed for each change that other processes make, until ctx ends or it
	// cannot hear any more. Without peers it only waits.
	Notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error
	// Beat tells them that all changes up to a number are shown here.
	Beat(ctx context.Context, seen int64) error
}

// Registry keeps the newest table. While its Source fails it keeps the table that it has; what it could not read of one
// app holds no other back. Its methods may be called at the same time.
type Registry struct {
	Source   Source
	Peers    Peers
	Interval time.Duration // of Run; 0: DefaultInterval
	Log      *slog.Logger  // what Run could not read; nil: nowhere

	// Prepare is given the functions of an app that changed, by their IDs, before the table shows them; nil: nobody asks.
	// What it takes, the change waits for.
	Prepare func(ctx context.Context, functions map[string]*landfall.Function)

	table  atomic.Pointer[Table]
	opened int64        // the newest change that Open saw
	asked  atomic.Int64 // how many are in Expired

	mu    sync.Mutex
	reads uint64            // counts the reads of Source in the order in which they began
	full  uint64            // the newest Refresh that the table shows
	apps  map[string]uint64 // app ID to the RefreshApp, newer than full, that the table shows
}

// Table returns the newest table; nil until the first Refresh succeeded.
func (r *Registry) Table() *Table { return r.table.Load() }

// Refresh reads all apps and swaps the table. It returns the Source's error and then changes nothing.
// An app that RefreshApp began to read later stays as that read it.
func (r *Registry) Refresh(ctx context.Context) error {
	read := r.begin()
	apps, err := r.Source.Apps(ctx)
	if err != nil {
		return &landfall.Error{Op: "registry.refresh", Kind: landfall.KindOf(err), Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full > read {
		return nil // a read that began later was faster
	}
	r.full = read
	for i, app := range apps {
		if old := r.Table(); app.Unread && old != nil && old.ids[app.ID] != nil {
			apps[i] = old.ids[app.ID].app
		}
	}
	next := New(apps)
	for id, later := range r.apps {
		if later < read {
			delete(r.apps, id)
			continue
		}
		next = next.without(id)
		if s, ok := r.table.Load().ids[id]; ok {
			next.put(s.app)
		}
	}
	r.table.Store(next)
	return nil
}

// Open is the first Refresh, from which Run goes on: it does not read again what did not change since.
func (r *Registry) Open(ctx context.Context) error {
	seen, err := r.poll(ctx, 0)
	r.opened = seen
	return err
}

// RefreshApp reads one app and swaps the table. An app that the Source does not find leaves the table. It returns the
// Source's other errors and then changes nothing. Before the first Refresh it reads all.
func (r *Registry) RefreshApp(ctx context.Context, id string) error {
	if r.Table() == nil {
		return r.Refresh(ctx)
	}
	read := r.begin()
	app, err := r.Source.App(ctx, id)
	gone := landfall.Is(err, landfall.NotFound)
	if err != nil && !gone {
		return &landfall.Error{Op: "registry.refreshApp", Kind: landfall.KindOf(err), Err: err}
	}
	if !gone && r.Prepare != nil {
		r.Prepare(ctx, New([]App{app}).Functions())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if max(r.full, r.apps[id]) > read {
		return nil // a read that began later was faster
	}
	if r.apps == nil {
		r.apps = make(map[string]uint64)
	}
	r.apps[id] = read
	if gone {
		r.table.Store(r.table.Load().without(id))
		return nil
	}
	r.table.Store(r.table.Load().with(app))
	return nil
}

func (r *Registry) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	return r.reads
}

// Shown returns the newest change that the table shows of an app.
func (r *Registry) Shown(id string) int64 {
	if t := r.Table(); t != nil {
		if app, ok := t.ids[id]; ok {
			return app.app.Changed
		}
	}
	return 0
}

// The bounds of Expired: anybody can ask for any address.
const (
	maxAsked     = 64 // questions at once
	expiredLimit = 2 * time.Second
)

// Expired returns the expired release that the label selector means for the app with that name, as in Table.Resolve,
// which did not know it; nothing when there is none. It asks the Source, which may have any number of them, and returns
// its error; Unavailable when too many ask.
func (r *Registry) Expired(ctx context.Context, app, selector string, joined bool) (landfall.UID, error) {
	s, ok := r.Table().names[app]
	digits, _, cut := strings.Cut(selector, "-") // a commit that does not fit into its label is a slug
	if !ok || !landfall.IsUID(selector) && !isCommit(digits) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, expiredLimit)
	defer cancel()
	defer r.asked.Add(-1)
	if r.asked.Add(1) > maxAsked {
		return "", landfall.Errorf("registry.expired", landfall.Unavailable, "too many ask for releases that are not there")
	}
	release, err := r.Source.Expired(ctx, s.app.ID, digits)
	switch {
	case landfall.Is(err, landfall.NotFound):
		return "", nil
	case err != nil:
		return "", &landfall.Error{Op: "registry.expired", Kind: landfall.KindOf(err), Err: err}
	case cut && s.label(string(release.Commit), joined) != selector:
		return "", nil
	}
	return release.ID, nil
}

// maxHeard is how many notices may wait. Those beyond it are lost, which the next one shows.
const maxHeard = 1000

// Run refreshes at once, unless nothing changed since Open, then what Peers give notice of, and what else changes in
// the Source, until ctx ends. It returns nil.
func (r *Registry) Run(ctx context.Context) error {
	interval := r.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	heard := make(chan landfall.AppChange, maxHeard)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.listen(ctx, interval, heard) })
	tick := time.NewTicker(interval)
	defer tick.Stop()
	seen, err := r.poll(ctx, r.opened)
	for {
		r.told(ctx, seen, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.readAgain(ctx)
			seen, err = r.poll(ctx, seen)
		case c := <-heard:
			seen, err = r.hear(ctx, seen, c, heard)
		}
	}
}

// readAgain reads the apps that could not be read.
func (r *Registry) readAgain(ctx context.Context) {
	if r.Table() == nil {
		return
	}
	for _, id := range r.Table().unread() {
		if err := r.RefreshApp(ctx, id); err == nil && r.Log != nil {
			r.Log.InfoContext(ctx, "an app can be read again", "app_id", id)
		}
	}
}

// told beats, or says what went wrong.
func (r *Registry) told(ctx context.Context, seen int64, err error) {
	if err == nil {
		err = r.Peers.Beat(ctx, seen)
	}
	if err != nil && ctx.Err() == nil && r.Log != nil {
		r.Log.WarnContext(ctx, "routes not refreshed; the old ones stay", "error", err)
	}
}

// listen passes on what Peers give notice of. The zero AppChange stands for all that was lost.
func (r *Registry) listen(ctx context.Context, interval time.Duration, heard chan<- landfall.AppChange) {
	pass := func(c landfall.AppChange) {
		select {
		case heard <- c:
		default: // the next one will not be the successor of the last one
		}
	}
	for {
		err := r.Peers.Notices(ctx, func() { pass(landfall.AppChange{}) }, pass)
		if err != nil && ctx.Err() == nil && r.Log != nil {
			r.Log.WarnContext(ctx, "changes are found by polling", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// hear refreshes the apps of a notice and of those that wait behind it, and returns what is seen then.
func (r *Registry) hear(
	ctx context.Context, seen int64, c landfall.AppChange, more <-chan landfall.AppChange,
) (int64, error) {
	last := seen
	apps := map[string]int64{}
	for {
		switch {
		case c.Number == last+1:
			last, apps[c.App] = c.Number, c.Number
		case c.Number == 0 || c.Number > last:
			return r.poll(ctx, seen) // one was lost
		}
		select {
		case c = <-more:
			continue
		default:
		}
		break
	}
	var failed error
	for id, number := range apps {
		failed = cmp.Or(failed, r.catchUp(ctx, landfall.AppChange{Number: number, App: id}))
	}
	if failed != nil {
		return seen, failed // polling finds it
	}
	return last, nil
}

// catchUp refreshes an app unless a change of it is shown already: this process did it.
func (r *Registry) catchUp(ctx context.Context, c landfall.AppChange) error {
	if r.Shown(c.App) >= c.Number {
		return nil
	}
	return r.RefreshApp(ctx, c.App)
}

// poll refreshes what changed since seen, all at first, and returns what is seen then.
func (r *Registry) poll(ctx context.Context, seen int64) (int64, error) {
	changes, err := r.Source.Changes(ctx)
	if err != nil {
		return seen, &landfall.Error{Op: "registry.poll", Kind: landfall.KindOf(err), Err: err}
	}
	if changes == seen && r.Table() != nil {
		return seen, nil
	}
	if r.Table() == nil {
		err := r.Refresh(ctx)
		if err != nil {
			changes = seen
		}
		return changes, err
	}
	apps, err := r.Source.ChangesSince(ctx, seen)
	if err != nil {
		return seen, &landfall.Error{Op: "registry.poll", Kind: landfall.KindOf(err), Err: err}
	}
	var failed error
	for _, c := range apps { // one that cannot be read keeps none of the others back
		failed = cmp.Or(failed, r.catchUp(ctx, c))
	}
	if failed != nil {
		return seen, failed
	}
	return changes, nil
}
