package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// soak is a server, the apps that are pushed to, and what was measured.
type soak struct {
	*site.Site
	apps    []*soakedApp
	visitor *http.Client
	took    []time.Duration // of the pushes since the last sample, by the place of the push
	samples []soakSample
	told    strings.Builder
	since   time.Time     // the last sample
	worked  time.Duration // what the server had worked then
}

// visit asks a host for / and returns what it answers, and of which release that is.
func (s *soak) visit(ctx context.Context, host string) (status int, release landfall.UID, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.At(host, "/"), nil)
	if err != nil {
		return 0, "", "", err
	}
	resp, err := s.visitor.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, landfall.UID(resp.Header.Get("Landfall-Release")), string(data), err
}

// soakSample is what was measured after so many pushes, by the names of soakFigures.
type soakSample struct {
	pushes int
	at     time.Time
	values map[string]float64
	tables map[string]storetest.Table
}

// A figure is what is measured. Flat means: between the second fifth of the samples (the first is warming up) and the
// last one it grows by less than flatRatio and the slack, which is what a single pool, garbage collection or sweep
// comes to. What cannot be flat grows by no more than so much for each push.
type figure struct {
	name    string
	unit    float64 // what is told is the value divided by it
	slack   float64
	perPush float64 // 0: flat
	why     string  // it is not flat
	free    bool    // it is told only
	digits  int     // behind the point
}

const (
	flatRatio = 1.15
	kib       = 1 << 10
	mib       = 1 << 20
)

// soakFigures are the columns of the table. The heap is what the garbage collector lets it grow to: twice what lives.
func soakFigures() []figure {
	const known = "64 MiB of the bodies served last are not reached"
	return []figure{
		{name: "rss MiB", unit: mib, digits: 1, slack: 8 * mib, perPush: 4 * kib, why: known},
		{name: "peak MiB", unit: mib, digits: 1, slack: 8 * mib, perPush: 4 * kib, why: known},
		{name: "heap MiB", unit: mib, digits: 1, slack: 4 * mib, perPush: 4 * kib, why: known},
		{name: "bodies MiB", unit: mib, digits: 1, free: true},
		{name: "fds", unit: 1, slack: 8},
		{name: "goroutines", unit: 1, slack: 16},
		{name: "threads", unit: 1, slack: 8},
		{name: "objects", unit: 1, slack: 100},
		{name: "objects KiB", unit: kib, slack: mib},
		{name: "caches KiB", unit: kib, slack: mib},
		{name: "scratch", unit: 1, slack: 8},
		{name: "rows that go", unit: 1, free: true},
		{name: "per recent push", unit: 1, digits: 1, slack: 3},
		{name: "rows kept", unit: 1, perPush: 12,
			why: "pushes, versions, group versions, applies, expired releases and the history of live stay for ever"},
		{name: "kept MiB", unit: mib, digits: 1, perPush: 4.5 * kib, slack: mib,
			why: "the bytes of these rows and their indexes"},
		{name: "database MiB", unit: mib, digits: 1, perPush: 6 * kib, slack: 8 * mib,
			why: "the same, and room that the other rows left"},
		{name: "git files", unit: 1, perPush: 2, slack: 5000, why: "each app version keeps its commit by a reference"},
		{name: "git MiB", unit: mib, digits: 1, perPush: 16 * kib, slack: 16 * mib, why: "history is kept"},
		{name: "mirrors MiB", unit: mib, digits: 1, slack: mib},
		{name: "CPU ms/push", unit: 1, slack: 10},
		{name: "pushes/s", unit: 1, digits: 1, free: true},
		{name: "p50 ms", unit: 1, free: true},
		{name: "p99 ms", unit: 1, free: true},
	}
}

// keptTables are those whose rows stay.
func keptTables() []string {
	return []string{"pushes", "versions", "group_versions", "group_units", "applies", "releases", "moves", "heads"}
}

// sample measures when everything is at rest.
func (s *soak) sample(pushes int) {
	s.T.Helper()
	now := time.Now()
	s.Eventually("no run is unfinished", func() bool {
		_, got := s.Metrics(s.Token)
		return got[`landfall_runs_unfinished{state="queued"}`]+got[`landfall_runs_unfinished{state="running"}`]+
			got[`landfall_runs_unfinished{state="waiting"}`] == 0
	})
	_, got := s.Metrics(s.Token)
	status := s.processStatus()
	v := map[string]float64{
		"rss MiB": status["VmRSS"], "peak MiB": status["VmHWM"], "threads": status["Threads"],
		"heap MiB": got["go_memstats_next_gc_bytes"], "bodies MiB": got[`landfall_gateway_cache_bytes{place="memory"}`],
		"goroutines": got["go_goroutines"], "fds": float64(len(testkit.Must(os.ReadDir(s.proc("fd")))(s.T))),
	}
	s.space(v)
	tables := storetest.Tables(s.T, s.address())
	for name, table := range tables {
		if slices.Contains(keptTables(), name) {
			v["rows kept"] += float64(table.Rows)
			v["kept MiB"] += float64(table.Bytes)
		} else {
			v["rows that go"] += float64(table.Rows)
		}
		if s.Engine.Database != "" { // a server's files are not ours to look at
			v["database MiB"] += float64(table.Bytes)
		}
	}
	v["per recent push"] = v["rows that go"] / float64(pushes-s.pushesBefore(now.Add(-soakRecent)))
	s.pace(v, now)
	s.samples = append(s.samples, soakSample{pushes, time.Now(), v, tables})
	s.say(s.row(len(s.samples) - 1))
}

// soakRecent is how long what goes may stay: runs for a minute, and up to one more until somebody looks; the job
// queue's notices for five, which is not ours to say. How many there are follows how fast the machine is.
const soakRecent = 6 * time.Minute

// pushesBefore returns how many pushes had been made by a sample that is as old as a time.
func (s *soak) pushesBefore(at time.Time) int {
	before := 0
	for _, sample := range s.samples {
		if sample.at.Before(at) {
			before = sample.pushes
		}
	}
	return before
}

// address is where the server's database is, or a copy of it: a file is the server's alone while it runs.
func (s *soak) address() string {
	s.T.Helper()
	if s.Engine.Database != "" {
		return s.Engine.Database
	}
	const name = "landfall.db"
	copied := filepath.Join(s.Data+"-copy", name)
	if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
		s.T.Fatal(err)
	}
	for {
		before := testkit.Must(os.Stat(filepath.Join(s.Data, name)))(s.T)
		for _, file := range []string{name, name + "-wal"} {
			data := testkit.Must(os.ReadFile(filepath.Join(s.Data, file)))(s.T)
			if err := os.WriteFile(filepath.Join(filepath.Dir(copied), file), data, 0o600); err != nil {
				s.T.Fatal(err)
			}
		}
		if after := testkit.Must(os.Stat(filepath.Join(s.Data, name)))(s.T); after.ModTime().Equal(before.ModTime()) {
			return copied // nothing of the log went into the file meanwhile
		}
	}
}

// proc returns a file of the kernel's about the server.
func (s *soak) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(s.Cmd.Process.Pid), name)
}

// processStatus returns the numbers of /proc/PID/status; sizes are in bytes.
func (s *soak) processStatus() map[string]float64 {
	s.T.Helper()
	status := map[string]float64{}
	for line := range strings.Lines(string(testkit.Must(os.ReadFile(s.proc("status")))(s.T))) {
		name, text, _ := strings.Cut(line, ":")
		text, kibibytes := strings.CutSuffix(strings.TrimSpace(text), " kB")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if kibibytes {
			value *= kib
		}
		status[name] = value
	}
	return status
}

// processors returns how long the server and its children that have ended were at work.
func (s *soak) processors() time.Duration {
	s.T.Helper()
	const (
		tick        = 10 * time.Millisecond // the kernel's, for /proc
		first, last = 11, 15                // utime, stime, cutime, cstime, counted behind the name
	)
	stat := string(testkit.Must(os.ReadFile(s.proc("stat")))(s.T))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, text := range fields[first:last] {
		ticks += testkit.Must(strconv.ParseInt(text, 10, 64))(s.T)
	}
	return time.Duration(ticks) * tick
}

// usage is what the files below a folder take on the disk. Files may come and go meanwhile.
func (s *soak) usage(folder string) (files, bytes float64) {
	s.T.Helper()
	err := filepath.WalkDir(filepath.Join(s.Data, folder), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			const block = 512
			bytes += float64(stat.Blocks * block)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.T.Fatal(err)
	}
	return files, bytes
}

// space measures what is stored.
func (s *soak) space(v map[string]float64) {
	s.T.Helper()
	objects := testkit.Must(s.OpenObjects())(s.T)
	defer func() { _ = objects.Close() }()
	for _, err := range objects.List(s.T.Context(), "") {
		if err != nil {
			s.T.Fatal(err)
		}
		v["objects"]++
	}
	_, v["objects KiB"] = s.usage("objects")
	_, v["caches KiB"] = s.usage("cache")
	_, v["mirrors MiB"] = s.usage("mirrors")
	v["scratch"], _ = s.usage("scratch")
	v["git files"], v["git MiB"] = s.usage("git")
	for _, file := range []string{"landfall.db", "landfall.db-wal"} {
		info, err := os.Stat(filepath.Join(s.Data, file))
		if err == nil {
			v["database MiB"] += float64(info.Size())
		}
	}
}

// pace measures the pushes since the last sample.
func (s *soak) pace(v map[string]float64, now time.Time) {
	s.T.Helper()
	worked := s.processors()
	const half, most = 50, 99
	slices.Sort(s.took)
	at := func(percent int) float64 {
		return float64(s.took[len(s.took)*percent/100].Milliseconds())
	}
	n := float64(len(s.took))
	v["p50 ms"], v["p99 ms"] = at(half), at(most)
	v["CPU ms/push"] = float64((worked - s.worked).Milliseconds()) / n
	v["pushes/s"] = n / now.Sub(s.since).Seconds()
	s.worked, s.since = worked, time.Now()
}

// say adds lines to what is told of the soak.
func (s *soak) say(text string) {
	s.T.Helper()
	s.T.Log("\n" + text)
	s.told.WriteString(text + "\n")
	if file := os.Getenv(soakFileVariable); file != "" {
		if err := os.WriteFile(file, []byte(s.told.String()), 0o600); err != nil {
			s.T.Fatal(err)
		}
	}
}

// heading is the first line of the table.
func heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6s", "pushes")
	for _, f := range soakFigures() {
		fmt.Fprintf(&b, "  %s", f.name)
	}
	return b.String()
}

// row is a line of the table.
func (s *soak) row(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d", s.samples[i].pushes)
	for _, f := range soakFigures() {
		fmt.Fprintf(&b, "  %*.*f", len(f.name), f.digits, s.samples[i].values[f.name]/f.unit)
	}
	return b.String()
}

// tables is what each table of the database has at the end.
func (s *soak) tables() string {
	last := s.samples[len(s.samples)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-20s%10s%12s%12s%12s\n", "table", "rows", "KiB", "rows/push", "bytes/push")
	n := float64(last.pushes)
	for _, name := range slices.Sorted(maps.Keys(last.tables)) {
		table := last.tables[name]
		fmt.Fprintf(&b, "%-20s%10d%12d%12.2f%12.0f\n", name, table.Rows, table.Bytes/kib, float64(table.Rows)/n,
			float64(table.Bytes)/n)
	}
	return b.String()
}

// fifth returns the median of a figure in a fifth of the samples, and of how many pushes it is.
func (s *soak) fifth(which int, name string) (value, pushes float64) {
	const fifths = 5
	part := s.samples[(which-1)*len(s.samples)/fifths : which*len(s.samples)/fifths]
	var values, counts []float64
	for _, sample := range part {
		values, counts = append(values, sample.values[name]), append(counts, float64(sample.pushes))
	}
	slices.Sort(values)
	return values[len(values)/2], counts[len(counts)/2]
}

// wantMeasured fails the test unless all that cannot be nothing was measured.
func (s *soak) wantMeasured() {
	s.T.Helper()
	for _, f := range soakFigures() {
		if f.name == "scratch" || f.name == "mirrors MiB" || (f.name == "objects KiB" && s.Engine.Bucket.Endpoint != "") {
			continue // there are none
		}
		if last := s.samples[len(s.samples)-1].values[f.name]; last <= 0 {
			s.T.Errorf("%s was measured as %v", f.name, last)
		}
	}
}

// wantFlat fails the test when a figure grows by more than it may.
func (s *soak) wantFlat() {
	s.T.Helper()
	const second, last = 2, 5
	for _, f := range soakFigures() {
		if f.free {
			continue
		}
		was, from := s.fifth(second, f.name)
		is, to := s.fifth(last, f.name)
		most := flatRatio*was + f.slack
		if f.perPush > 0 {
			most = was + f.perPush*(to-from) + f.slack
			s.T.Logf("%s: %.2f for each push, at most %.2f (%s)", f.name, (is-was)/(to-from), f.perPush, f.why)
		}
		if is > most {
			s.T.Errorf("%s: %.1f in the second fifth and %.1f in the last, want at most %.1f", f.name, was/f.unit, is/f.unit,
				most/f.unit)
		}
	}
}

// soakVariable says how many pushes the soak is; the full dose is 20,000. What is measured is also written to a file,
// if one is named, so that people see how it goes on.
const (
	soakVariable     = "LANDFALL_SOAK_PUSHES"
	soakFileVariable = "LANDFALL_SOAK_FILE"
)

// The doses of the soak.
const (
	fewSoakPushes = 100
	fewSoakApps   = 5
	soakApps      = 50
	soakEvery     = 500 // pushes between two samples
	soakPushers   = 4   // at once
	soakFlatFrom  = 10  // samples, from which on flatness can be told
)

// Many pushes, for a long time: each becomes what it must, in its turn, and what the server takes of the machine does
// not grow but by the history that is kept for ever, which has its price for each push.
func TestSoak(t *testing.T) {
	t.Parallel()
	pushes, apps := fewSoakPushes, fewSoakApps
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if pushes, err = strconv.Atoi(text); err != nil || pushes < soakEvery {
			t.Fatalf("%s is %q; right would be a number from %d", soakVariable, text, soakEvery)
		}
		apps = soakApps
	}
	on := site.Engine{}
	if os.Getenv(site.EngineVariable) != "" {
		on = site.NewEngine(t)
	}
	s := newSoak(t, on, apps, (pushes+apps-1)/apps)
	for from := 0; from < pushes; from += soakEvery {
		s.window(from, min(from+soakEvery, pushes))
		s.visitor.CloseIdleConnections()
		s.sample(min(from+soakEvery, pushes))
	}
	s.say(s.tables())
	for _, a := range s.apps {
		testkit.Equal(t, "live of "+a.name, s.ShowApp(a.name).Live, a.live)
		site.WantServed(t, s.Site, a.name, "/", a.served[a.live])
	}
	s.wantMeasured()
	if len(s.samples) >= soakFlatFrom {
		s.wantFlat()
	}
	out, code := s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck: "+out, code, 0)
}

// soakedApp is an app and what has to be seen of it.
type soakedApp struct {
	soak   *soak
	name   string
	remote string
	local  *site.Repository
	line   soakLine

	live      landfall.UID            //
	before    landfall.UID            // was live before
	served    map[landfall.UID]string // pages of releases that are watched
	releases  []landfall.UID          // of main, oldest first
	lastShown string                  // page of the newest release of main
}

// newSoak starts a server that forgets what is over as soon as it may, with apps that have so many commits each.
func newSoak(t *testing.T, on site.Engine, apps, pushes int) *soak {
	t.Helper()
	s := &soak{
		Site: site.NewOn(t, on, "LANDFALL_KEEP_RUNS=1m", "LANDFALL_KEEP_LOGS=1m", "LANDFALL_KEEP_DELIVERIES=1m",
			fmt.Sprintf("LANDFALL_MAX_BUILD_CACHE=%d", 1<<20)),
		visitor: &http.Client{Timeout: testkit.Patience},
	}
	transport := client.LocalTransport()
	transport.MaxIdleConns = soakPushers // they are the server's descriptors, too
	s.visitor.Transport = transport
	s.HTTP = s.visitor
	for i := range apps {
		name := fmt.Sprintf("soak-%d", i)
		a := &soakedApp{
			soak: s, name: name, remote: s.Remote(s.App(name)), local: site.NewRepository(t), line: soakLine{name},
			served: map[landfall.UID]string{},
		}
		importCommits(a.local, a.line.stream(pushes))
		s.apps = append(s.apps, a)
	}
	s.since, s.worked = time.Now(), s.processors()
	s.say(heading())
	return s
}

// window makes some of the pushes, a few at once, those of one app one after the other.
func (s *soak) window(from, to int) {
	s.T.Helper()
	s.took = make([]time.Duration, to-from)
	group, ctx := errgroup.WithContext(s.T.Context())
	for pusher := range soakPushers {
		group.Go(func() error {
			for n := from; n < to && ctx.Err() == nil; n++ {
				app := n % len(s.apps)
				if app%soakPushers != pusher {
					continue
				}
				began := time.Now()
				if err := s.apps[app].step(ctx, n/len(s.apps), func() { s.took[n-from] = time.Since(began) }); err != nil {
					return fmt.Errorf("push %d, the %d. of %s: %w", n, n/len(s.apps), s.apps[app].name, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.T.Fatal(err)
	}
}

// What a push is, by its place in an app's life of so many pushes.
type soakKind int

const (
	soakPlain soakKind = iota
	soakSide           // to another branch, which is deleted then
	soakRolledBack
	soakHeld
	soakSame   // nothing that is served differs
	soakBroken // a mistake
)

func soakKindOf(n int) soakKind {
	const life = 20
	switch n % life {
	case 4, 14:
		return soakSide
	case 7:
		return soakRolledBack
	case 8:
		return soakHeld
	case 12:
		return soakSame
	case 16:
		return soakBroken
	}
	return soakPlain
}

// step makes the n-th push of an app, looks at what visitors get, and calls pushed in between.
func (a *soakedApp) step(ctx context.Context, n int, pushed func()) error {
	kind := soakKindOf(n)
	ref, commit := "refs/heads/main", mainAt(n)
	if kind == soakSide {
		ref, commit = "refs/heads/"+sideBranch(n), "refs/heads/"+sideBranch(n)
	}
	out, err := a.local.Try("push", a.remote, commit+":"+ref)
	pushed()
	if err != nil {
		return fmt.Errorf("git push: %w\n%s", err, out)
	}
	release, ok := a.soak.ReleasedIn(site.ToldBy(out), a.name)
	if ok == (kind == soakBroken) {
		return fmt.Errorf("it made a release: %t\n%s", ok, out)
	}
	switch kind {
	case soakBroken:
		return a.wants(ctx, a.name, a.live, a.served[a.live])
	case soakSide:
		return a.leave(ctx, n, release)
	case soakHeld:
		return a.resume(ctx, n, release)
	case soakRolledBack:
		a.released(n, release)
		return a.goBack(ctx)
	case soakPlain, soakSame:
		a.released(n, release)
	}
	return a.looksBack(ctx)
}

// released notes that a release of main became live.
func (a *soakedApp) released(n int, release landfall.UID) {
	a.made(n, release)
	a.before, a.live = a.live, release
}

// made notes a release of main.
func (a *soakedApp) made(n int, release landfall.UID) {
	if soakKindOf(n) != soakSame {
		a.lastShown = a.line.page(n)
	}
	a.served[release] = a.lastShown
	a.releases = append(a.releases, release)
}

// goBack rolls the app back to what was live before.
func (a *soakedApp) goBack(ctx context.Context) error {
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil {
		return err
	}
	if err := a.soak.Do(ctx, http.MethodPost, "/apps/"+a.name+"/rollback",
		map[string]string{"reason": "the soak goes back"}, nil); err != nil {
		return err
	}
	a.live, a.before = a.before, a.live
	return a.wants(ctx, a.name, a.live, a.served[a.live])
}

// resume looks at a release that did not become live, and lets live follow the pushes again.
func (a *soakedApp) resume(ctx context.Context, n int, release landfall.UID) error {
	a.made(n, release)
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil {
		return err
	}
	if err := a.wants(ctx, a.name+"--"+string(release), release, a.served[release]); err != nil {
		return err
	}
	return a.soak.Do(ctx, http.MethodPut, "/apps/"+a.name+"/hold", map[string]bool{"held": false}, nil)
}

// leave looks at the release of another branch, and deletes the branch.
func (a *soakedApp) leave(ctx context.Context, n int, release landfall.UID) error {
	if err := a.wants(ctx, a.name+"--branch-"+sideBranch(n), release, a.line.page(n)); err != nil {
		return err
	}
	if out, err := a.local.Try("push", a.remote, ":refs/heads/"+sideBranch(n)); err != nil {
		return fmt.Errorf("git push of a deletion: %w\n%s", err, out)
	}
	return a.wants(ctx, a.name, a.live, a.served[a.live])
}

// keptReleases is how many releases of a line the apps keep; farBack is where none can be accessible any more, also
// with those that are the same as another or are held.
const (
	keptReleases = 3
	farBack      = 3 * keptReleases
)

// looksBack looks at the live release, at the one before it, and at one that has expired.
func (a *soakedApp) looksBack(ctx context.Context) error {
	if err := a.wants(ctx, a.name, a.live, a.served[a.live]); err != nil || a.before == "" {
		return err
	}
	if err := a.wants(ctx, a.name+"--"+string(a.before), a.before, a.served[a.before]); err != nil ||
		len(a.releases) <= farBack {
		return err
	}
	old := a.releases[0]
	a.releases = a.releases[1:]
	delete(a.served, old)
	status, _, _, err := a.soak.visit(ctx, a.name+"--"+string(old))
	if err == nil && status != http.StatusGone {
		err = fmt.Errorf("the release %s of long ago answers %d", old, status)
	}
	return err
}

// wants asks a host for a page of a release.
func (a *soakedApp) wants(ctx context.Context, host string, release landfall.UID, page string) error {
	status, of, body, err := a.soak.visit(ctx, host)
	if err == nil && (status != http.StatusOK || of != release || body != page) {
		err = fmt.Errorf("%s answers %d, %q of the release %s; want %q of %s", host, status, body, of, page, release)
	}
	return err
}

// soakLine is the life of an app in commits.
type soakLine struct{ app string }

func mainAt(n int) string     { return fmt.Sprintf("refs/work/%d", n) }
func sideBranch(n int) string { return fmt.Sprintf("side-%d", n) }

func (l soakLine) page(n int) string { return fmt.Sprintf("<p>push %d of %s</p>", n, l.app) }

// soakSpec is an app of static files and a function whose package is built.
const soakSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: APP}
spec:
  static:
    - {src: site, path: /}
  release: {keep: KEEP}
---
` + forge.BuiltFunction

// stream is what git fast-import makes the life's commits of: those of main are named mainAt, the others by their
// branch. The function changes on other branches only: a version that production applied keeps its archive for ever.
func (l soakLine) stream(pushes int) string {
	const (
		parts  = 10 // files of which each push changes one
		pieces = 200
	)
	var b strings.Builder
	last := ""
	for n := range pushes {
		kind := soakKindOf(n)
		ref := mainAt(n)
		if kind == soakSide {
			ref = "refs/heads/" + sideBranch(n)
		}
		message := fmt.Sprintf("push %d", n)
		fmt.Fprintf(&b, "commit %s\ncommitter Ada <ada@example.com> %d +0000\ndata %d\n%s\n", ref, 1_700_000_000+n,
			len(message), message)
		if last != "" {
			fmt.Fprintf(&b, "from %s\n", last)
		}
		file := func(path, text string) { fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text) }
		if n == 0 {
			spec := strings.NewReplacer("APP", l.app, "KEEP", strconv.Itoa(keptReleases)).Replace(soakSpec)
			file("specs/app.yaml", spec)
			file("specs/environment.yaml", site.EnvironmentSpec)
			file("function/main.py", "def main(): return 0\n")
		}
		if n > 0 && soakKindOf(n-1) == soakBroken {
			b.WriteString("D specs/broken.yaml\n")
		}
		switch kind {
		case soakSame:
			file("notes.txt", message)
		case soakBroken:
			file("specs/broken.yaml", "kind: Nonsense")
		case soakSide:
			file("function/main.py", fmt.Sprintf("def main(): return %d\n", n))
			file("site/index.html", l.page(n))
		case soakPlain, soakRolledBack, soakHeld:
			file("site/index.html", l.page(n))
			file(fmt.Sprintf("site/part-%d.js", n%parts), strings.Repeat(fmt.Sprintf("part(%q, %d);\n", l.app, n), pieces))
		}
		if kind != soakSide {
			last = ref
		}
	}
	return b.String()
}

// importCommits makes commits of a stream for git fast-import.
func importCommits(r *site.Repository, stream string) {
	r.T.Helper()
	if out, err := r.TryWith(strings.NewReader(stream), "fast-import", "--quiet"); err != nil {
		r.T.Fatalf("git fast-import: %v\n%s", err, out)
	}
	r.Git("pack-refs", "--all")
}
