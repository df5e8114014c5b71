package function_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
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
			s := site.New(t)
			r := s.Repository(s.App("shop"))
			specs := site.FunctionsSpec(test.environment, "hello "+test.hello, "greet "+test.greet)
			language, _, _ := strings.Cut(test.environment, "-")
			switch language {
			case "node":
				language = "nodejs"
			case "go": // which is built from its source
				specs = strings.ReplaceAll(specs, "deployment:", "source:")
			}
			r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
			copyExample(t, r, language)
			s.Pushed(r, "shop", "Two functions")
			if language == "go" { // who waits for the first build reads why
				testkit.Contains(t, site.Told{s.Landfall("run", "logs", s.Finished("shop", r.Head()).ID)},
					"compiling Go's standard library, once for this server")
			}
			answer := s.Post(s.URL+"/functions/default/greet:latest", site.OneEvent,
				`{"specversion":"1.0","id":"7","source":"/me","type":"greet","datacontenttype":"application/json","data":{"name":"Ada"}}`)
			testkit.Equal(t, "content type", answer.Header.Get("Content-Type"), site.OneEvent)
			got := testkit.Decode[map[string]any](t, []byte(answer.Body))
			// E-045: whatever a registered function is written in, it takes an event and gives one
			testkit.Equal(t, "event", fmt.Sprint(got["specversion"], " ", got["data"]), "1.0 map[text:Hello, Ada!]")
			for range 2 {
				answer := s.Get(s.At("shop", "/api/hello?name=Ada"))
				testkit.Equal(t, "status", answer.Status, http.StatusOK)
				// E-012: in any language
				testkit.Equal(t, "answer to a request", answer.Body, "Hello, Ada!\n")
				// E-010: a defined input, and a defined output
				testkit.Equal(t, "answer to an event",
					s.Post(s.At("shop", "/api/greet"), "application/json", `{"name":"Ada"}`).Body, `{"text":"Hello, Ada!"}`)
			}
		})
	}
}

// copyExample writes the examples of a language into the folders of two functions, modules as they are built.
func copyExample(t *testing.T, r *site.Repository, language string) {
	t.Helper()
	examples := filepath.Join("..", "..", "environment", language, "example")
	for _, function := range []string{"hello", "greet"} {
		switch language {
		case "go":
			if err := os.CopyFS(filepath.Join(r.Dir, function), os.DirFS(filepath.Join(examples, function))); err != nil {
				t.Fatal(err)
			}
			continue
		case "wasm":
			buildExample(t, function, filepath.Join(r.Dir, function, function+".wasm"), "GOOS=wasip1", "GOARCH=wasm")
			continue
		case "container":
			program := filepath.Join(t.TempDir(), function)
			buildExample(t, function, program, "CGO_ENABLED=0")
			r.Write(filepath.Join(function, "README"), "")
			writeImage(t, imageOf(t, program, ""), filepath.Join(r.Dir, function, "image.tar"))
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
		r.Write(name, string(text))
		if filepath.Ext(name) == "" {
			if err := os.Chmod(filepath.Join(r.Dir, name), 0o755); err != nil {
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

// A module that cannot be run makes no version: the push says what it imports. One that can be is compiled then, and
// not again.
func TestModuleOfRelease(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	module := func(source wasmtest.Source) string { return string(source.Bytes()) }
	const answer = `{"specversion":"1.0","id":"1","source":"/me","type":"t","datacontenttype":"text/plain","data":"hello"}`
	r.Write("specs/functions.yaml", site.FunctionsSpec("wasm-env", "hello"), "specs/app.yaml", site.AppSpec("shop"),
		"site/index.html", "page", "hello/main.wasm", module(wasmtest.Says(answer)))
	s.Pushed(r, "shop", "A module")
	code := func() int {
		found, err := filepath.Glob(filepath.Join(s.Data, "cache", "wasm", "wazero-*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	testkit.Equal(t, "modules that are compiled", code(), 1)
	testkit.Equal(t, "answer", s.Get(s.At("shop", "/api/hello")).Body, "hello")
	testkit.Equal(t, "modules that are compiled", code(), 1)

	wrong := wasmtest.Says(answer)
	wrong.Imports[0] = [2]string{"wasi:http/types", "new-request"}
	r.Write("hello/main.wasm", module(wrong))
	r.Commit("A module for another host")
	// N-026: it is refused when its version would be made, with what it imports
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml", "Function hello", "main.wasm",
		`the function "new-request" of the module "wasi:http/types"`)
	r.Write("hello/main.wasm", module(wasmtest.Says(answer))[:80])
	r.Commit("Half a module")
	// N-026: and so is one that does not validate
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "Function hello", "main.wasm", "middle of a section")
	testkit.Equal(t, "answer", s.Get(s.At("shop", "/api/hello")).Body, "hello")

	// Nothing is compiled again when the server comes back.
	s.Stop()
	s.Start()
	testkit.Equal(t, "answer after a start", s.Get(s.At("shop", "/api/hello")).Body, "hello")
	testkit.Equal(t, "modules that are compiled", code(), 1)
}
