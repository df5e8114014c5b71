package gateway_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// TestMain is also what starts the programs of the tests.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// programs returns a Caller by a real runner: the name of a function is that of its program in a folder.
func programs(t testing.TB, files map[string]string) function.Caller {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.Program(t, filepath.Join(dir, name), []byte(text))
	}
	r := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}
	t.Cleanup(r.Close)
	return function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
		return r.Run(ctx, runner.Function{Function: *c.Function, Args: []string{"./" + c.Function.Name}, Dir: dir}, c)
	})
}

// Real programs answer through a real listener, and when one does not, its caller learns it, and the next call is
// answered.
func TestPrograms(t *testing.T) {
	t.Parallel()
	const answer = `printf '{"specversion":"1.0","id":"a","source":"/f","type":"t","datacontenttype":"text/html",` +
		`"protocol":{"status_code":201,"headers":{"X-Count":["%s"]}},"data":"<p>%s"}\n' "$n" "$n"`
	loop := func(body string) string {
		return "#!/bin/sh\nn=0\nwhile read -r event; do n=$((n+1)); " + body + "; done\n"
	}
	functions := programs(t, map[string]string{
		"echo":  "#!/bin/sh\nexec cat\n",
		"count": loop(answer),
		"fail":  loop(`case "$event" in *'/fail/good'*) ` + answer + ` ;; *) echo trouble >&2; exit 3 ;; esac`),
		"talk":  loop(`echo secret of mine`),
		"hang":  loop(`sleep 100`),
		"error": loop(
			`printf '{"specversion":"1.0","id":"a","source":"/f","type":"t","error":{"message":"trouble","type":"E"}}\n'`),
	})
	content := newStore()
	app := shop(content, files{})
	var routes []registry.Route
	for _, name := range []string{"echo", "count", "fail", "talk", "hang", "error"} {
		f := &landfall.Function{ID: name, Namespace: "team", Name: name, Version: "vvvvvvv2",
			Resources: landfall.Resources{Concurrency: 1}}
		if name == "hang" {
			f.Resources.Timeout = 100 * time.Millisecond
		}
		routes = append(routes, routeTo(f, name, "", "/"+name+"/{rest...}"))
	}
	app.Releases[0].Routes = registry.NewRoutes(routes)
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = functions }, app)

	body := strings.Repeat("\x00\xff binary \r\n", 10_000)
	// E-002: from the listener to the program and back it is one event, whatever the data is
	s.send(t, http.MethodPost, host, "/echo/", strings.NewReader(body), "Content-Type", "image/png").want(t, http.StatusOK,
		"aaaaaaa2", body)
	for _, n := range []string{"1", "2"} {
		answer := s.get(t, host, "/count/")
		answer.want(t, http.StatusCreated, "aaaaaaa2", "<p>"+n)
		answer.wantHeaders(t, "X-Count", n, "Content-Type", "text/html", page.VersionHeader, "vvvvvvv2")
	}
	s.get(t, host, "/fail/good").want(t, http.StatusCreated, "aaaaaaa2", "<p>1")
	failed := s.get(t, host, "/fail/")
	failed.wantPage(t, http.StatusBadGateway, "aaaaaaa2", failed.Header.Get(page.ExecutionHeader))
	if log := s.log.String(); strings.Contains(failed.body+log, "trouble") ||
		!strings.Contains(log, failed.Header.Get(page.ExecutionHeader)) {
		t.Errorf("got the page %q and the log %q, want what the program wrote in neither: it is the execution's",
			failed.body, log)
	}
	// N-023: who calls after a program ended is answered by another
	s.get(t, host, "/fail/good").want(t, http.StatusCreated, "aaaaaaa2", "<p>1")
	s.get(t, host, "/talk/").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
	s.get(t, host, "/hang/").wantPage(t, http.StatusGatewayTimeout, "aaaaaaa2", "took too long")
	s.get(t, host, "/error/").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "It answered with an error.")
}
