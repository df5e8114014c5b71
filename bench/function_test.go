package bench_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/site"
)

// echoed is the body that functions hand back, 1 KiB, and echoType its type.
var echoed = strings.Repeat("0123456789abcdef", 64)

const echoType = "text/plain"

// echoSpecs declare an app whose one function is the program, at /echo.
const echoSpecs = `apiVersion: fission.io/v1
kind: Environment
metadata: {name: programs}
spec: {version: 2, runtime: {image: binary-env}}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: echo}
spec:
  environment: {name: programs}
  package: {packageref: {name: echo}, functionName: echo}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: echo}
spec: {environment: {name: programs}, deployment: {url: "archive://echo"}}
---
apiVersion: fission.io/v1
kind: ArchiveUploadSpec
name: echo
include: ["function/*"]
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: echo}
spec: {functionref: {type: name, name: echo}, methods: [POST], relativeurl: /echo}
`

// newFunction pushes a program as a function to an app named bench.
func newFunction(b *testing.B, s *server, program string) {
	b.Helper()
	work := newWorkTree(b, 0)
	data, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	work.Write("function/echo", string(data))
	if err := os.Chmod(filepath.Join(work.Dir, "function/echo"), 0o755); err != nil {
		b.Fatal(err)
	}
	work.Write("specs/functions.yaml", echoSpecs)
	work.Write("site/index.html", "an app of one function")
	work.Git("remote", "add", "landfall", s.Remote(s.App("bench")))
	s.pushedAt(work, work.commit(), new(stepTimes))
}

const workerdConfig = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "echo", worker = (
    modules = [(name = "echo.js", esModule =
      "export default { async fetch(request) { return new Response(await request.text(), { headers: { 'Content-Type': request.headers.get('Content-Type') } }); } };")],
    compatibilityDate = "2026-01-01"))],
  sockets = [(name = "http", address = "127.0.0.1:%s", http = (), service = "echo")]
);
`

// newWorkerd starts workerd with a function that hands back the body.
func newWorkerd(b *testing.B) *web {
	b.Helper()
	w := &web{name: "workerd", port: site.FreePort(b)}
	config := filepath.Join(b.TempDir(), "config.capnp")
	if err := os.WriteFile(config, fmt.Appendf(nil, workerdConfig, w.port), 0o600); err != nil {
		b.Fatal(err)
	}
	w.start(b, onCore(serverCore, workerd, "serve", config))
	return w
}

// workerd is the program, which make bench brings.
const workerd = module + "/build/bin/workerd"

// watchdog starts of-watchdog in a mode, and returns what ends it. It has a fixed port beside its own: there is one at
// a time.
func watchdog(b *testing.B, w *web, program, mode string) (end func()) {
	b.Helper()
	w.port = site.FreePort(b)
	function := &web{name: "echo", port: site.FreePort(b)}
	process := program
	if mode == "http" {
		process += " -listen 127.0.0.1:" + function.port
	}
	cmd := onCore(serverCore, "sh", "-c", "exec of-watchdog >"+os.DevNull+" 2>&1") // it writes a line for each request
	cmd.Env = site.Environ("port="+w.port, "mode="+mode, "fprocess="+process,
		"upstream_url=http://127.0.0.1:"+function.port, "content_type="+echoType, "TMPDIR="+b.TempDir())
	end = w.begin(b, cmd)
	if mode == "http" {
		if err := function.listens(); err != nil {
			end()
			b.Fatalf("the function behind %s does not listen: %v", w.name, err)
		}
	}
	return end
}

// echoes fails the benchmark unless a server hands back the body.
func echoes(b *testing.B, w *web) {
	b.Helper()
	c := w.client()
	defer c.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodPost, "http://bench.localhost:"+w.port+"/echo", strings.NewReader(echoed))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", echoType)
	resp, data := answered(b, c, r)
	if resp.StatusCode != http.StatusOK || string(data) != echoed ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), echoType) {
		b.Fatalf("%s: got %s, %q and %d bytes for a body of %d", w.name, resp.Status, resp.Header.Get("Content-Type"),
			len(data), len(echoed))
	}
}

// call asks a server again and again to hand back the body.
func call(b *testing.B, w *web, script string, duration time.Duration) rate {
	b.Helper()
	const connections = 16 // as many executions as a function has at once, unless it says otherwise
	echoes(b, w)
	defer echoes(b, w)
	return wrk(b, w, connections, duration, "-s", script, "-H", "Host: bench.localhost", "-H", "Content-Type: "+echoType,
		"http://127.0.0.1:"+w.port+"/echo")
}

// callee is what P2 is measured beside.
type callee struct {
	web   *web
	begin func() (end func()) // nil: it runs all the time
	calls *bench.Row
	slow  *bench.Row
}

// call calls it, and begins and ends it when it does not run all the time.
func (c *callee) call(b *testing.B, script string, duration time.Duration) rate {
	b.Helper()
	if c.begin != nil {
		defer c.begin()()
	}
	return call(b, c.web, script, duration)
}

// newCallees returns what is there of what P2 is measured beside.
func newCallees(b *testing.B, program string) []*callee {
	b.Helper()
	add := func(w *web, begin func() func(), floor, target float64) *callee {
		return &callee{
			web: w, begin: begin,
			calls: table.Row(bench.Row{Figure: "P2 calls/s of a function, 1 KiB there and back", Unit: "1/s", Peer: w.name,
				More: true, Floor: floor, Target: target}),
			slow: table.Row(bench.Row{Figure: "P2 99th percentile of the calls' time", Unit: "ms", Peer: w.name}),
		}
	}
	var all []*callee
	if _, err := exec.LookPath("of-watchdog"); err == nil {
		for _, mode := range []struct {
			name          string
			floor, target float64
		}{{"http", 2, 4}, {"streaming", 0, 50}} {
			w := &web{name: "of-watchdog, mode " + mode.name}
			all = append(all, add(w, func() func() { return watchdog(b, w, program, mode.name) }, mode.floor, mode.target))
		}
		table.Notef("P2: of-watchdog says: %s. Its lines for each request go nowhere.",
			strings.Join(strings.Fields(combined(b, "of-watchdog", "--version")), " "))
	} else {
		table.Notef("P2: of-watchdog is not on PATH, so the floor of 2 times its calls in mode http was not measured.")
	}
	if _, err := os.Stat(workerd); err == nil {
		all = append(all, add(newWorkerd(b), nil, 0, 2.5))
		table.Notef("P2: %s with a function of JavaScript.", version(b, workerd, "--version"))
	} else {
		table.Notef("P2: workerd is not there for this machine.")
	}
	return append(all, add(newBare(b, program), nil, 0, 0))
}

// newBare starts the program as a server of its own.
func newBare(b *testing.B, program string) *web {
	b.Helper()
	bare := &web{name: "net/http alone", port: site.FreePort(b)}
	cmd := onCore(serverCore, program, "-listen", "127.0.0.1:"+bare.port)
	if _, err := cmd.StdinPipe(); err != nil { // it ends with it
		b.Fatal(err)
	}
	bare.start(b, cmd)
	return bare
}

// BenchmarkP2 calls a hot function, which hands back the 1 KiB that it gets.
func BenchmarkP2(b *testing.B) {
	const duration = 2 * time.Second
	program := compiled(b, "./echo")
	s := newServer(b, serverCore)
	newFunction(b, s, program)
	script := filepath.Join(b.TempDir(), "call.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, "wrk.method = 'POST'\nwrk.body = %q\n", echoed), 0o600); err != nil {
		b.Fatal(err)
	}
	own := &web{"landfall", s.Port, s.pid()}
	slow := table.Row(bench.Row{Figure: "P2 99th percentile of the calls' time", Unit: "ms", Absolute: true, Target: 2})
	callees := newCallees(b, program)
	call(b, own, script, duration/2)
	for b.Loop() {
		for _, c := range callees {
			got := call(b, own, script, duration)
			beside := c.call(b, script, duration)
			c.calls.Add(got.persecond, beside.persecond)
			c.slow.Add(got.p99, beside.p99)
			slow.Add(got.p99, 0)
			b.Logf("%s: %+v %+v", c.web.name, got, beside)
		}
	}
	table.Notef("P2: each server and its processes on one core, wrk on the other. Our function is confined; a peer's " +
		"is not.")
	table.Notef("P2, where our processor time goes: %s", s.profile(func() { call(b, own, script, duration) }))
	summarize(b, callees[0].calls)
}
