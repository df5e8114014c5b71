package source_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/environment/go/source"
	"landfall.dev/landfall/test/testkit"
)

const (
	imported = "package main\n\nimport \"net/http\"\n\n"
	handler  = "func Handler(w http.ResponseWriter, r *http.Request) {}\n"
	program  = "package main\n\nfunc main() {}\n"
)

// of returns the files a.go, b.go and so on.
func of(texts ...string) map[string][]byte {
	files := map[string][]byte{}
	for i, text := range texts {
		files[string(rune('a'+i))+".go"] = []byte(text)
	}
	return files
}

// A function answers requests when its types are those of net/http, by whatever name the file has that.
func TestSignatures(t *testing.T) {
	t.Parallel()
	for text, answers := range map[string]bool{
		imported + handler: true,
		imported + "func Handler(\n\tw http.ResponseWriter,\n\tr *http.Request,\n) {\n}\n":                                      true,
		imported + "func Handler(http.ResponseWriter, *http.Request) {}\n":                                                      true,
		imported + "func Handler(_ http.ResponseWriter, _ *http.Request)\n":                                                     true,
		"package main\n\nimport h \"net/http\"\n\nfunc Handler(w h.ResponseWriter, r *h.Request) {}\n":                          true,
		"package main\n\nimport . \"net/http\"\n\nfunc Handler(w ResponseWriter, r *Request) {}\n":                              true,
		"package main\n\nimport (\n\t\"net/http\"\n\th \"net/http\"\n)\n\nfunc Handler(w h.ResponseWriter, r *http.Request) {}": true,
		"//line other.go:7\n" + imported + handler:                                                                              true,

		imported + "func Handler(w http.ResponseWriter, r http.Request) {}\n":                                                   false,
		imported + "func Handler(w *http.ResponseWriter, r *http.Request) {}\n":                                                 false,
		imported + "func Handler(r *http.Request, w http.ResponseWriter) {}\n":                                                  false,
		imported + "func Handler(w http.ResponseWriter) {}\n":                                                                   false,
		imported + "func Handler(w, v http.ResponseWriter) {}\n":                                                                false,
		imported + "func Handler(w, v http.ResponseWriter, r *http.Request) {}\n":                                               false,
		imported + "func Handler(w http.ResponseWriter, r ...*http.Request) {}\n":                                               false,
		imported + "func Handler(w http.ResponseWriter, r *http.Request) error { return nil }\n":                                false,
		imported + "func Handler[T any](w http.ResponseWriter, r *http.Request) {}\n":                                           false,
		imported + "type T struct{}\n\nfunc (T) Handler(w http.ResponseWriter, r *http.Request) {}\n":                           false,
		imported + "var Handler = func(w http.ResponseWriter, r *http.Request) {}\n":                                            false,
		imported + "func handler(w http.ResponseWriter, r *http.Request) {}\n":                                                  false,
		imported + "func Handler(w ResponseWriter, r *Request) {}\n":                                                            false,
		"package main\n\nimport h \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n":                    false,
		"package main\n\nimport http \"example.com/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n":         false,
		"package main\n\nimport \"net/http/httptest\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n":             false,
		"package main\n\n// func Handler(w http.ResponseWriter, r *http.Request) {}\nconst Text = `" + imported + handler + "`": false,
	} {
		f, err := source.Read(of(text))
		testkit.Equal(t, "whether it answers requests: "+text, strings.Join(f.Functions, " ") == "Handler", answers)
		testkit.Equal(t, "whether it is an error: "+text, err != nil, !answers)
	}
}

// What is no folder of functions says what is wrong, and where.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want  string
		files map[string][]byte
	}{
		{"no Go files", nil},
		{"neither a program (func main()) nor a function like", of("package main\n")},
		{"neither a program", of("package tool\n\nfunc main() {}\n")},
		{"; Handler at a.go:3 takes or returns something else", of("package main\n\nfunc Handler() {}\n")},
		// the file that there is
		{"; Handler at a.go:5 takes", of("//line other.go:70\npackage main\n\n\nfunc Handler() {}\n")},
		{"b.go:3:9: the functions must be in package main",
			of("package helpers\n", "// A comment.\n\npackage hello\n\nimport \"net/http\"\n\n"+handler)},
		{"a.go:3:14: expected", of("package main\n\nfunc Handler {\n")},
		{"a.go:1:1: expected 'package'", of("not Go at all")},
		{"no Go files", map[string][]byte{"a_windows.go": []byte(imported + handler)}},
		{"no Go files", of("//go:build ignore\n\n" + imported + handler)},
		{"no Go files", of("//go:build cgo\n\n" + imported + handler)},
	} {
		_, err := source.Read(test.files)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got the error %v, want one with %q", test.files, err, test.want)
		}
	}
}

// Only what is compiled where functions run counts: build tags, names of systems, tests.
func TestCompiled(t *testing.T) {
	t.Parallel()
	files := of(imported+handler, "//go:build ignore\n\npackage tool\n\nthis is no Go\n",
		"//go:build linux && !cgo\n\n"+imported+strings.ReplaceAll(handler, "Handler", "Also"))
	files["of_windows.go"] = []byte("package main\n\nfunc main() {}\n")
	files["of_linux.go"] = []byte(imported + strings.ReplaceAll(handler, "Handler", "Linux"))
	f := testkit.Must(source.Read(files))(t)
	testkit.EqualList(t, "functions", f.Functions, []string{"Also", "Handler", "Linux"})
	testkit.Equal(t, "whether it is a program", f.Program, false)
	for name, reads := range map[string]bool{"a.go": true, "a_test.go": false, "sub/a.go": false, "a.txt": false,
		"go": false} {
		testkit.Equal(t, "whether it reads "+name, source.Reads(name), reads)
	}
}

// A program may have functions beside it, and others that only look like them.
func TestProgram(t *testing.T) {
	t.Parallel()
	f := testkit.Must(source.Read(of(program+"\nfunc Other() {}\n", imported+handler)))(t)
	testkit.Equal(t, "whether it is a program", f.Program, true)
	testkit.EqualList(t, "functions", f.Functions, []string{"Handler"})
	testkit.Same(t, "other functions", f.Others, map[string]string{"Other": "a.go:5"})
}

// What is written around a folder's functions begins the one that is named, and else the folder's own program,
// wherever that says it stands.
func TestAdapt(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	files := of("//line elsewhere.go:99\npackage main /* main */\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"the "+
		"program, not main\") }\n", imported+handler)
	files["go.mod"] = []byte("module adapted\n\ngo 1.20\n")
	files["adaptor/adaptor.go"] = []byte("package adaptor\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n\t\"os\"\n)\n\n" +
		"func Serve(f map[string]http.HandlerFunc) int { fmt.Println(\"serves\", os.Args[1], len(f)); return 0 }\n")
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	f := testkit.Must(source.Read(of(string(files["a.go"]), string(files["b.go"]))))(t)
	if err := source.Adapt(&f, "adapted/adaptor"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for argument, want := range map[string]string{"Handler": "serves Handler 1\n", "other": "the program, not main\n",
		"": "the program, not main\n"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "program"),
			strings.Fields(argument)...).CombinedOutput()
		testkit.Equal(t, fmt.Sprintf("what it says to %q (%v)", argument, err), string(out), want)
	}
}
