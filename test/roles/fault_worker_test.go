package roles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A worker is paused in the middle of a build, past its lease, again and again. The other one makes the release. The
// first comes back while that one is at work, or when all is over, and changes nothing.
func TestFaultPausedWorker(t *testing.T) {
	t.Parallel()
	f := forge.NewFleet(t, 2, 1, "LANDFALL_LEASE=1s", "LANDFALL_SANDBOX=off")
	r := f.Repository(f.App("shop"))
	var releases []landfall.UID
	for n := range machine.Dose(t, 6, 30) {
		gate, page := t.TempDir(), fmt.Sprintf("page %d", n)
		r.Write("in", page, "specs/app.yaml", site.SlowBuild("shop", gate))
		commit := r.Commit(page)
		pushed := make(chan string, 1)
		go func() {
			said, _ := r.Try("push", "origin", "main")
			pushed <- said
		}()
		f.Building(gate, 1)
		paused := f.Builder(gate)
		send(t, paused, syscall.SIGSTOP)
		f.Building(gate, 2) // by the other worker
		after := n%2 == 1
		if !after {
			send(t, paused, syscall.SIGCONT)
		}
		if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		said := <-pushed
		run := f.Finished("shop", commit)
		testkit.Equal(t, "state of the run: "+run.Reason+said, run.State, landfall.RunSucceeded)
		f.WantServed("shop", "/", page)
		if after {
			send(t, paused, syscall.SIGCONT)
		}
		site.Attempts(t, run, 2)
		releases = append(releases, run.Release)
	}
	// Every push made one release, which was live once, whatever the worker did that came back.
	if got := f.WasLive("shop"); !slices.Equal(got, releases) {
		t.Errorf("live were %v, want %v", got, releases)
	}
	site.WantSound(t, f.Site, false)
}

func send(t *testing.T, m *forge.Member, s syscall.Signal) {
	t.Helper()
	if err := m.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
