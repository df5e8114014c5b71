package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"landfall.dev/landfall"
)

// A worker is paused in the middle of a build, past its lease, again and again. The other one makes the release. The first comes
// back while that one is at work, or when all is over, and changes nothing.
func TestFaultPausedWorker(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 1, "LANDFALL_LEASE=1s", "LANDFALL_SANDBOX=off")
	r := f.repository(f.app("shop"))
	var releases []landfall.UID
	for n := range dose(t, 6, 30) {
		gate, page := t.TempDir(), fmt.Sprintf("page %d", n)
		r.write("in", page, "specs/app.yaml", slowBuild("shop", gate))
		commit := r.commit(page)
		pushed := make(chan string, 1)
		go func() {
			said, _ := r.try("push", "origin", "main")
			pushed <- said
		}()
		f.building(gate, 1)
		paused := f.builder(gate)
		send(t, paused, syscall.SIGSTOP)
		f.building(gate, 2) // by the other worker
		after := n%2 == 1
		if !after {
			send(t, paused, syscall.SIGCONT)
		}
		if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		said := <-pushed
		run := f.finished("shop", commit)
		wantEqual(t, "state of the run: "+run.Reason+said, run.State, landfall.RunSucceeded)
		f.wantServed("shop", "/", page)
		if after {
			send(t, paused, syscall.SIGCONT)
		}
		attempts(t, run, 2)
		releases = append(releases, run.Release)
	}
	// Every push made one release, which was live once, whatever the worker did that came back.
	if got := f.wasLive("shop"); !slices.Equal(got, releases) {
		t.Errorf("live were %v, want %v", got, releases)
	}
	wantSound(t, f.site, false)
}

// builder returns the worker that runs the build that has begun: its process comes from the worker's.
func (f *fleet) builder(gate string) *member {
	f.t.Helper()
	begun := must(os.ReadDir(gate))(f.t)
	for pid := begun[0].Name(); pid != "" && pid != "1"; pid = parentOf(f.t, pid) {
		for _, w := range f.workers {
			if strconv.Itoa(w.cmd.Process.Pid) == pid {
				return w
			}
		}
	}
	f.t.Fatalf("the build's process %s comes from no worker", begun[0].Name())
	return nil
}

func parentOf(t *testing.T, pid string) string {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join("/proc", pid, "status")))(t))) {
		if parent, ok := strings.CutPrefix(line, "PPid:"); ok {
			return strings.TrimSpace(parent)
		}
	}
	return ""
}

func send(t *testing.T, m *member, s syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
