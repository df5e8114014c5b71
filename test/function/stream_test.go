package function_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A client has what a function has made of its answer, also when that never ends; when the client is gone, the call
// ends.
func TestStreamedAnswer(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "ticks ticks.main", "half half.main",
		"whole whole.main"), "specs/app.yaml", site.AppSpec("shop"),
		"site/index.html", "page", "ticks/ticks.py", `import time


def main(event):
    yield {"specversion": "1.0", "datacontenttype": "text/event-stream", "protocol": {"status_code": 201}}
    while True:
        yield "data: tick\n\n"
        time.sleep(0.05)
`, "half/half.py", `def main(event):
    yield "half"
    raise ValueError("no more")
`, "whole/whole.py", `def main(event):
    yield "one "
    yield "two"
`)
	s.Pushed(r, "shop", "Functions that stream")
	ask := func(path string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.At("shop", path), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	whole := ask("/api/whole")
	body, err := io.ReadAll(whole.Body)
	if err != nil || string(body) != "one two" {
		t.Errorf("got %q, %v", body, err)
	}
	half := ask("/api/half")
	if body, err := io.ReadAll(half.Body); err == nil || string(body) != "half" {
		t.Errorf("got %q, %v; want a half, and that it is one", body, err)
	}
	ticks := ask("/api/ticks")
	testkit.Equal(t, "status", ticks.StatusCode, http.StatusCreated)
	testkit.Equal(t, "content type", ticks.Header.Get("Content-Type"), "text/event-stream")
	for _, name := range []string{"Landfall-Release", "Landfall-Version", "Landfall-Execution"} {
		if ticks.Header.Get(name) == "" {
			t.Errorf("the header %s is missing", name)
		}
	}
	const two = "data: tick\n\ndata: tick\n\n"
	got := make([]byte, len(two))
	if _, err := io.ReadFull(ticks.Body, got); err != nil || string(got) != two {
		t.Fatalf("got %q, %v; want two ticks", got, err)
	}
	_ = ticks.Body.Close()
	s.Eventually("the call of who is gone has ended", func() bool {
		var x landfall.Execution
		err := s.Do(t.Context(), http.MethodGet, "/executions/"+ticks.Header.Get("Landfall-Execution"), nil, &x)
		return err == nil && !x.Finished.IsZero()
	})
}

// ticking is a program that answers each event with ticks, as it reads it, until nobody takes them.
const ticking = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(` + "`" +
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/event-stream","protocol":"{\"streaming\":true,\"status_code\":201}"}` + "`" + `)
		for {
			fmt.Println(` + "`" + `{"data":"data: tick\n\n"}` + "`" + `)
			time.Sleep(50 * time.Millisecond)
		}
	}
}
`

// built builds a program of one file.
func built(t *testing.T, source string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"),
		filepath.Join(dir, "main.go"))
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "program")
}

// ticker is a function that answers with ticks which never end.
type ticker struct{ name, environment, entry, file, text string }

// tickers are functions of every kind. Those in Go come last: the first build on a server takes long.
func tickers() []ticker {
	const python, node, golang = `import time
from flask import Response


def main():
    def ticks():
        while True:
            yield "data: tick\n\n"
            time.sleep(0.05)
    return Response(ticks(), status=201, headers={"Content-Type": "text/event-stream"})
`, `module.exports = async () => ({ status: 201, headers: { "content-type": "text/event-stream" }, body: ticks() });

async function* ticks() {
  for (;;) {
    yield "data: tick\n\n";
    await new Promise((done) => setTimeout(done, 50));
  }
}
`, `package main

import (
	"io"
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusCreated)
	for {
		io.WriteString(w, "data: tick\n\n")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
`
	return []ticker{
		{"python", "python-env", "main.main", "main.py", python},
		{"node", "node-env", "index", "index.js", node},
		{"plain", "binary-env", "exec:main", "main", "#!/bin/sh\nwhile :; do printf 'data: tick\\n\\n'; sleep 0.05; done\n"},
		{"module", "wasm-env", "main.wasm", "README", "A module."},
		{"image", "container-env", "", "README", "An image."},
		{"golang", "go-env-1.26", "Handler", "function.go", golang},
	}
}

// writeTickers writes functions into a repository.
func writeTickers(t *testing.T, r *site.Repository, functions []ticker) {
	t.Helper()
	var specs strings.Builder
	for _, f := range functions {
		text := strings.ReplaceAll(site.FunctionsSpec(f.environment, f.name+" "+f.entry), "name: env}",
			"name: "+f.environment[:2]+"-"+f.name+"}")
		if f.name == "golang" {
			text = strings.ReplaceAll(text, "deployment:", "source:")
		}
		specs.WriteString(text + "---\n")
		r.Write(f.name+"/"+f.file, f.text)
	}
	if err := os.Chmod(filepath.Join(r.Dir, "plain", "main"), 0o755); err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(built(t, ticking, "GOOS=wasip1", "GOARCH=wasm"))
	if err != nil {
		t.Fatal(err)
	}
	r.Write("specs/functions.yaml", strings.TrimSuffix(specs.String(), "---\n"), "module/main.wasm", string(module))
	writeImage(t, imageOf(t, built(t, ticking), ""), filepath.Join(r.Dir, "image", "image.tar"))
}

// elsewhere starts a server whose functions run in another process, which a router between them knows.
func elsewhere(t *testing.T) (s, runner *site.Site) {
	t.Helper()
	on := site.EngineOf(t, "sqlite+"+site.WithS3)
	role := []string{"LANDFALL_ROLE_SECRET=" + site.RoleSecret}
	runner, router := site.NewStopped(t, site.Engine{Bucket: on.Bucket}, role...),
		site.NewStopped(t, site.Engine{}, role...)
	s = site.NewStopped(t, on, append(role, "LANDFALL_ROUTER=127.0.0.1:"+router.Port)...)
	s.Env = append(s.Env, "LANDFALL_URL="+s.URL)
	router.Env = append(router.Env, "LANDFALL_ROLE=router", "LANDFALL_RUNNERS=127.0.0.1:"+runner.Port)
	runner.Env = append(runner.Env, "LANDFALL_ROLE=runner", "LANDFALL_REGISTRY=127.0.0.1:"+s.Port)
	s.Start()
	runner.Start()
	router.Start()
	s.ReadToken()
	return s, runner
}

// Server-sent events of functions of every kind are with the client while the function runs, wherever it runs; when the
// client is gone, so is the call. A runner that dies cuts off what it was answering.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"here", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			var s, runner *site.Site
			functions := tickers()
			if where == "here" {
				s, functions = site.New(t), functions[:len(functions)-1]
			} else {
				s, runner = elsewhere(t)
			}
			r := s.Repository(s.App("shop"))
			writeTickers(t, r, functions)
			r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
			s.Pushed(r, "shop", "Functions that tick")
			for _, f := range functions {
				ticks := follow(s, f.name)
				_ = ticks.Body.Close()
				s.Eventually("the call of "+f.name+" has ended", func() bool {
					var x landfall.Execution
					err := s.Do(t.Context(), http.MethodGet, "/executions/"+ticks.Header.Get("Landfall-Execution"), nil, &x)
					return err == nil && !x.Finished.IsZero()
				})
			}
			if runner == nil {
				return
			}
			ticks := follow(s, "python")
			_ = runner.Cmd.Process.Kill()
			<-runner.Done
			if _, err := io.Copy(io.Discard, ticks.Body); err == nil {
				t.Error("the answer of a runner that died ends as if it were whole")
			}
		})
	}
}

// follow asks for a function that ticks, and returns the answer when two ticks of it were read.
func follow(s *site.Site, name string) *http.Response {
	s.T.Helper()
	request, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, s.At("shop", "/api/"+name), http.NoBody)
	if err != nil {
		s.T.Fatal(err)
	}
	answer, err := (&http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}).Do(request)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = answer.Body.Close() })
	const two = "data: tick\n\ndata: tick\n\n"
	got := make([]byte, len(two))
	if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != two {
		s.T.Fatalf("%s: got %q, %v; want two ticks", name, got, err)
	}
	status, mediaType := http.StatusCreated, "text/event-stream"
	if name == "plain" { // it says neither
		status, mediaType = http.StatusOK, "text/plain; charset=utf-8"
	}
	testkit.Equal(s.T, "status of "+name, answer.StatusCode, status)
	testkit.Equal(s.T, "content type of "+name, answer.Header.Get("Content-Type"), mediaType)
	return answer
}
