package host_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// Only functions of a live release are kept warm, from the moment it becomes live until it is not.
func TestKeepWarm(t *testing.T) {
	t.Parallel()
	stored := program(t, "#!/bin/sh\nexec cat\n")
	unpacked, err := packages.New(filepath.Join(t.TempDir(), "functions"), stored, packages.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	run := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off), Defaults: landfall.Resources{IdleTimeout: 1}}
	t.Cleanup(run.Close)
	runs := host.New(host.Config{Runner: run, Packages: unpacked, Logger: slog.New(slog.DiscardHandler)})
	function := func(id string, keep int) *landfall.Function {
		return &landfall.Function{ID: id, Name: id, App: "shop", Environment: landfall.Environment{Name: "binary"},
			Package:   landfall.Archive{Key: "stored", Digest: landfall.DigestOf(stored.bytes())},
			Resources: landfall.Resources{KeepWarm: keep}}
	}
	// table has three releases, of which one is live.
	table := func(live landfall.UID) *registry.Table {
		app := registry.App{ID: "shop", Name: "shop", Live: live}
		for id, f := range map[landfall.UID]*landfall.Function{"first": function("first", 2), "second": function("second", 1),
			"sleeps": function("sleeps", 0)} {
			app.Releases = append(app.Releases, registry.Release{ID: id,
				Triggers: []*registry.Trigger{{Name: "t", Release: id, Function: f}}})
		}
		return registry.New([]registry.App{app})
	}
	count := func() string {
		var all [3]int
		for i, id := range []string{"first", "second", "sleeps"} {
			all[i], _ = run.Count(id)
		}
		return fmt.Sprint(all)
	}
	for _, c := range []struct {
		live landfall.UID
		want string
	}{{"first", "[2 0 0]"}, {"second", "[0 1 0]"}, {"first", "[2 0 0]"}, {"sleeps", "[0 0 0]"}, {"", "[0 0 0]"}} {
		runs.WarmUp(t.Context(), table(c.live))
		// D-010: a release's functions sleep, or do not, as it says
		for deadline := time.Now().Add(testkit.Patience); count() != c.want && time.Now().Before(deadline); {
			<-time.After(time.Millisecond)
		}
		testkit.Equal(t, "processes while "+string(c.live)+" is live", count(), c.want)
	}
}

// Whatever functions ask for, room is left for those that are called.
func TestWantedWarm(t *testing.T) {
	t.Parallel()
	live := map[string]*landfall.Function{}
	for app := range 10 {
		for i := range 3 {
			id := fmt.Sprint(app, i)
			live[id] = &landfall.Function{ID: id, App: fmt.Sprint(app), Resources: landfall.Resources{KeepWarm: 5}}
		}
	}
	all, ofApp := 0, map[string]int{}
	for f, processes := range host.WantedWarm(live) {
		all += processes
		ofApp[f.App] += processes
	}
	testkit.Equal(t, "processes", all, host.MostWarm)
	for app, n := range ofApp {
		testkit.Equal(t, "processes of "+app, n, host.MostWarmOfApp)
	}
}
