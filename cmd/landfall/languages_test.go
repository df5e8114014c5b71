package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/wasm/wasmtest"
)

// Two functions in each language answer at the public address: one a request, and one an event.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ environment, hello, greet string }{
		{"python-env", "hello.main", "greet.main"},
		{"node-env", "hello", "greet.handler"},
		{"binary-env", "exec:hello", "greet"},
		{"go-env-1.26", "Handler", ""},
		{"wasm-env", "hello.wasm", ""},
		{"container-env", "", ""}, // images of the same programs, compiled for this machine
	} {
		t.Run(test.environment, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			r := s.repository(s.app("shop"))
			specs := functionsSpec(test.environment, "hello "+test.hello, "greet "+test.greet)
			language, _, _ := strings.Cut(test.environment, "-")
			switch language {
			case "node":
				language = "nodejs"
			case "go": // which is built from its source
				specs = strings.ReplaceAll(specs, "deployment:", "source:")
			}
			r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page")
			copyExample(t, r, language)
			s.pushed(r, "shop", "Two functions")
			if language == "go" { // who waits for the first build reads why
				wantText(t, told{s.landfall("run", "logs", s.finished("shop", r.head()).ID)}, "compiling Go's standard library, once for this server")
			}
			answer := s.post(s.URL+"/functions/default/greet:latest", oneEvent,
				`{"specversion":"1.0","id":"7","source":"/me","type":"greet","datacontenttype":"application/json","data":{"name":"Ada"}}`)
			wantEqual(t, "content type", answer.header.Get("Content-Type"), oneEvent)
			got := decode[map[string]any](t, []byte(answer.body))
			// E-045: whatever a registered function is written in, it takes an event and gives one
			wantEqual(t, "event", fmt.Sprint(got["specversion"], " ", got["data"]), "1.0 map[text:Hello, Ada!]")
			for range 2 {
				answer := s.get(s.at("shop", "/api/hello?name=Ada"))
				wantEqual(t, "status", answer.status, http.StatusOK)
				// E-012: in any language
				wantEqual(t, "answer to a request", answer.body, "Hello, Ada!\n")
				// E-010: a defined input, and a defined output
				wantEqual(t, "answer to an event", s.post(s.at("shop", "/api/greet"), "application/json", `{"name":"Ada"}`).body, `{"text":"Hello, Ada!"}`)
			}
		})
	}
}

// copyExample writes the examples of a language into the folders of two functions, modules as they are built.
func copyExample(t *testing.T, r *repository, language string) {
	t.Helper()
	examples := filepath.Join("..", "..", "environment", language, "example")
	for _, function := range []string{"hello", "greet"} {
		switch language {
		case "go":
			if err := os.CopyFS(filepath.Join(r.dir, function), os.DirFS(filepath.Join(examples, function))); err != nil {
				t.Fatal(err)
			}
			continue
		case "wasm":
			buildExample(t, function, filepath.Join(r.dir, function, function+".wasm"), "GOOS=wasip1", "GOARCH=wasm")
			continue
		case "container":
			program := filepath.Join(t.TempDir(), function)
			buildExample(t, function, program, "CGO_ENABLED=0")
			r.write(filepath.Join(function, "README"), "")
			writeImage(t, imageOf(t, program, ""), filepath.Join(r.dir, function, "image.tar"))
			continue
		}
		found, err := filepath.Glob(filepath.Join(examples, function+"*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("the example %s of %s is %v, %v", function, language, found, err)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(function, filepath.Base(found[0]))
		r.write(name, string(text))
		if filepath.Ext(name) == "" {
			if err := os.Chmod(filepath.Join(r.dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// buildExample compiles one of the examples of modules.
func buildExample(t *testing.T, function, to string, env ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", to, "./"+function)
	build.Dir = filepath.Join("..", "..", "environment", "wasm", "example")
	build.Env = append(build.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A module that cannot be run makes no version: the push says what it imports. One that can be is compiled then, and not again.
func TestModuleOfRelease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	module := func(source wasmtest.Source) string { return string(source.Bytes()) }
	const answer = `{"specversion":"1.0","id":"1","source":"/me","type":"t","datacontenttype":"text/plain","data":"hello"}`
	r.write("specs/functions.yaml", functionsSpec("wasm-env", "hello"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/main.wasm", module(wasmtest.Says(answer)))
	s.pushed(r, "shop", "A module")
	code := func() int {
		found, err := filepath.Glob(filepath.Join(s.data, "cache", "wasm", "wazero-*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	wantEqual(t, "modules that are compiled", code(), 1)
	wantEqual(t, "answer", s.get(s.at("shop", "/api/hello")).body, "hello")
	wantEqual(t, "modules that are compiled", code(), 1)

	wrong := wasmtest.Says(answer)
	wrong.Imports[0] = [2]string{"wasi:http/types", "new-request"}
	r.write("hello/main.wasm", module(wrong))
	r.commit("A module for another host")
	// N-026: it is refused when its version would be made, with what it imports
	wantFailed(t, s, "shop", r, r.push("HEAD"), "specs/functions.yaml", "Function hello", "main.wasm", `the function "new-request" of the module "wasi:http/types"`)
	r.write("hello/main.wasm", module(wasmtest.Says(answer))[:80])
	r.commit("Half a module")
	// N-026: and so is one that does not validate
	wantFailed(t, s, "shop", r, r.push("HEAD"), "Function hello", "main.wasm", "middle of a section")
	wantEqual(t, "answer", s.get(s.at("shop", "/api/hello")).body, "hello")

	// Nothing is compiled again when the server comes back.
	s.stop()
	s.start()
	wantEqual(t, "answer after a start", s.get(s.at("shop", "/api/hello")).body, "hello")
	wantEqual(t, "modules that are compiled", code(), 1)
}
