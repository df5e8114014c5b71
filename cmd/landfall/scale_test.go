package main

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
)

// fleet is one installation in several processes, on one database and one bucket.
type fleet struct {
	*world             // of the process with the roles api and webhook
	workers  []*member // with the role pipeline
	gateways []*member // with the role gateway
}

// member is a process of a fleet.
type member struct{ *site }

const roleSecret = "what the processes of one installation share"

// newFleet starts an installation with so many workers and gateways. env are more NAME=VALUE settings, of all processes.
func newFleet(t *testing.T, workers, gateways int, env ...string) *fleet {
	t.Helper()
	f, on := newForge(t), engineOf(t, withPostgres+"+"+withS3)
	head := newStopped(t, on, append([]string{"LANDFALL_ROLE=api,webhook"}, env...)...)
	shared := append([]string{
		"LANDFALL_URL=" + head.URL, "LANDFALL_ROLE_SECRET=" + roleSecret, "LANDFALL_GITHUB_WEBHOOK_SECRET=" + webhookSecret,
		"LANDFALL_ALLOWED_HOSTS=" + strings.TrimPrefix(f.url, "http://")}, env...)
	head.env = append(head.env, shared...)
	head.start()
	head.readToken()
	fl := &fleet{world: &world{forge: f, site: head}}
	add := func(n int, role string) (members []*member) {
		for range n {
			s := newStopped(t, on, append([]string{"LANDFALL_ROLE=" + role}, shared...)...)
			s.start()
			s.URL, s.Token = head.URL, head.Token
			members = append(members, &member{s})
		}
		return members
	}
	fl.workers, fl.gateways = add(workers, "pipeline"), add(gateways, "gateway")
	return fl
}

// wantServed fails the test unless every gateway serves this.
func (f *fleet) wantServed(host, path, want string) {
	f.t.Helper()
	for _, g := range f.gateways {
		wantServed(f.t, g.site, host, path, want)
	}
}

// Workers and gateways in processes of their own: what people are told is so at every gateway.
func TestScale(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 2)
	r := f.repository(f.app("shop"))
	r.write("site/index.html", "one", "site/one.js", "script one", "specs/app.yaml", appSpec("shop"))
	r.commit("one")
	first := f.released(r.push("main"), "shop")
	// P-015: the whole line works on a local S3-compatible store, as it does on a folder
	f.wantServed("shop", "/", "one")
	r.git("rm", "--quiet", "site/one.js")
	r.write("site/index.html", "two")
	second := f.pushed(r, "shop", "two")
	f.wantServed("shop", "/", "two")
	f.wantServed("shop", "/one.js", "script one")
	f.wantServed("shop--"+string(first), "/", "one")

	h, _ := f.follow("blog")
	commit, push := h.release("hello")
	f.hears(push)
	wantEqual(t, "state of the run of a webhook", f.finished("blog", commit).State, landfall.RunSucceeded)
	f.wantServed("blog", "/", "hello")

	for i := range 20 {
		to, page := first, "one"
		if i%2 == 1 {
			to, page = second, "two"
		}
		said, code := f.run(r.dir, "release", "live", "shop", string(to))
		wantEqual(t, "exit code of release live: "+said, code, 0)
		f.wantServed("shop", "/", page)
	}

	run := f.applied(r, "shop", "main", false)
	wantEqual(t, "state of an apply", run.State, landfall.RunSucceeded)
	f.wantServed("shop", "/", "two")
	f.wantServed("shop", "/one.js", "script one")
	said, code := f.run(r.dir, "release", "expire", "shop", string(first))
	wantEqual(t, "exit code of release expire: "+said, code, 0)
	for _, g := range f.gateways {
		// K-003: expiry ends it at once at every gateway
		wantEqual(t, "status of a file of a release that expired", g.get(g.at("shop", "/one.js")).status, http.StatusNotFound)
	}

	// A gateway that is gone holds up nobody for long, and shows the newest when it is back.
	gone := f.gateways[1]
	_ = gone.cmd.Process.Kill()
	<-gone.done
	r.write("site/index.html", "three")
	f.pushed(r, "shop", "three")
	wantServed(t, f.gateways[0].site, "shop", "/", "three")
	gone.start()
	f.wantServed("shop", "/", "three")

	// Without the process that people talk to, everything goes on being served, and is taken up when it is back.
	_ = f.cmd.Process.Kill()
	<-f.done
	f.wantServed("shop", "/", "three")
	f.start()
	r.write("site/index.html", "four")
	f.pushed(r, "shop", "four")
	f.wantServed("shop", "/", "four")
}

// slowBuild is an app whose build waits until a file is there.
func slowBuild(app, gate string) string {
	return appSpec(app, fmt.Sprintf("build: {command: 'touch %[1]s/$$; while ! [ -e %[1]s/open ]; do sleep 0.05; done; mkdir site; cp in site/index.html', inputs: [in], outputs: [site]}", gate))
}

// building waits until so many builds have begun since the folder was empty.
func (f *fleet) building(gate string, n int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d builds have begun", n), func() bool {
		begun, err := os.ReadDir(gate)
		return err == nil && len(begun) >= n
	})
}

// A worker that was paused past its lease, or died, is followed by another one, and changes nothing when it comes back.
func TestScaleWorkersThatStop(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"paused": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1, 1, "LANDFALL_LEASE=1s", "LANDFALL_SANDBOX=off")
			const apps = 3
			gates := make([]string, apps)
			commits := make([]landfall.CommitSHA, apps)
			var pushes sync.WaitGroup
			terminals := make([]string, apps)
			for i := range apps {
				app := fmt.Sprintf("app%d", i)
				gates[i] = t.TempDir()
				r := f.repository(f.app(app))
				r.write("in", "page of "+app, "specs/app.yaml", slowBuild(app, gates[i]))
				commits[i] = r.commit("one")
				pushes.Go(func() { terminals[i], _ = r.try("push", "origin", "main") })
			}
			for _, gate := range gates {
				f.building(gate, 1)
			}
			first := f.workers[0]
			signal := syscall.SIGSTOP
			if !back {
				signal = syscall.SIGKILL
			}
			if err := first.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			second := newStopped(t, f.engine, first.env...)
			second.start()
			for _, gate := range gates {
				f.building(gate, 2) // by the other worker
			}
			if back { // and comes to the end of its builds at the same time as the other one
				_ = first.cmd.Process.Signal(syscall.SIGCONT)
			}
			for _, gate := range gates {
				if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pushes.Wait()
			for i := range apps {
				app := fmt.Sprintf("app%d", i)
				run := f.finished(app, commits[i])
				wantEqual(t, "state of "+app+": "+run.Reason+terminals[i], run.State, landfall.RunSucceeded)
				f.wantServed(app, "/", "page of "+app)
				attempts(t, run, 2)
				wantEqual(t, "releases of "+app, len(f.accessible(app)), 1)
			}
			if back {
				wantStatusOf(t, first.site, http.StatusOK)
			} else {
				<-first.done
				first.start()
			}
			r := f.repository(f.app("after"))
			r.write("index.html", "after")
			r.commit("after")
			f.released(r.push("main"), "after")
			f.wantServed("after", "/", "after")
			wantSound(t, f.site, false)
		})
	}
}

// While no worker is alive whoever pushes, and whoever asks, is told what is waited for; then the push goes on.
func TestScaleWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	ready := func() string { return f.get("http://127.0.0.1:" + f.port + "/readyz").body }
	status := func() string {
		said, code := f.run(t.TempDir(), "status")
		wantEqual(t, "exit code of status: "+said, code, 0)
		return said
	}
	f.eventually("the worker has given a sign of life", func() bool { return !strings.Contains(ready()+status(), "alive") })
	f.workers[0].stop()
	wantText(t, told{ready()}, "ready\n", "pipeline: no worker is alive")
	wantText(t, told{status()}, "none is alive")
	r := f.repository(f.app("shop"))
	r.write("index.html", "one")
	r.commit("one")
	terminal := &logtest.Buffer{}
	push := exec.Command("git", "push", "origin", "main")
	push.Dir, push.Stdout, push.Stderr = r.dir, terminal, terminal
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	f.eventually("the push says what it waits for", func() bool {
		return strings.Contains(terminal.String(), "waiting for a worker: none is alive")
	})
	f.workers[0].start()
	if err := push.Wait(); err != nil {
		t.Errorf("the push ended with %v:\n%s", err, terminal)
	}
	f.wantServed("shop", "/", "one")
	wantEqual(t, "how often the push said so: "+terminal.String(), strings.Count(terminal.String(), "none is alive"), 1)
	if said := ready() + status(); strings.Contains(said, "alive") {
		t.Errorf("with a worker again: got %q, want nothing about workers", said)
	}
}

// wantStatusOf fails the test unless the process says so of its health.
func wantStatusOf(t *testing.T, s *site, status int) {
	t.Helper()
	wantEqual(t, "status of /readyz", s.in(t).get("http://127.0.0.1:"+s.port+"/readyz").status, status)
}
