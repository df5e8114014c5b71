package main

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
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store/storetest"
)

// visit asks a host for / and returns what it answers, and of which release that is.
func (s *soak) visit(ctx context.Context, host string) (status int, release landfall.UID, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at(host, "/"), nil)
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

// A figure is what is measured. Flat means: between the second fifth of the samples (the first is warming up) and the last one
// it grows by less than flatRatio and the slack, which is what a single pool, garbage collection or sweep comes to. What cannot
// be flat grows by no more than so much for each push.
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
		{name: "rows kept", unit: 1, perPush: 12, why: "pushes, versions, group versions, applies, expired releases and the history of live stay for ever"},
		{name: "kept MiB", unit: mib, digits: 1, perPush: 4.5 * kib, slack: mib, why: "the bytes of these rows and their indexes"},
		{name: "database MiB", unit: mib, digits: 1, perPush: 6 * kib, slack: 8 * mib, why: "the same, and room that the other rows left"},
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
	s.t.Helper()
	now := time.Now()
	s.eventually("no run is unfinished", func() bool {
		_, got := s.metrics(s.Token)
		return got[`landfall_runs_unfinished{state="queued"}`]+got[`landfall_runs_unfinished{state="running"}`]+
			got[`landfall_runs_unfinished{state="waiting"}`] == 0
	})
	_, got := s.metrics(s.Token)
	status := s.processStatus()
	v := map[string]float64{
		"rss MiB": status["VmRSS"], "peak MiB": status["VmHWM"], "threads": status["Threads"],
		"heap MiB": got["go_memstats_next_gc_bytes"], "bodies MiB": got[`landfall_gateway_cache_bytes{place="memory"}`], "goroutines": got["go_goroutines"],
		"fds": float64(len(must(os.ReadDir(s.proc("fd")))(s.t))),
	}
	s.space(v)
	tables := storetest.Tables(s.t, s.address())
	for name, table := range tables {
		if slices.Contains(keptTables(), name) {
			v["rows kept"] += float64(table.Rows)
			v["kept MiB"] += float64(table.Bytes)
		} else {
			v["rows that go"] += float64(table.Rows)
		}
		if s.engine.database != "" { // a server's files are not ours to look at
			v["database MiB"] += float64(table.Bytes)
		}
	}
	v["per recent push"] = v["rows that go"] / float64(pushes-s.pushesBefore(now.Add(-soakRecent)))
	s.pace(v, now)
	s.samples = append(s.samples, soakSample{pushes, time.Now(), v, tables})
	s.say(s.row(len(s.samples) - 1))
}

// soakRecent is how long what goes may stay: runs for a minute, and up to one more until somebody looks; the job queue's notices
// for five, which is not ours to say. How many there are follows how fast the machine is.
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
	s.t.Helper()
	if s.engine.database != "" {
		return s.engine.database
	}
	const name = "landfall.db"
	copied := filepath.Join(s.data+"-copy", name)
	if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
		s.t.Fatal(err)
	}
	for {
		before := must(os.Stat(filepath.Join(s.data, name)))(s.t)
		for _, file := range []string{name, name + "-wal"} {
			data := must(os.ReadFile(filepath.Join(s.data, file)))(s.t)
			if err := os.WriteFile(filepath.Join(filepath.Dir(copied), file), data, 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
		if after := must(os.Stat(filepath.Join(s.data, name)))(s.t); after.ModTime().Equal(before.ModTime()) {
			return copied // nothing of the log went into the file meanwhile
		}
	}
}

// proc returns a file of the kernel's about the server.
func (s *soak) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), name)
}

// processStatus returns the numbers of /proc/PID/status; sizes are in bytes.
func (s *soak) processStatus() map[string]float64 {
	s.t.Helper()
	status := map[string]float64{}
	for line := range strings.Lines(string(must(os.ReadFile(s.proc("status")))(s.t))) {
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
	s.t.Helper()
	const (
		tick        = 10 * time.Millisecond // the kernel's, for /proc
		first, last = 11, 15                // utime, stime, cutime, cstime, counted behind the name
	)
	stat := string(must(os.ReadFile(s.proc("stat")))(s.t))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, text := range fields[first:last] {
		ticks += must(strconv.ParseInt(text, 10, 64))(s.t)
	}
	return time.Duration(ticks) * tick
}

// usage is what the files below a folder take on the disk. Files may come and go meanwhile.
func (s *soak) usage(folder string) (files, bytes float64) {
	s.t.Helper()
	err := filepath.WalkDir(filepath.Join(s.data, folder), func(_ string, entry fs.DirEntry, err error) error {
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
		s.t.Fatal(err)
	}
	return files, bytes
}

// space measures what is stored.
func (s *soak) space(v map[string]float64) {
	s.t.Helper()
	objects := must(s.openObjects())(s.t)
	defer func() { _ = objects.Close() }()
	for _, err := range objects.List(s.t.Context(), "") {
		if err != nil {
			s.t.Fatal(err)
		}
		v["objects"]++
	}
	_, v["objects KiB"] = s.usage("objects")
	_, v["caches KiB"] = s.usage("cache")
	_, v["mirrors MiB"] = s.usage("mirrors")
	v["scratch"], _ = s.usage("scratch")
	v["git files"], v["git MiB"] = s.usage("git")
	for _, file := range []string{"landfall.db", "landfall.db-wal"} {
		info, err := os.Stat(filepath.Join(s.data, file))
		if err == nil {
			v["database MiB"] += float64(info.Size())
		}
	}
}

// pace measures the pushes since the last sample.
func (s *soak) pace(v map[string]float64, now time.Time) {
	s.t.Helper()
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
	s.t.Helper()
	s.t.Log("\n" + text)
	s.told.WriteString(text + "\n")
	if file := os.Getenv(soakFileVariable); file != "" {
		if err := os.WriteFile(file, []byte(s.told.String()), 0o600); err != nil {
			s.t.Fatal(err)
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
		fmt.Fprintf(&b, "%-20s%10d%12d%12.2f%12.0f\n", name, table.Rows, table.Bytes/kib, float64(table.Rows)/n, float64(table.Bytes)/n)
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
	s.t.Helper()
	for _, f := range soakFigures() {
		if f.name == "scratch" || f.name == "mirrors MiB" || (f.name == "objects KiB" && s.engine.bucket.Endpoint != "") {
			continue // there are none
		}
		if last := s.samples[len(s.samples)-1].values[f.name]; last <= 0 {
			s.t.Errorf("%s was measured as %v", f.name, last)
		}
	}
}

// wantFlat fails the test when a figure grows by more than it may.
func (s *soak) wantFlat() {
	s.t.Helper()
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
			s.t.Logf("%s: %.2f for each push, at most %.2f (%s)", f.name, (is-was)/(to-from), f.perPush, f.why)
		}
		if is > most {
			s.t.Errorf("%s: %.1f in the second fifth and %.1f in the last, want at most %.1f", f.name, was/f.unit, is/f.unit, most/f.unit)
		}
	}
}
