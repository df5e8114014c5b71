package history_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/registry/stored"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// installation is all rooms by which releases are made and served, over one database. Each history has an app and a
// namespace of its own in it.
type installation struct {
	db       *store.DB
	git      repository
	refs     *references
	objects  *objects
	acceptor *accept.Acceptor
	runs     *runs.Runs
	pipeline *pipeline.Pipeline
	editor   *deploy.Editor
	rollout  *deploy.Rollout
	upkeep   *upkeep.Upkeep
	registry *registry.Registry
	clock    *clock
	meter    *meter
	apps     atomic.Int64
}

// newInstallation opens an installation over a database, as whose leader it goes on until t ends.
func newInstallation(t *testing.T, address string) *installation {
	t.Helper()
	i := &installation{db: storetest.Open(t, address), git: newRepository(t), objects: &objects{there: map[string][]byte{}},
		clock: &clock{}, meter: &meter{}}
	logger := slog.New(slog.DiscardHandler)
	i.refs = &references{path: i.git.path, named: map[string]map[landfall.RefName]landfall.CommitSHA{}}
	i.registry = &registry.Registry{Source: source{stored.Source{DB: i.db, Process: "history", Logger: logger}}}
	if err := i.registry.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.rollout = &deploy.Rollout{DB: i.db, Gateways: gateways{i.registry}, Logger: logger}
	releaseURL := func(app string, selector landfall.UID) string { return app + "--" + string(selector) }
	i.runs = &runs.Runs{DB: i.db, Rollout: i.rollout, RunURL: func(run string) string { return run }, ReleaseURL: releaseURL,
		Reporting: true, Now: i.clock.Now, Logger: logger}
	mirrors := &builder.Mirrors{Root: t.TempDir()}
	i.acceptor = &accept.Acceptor{DB: i.db, Runs: i.runs, Rollout: i.rollout, Mirrors: mirrors, Remote: i.refs,
		Now: i.clock.Now, Logger: logger}
	secrets := testkit.Must(secret.ParseKey(testkit.Must(secret.NewKey())(t)))(t)
	i.pipeline = &pipeline.Pipeline{
		DB: i.db, Mirrors: mirrors, Objects: i.objects, Manifests: &assets.Manifests{Store: i.objects}, Acceptor: i.acceptor,
		Rollout: i.rollout, Runs: i.runs, Secrets: secrets, Scratch: t.TempDir(),
		Builds: &pipeline.Builds{Folder: t.TempDir()}, Worker: "history", Meter: i.meter,
		Now: i.clock.Now, Logger: logger,
	}
	i.editor = &deploy.Editor{DB: i.db, Secrets: secrets, ReleaseURL: releaseURL, Rollout: i.rollout, Now: i.clock.Now}
	i.upkeep = &upkeep.Upkeep{DB: i.db, Runs: i.runs, Rollout: i.rollout, Objects: i.objects, Mirrors: mirrors,
		Repositories: noRepositories{}, Builds: i.pipeline.Builds, Now: i.clock.Now, Logger: logger}
	if store.IsPostgres(address) { // a file has the leader that opens it
		lead(t, i.db)
	}
	return i
}

// lead makes this process the leader until t ends.
func lead(t *testing.T, db *store.DB) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	leads := make(chan struct{}, 1)
	group.Go(func() {
		_ = db.Lead(ctx, func() { leads <- struct{}{} })
	})
	<-leads
	t.Cleanup(func() {
		stop()
		group.Wait()
	})
}

// clock is a millisecond later each time that it is asked.
type clock struct{ ticks atomic.Int64 }

func (c *clock) Now() time.Time { return noon.Add(time.Duration(c.ticks.Add(1)) * time.Millisecond) }

// pass lets time pass.
func (c *clock) pass(d time.Duration) { c.ticks.Add(d.Milliseconds()) }

// meter is told of each step of a run when it is done, outside of all transactions.
type meter struct {
	mu      sync.Mutex
	at      landfall.Step
	between func() // is called once when the step at is done; nil: nothing is
}

func (m *meter) set(at landfall.Step, between func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.between = at, between
}

// StepDone implements pipeline.Meter.
func (m *meter) StepDone(step landfall.Step, _ time.Duration) {
	m.mu.Lock()
	between := m.between
	m.mu.Unlock()
	if between != nil && step == m.at {
		between()
	}
}

// Released implements pipeline.Meter.
func (m *meter) Released(time.Duration) {}

// references are those of the built-in remote. All apps have the same commits.
type references struct {
	path string

	mu    sync.Mutex
	named map[string]map[landfall.RefName]landfall.CommitSHA
}

var _ accept.Remote = &references{}

func (r *references) Heads(_ context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.named[app]), nil
}

func (r *references) Named(ctx context.Context, app string,
	_ []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return r.Heads(ctx, app)
}

func (r *references) Lacks(context.Context, string, []landfall.CommitSHA) ([]landfall.CommitSHA, error) {
	return nil, nil
}
func (r *references) Path(string) string                            { return r.path }
func (r *references) SetHead(context.Context, string, string) error { return nil }

// move points a reference at a commit, or removes it, and returns where it was.
func (r *references) move(app string, ref landfall.RefName, to landfall.CommitSHA) (before landfall.CommitSHA) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.named[app] == nil {
		r.named[app] = map[landfall.RefName]landfall.CommitSHA{}
	}
	before = r.named[app][ref]
	r.named[app][ref] = to
	if to == "" {
		delete(r.named[app], ref)
	}
	return before
}

// noRepositories are repositories that nobody repacks.
type noRepositories struct{}

func (noRepositories) OldApplies(context.Context, string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return nil, nil //nolint:nilnil // there are none
}
func (noRepositories) DropApplies(context.Context, string, []landfall.RefName) error { return nil }
func (noRepositories) Path(string) string                                            { return "" }
func (noRepositories) Repack(context.Context, string) error                          { return nil }
func (noRepositories) Remove(context.Context, string) error                          { return nil }

// source shows the apps that were ever asked for, so that a history does not read those of all others.
type source struct{ stored.Source }

func (source) Apps(context.Context) ([]registry.App, error) { return nil, nil }

// gateways are those of this process: the table.
type gateways struct{ *registry.Registry }

func (g gateways) Shown(_ context.Context, app string) (int64, error) {
	return g.Registry.Shown(app), nil
}

// objects is an object store in memory.
type objects struct {
	mu      sync.Mutex
	there   map[string][]byte
	between func() // is called before the next change or list, outside of all transactions; nil: nothing is
}

var _ assets.Store = &objects{}

// set sets what happens in between.
func (o *objects) set(between func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.between = between
}

func (o *objects) pause() {
	o.mu.Lock()
	between := o.between
	o.between = nil // what it does may change something itself
	o.mu.Unlock()
	if between != nil {
		between()
	}
}

type object struct{ *bytes.Reader }

func (object) Close() error  { return nil }
func (o object) Size() int64 { return o.Reader.Size() }

func (o *objects) Open(_ context.Context, key string) (assets.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data, ok := o.there[key]
	if !ok {
		return nil, landfall.Errorf("objects.Open", landfall.NotFound, "there is no object %q", key)
	}
	return object{bytes.NewReader(data)}, nil
}

func (o *objects) Create(_ context.Context, key string, r io.Reader, _ int64) (landfall.Digest, error) {
	o.pause()
	data, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.there[key]; ok {
		return "", landfall.Errorf("objects.Create", landfall.Conflict, "there is an object %q", key)
	}
	o.there[key] = data
	return landfall.DigestOf(data), nil
}

func (o *objects) Delete(_ context.Context, key string) error {
	o.pause()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.there, key)
	return nil
}

func (o *objects) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	o.pause()
	return func(yield func(string, error) bool) {
		for _, key := range o.keys(prefix) {
			if !yield(key, nil) {
				return
			}
		}
	}
}

func (o *objects) keys(prefix string) (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.there {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// forget deletes all below a prefix.
func (o *objects) forget(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.there {
		if strings.HasPrefix(key, prefix) {
			delete(o.there, key)
		}
	}
}

func (o *objects) Sync(context.Context) error { return nil }
