package environment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// TestMain is also the init of what the tests confine.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	code := m.Run()
	_ = os.RemoveAll(made())
	os.Exit(code)
}

// made is a folder of what is built for all tests.
var made = sync.OnceValue(func() string {
	dir, _ := os.MkdirTemp("", "environment-test-") // who uses it finds out
	return dir
})

// modules runs modules for all tests.
var modules = sync.OnceValue(func() *wasm.Modules {
	m, _ := wasm.Open(context.Background(), filepath.Join(made(), "wasm"), wasm.Limits{}) // who uses it finds out
	return m
})

// wazero is a program that runs modules in a shell.
func wazero(t testing.TB) string {
	t.Helper()
	program := filepath.Join(made(), "wazero")
	goBuild(t, ".", program, "github.com/tetratelabs/wazero/cmd/wazero")
	return program
}

// goBuild builds a Go program, for another target when the environment says so.
func goBuild(t testing.TB, dir, program, path string, env ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, path)
	build.Dir, build.Env = dir, append(build.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", path, err, out)
	}
}

// boxes are the sandboxes of this machine, found once.
var boxes = sync.OnceValue(func() map[string]*sandbox.Sandbox {
	ctx := context.Background()
	return map[string]*sandbox.Sandbox{"confined": sandbox.Detect(ctx, sandbox.Auto),
		"off": sandbox.Detect(ctx, sandbox.Off)}
})

// logs keeps what functions logged, by execution.
type logs struct {
	mu   sync.Mutex
	text map[string]string
}

// Log implements runner.Logs.
func (l *logs) Log(_, execution string, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text[execution] += string(text)
}

func (l *logs) of(execution string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[execution]
}

// start returns a runner that is closed with the test.
func start(t testing.TB, kind string) (*runner.Runner, *logs) {
	t.Helper()
	box := boxes()[kind]
	if box.Kind() == "none" {
		t.Fatal("nothing can confine functions here; type: apt-get install bubblewrap")
	}
	log := &logs{text: map[string]string{}}
	r := &runner.Runner{Sandbox: box, Modules: modules(), Logs: log,
		Defaults: landfall.Resources{Timeout: testkit.Patience}}
	t.Cleanup(r.Close)
	return r, log
}

// files is a package: texts by path. A path that ends in * can be executed.
type files map[string]string

// unpack writes a package into a folder that everybody can read.
func unpack(t testing.TB, content files) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		mode := os.FileMode(0o644)
		if cut, ok := strings.CutSuffix(name, "*"); ok {
			name, mode = cut, 0o755
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// example returns the package of a language's examples.
func example(t testing.TB, language string) files {
	t.Helper()
	switch language {
	case "wasm":
		return exampleModules(t)
	case "go":
		return examplePrograms(t)
	}
	found := files{}
	paths, err := filepath.Glob(filepath.Join(language, "example", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no examples of %s: %v", language, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if filepath.Ext(name) == "" {
			name += "*"
		}
		found[name] = string(text)
	}
	return found
}

// exampleModules builds the examples that are modules.
func exampleModules(t testing.TB) files {
	t.Helper()
	found := files{}
	for _, name := range []string{"hello", "greet"} {
		module := filepath.Join(t.TempDir(), name+".wasm")
		goBuild(t, "wasm/example", module, "./"+name, "GOOS=wasip1", "GOARCH=wasm")
		data, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		found[name+".wasm"] = string(data)
	}
	return found
}

// examplePrograms builds the examples that are programs in Go, as a package with a source is built.
func examplePrograms(t testing.TB) files {
	t.Helper()
	return files{"main*": goProgram(t, os.DirFS("go/example/hello")), "greet*": goProgram(t, os.DirFS("go/example/greet"))}
}

// goProgram builds a package in Go that is right.
func goProgram(t testing.TB, source fs.FS) string {
	t.Helper()
	program, err := buildGo(t, source)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// buildGo builds a package in Go.
func buildGo(t testing.TB, source fs.FS) (program string, err error) {
	t.Helper()
	dir := t.TempDir()
	src, deploy := filepath.Join(dir, "src"), filepath.Join(dir, "deploy")
	if err := os.CopyFS(src, source); err != nil {
		t.Fatal(err)
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	command, _ := of(t, "go").Build("")
	build := exec.CommandContext(t.Context(), "sh", "-c", command)
	build.Dir = src
	build.Env = append(build.Environ(), "SRC_PKG="+src, "DEPLOY_PKG="+deploy, "GOCACHE="+strings.TrimSpace(string(cache)))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(deploy, "main"))
	return string(text), err
}

// of returns the environment of a language.
func of(t testing.TB, language string) environment.Environment {
	t.Helper()
	e, err := environment.Of(landfall.Environment{Name: language})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// runnable makes a package a function that can be run.
func runnable(t testing.TB, language, entrypoint string, content files) runner.Function {
	t.Helper()
	dir := unpack(t, content)
	e := of(t, language)
	if err := e.Install(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	args, form, err := e.Command(dir, entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	f := runner.Function{Function: landfall.Function{ID: t.Name()}, Args: args, Dir: dir, Form: form}
	if e.Modules() {
		if f.Module, err = modules().Load(t.Context(), filepath.Join(dir, args[0])); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// arrival returns an event with JSON in it.
func arrival(t testing.TB, execution, data string) event.Event {
	t.Helper()
	e := event.New()
	e.SetID("1")
	e.SetSource("/test")
	e.SetType("arrival")
	if execution != "" {
		event.SetExecution(&e, execution)
	}
	if data != "" {
		if err := e.SetData("application/json", json.RawMessage(data)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// request returns an event that is an HTTP request.
func request(t testing.TB, execution string, p event.Protocol, contentType, body string) event.Event {
	t.Helper()
	e := arrival(t, execution, "")
	p.Type = "http"
	event.SetProtocol(&e, p)
	if body != "" {
		if err := e.SetData(contentType, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// get returns an event that is a GET request.
func get(t testing.TB, execution, url string) event.Event {
	t.Helper()
	return request(t, execution, event.Protocol{Method: "GET", RequestURL: url}, "", "")
}

// run calls a function, which must answer.
func run(t testing.TB, r *runner.Runner, f runner.Function, e event.Event) event.Event {
	t.Helper()
	answer, err := r.Run(t.Context(), f, function.Call{Event: e})
	if err != nil {
		t.Fatalf("Run: %v (%+v)", err, function.EventError(err))
	}
	return answer
}

// protocol returns what an answer says beside its data.
func protocol(t testing.TB, e event.Event) event.Protocol {
	t.Helper()
	p, err := event.ProtocolOf(e)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
