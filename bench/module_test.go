package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/test/site"
)

// versions is how many modules P3a has.
const versions = 1000

// moduleOf returns a small module that is no other, which answers with its number.
func moduleOf(number int) []byte {
	return wasmtest.Says(fmt.Sprintf(
		`{"specversion":"1.0","id":"1","source":"/bench","type":"answer","datacontenttype":"text/plain","data":"%d"}`,
		number)).Bytes()
}

// newModules pushes as many functions as there are versions, each with a module of its own, at /0 and so on.
func newModules(b *testing.B, s *server) {
	b.Helper()
	work := newWorkTree(b, 0)
	var specs strings.Builder
	specs.WriteString(`apiVersion: fission.io/v1
kind: Environment
metadata: {name: modules}
spec: {version: 2, runtime: {image: wasm-env}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: all}
spec: {environment: {name: modules}, deployment: {url: "archive://all"}}
---
kind: ArchiveUploadSpec
name: all
include: ["function/*"]
`)
	for i := range versions {
		work.Write(fmt.Sprintf("function/%d.wasm", i), string(moduleOf(i)))
		fmt.Fprintf(&specs, `---
apiVersion: fission.io/v1
kind: Function
metadata: {name: f%[1]d}
spec:
  environment: {name: modules}
  package: {packageref: {name: all}, functionName: %[1]d.wasm}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: f%[1]d}
spec: {functionref: {type: name, name: f%[1]d}, methods: [GET], relativeurl: /%[1]d}
`, i)
	}
	work.Write("specs/functions.yaml", specs.String())
	work.Write("site/index.html", "an app of many functions")
	work.Git("remote", "add", "landfall", s.Remote(s.App("bench")))
	s.pushedAt(work, work.commit(), new(stepTimes))
}

// firstCalls asks a server once at each of its addresses, and returns how many milliseconds each answer took.
func firstCalls(b *testing.B, c *http.Client, address, want func(number int) string, count int) []float64 {
	b.Helper()
	defer c.CloseIdleConnections()
	took := make([]float64, count)
	for i := range count {
		r, err := http.NewRequest(http.MethodGet, address(i), nil)
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		resp, data := answered(b, c, r)
		took[i] = float64(time.Since(begin)) / float64(time.Millisecond)
		if resp.StatusCode != http.StatusOK || string(data) != want(i) {
			b.Fatalf("%s: got %s and %q", r.URL, resp.Status, data)
		}
	}
	return took
}

// instantiated returns how many milliseconds wazero alone takes for each of the modules, which are compiled.
func instantiated(b *testing.B) []float64 {
	b.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true))
	defer func() { _ = r.Close(ctx) }()
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	took := make([]float64, versions)
	for i := range took {
		module, err := r.CompileModule(ctx, moduleOf(i))
		if err != nil {
			b.Fatal(err)
		}
		var out strings.Builder
		config := wazero.NewModuleConfig().WithName("").WithStdout(&out)
		begin := time.Now()
		instance, err := r.InstantiateModule(ctx, module, config)
		if err != nil {
			b.Fatal(err)
		}
		_ = instance.Close(ctx)
		took[i] = float64(time.Since(begin)) / float64(time.Millisecond)
	}
	return took
}

// isolates is how many functions workerd has, each behind a port of its own.
const isolates = 100

// newIsolates starts workerd with functions that nobody called, and returns their ports.
func newIsolates(b *testing.B) []string {
	b.Helper()
	var services, sockets []string
	ports := make([]string, isolates)
	for i := range ports {
		ports[i] = site.FreePort(b)
		services = append(services, fmt.Sprintf(`(name = "f%[1]d", worker = (modules = [(name = "f%[1]d.js", esModule =
      "export default { async fetch() { return new Response('%[1]d'); } };")], compatibilityDate = "2026-01-01"))`, i))
		sockets = append(sockets, fmt.Sprintf(`(name = "s%d", address = "127.0.0.1:%s", http = (), service = "f%d")`, i,
			ports[i], i))
	}
	w := &web{name: "workerd", port: ports[isolates-1]}
	config := filepath.Join(b.TempDir(), "config.capnp")
	text := "using Workerd = import \"/workerd/workerd.capnp\";\nconst config :Workerd.Config = (services = [" +
		strings.Join(services, ",\n") + "],\nsockets = [" + strings.Join(sockets, ",\n") + "]);\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	w.start(b, onCore(serverCore, workerd, "serve", config))
	return ports
}

// BenchmarkP3a calls many modules for the first time: they were compiled when their versions were made.
func BenchmarkP3a(b *testing.B) {
	s := newServer(b, serverCore)
	newModules(b, s)
	own := &web{"landfall", s.Port, s.pid()}
	number := func(i int) string { return fmt.Sprint(i) }
	slow := table.Row(bench.Row{Figure: "P3a 99th percentile of a module's first call", Unit: "ms", Absolute: true,
		Floor: 5, Target: 1})
	bare := table.Row(bench.Row{Figure: "P3a median of a module's first call", Unit: "ms",
		Peer: "wazero alone, no gateway"})
	for b.Loop() {
		got := firstCalls(b, own.client(), func(i int) string {
			return "http://bench.localhost:" + s.Port + "/" + number(i)
		}, number, versions)
		beside := instantiated(b)
		slow.Add(bench.Quantile(got, 0.99), 0)
		bare.Add(bench.Quantile(got, 0.5), bench.Quantile(beside, 0.5))
		b.Logf("landfall: p50 %.3f, p99 %.3f ms; wazero alone: p50 %.3f, p99 %.3f ms", bench.Quantile(got, 0.5),
			bench.Quantile(got, 0.99),
			bench.Quantile(beside, 0.5), bench.Quantile(beside, 0.99))
		if _, err := os.Stat(workerd); err == nil {
			peer := table.Row(bench.Row{Figure: "P3a 99th percentile of a first call", Unit: "ms", Peer: "workerd"})
			ports := newIsolates(b)
			theirs := firstCalls(b, &http.Client{Transport: &http.Transport{}}, func(i int) string {
				return "http://127.0.0.1:" + ports[i] + "/"
			}, number, isolates-1)
			peer.Add(bench.Quantile(got, 0.99), bench.Quantile(theirs, 0.99))
			b.Logf("workerd: p50 %.3f, p99 %.3f ms", bench.Quantile(theirs, 0.5), bench.Quantile(theirs, 0.99))
		}
	}
	summarize(b, slow)
}
