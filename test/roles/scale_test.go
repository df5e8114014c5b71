package roles_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Workers and gateways in processes of their own: what people are told is so at every gateway.
func TestScale(t *testing.T) {
	t.Parallel()
	f := forge.NewFleet(t, 2, 2)
	r := f.Repository(f.App("shop"))
	r.Write("site/index.html", "one", "site/one.js", "script one", "specs/app.yaml", site.AppSpec("shop"))
	r.Commit("one")
	first := f.Released(r.Push("main"), "shop")
	// P-015: the whole line works on a local S3-compatible store, as it does on a folder
	f.WantServed("shop", "/", "one")
	r.Git("rm", "--quiet", "site/one.js")
	r.Write("site/index.html", "two")
	second := f.Pushed(r, "shop", "two")
	f.WantServed("shop", "/", "two")
	f.WantServed("shop", "/one.js", "script one")
	f.WantServed("shop--"+string(first), "/", "one")

	h, _ := f.Follow("blog")
	commit, push := h.Release("hello")
	f.Hears(push)
	testkit.Equal(t, "state of the run of a webhook", f.Finished("blog", commit).State, landfall.RunSucceeded)
	f.WantServed("blog", "/", "hello")

	for i := range 20 {
		to, page := first, "one"
		if i%2 == 1 {
			to, page = second, "two"
		}
		said, code := f.Run(r.Dir, "release", "live", "shop", string(to))
		testkit.Equal(t, "exit code of release live: "+said, code, 0)
		f.WantServed("shop", "/", page)
	}

	run := f.Applied(r, "shop", "main", false)
	testkit.Equal(t, "state of an apply", run.State, landfall.RunSucceeded)
	f.WantServed("shop", "/", "two")
	f.WantServed("shop", "/one.js", "script one")
	said, code := f.Run(r.Dir, "release", "expire", "shop", string(first))
	testkit.Equal(t, "exit code of release expire: "+said, code, 0)
	for _, g := range f.Gateways {
		// K-003: expiry ends it at once at every gateway
		testkit.Equal(t, "status of a file of a release that expired", g.Get(g.At("shop", "/one.js")).Status,
			http.StatusNotFound)
	}

	// A gateway that is gone holds up nobody for long, and shows the newest when it is back.
	gone := f.Gateways[1]
	_ = gone.Cmd.Process.Kill()
	<-gone.Done
	r.Write("site/index.html", "three")
	f.Pushed(r, "shop", "three")
	site.WantServed(t, f.Gateways[0].Site, "shop", "/", "three")
	gone.Start()
	f.WantServed("shop", "/", "three")

	// Without the process that people talk to, everything goes on being served, and is taken up when it is back.
	_ = f.Cmd.Process.Kill()
	<-f.Done
	f.WantServed("shop", "/", "three")
	f.Start()
	r.Write("site/index.html", "four")
	f.Pushed(r, "shop", "four")
	f.WantServed("shop", "/", "four")
}

// A worker that was paused past its lease, or died, is followed by another one, and changes nothing when it comes back.
func TestScaleWorkersThatStop(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"paused": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forge.NewFleet(t, 1, 1, "LANDFALL_LEASE=1s", "LANDFALL_SANDBOX=off")
			const apps = 3
			gates := make([]string, apps)
			commits := make([]landfall.CommitSHA, apps)
			var pushes sync.WaitGroup
			terminals := make([]string, apps)
			for i := range apps {
				app := fmt.Sprintf("app%d", i)
				gates[i] = t.TempDir()
				r := f.Repository(f.App(app))
				r.Write("in", "page of "+app, "specs/app.yaml", site.SlowBuild(app, gates[i]))
				commits[i] = r.Commit("one")
				pushes.Go(func() { terminals[i], _ = r.Try("push", "origin", "main") })
			}
			for _, gate := range gates {
				f.Building(gate, 1)
			}
			first := f.Workers[0]
			signal := syscall.SIGSTOP
			if !back {
				signal = syscall.SIGKILL
			}
			if err := first.Cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			second := site.NewStopped(t, f.Engine, first.Env...)
			second.Start()
			for _, gate := range gates {
				f.Building(gate, 2) // by the other worker
			}
			if back { // and comes to the end of its builds at the same time as the other one
				_ = first.Cmd.Process.Signal(syscall.SIGCONT)
			}
			for _, gate := range gates {
				if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pushes.Wait()
			for i := range apps {
				app := fmt.Sprintf("app%d", i)
				run := f.Finished(app, commits[i])
				testkit.Equal(t, "state of "+app+": "+run.Reason+terminals[i], run.State, landfall.RunSucceeded)
				f.WantServed(app, "/", "page of "+app)
				site.Attempts(t, run, 2)
				testkit.Equal(t, "releases of "+app, len(f.Accessible(app)), 1)
			}
			if back {
				wantStatusOf(t, first.Site, http.StatusOK)
			} else {
				<-first.Done
				first.Start()
			}
			r := f.Repository(f.App("after"))
			r.Write("index.html", "after")
			r.Commit("after")
			f.Released(r.Push("main"), "after")
			f.WantServed("after", "/", "after")
			site.WantSound(t, f.Site, false)
		})
	}
}

// While no worker is alive whoever pushes, and whoever asks, is told what is waited for; then the push goes on.
func TestScaleWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := forge.NewFleet(t, 1, 1)
	ready := func() string { return f.Get("http://127.0.0.1:" + f.Port + "/readyz").Body }
	status := func() string {
		said, code := f.Run(t.TempDir(), "status")
		testkit.Equal(t, "exit code of status: "+said, code, 0)
		return said
	}
	f.Eventually("the worker has given a sign of life", func() bool {
		return !strings.Contains(ready()+status(), "alive")
	})
	f.Workers[0].Stop()
	testkit.Contains(t, site.Told{ready()}, "ready\n", "pipeline: no worker is alive")
	testkit.Contains(t, site.Told{status()}, "none is alive")
	r := f.Repository(f.App("shop"))
	r.Write("index.html", "one")
	r.Commit("one")
	terminal := &logtest.Buffer{}
	push := exec.Command("git", "push", "origin", "main")
	push.Dir, push.Stdout, push.Stderr = r.Dir, terminal, terminal
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	f.Eventually("the push says what it waits for", func() bool {
		return strings.Contains(terminal.String(), "waiting for a worker: none is alive")
	})
	f.Workers[0].Start()
	if err := push.Wait(); err != nil {
		t.Errorf("the push ended with %v:\n%s", err, terminal)
	}
	f.WantServed("shop", "/", "one")
	testkit.Equal(t, "how often the push said so: "+terminal.String(),
		strings.Count(terminal.String(), "none is alive"), 1)
	if said := ready() + status(); strings.Contains(said, "alive") {
		t.Errorf("with a worker again: got %q, want nothing about workers", said)
	}
}

// wantStatusOf fails the test unless the process says so of its health.
func wantStatusOf(t *testing.T, s *site.Site, status int) {
	t.Helper()
	testkit.Equal(t, "status of /readyz", s.In(t).Get("http://127.0.0.1:"+s.Port+"/readyz").Status, status)
}
