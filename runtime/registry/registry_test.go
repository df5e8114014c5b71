package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

// source is a Source whose state a test sets. Where gate is set, each read sends its name, has its answer, and then
// waits to be let go.
type source struct {
	mu      sync.Mutex
	apps    map[string]registry.App
	changes int64
	err     error
	broken  string // the id of an app that cannot be read
	polled  func() // called at each Changes
	notices chan landfall.AppChange
	beats   chan int64

	gate func(read string)
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changes++
}

func (s *source) Apps(context.Context) ([]registry.App, error) {
	s.mu.Lock()
	var apps []registry.App
	for _, app := range s.apps {
		apps = append(apps, app)
	}
	err := s.err
	s.mu.Unlock()
	if s.gate != nil {
		s.gate("all")
	}
	return apps, err
}

func (s *source) App(_ context.Context, id string) (registry.App, error) {
	s.mu.Lock()
	app, ok := s.apps[id]
	err := s.err
	if id == s.broken {
		err = errors.New("it cannot be read")
	}
	s.mu.Unlock()
	if s.gate != nil {
		s.gate(id)
	}
	if !ok && err == nil {
		err = &landfall.Error{Kind: landfall.NotFound, Message: "no such app"}
	}
	return app, err
}

// Expired knows one release, of the app 1.
func (s *source) Expired(_ context.Context, app, idOrDigits string) (registry.Release, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := registry.Release{ID: "xxxxxxx2", Commit: firstCommit}
	if s.gate != nil {
		s.gate(idOrDigits)
	}
	switch {
	case s.err != nil:
		return registry.Release{}, s.err
	case app == "1" && (idOrDigits == string(old.ID) || strings.HasPrefix(string(old.Commit), idOrDigits)):
		return old, nil
	}
	return registry.Release{}, &landfall.Error{Kind: landfall.NotFound, Message: "no such release"}
}

func (s *source) Changes(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polled != nil {
		s.polled()
	}
	return s.changes, s.err
}

// ChangesSince says that all apps changed just now.
func (s *source) ChangesSince(context.Context, int64) ([]landfall.AppChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []landfall.AppChange
	for id := range s.apps {
		all = append(all, landfall.AppChange{Number: max(1, s.apps[id].Changed), App: id})
	}
	return all, s.err
}

func (s *source) Notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error {
	listening()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-s.notices:
			changed(c)
		}
	}
}

func (s *source) Beat(ctx context.Context, seen int64) error {
	if s.beats == nil {
		return nil
	}
	select {
	case s.beats <- seen:
	case <-ctx.Done():
	}
	return nil
}

// app returns an app with one release, which is live.
func app(id, name string, live landfall.UID) registry.App {
	return registry.App{ID: id, Name: name, Live: live, Releases: []registry.Release{{ID: live}}}
}

func mustRefresh(t *testing.T, r *registry.Registry) {
	t.Helper()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
}

func wantLive(t *testing.T, table *registry.Table, name string, want landfall.UID) {
	t.Helper()
	got := table.Resolve(name, "", false)
	if want == "" {
		if got.Outcome != registry.UnknownApp {
			t.Errorf("%s: got outcome %d, want an unknown app", name, got.Outcome)
		}
		return
	}
	if got.Release == nil || got.Release.ID != want {
		t.Errorf("%s: got %+v, want live release %s", name, got, want)
	}
}

// Before the first refresh there is no table; one app is refreshed without the others; a table that was taken stays.
func TestRefresh(t *testing.T) {
	t.Parallel()
	src := &source{apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2"), "2": app("2", "blog", "bbbbbbb2")}}
	r := &registry.Registry{Source: src}
	if r.Table() != nil {
		t.Fatal("got a table before the first refresh, want none")
	}
	if err := r.RefreshApp(t.Context(), "1"); err != nil {
		t.Fatalf("first refresh: %v", err)
	}
	taken := r.Table()
	wantLive(t, taken, "shop", "aaaaaaa2")
	wantLive(t, taken, "blog", "bbbbbbb2")

	src.set(func() {
		src.apps["1"] = app("1", "shop", "ccccccc2")
		src.apps["2"] = app("2", "blog", "ddddddd2")
	})
	if err := r.RefreshApp(t.Context(), "1"); err != nil {
		t.Fatalf("refresh of one app: %v", err)
	}
	wantLive(t, taken, "shop", "aaaaaaa2")
	wantLive(t, r.Table(), "shop", "ccccccc2")
	wantLive(t, r.Table(), "blog", "bbbbbbb2")

	src.set(func() { delete(src.apps, "1") })
	if err := r.RefreshApp(t.Context(), "1"); err != nil {
		t.Fatalf("refresh of an app that left: %v", err)
	}
	wantLive(t, r.Table(), "shop", "")
}

// What expired is asked for where it is stored, by its ID or its commit's digits, also those of a label that was cut;
// never for what neither can be.
func TestExpired(t *testing.T) {
	t.Parallel()
	const name, long = "shop", "a-shop-with-a-name-that-leaves-little-room"
	src := &source{apps: map[string]registry.App{"1": app("1", name, "aaaaaaa2"), "2": app("2", "blog", "bbbbbbb2")}}
	r := &registry.Registry{Source: src}
	mustRefresh(t, r)
	commit := string(firstCommit)
	var asked []string
	src.gate = func(idOrDigits string) { asked = append(asked, idOrDigits) }
	for _, c := range []struct {
		app, selector string
		joined        bool
		want          landfall.UID
		asked         string
	}{
		{name, "xxxxxxx2", false, "xxxxxxx2", "xxxxxxx2"},
		{name, "xxxxxxx2", true, "xxxxxxx2", "xxxxxxx2"},
		{name, "yyyyyyy2", true, "", "yyyyyyy2"},
		{name, commit, false, "xxxxxxx2", commit},
		{name, commit[:7], true, "xxxxxxx2", commit[:7]},
		{name, commit[:6], false, "", ""},
		{name, "fffffff", false, "", "fffffff"},
		{name, "www", false, "", ""},
		{name, "branch-main", true, "", ""},
		{"blog", "xxxxxxx2", false, "", "xxxxxxx2"},
		{"shoq", "xxxxxxx2", false, "", ""},
	} {
		asked = nil
		got, err := r.Expired(t.Context(), c.app, c.selector, c.joined)
		if err != nil || got != c.want || strings.Join(asked, " ") != c.asked {
			t.Errorf("%s of %s: got %q, %v and the question %q, want %q and %q", c.selector, c.app, got, err, asked,
				c.want, c.asked)
		}
	}
	src.gate = nil
	src.set(func() { src.apps["1"] = app("1", long, "aaaaaaa2") })
	mustRefresh(t, r)
	cut := strings.TrimPrefix(landfall.JoinedLabel(long, commit), long+"--")
	for selector, want := range map[string]landfall.UID{cut: "xxxxxxx2", commit[:9] + "-000000": "", cut + "-": ""} {
		if got, err := r.Expired(t.Context(), long, selector, true); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", selector, got, err, want)
		}
	}
	src.set(func() { src.err = &landfall.Error{Kind: landfall.Unavailable, Err: errors.New("no database")} })
	if got, err := r.Expired(t.Context(), long, "xxxxxxx2", false); landfall.KindOf(err) != landfall.Unavailable ||
		got != "" {
		t.Errorf("got %q, %v while the source fails, want it unavailable", got, err)
	}
}

// However many ask at once, few of them reach the Source.
func TestExpiredIsBounded(t *testing.T) {
	t.Parallel()
	const all = 1000
	src := &slowSource{source: source{apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2")}},
		let: make(chan struct{})}
	r := &registry.Registry{Source: src}
	mustRefresh(t, r)
	refused, known := make(chan error, all), make(chan landfall.UID, all)
	for range all {
		go func() {
			id, err := r.Expired(t.Context(), "shop", "xxxxxxx2", false)
			if err != nil {
				refused <- err
				return
			}
			known <- id
		}()
	}
	const few = 64
	for range all - few {
		if err := <-refused; landfall.KindOf(err) != landfall.Unavailable {
			t.Fatalf("got %v, want it unavailable", err)
		}
	}
	close(src.let)
	for range few {
		if id := <-known; id != "xxxxxxx2" {
			t.Errorf("got %q, want the release", id)
		}
	}
}

// slowSource knows of a release that expired once it is let go.
type slowSource struct {
	source

	let chan struct{}
}

func (s *slowSource) Expired(context.Context, string, string) (registry.Release, error) {
	<-s.let
	return registry.Release{ID: "xxxxxxx2"}, nil
}

// A Source that fails changes nothing, and its kind of error comes out.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	src := &source{apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2")}}
	r := &registry.Registry{Source: src}
	mustRefresh(t, r)
	src.set(func() {
		src.apps["1"] = app("1", "shop", "bbbbbbb2")
		src.err = &landfall.Error{Kind: landfall.Unavailable, Err: errors.New("no database")}
	})
	for name, refresh := range map[string]func() error{
		"all": func() error { return r.Refresh(t.Context()) },
		"one": func() error { return r.RefreshApp(t.Context(), "1") },
	} {
		if got := landfall.KindOf(refresh()); got != landfall.Unavailable {
			t.Errorf("%s: got an error of kind %s, want unavailable", name, got)
		}
		wantLive(t, r.Table(), "shop", "aaaaaaa2")
	}
}

// A read that began earlier and came back later does not undo what a later one showed.
func TestSlowReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slow, fast string
		change     func(*source)
		shop       landfall.UID
	}{
		{"1", "1", func(s *source) { s.apps["1"] = app("1", "shop", "bbbbbbb2") }, "bbbbbbb2"},
		{"all", "1", func(s *source) { s.apps["1"] = app("1", "shop", "bbbbbbb2") }, "bbbbbbb2"},
		{"1", "all", func(s *source) { s.apps["1"] = app("1", "shop", "bbbbbbb2") }, "bbbbbbb2"},
		{"all", "all", func(s *source) { s.apps["1"] = app("1", "shop", "bbbbbbb2") }, "bbbbbbb2"},
		{"1", "all", func(s *source) { delete(s.apps, "1") }, ""},
		{"all", "1", func(s *source) { delete(s.apps, "1") }, ""},
		{"all", "all", func(s *source) { delete(s.apps, "1") }, ""},
	} {
		t.Run(fmt.Sprintf("%s then %s", c.slow, c.fast), func(t *testing.T) {
			t.Parallel()
			src := &source{apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2")}}
			r := &registry.Registry{Source: src}
			mustRefresh(t, r)
			refresh := func(which string) error {
				if which == "all" {
					return r.Refresh(t.Context())
				}
				return r.RefreshApp(t.Context(), which)
			}
			begun, release := make(chan struct{}), make(chan struct{})
			var first sync.Once
			src.gate = func(string) {
				slow := false
				first.Do(func() { slow = true })
				if slow {
					close(begun)
					<-release
				}
			}
			done := make(chan error, 1)
			go func() { done <- refresh(c.slow) }()
			<-begun
			src.set(func() { c.change(src) })
			if err := refresh(c.fast); err != nil {
				t.Errorf("the fast read: %v", err)
			}
			close(release)
			if err := <-done; err != nil {
				t.Errorf("the slow read: %v", err)
			}
			wantLive(t, r.Table(), "shop", c.shop)
		})
	}
}

// Run sees what nobody gave notice of, goes on after failures, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	polls := make(chan struct{})
	src := &source{apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2")}}
	src.polled = func() {
		select {
		case polls <- struct{}{}:
		case <-ctx.Done():
		}
	}
	r := &registry.Registry{Source: src, Peers: src, Interval: time.Microsecond}
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	twice := func() { // the poll that was under way, and one that began later and ended
		<-polls
		<-polls
		<-polls
	}
	twice()
	wantLive(t, r.Table(), "shop", "aaaaaaa2")

	fail := func(err error, live landfall.UID) func() {
		return func() { src.err = err; src.apps["1"] = app("1", "shop", live) }
	}
	setWhilePolled(src, polls, fail(errors.New("no database"), "bbbbbbb2"))
	twice()
	wantLive(t, r.Table(), "shop", "aaaaaaa2")
	setWhilePolled(src, polls, fail(nil, "ccccccc2"))
	twice()
	wantLive(t, r.Table(), "shop", "ccccccc2")

	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v from Run at its end, want nothing", err)
	}
}

// What was read before Run began is not read again by it: that takes long where there is much.
func TestOpen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var reads []string
	src := &source{
		apps: map[string]registry.App{"1": app("1", "shop", "aaaaaaa2")}, changes: 3,
		beats: make(chan int64), gate: func(read string) { reads = append(reads, read) },
	}
	r := &registry.Registry{Source: src, Peers: src, Interval: time.Hour}
	if err := r.Open(ctx); err != nil {
		t.Fatal(err)
	}
	wantLive(t, r.Table(), "shop", "aaaaaaa2")
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if seen := <-src.beats; seen != 3 {
		t.Errorf("got change %d shown, want 3", seen)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []string{"all"}; !slices.Equal(reads, want) {
		t.Errorf("got reads %v, want %v", reads, want)
	}
}

// Of what nobody gave notice of only the apps that changed are read, and none that this process has read since: there
// may be many apps, with many releases.
func TestPollReadsWhatChanged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shown := func(id, name string, live landfall.UID, change int64) registry.App {
		a := app(id, name, live)
		a.Changed = change
		return a
	}
	var reads []string
	src := &source{changes: 2, beats: make(chan int64), gate: func(read string) {
		reads = append(reads, read)
	}, apps: map[string]registry.App{
		"1": shown("1", "shop", "aaaaaaa2", 1), "2": shown("2", "blog", "bbbbbbb2", 2),
		"3": shown("3", "docs", "ccccccc2", 2)}}
	r := &registry.Registry{Source: src, Peers: src, Interval: time.Microsecond}
	if err := r.Open(ctx); err != nil {
		t.Fatal(err)
	}
	src.set(func() { src.apps["1"] = shown("1", "shop", "ddddddd2", 3) })
	if err := r.RefreshApp(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	src.set(func() { src.apps["2"] = shown("2", "blog", "eeeeeee2", 4) })
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for seen := int64(0); seen != 4; {
		select {
		case seen = <-src.beats:
		case <-ctx.Done():
			t.Fatal("it was never told that all is shown")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantLive(t, r.Table(), "shop", "ddddddd2")
	wantLive(t, r.Table(), "blog", "eeeeeee2")
	if want := []string{"all", "1", "2"}; !slices.Equal(reads, want) {
		t.Errorf("got reads %v, want %v", reads, want)
	}
}

// An app that cannot be read keeps back no other one, whether its change is polled or heard of.
func TestUnreadableApp(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"polled", "heard"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		src := &source{apps: map[string]registry.App{}, broken: "1", notices: make(chan landfall.AppChange, 1), changes: 1}
		const others = 8
		for i := range others {
			id := fmt.Sprint(i + 1)
			src.apps[id] = app(id, "app"+id, "aaaaaaa2")
		}
		r := &registry.Registry{Source: src, Peers: src, Interval: time.Microsecond}
		if err := r.Open(ctx); err != nil {
			t.Fatal(err)
		}
		src.set(func() {
			for id := range src.apps {
				src.apps[id] = app(id, "app"+id, "bbbbbbb2")
			}
		})
		if how == "heard" {
			r.Interval = time.Hour
			src.notices <- landfall.AppChange{} // all that was lost
		}
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for id := 2; id <= others; id++ {
			name := fmt.Sprint("app", id)
			for r.Table().Resolve(name, "", false).Release.ID != "bbbbbbb2" {
				if ctx.Err() != nil {
					t.Fatalf("%s: %s is not shown as it is", how, name)
				}
				<-time.After(time.Millisecond)
			}
		}
		wantLive(t, r.Table(), "app1", "aaaaaaa2")
		cancel()
		<-done
	}
}

// setWhilePolled changes src although its lock is held by a poll that waits to be seen.
func setWhilePolled(src *source, polls <-chan struct{}, change func()) {
	set := make(chan struct{})
	go func() {
		src.set(change)
		close(set)
	}()
	for {
		select {
		case <-polls:
		case <-set:
			return
		}
	}
}

// What others change is shown once there is notice of it, and what a notice was lost of, too; each time it is told how
// much is shown. Polling would come too late.
func TestNotices(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var reads []string
	src := &source{
		apps:    map[string]registry.App{"1": app("1", "shop", "aaaaaaa2"), "2": app("2", "blog", "bbbbbbb2")},
		notices: make(chan landfall.AppChange), beats: make(chan int64), gate: func(read string) {
			reads = append(reads, read)
		},
	}
	r := &registry.Registry{Source: src, Peers: src, Interval: time.Hour}
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	until := func(want int64) {
		t.Helper()
		for seen := int64(-1); seen != want; {
			select {
			case seen = <-src.beats:
			case <-ctx.Done():
				t.Fatalf("it was never told that %d is shown", want)
			}
		}
	}
	change := func(n int64, id string, live landfall.UID) landfall.AppChange {
		src.set(func() {
			changed := app(id, src.apps[id].Name, live)
			changed.Changed, src.changes = n, n-1
			src.apps[id] = changed
		})
		return landfall.AppChange{Number: n, App: id}
	}
	until(0) // at the start
	until(0) // when it listens
	reads = nil
	src.notices <- change(1, "1", "ccccccc2")
	until(1)
	wantLive(t, r.Table(), "shop", "ccccccc2")
	if want := []string{"1"}; !slices.Equal(reads, want) {
		t.Errorf("after a notice %q was read, want %q", reads, want)
	}
	change(2, "2", "ddddddd2") // and nobody hears of it
	src.notices <- change(3, "1", "eeeeeee2")
	until(3)
	wantLive(t, r.Table(), "shop", "eeeeeee2")
	wantLive(t, r.Table(), "blog", "ddddddd2")
	src.notices <- landfall.AppChange{Number: 2, App: "2"} // late
	until(3)
	if r.Shown("1") != 3 || r.Shown("2") != 2 || r.Shown("3") != 0 {
		t.Errorf("it shows %d, %d and %d, want 3, 2 and 0", r.Shown("1"), r.Shown("2"), r.Shown("3"))
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v from Run at its end, want nothing", err)
	}
}

// Any number of refreshes at once end with the newest state, and no reader ever sees an app missing.
func TestConcurrentRefreshes(t *testing.T) {
	t.Parallel()
	src := &source{apps: map[string]registry.App{}}
	names := []string{"shop", "blog", "docs"}
	for i, name := range names {
		src.apps[name] = app(name, name, landfall.UID(fmt.Sprintf("aaaaaaa%d", i)))
	}
	r := &registry.Registry{Source: src}
	mustRefresh(t, r)
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			table := r.Table()
			for _, name := range names {
				if table.Resolve(name, "", false).Outcome != registry.Found {
					t.Errorf("%s was missing from a table", name)
				}
			}
		}
	})
	for i, name := range slices.Repeat(names, 3) {
		writers.Go(func() {
			for n := range 100 {
				src.set(func() { src.apps[name] = app(name, name, landfall.UID(fmt.Sprintf("u%d-%d", i, n))) })
				if err := r.RefreshApp(t.Context(), name); err != nil {
					t.Errorf("refresh: %v", err)
				}
				if n%10 == 0 {
					if err := r.Refresh(t.Context()); err != nil {
						t.Errorf("refresh of all: %v", err)
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	for _, name := range names {
		wantLive(t, r.Table(), name, src.apps[name].Live)
	}
}

// An app that cannot be read when everything begins holds no other back, and is there as soon as it can be.
func TestOpenWithAnAppThatCannotBeRead(t *testing.T) {
	t.Parallel()
	src := &source{apps: map[string]registry.App{"1": {ID: "1", Name: "shop", Unread: true},
		"2": app("2", "blog", "bbbbbbb2")}, broken: "1", changes: 7}
	r := &registry.Registry{Source: src, Peers: src, Interval: time.Millisecond}
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLive(t, r.Table(), "blog", "bbbbbbb2")
	for _, selector := range []string{"", "latest", "aaaaaaa2"} {
		if got := r.Table().Resolve("shop", selector, false).Outcome; got != registry.UnreadApp {
			t.Errorf("%q: got outcome %d, want one that is not read", selector, got)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	src.mu.Lock() // nothing is announced
	src.apps["1"], src.broken = app("1", "shop", "aaaaaaa2"), ""
	src.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); r.Table().Resolve("shop", "", false).Outcome != registry.Found; {
		if time.Now().After(deadline) {
			t.Fatal("it is not read again")
		}
		runtime.Gosched()
	}
	wantLive(t, r.Table(), "shop", "aaaaaaa2")
	wantLive(t, r.Table(), "blog", "bbbbbbb2")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
