package environment_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
)

const goFunctions = `package main

import (
	"fmt"
	"io"
	"net/http"
)

func Echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.Header().Set("X-Who", r.Host+" "+r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Fission-Params-Id"))
	w.WriteHeader(http.StatusCreated)
	io.Copy(w, r.Body)
}

func Panics(w http.ResponseWriter, r *http.Request) { panic("no more") }

func Prints(w http.ResponseWriter, r *http.Request) { fmt.Println("{}") }
`

// Functions as Fission has them in Go are built into a program, which answers requests by the one that the entry point
// names.
func TestGo(t *testing.T) {
	t.Parallel()
	program := goProgram(t, fstest.MapFS{"functions.go": {Data: []byte(goFunctions)}})
	r, log := start(t, "off")
	call := func(entrypoint string, e event.Event) event.Event {
		f := runnable(t, "go", entrypoint, files{"main*": program})
		f.ID += entrypoint
		return run(t, r, f, e)
	}
	headers := map[string][]string{"Content-Type": {"application/json"}, "Host": {"shop.localhost"},
		"X-Fission-Params-Id": {"7"}}
	for kind, bodies := range map[string][]string{
		"application/json": {`{"a":1}`, `"text"`}, "text/plain": {"Grüße\n"}, "application/octet-stream": {"\xff\x00"},
	} {
		for _, body := range bodies {
			headers["Content-Type"] = []string{kind}
			answer := call("Echo", request(t, "",
				event.Protocol{Method: "PUT", RequestURL: "http://shop.localhost/a?b=c", Headers: headers}, kind, body))
			p := protocol(t, answer)
			if string(answer.Data()) != body || answer.DataContentType() != kind || p.Status != 201 ||
				p.Headers["X-Who"][0] != "shop.localhost PUT /a 7" {
				t.Errorf("%s: the answer is %s, %+v", kind, answer, p)
			}
		}
	}
	if answer := call("Echo", arrival(t, "", `{"name":"Ada"}`)); string(answer.Data()) != `{"name":"Ada"}` {
		t.Errorf("the answer to an event that is no request is %s", answer)
	}
	for entrypoint, want := range map[string]string{"Panics": "no more", "Missing": "it has Echo, Panics, Prints"} {
		fault, ok, err := event.ErrorOf(call(entrypoint, get(t, entrypoint, "http://shop.localhost/")))
		if !ok || err != nil || !strings.Contains(fault.Message, want) {
			t.Errorf("%s: the error is %+v, %t, %v", entrypoint, fault, ok, err)
		}
		if !strings.Contains(log.of(entrypoint), want) {
			t.Errorf("%s: the log is %q", entrypoint, log.of(entrypoint))
		}
	}
	if answer := call("Prints", get(t, "prints", "http://shop.localhost/")); len(answer.Data()) != 0 ||
		log.of("prints") != "{}\n" {
		t.Errorf("what a function prints is not its log: %s, %q", answer, log.of("prints"))
	}
}

const goLeaves = `package main

import (
	"fmt"
	"net/http"
)

var second, written = make(chan bool), make(chan error, 3)

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/first" {
		go func() {
			<-r.Context().Done()
			<-second
			_, err := fmt.Fprint(w, "what the first one gets")
			written <- err
			written <- http.NewResponseController(w).Flush()
			w.WriteHeader(http.StatusTeapot)
			written <- err
		}()
		return
	}
	close(second)
	fmt.Fprint(w, "second, ")
	w.(http.Flusher).Flush()
	for range cap(written) {
		if <-written == nil {
			fmt.Fprint(w, "who was not told, ")
		}
	}
	fmt.Fprint(w, "over")
}
`

// What a function leaves behind has no part in the answer to the next one. It is told that its own is over.
func TestGoLeftBehind(t *testing.T) {
	t.Parallel()
	source := strings.ReplaceAll(goLeaves, "\n", "\r\n") // as some editors write it
	f := runnable(t, "go", "", files{"main*": goProgram(t, fstest.MapFS{"function.go": {Data: []byte(source)}})})
	r, _ := start(t, "off")
	run(t, r, f, get(t, "first", "http://a/first"))
	if got := string(run(t, r, f, get(t, "second", "http://a/second")).Data()); got != "second, over" {
		t.Errorf("the second answer is %q", got)
	}
}

// What cannot be built says why. A package with a program of its own is left as it is.
func TestGoBuild(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"no Go files":       "",
		"neither a program": "package main\n\nfunc Handler() {}\n",
		"must be in package main": "package hello\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r " +
			"*http.Request) {}\n",
		"function.go:3:15: ":       "package main\n\nfunc Handler( {\n", // where it is not Go, before what it lacks
		"undefined: surelyMissing": "package main\n\nfunc main() { surelyMissing() }\n",
	} {
		source := fstest.MapFS{"README": {}}
		if text != "" {
			source["function.go"] = &fstest.MapFile{Data: []byte(text)}
		}
		if _, err := buildGo(t, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	build := func(language, named string) string {
		command, _ := of(t, language).Build(named)
		return command
	}
	if got := build("go", "make"); got != "make" {
		t.Errorf("the command that a package names becomes %q", got)
	}
	if build("go", "build") != build("go", "") || build("python", "") != "" {
		t.Error("Fission's own command is another one than none; or Python is built")
	}
	if build("wasm", "build") != "" || !strings.Contains(build("python", "build"), "pip3 install") ||
		!strings.Contains(build("node", "build"), "npm install") {
		t.Error("Fission's own command is not what its builders do")
	}
}

// A module says which Go it is written for. What calls its functions says so for itself, and what no Go of this machine
// can build is refused before anything is downloaded.
func TestGoModuleVersions(t *testing.T) {
	t.Parallel()
	const greets = "package main\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\n\t\"example.com/greet\"\n)\n\n" +
		"func Handler(w http.ResponseWriter, r *http.Request) { io.WriteString(w, greet.Word) }\n"
	r, _ := start(t, "off")
	for name, mod := range map[string]string{
		"no go line": "module functions\n",
		"1.12":       "module functions\n\ngo 1.12\n\nrequire example.com/greet v1.0.0\n",
		"1.16":       "module functions\n\ngo 1.16\n\nrequire example.com/greet v1.0.0\n",
		"a folder": "module functions\n\ngo 1.20\n\nrequire example.com/greet v1.0.0\n\nreplace example.com/greet => " +
			"./greet\n",
	} {
		source := fstest.MapFS{"go.mod": {Data: []byte(mod)}, "handler.go": {Data: []byte(greets)},
			"go.work": {Data: []byte("no go.work at all")}}
		greet := fstest.MapFile{Data: []byte("package greet\n\nconst Word = \"hello\"\n")}
		switch name {
		case "no go line":
			source["handler.go"].Data = []byte(strings.Replace(greets, "example.com/greet", "functions/greet", 1))
			source["greet/greet.go"] = &greet
		case "a folder":
			source["greet/greet.go"], source["greet/go.mod"] = &greet,
				&fstest.MapFile{Data: []byte("module example.com/greet\n")}
		default:
			source["vendor/example.com/greet/greet.go"] = &greet
			source["vendor/modules.txt"] = &fstest.MapFile{
				Data: []byte("# example.com/greet v1.0.0\n## explicit\nexample.com/greet\n")}
		}
		f := runnable(t, "go", "", files{"main*": goProgram(t, source)})
		f.ID += name
		// K-005: functions in Go are built, whatever go.mod says from 1.12 on, also of a vendored module
		if got := string(run(t, r, f, get(t, "x", "http://a/")).Data()); got != "hello" {
			t.Errorf("go.mod with %s: the answer is %q", name, got)
		}
	}
	_, err := buildGo(t, fstest.MapFS{"handler.go": {Data: []byte(greets)},
		"go.mod": {Data: []byte("module functions\n\ngo 1.999\n\nrequire example.com/greet v1.0.0\n")}})
	// K-005: a version newer than the machine's is refused before anything is downloaded
	if err == nil || !strings.Contains(err.Error(), "go.mod needs Go 1.999, and this server builds with Go 1.") ||
		strings.Contains(err.Error(), "example.com") {
		t.Errorf("go.mod with 1.999: the error is %v", err)
	}
}

// The entry point of a module is its path.
func TestModule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files       []string
		entry, want string
		form        event.Form
		message     string
	}{
		{[]string{"main.wasm", "other.wasm"}, "", "main.wasm", event.Structured, ""},
		{[]string{"README", "only.wasm"}, "", "only.wasm", event.Structured, ""},
		{[]string{"bin/deep.wasm"}, "./bin/deep.wasm", "bin/deep.wasm", event.Structured, ""},
		{[]string{"a.wasm"}, "draft:a.wasm", "a.wasm", event.Draft, ""},
		{[]string{"a.wasm"}, "draft:", "a.wasm", event.Draft, ""},
		{[]string{"a.wasm", "b.wasm"}, "", "", 0, "modules in it are a.wasm, b.wasm"},
		{[]string{"a.wasm"}, "b.wasm", "", 0, "modules in it are a.wasm"},
		{[]string{"a.wasm"}, "../a.wasm", "", 0, "no such file"},
		{nil, "", "", 0, "modules in it are none"},
		{[]string{"a.wasm"}, "exec:a.wasm", "", 0, "path of a WebAssembly module"},
	} {
		got, form, err := environment.Module(test.files, test.entry)
		if test.message != "" {
			if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.message) {
				t.Errorf("%q of %q: the error is %v, want one with %q", test.entry, test.files, err, test.message)
			}
			continue
		}
		if err != nil || got != test.want || form != test.form {
			t.Errorf("%q of %q: it is %q, %d, %v", test.entry, test.files, got, form, err)
		}
	}
}

// A function may stand beside a program, as in a plugin of Fission's, where func main() is not called: the entry point
// says which is meant.
func TestGoFunctionBesideAProgram(t *testing.T) {
	t.Parallel()
	program := goProgram(t, fstest.MapFS{"main.go": {Data: []byte(`package main

import (
	h "net/http"
	"fmt"
)

func Handler(
	w h.ResponseWriter,
	r *h.Request,
) {
	fmt.Fprint(w, "hello")
}

func Unnamed(h.ResponseWriter, *h.Request) {}

func main() {
	fmt.Println("{\"specversion\":\"1.0\",\"id\":\"2\",\"source\":\"/main\",\"type\":\"answer\",\"data\":\"the program\"}")
	var line string
	for { if _, err := fmt.Scanln(&line); err != nil && err.Error() == "EOF" { return } }
}
`)}, "ignored.go": {Data: []byte("//go:build ignore\n\npackage tool\n\nfunc main() { this is no Go }\n")}})
	r, _ := start(t, "off")
	for entrypoint, want := range map[string]string{"Handler": "hello", "": "the program"} {
		f := runnable(t, "go", entrypoint, files{"main*": program})
		f.ID += entrypoint
		if got := string(run(t, r, f, get(t, "x", "http://a/")).Data()); strings.Trim(got, `"`) != want {
			t.Errorf("%q: the answer is %q, want %q", entrypoint, got, want)
		}
	}
}

// An entry point that the source has no function of is refused before anything is built.
func TestGoEntryPointOfASource(t *testing.T) {
	t.Parallel()
	const greets = "package main\n\nimport \"net/http\"\n\nfunc Greet(\n\tw http.ResponseWriter,\n\tr " +
		"*http.Request,\n) {\n}\n\nfunc Other(w http.ResponseWriter) {}\n"
	const more = "package main\n\nimport . \"net/http\"\n\nfunc More(_ ResponseWriter, _ *Request) {}\n\nfunc (T) " +
		"Method(w ResponseWriter, r *Request) {}\n"
	const program = "package main\n\nfunc main() {}\n"
	for _, test := range []struct {
		entrypoint, want string
		sources          []string
	}{
		{"Greet", "", []string{greets}},
		{"", "", []string{greets}},
		{"main", "", []string{program}},
		{"", "", []string{program, greets}},
		{"More", "", []string{greets, more}},
		{"Handler", "the package has no function Handler(w http.ResponseWriter, r *http.Request); it has Greet",
			[]string{greets}},
		{"Other", "a.go:11 has it, but not as func Other(", []string{greets}},
		{"Method", "it has Greet, More", []string{greets, more}},
		{"Handler", "it has none; without a name it is the program of func main()", []string{program}},
		{"", "it says no function, and the package has no Handler; write the name of one; functions in it are Greet, More",
			[]string{greets, more}},
		{"Greet", "a.go:1:9: expected", []string{"package (\n"}},
		{"Greet", "no Go files", nil},
	} {
		texts := map[string][]byte{}
		for i, text := range test.sources {
			texts[string(rune('a'+i))+".go"] = []byte(text)
		}
		err := of(t, "go").CheckCompiled(texts, test.entrypoint)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(landfall.MessageOf(err), test.want) {
			t.Errorf("%q: the error is %v, want one with %q", test.entrypoint, err, test.want)
		}
	}
	if of(t, "python").CheckCompiled(nil, "Handler") != nil || !of(t, "go").Compiles("a.go") ||
		of(t, "go").Compiles("a_test.go") || of(t, "go").Compiles("b/a.go") {
		t.Error("what is not compiled is looked at")
	}
}
