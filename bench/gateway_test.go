package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// The server has one core and the load another one.
const (
	serverCore = "0"
	loadCore   = "1"
)

// web is a server of the town's pages.
type web struct {
	name string
	port string
	pid  int
}

// client returns a client that connects to the server whatever the host is.
func (w *web) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+w.port)
	}}}
}

// folders writes the pages of all apps, a folder for each.
func (t *town) folders(b *testing.B) string {
	b.Helper()
	root := b.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // nginx reads them as a user of its own
		b.Fatal(err)
	}
	for app, pages := range t.pages {
		for i, data := range pages {
			path := filepath.Join(root, townApp(app), townPage(i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	return root
}

// nginxConfig has what makes nginx fast: files stay open, nothing is logged. The headers are ours.
const nginxConfig = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
  include /etc/nginx/mime.types;
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=20000 inactive=1h;
  open_file_cache_valid 1h;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
    listen 127.0.0.1:%[2]s;
    server_name ~^(?<app>[a-z0-9-]+)\.localhost$;
    root %[3]s;
    add_header Cache-Control "public, max-age=0, must-revalidate";
    add_header X-Content-Type-Options nosniff;
    add_header Vary Accept-Encoding;
  }
}
`

// nginx starts nginx with a root, which may name $app, and returns what starts it anew with another root.
func nginx(b *testing.B, core, root string) (*web, func(root string)) {
	b.Helper()
	w := &web{name: "nginx", port: site.FreePort(b)}
	dir := b.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	write := func(root string) {
		if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, w.port, root), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write(root)
	w.start(b, onCore(core, "nginx", "-c", config, "-e", filepath.Join(dir, "error.log")))
	return w, func(root string) {
		write(root)
		run(b, "", "nginx", "-c", config, "-e", filepath.Join(dir, "error.log"), "-s", "reload")
	}
}

const caddyConfig = `{
	admin off
	auto_https off
	log {
		output discard
	}
}
http://*.localhost:%[1]s {
	root * %[2]s/{http.request.host.labels.1}
	header Cache-Control "public, max-age=0, must-revalidate"
	header X-Content-Type-Options nosniff
	header Vary Accept-Encoding
	file_server
}
`

func caddy(b *testing.B, core, root string) *web {
	b.Helper()
	w := &web{name: "caddy", port: site.FreePort(b)}
	config := filepath.Join(b.TempDir(), "Caddyfile")
	if err := os.WriteFile(config, fmt.Appendf(nil, caddyConfig, w.port, root), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := onCore(core, "caddy", "run", "--config", config, "--adapter", "caddyfile")
	cmd.Env = site.Environ("HOME=" + b.TempDir())
	w.start(b, cmd)
	return w
}

// start starts a server that ends with the benchmark, and returns when it listens.
func (w *web) start(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	b.Cleanup(w.begin(b, cmd))
}

// begin starts a server, and returns what ends it when it listens.
func (w *web) begin(b *testing.B, cmd *exec.Cmd) (end func()) {
	b.Helper()
	var said logtest.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	w.pid = cmd.Process.Pid
	if err := w.listens(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.Fatalf("%s does not listen: %v\n%s", w.name, err, said.String())
	}
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); b.Failed() {
			b.Logf("%s ended: %v; it said:\n%s", w.name, err, said.String())
		}
	}
}

// listens waits until the server takes connections.
func (w *web) listens() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testkit.Patience); ; <-tick.C {
		conn, err := net.Dial("tcp", "127.0.0.1:"+w.port)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// check fails the benchmark unless the server serves the town's pages as HTTP wants them: type, entity tag, a
// condition, a range, and 404 for what is not there.
func (t *town) check(b *testing.B, w *web) {
	b.Helper()
	c := w.client()
	defer c.CloseIdleConnections()
	ask := func(app, page int, header, value string) (*http.Response, []byte) {
		r, err := http.NewRequest(http.MethodGet, "http://"+townApp(app)+".localhost:"+w.port+townPage(page), nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "identity")
		r.Header.Set(header, value)
		return answered(b, c, r)
	}
	for app := range t.pages {
		page := app % townPages
		resp, data := ask(app, page, "X-None", "")
		if resp.StatusCode != http.StatusOK || !bytes.Equal(data, t.pages[app][page]) ||
			!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			b.Fatalf("%s: app %d, page %d: got %s, %q, %d bytes", w.name, app, page, resp.Status,
				resp.Header.Get("Content-Type"), len(data))
		}
		etag := resp.Header.Get("ETag")
		if resp, _ := ask(app, page, "If-None-Match", etag); etag == "" || resp.StatusCode != http.StatusNotModified {
			b.Fatalf("%s: got %s for the entity tag %q, want 304", w.name, resp.Status, etag)
		}
		if resp, data := ask(app, page, "Range", "bytes=10-19"); resp.StatusCode != http.StatusPartialContent ||
			!bytes.Equal(data, t.pages[app][page][10:20]) {
			b.Fatalf("%s: got %s and %q for a range", w.name, resp.Status, data)
		}
	}
	if resp, _ := ask(0, townPages, "X-None", ""); resp.StatusCode != http.StatusNotFound {
		b.Fatalf("%s: got %s for a page that is not there, want 404", w.name, resp.Status)
	}
}

// mix is a script for wrk: all pages of all apps, each request from another app than the one before.
func mix(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "mix.lua")
	text := fmt.Sprintf(`local all, i = {}, 0
init = function(args)
  for n = 0, %[1]d - 1 do
    local k = (n * 7919) %% %[1]d
    local app, page = math.floor(k / %[2]d), k %% %[2]d
    all[n + 1] = wrk.format("GET", string.format("/dir%%d/page%%02d.html", page %% 10, page), {Host = string.format("app%%03d.localhost", app)})
  end
end
request = function()
  i = i %% %[1]d + 1
  return all[i]
end
`, townApps*townPages, townPages)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// rate is what a load came to.
type rate struct {
	persecond float64
	p99       float64 // ms
	cost      float64 // of the server's processor time for an answer, in ms
}

// wrk asks a server for what the arguments say with so many connections, and returns how often it was answered. Every
// answer must be one.
func wrk(b *testing.B, w *web, connections int, duration time.Duration, args ...string) rate {
	b.Helper()
	before := cpu(b, w.pid)
	all := append([]string{"--cpu-list", loadCore, "wrk", "--latency", "-t1", "-c" + strconv.Itoa(connections),
		"-d" + duration.String()}, args...)
	said := run(b, "", "taskset", all...)
	var r rate
	for l := range strings.Lines(said) {
		words := strings.Fields(l)
		switch {
		case strings.Contains(l, "Non-2xx") || strings.Contains(l, "Socket errors"):
			b.Fatalf("wrk %s: %s", strings.Join(args, " "), said)
		case len(words) == 2 && words[0] == "99%":
			d, err := time.ParseDuration(words[1])
			if err != nil {
				b.Fatal(err)
			}
			r.p99 = ms(d)
		case len(words) > 2 && words[1] == "requests" && words[2] == "in":
			n, _ := strconv.ParseFloat(words[0], 64)
			r.cost = (cpu(b, w.pid) - before) / n
		case len(words) == 2 && words[0] == "Requests/sec:":
			r.persecond, _ = strconv.ParseFloat(words[1], 64)
		}
	}
	if r.persecond == 0 {
		b.Fatalf("wrk %s measured nothing: %s", strings.Join(args, " "), said)
	}
	return r
}

// BenchmarkP1 serves pages of 4 KiB to 32 connections that stay open: one page, and all pages of 100 apps.
func BenchmarkP1(b *testing.B) {
	const connections, duration = 32, 2 * time.Second
	t := newTown(b)
	s := startServer(b, t.data, serverCore)
	root := t.folders(b)
	peer, _ := nginx(b, serverCore, root+"/$app")
	webs := []*web{{"landfall", s.Port, s.pid()}, peer, caddy(b, serverCore, root)}
	script := mix(b)
	loads := []struct {
		name string
		args func(w *web) []string
	}{
		{"one page", func(w *web) []string {
			return []string{"-H", "Host: " + townApp(7) + ".localhost", "http://127.0.0.1:" + w.port + townPage(7)}
		}},
		{"100 apps of 100 pages", func(w *web) []string { return []string{"-s", script, "http://127.0.0.1:" + w.port} }},
	}
	type rows struct{ nginx, caddy, slow, cost *bench.Row }
	var all []rows
	for _, l := range loads {
		all = append(all, rows{
			table.Row(bench.Row{Figure: "P1 requests/s, " + l.name, Unit: "1/s", Peer: "nginx", More: true, Floor: 0.4,
				Target: 1}),
			table.Row(bench.Row{Figure: "P1 requests/s, " + l.name, Unit: "1/s", Peer: "caddy", More: true, Floor: 2,
				Target: 4}),
			table.Row(bench.Row{Figure: "P1 99th percentile of the answers' time, " + l.name, Unit: "ms", Peer: "nginx",
				Target: 1}),
			table.Row(bench.Row{Figure: "P1 processor time of the server for an answer, " + l.name, Unit: "ms", Peer: "nginx"}),
		})
		for _, w := range webs { // all is in memory then
			wrk(b, w, connections, duration/2, l.args(w)...)
		}
	}
	for _, w := range webs {
		t.check(b, w)
	}
	for b.Loop() {
		for i, l := range loads {
			var got []rate
			for _, w := range webs {
				got = append(got, wrk(b, w, connections, duration, l.args(w)...))
			}
			all[i].nginx.Add(got[0].persecond, got[1].persecond)
			all[i].caddy.Add(got[0].persecond, got[2].persecond)
			all[i].slow.Add(got[0].p99, got[1].p99)
			all[i].cost.Add(got[0].cost, got[1].cost)
		}
	}
	for _, w := range webs {
		t.check(b, w)
	}
	table.Notef("P1: %s with files kept open; Caddy %s. Each server on one core, wrk on the other; the same headers, "+
		"ours also with %s.",
		strings.TrimPrefix(combined(b, "nginx", "-v"), "nginx version: "), version(b, "caddy", "version"), "Landfall-Release")
	table.Notef("P1, where our processor time goes, %s: %s", loads[1].name, s.profile(func() {
		wrk(b, webs[0], connections, duration, loads[1].args(webs[0])...)
	}))
	summarize(b, all[0].nginx)
}

// combined returns what a program prints, wherever.
func combined(b *testing.B, program string, args ...string) string {
	b.Helper()
	text, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", program, err, text)
	}
	return strings.TrimSpace(string(text))
}

// answered sends a request and reads the answer.
func answered(b testing.TB, c *http.Client, r *http.Request) (*http.Response, []byte) {
	b.Helper()
	resp, err := c.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(resp.Body); err != nil {
		b.Fatal(err)
	}
	return resp, data.Bytes()
}
