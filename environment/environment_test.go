package environment_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
)

// An Environment document means one of ours by its image, else by its name.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, image, want string }{
		{"py", "fission/python-env", "python"},
		{"py", "ghcr.io/fission/python-env:1.34.2", "python"},
		{"py", "localhost:5000/python-env-3.12@sha256:0123", "python"},
		{"js", "fission/node-env-16", "nodejs"},
		{"js", "nodejs-env", "nodejs"},
		{"sh", "fission/binary-env:latest", "binary"},
		{"python", "", "python"},
		{"python-27", "", "python"},
		{"python3", "me/my-own:2", "python"},
		{"node", "", "nodejs"},
		{"nodejs20", "", "nodejs"},
		{"binary", "", "binary"},
		{"own", "container-env", "container"},
		{"container-rust", "", "container"},
		{"nodejs", "fission/python-env", "python"},
		{"go", "fission/go-env", "go"},
		{"builder", "fission/go-env-1.26", "go"},
		{"go-126", "", "go"},
		{"golang", "", ""},
		{"nodeab", "", ""},
		{"nodeab", "node", "nodejs"},
		{"mine", "node:20", "nodejs"},
		{"mine", "docker.io/library/python:3.12-slim", "python"},
		{"mine", "library/golang@sha256:0123", "go"},
		{"python", "node:20", "python"}, // its name is that of an environment
		{"mine", "acme/node", ""},
		{"wasm", "", "wasm"},
		{"tiny", "wasm-env", "wasm"},
		{"tensor", "fission/tensorflow-serving-env", ""},
		{"pythonic", "", ""},
		{"", "", ""},
	} {
		e, err := environment.Of(landfall.Environment{Name: test.name, Image: test.image})
		if err != nil && !strings.Contains(landfall.MessageOf(err), "or its name be one of python,") {
			t.Errorf("%s, %s: the error is %v, want one that names what is known", test.name, test.image, err)
		}
		key, _, _ := strings.Cut(e.Key(), "-")
		switch {
		case test.want == "" && (landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err),
			"python-env, node-env, nodejs-env, go-env, wasm-env, binary-env, container-env or python-fastapi-env")):
			t.Errorf("%s, %s: the error is %v, want one that names what is known", test.name, test.image, err)
		case test.want != "" && (err != nil || key != test.want):
			t.Errorf("%s, %s: it is %q, %v; want %s", test.name, test.image, key, err, test.want)
		}
	}
}

// What is installed can be read by everybody, and nothing of the package is overwritten.
func TestInstall(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, language := range []string{"python", "nodejs", "binary"} {
		e := of(t, language)
		dir := unpack(t, files{"main.py": ""})
		if err := e.Install(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		there, err := filepath.Glob(filepath.Join(dir, ".landfall", "*"))
		if err != nil || len(there) == 0 {
			t.Fatalf("nothing is installed: %v", err)
		}
		for _, file := range append(there, filepath.Join(dir, ".landfall")) {
			if info, err := os.Stat(file); err != nil || info.Mode()&0o044 != 0o044 || info.Mode()&0o022 != 0 {
				t.Errorf("%s: its mode is %v, %v", file, info.Mode(), err)
			}
		}
		if err := e.Install(t.Context(), dir); landfall.KindOf(err) != landfall.Invalid ||
			!strings.Contains(landfall.MessageOf(err), ".landfall") {
			t.Errorf("a package with .landfall: the error is %v, want Invalid", err)
		}
		if e.Key() != of(t, language).Key() || keys[e.Key()] {
			t.Errorf("the key %s is not one for one environment", e.Key())
		}
		keys[e.Key()] = true
	}
	if err := of(t, "python").Install(t.Context(), filepath.Join(t.TempDir(), "missing")); err == nil ||
		landfall.KindOf(err) != landfall.Internal {
		t.Errorf("a folder that is missing: the error is %v", err)
	}
}

// What is unpacked for an earlier adaptor is not taken for what a later one needs: the key has the content of what is
// installed.
func TestKeyHasTheContent(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	for _, name := range []string{"python/adaptor.py", "python/flask.py", "python/_flask_values.py",
		"python/_flask_more.py", "python/landfall_asgi.py"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	if key, want := of(t, "python").Key(), "python-"+hex.EncodeToString(sum.Sum(nil))[:12]; key != want {
		t.Errorf("the key is %s, want %s", key, want)
	}
}

// An image starts with what it says, by the path that its own PATH has; an entry point's words are in the place of its
// command.
func TestImage(t *testing.T) {
	t.Parallel()
	image := func(text string) string {
		return unpack(t, files{".landfall/image.json": text, ".landfall/root/opt/tool*": "",
			".landfall/root/usr/bin/tool*": ""})
	}
	const usual = `{"entrypoint":["tool","-v"],"cmd":["serve","8080"],"env":["PATH=/opt:/usr/bin","GREETING=hello=you","=x","none"],"dir":"/srv"}`
	for _, c := range []struct {
		image, entry string
		want         string // its arguments
		form         event.Form
		message      string
	}{
		{usual, "", "/opt/tool -v serve 8080", event.Structured, ""},
		{usual, "other", "/opt/tool -v other", event.Structured, ""},
		{usual, "draft:", "/opt/tool -v serve 8080", event.Draft, ""},
		{`{"cmd":["tool"],"dir":"/"}`, "", "/usr/bin/tool", event.Structured, ""},
		{`{"cmd":["tool"],"dir":"/"}`, "./bin/mine its args", "./bin/mine its args", event.Structured, ""},
		{`{"cmd":["nothing"],"dir":"/"}`, "", "", event.Structured, "no such program"},
		{`{"dir":"/"}`, "", "", event.Structured, "neither ENTRYPOINT nor CMD"},
		{usual, "exec:tool", "", event.Structured, "reads events"},
	} {
		args, form, err := of(t, "container").Command(image(c.image), c.entry)
		if c.message != "" {
			if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), c.message) {
				t.Errorf("%s with %q: the error is %v, want one that says %q", c.image, c.entry, err, c.message)
			}
			continue
		}
		if strings.Join(args, " ") != c.want || form != c.form || err != nil {
			t.Errorf("%s with %q: got %q %v, %v; want %q %v", c.image, c.entry, args, form, err, c.want, c.form)
		}
	}
	dir := image(usual)
	root, err := of(t, "container").Root(dir)
	if err != nil || root.Folder != filepath.Join(dir, ".landfall/root") || root.Dir != "/srv" || len(root.Env) != 2 ||
		root.Env["PATH"] != "/opt:/usr/bin" || root.Env["GREETING"] != "hello=you" {
		t.Errorf("the root is %+v, %v; want the image's", root, err)
	}
}

// An entry point is what Fission's users write, and one that cannot be is refused with what would be right.
func TestCommand(t *testing.T) {
	t.Parallel()
	shop := files{"main.py": "", "cart.py": ""}
	tools := files{"hello*": "", "bin/greet*": "", "notes.txt": ""}
	for _, test := range []struct {
		language string
		files    files
		entry    string
		want     string // the last argument
		form     event.Form
		message  string
	}{
		{"python", shop, "", "main.main", event.Structured, ""},
		{"python", shop, "handler", "main.handler", event.Structured, ""},
		{"python", shop, "cart.main", "cart.main", event.Structured, ""},
		{"python", shop, "lib.cart.main", "lib.cart.main", event.Structured, ""},
		{"python", files{"user.py": ""}, "", "user.main", event.Structured, ""},
		{"python", files{"only.py": ""}, "", "only.main", event.Structured, ""},
		{"python", files{"a.py": "", "b.py": ""}, "", "", event.Structured, "there are a.py, b.py"},
		{"python", shop, "cart:main", "", event.Structured, "module.function"},
		{"python", shop, "../cart.main", "", event.Structured, "module.function"},
		{"nodejs", nil, "", "", event.Structured, ""},
		{"nodejs", nil, "index.hello", "index.hello", event.Structured, ""},
		{"nodejs", nil, "event:lib/cart.order", "event:lib/cart.order", event.Structured, ""},
		{"nodejs", nil, "../cart", "", event.Structured, "module.export"},
		{"nodejs", nil, "/etc/cart", "", event.Structured, "module.export"},
		{"binary", tools, "hello", "./hello", event.Structured, ""},
		{"binary", tools, "", "./hello", event.Structured, ""},
		{"binary", tools, "./bin/greet", "./bin/greet", event.Structured, ""},
		{"binary", tools, "draft:hello", "./hello", event.Draft, ""},
		{"binary", tools, "exec:bin/greet", "./bin/greet", event.Structured, ""},
		{"binary", tools, "exec:", "./hello", event.Structured, ""},
		{"binary", files{"main*": "", "other*": ""}, "", "./main", event.Structured, ""},
		{"binary", files{"bootstrap*": "", "other*": ""}, "", "./bootstrap", event.Structured, ""},
		{"binary", files{"a*": "", "b*": ""}, "", "", event.Structured, "programs in it are a, b"},
		{"binary", files{"hello": ""}, "", "", event.Structured,
			"type: chmod 755 FILE, or write a path; the package has hello"},
		{"go", files{"hello.go": ""}, "", "", event.Structured,
			"was not built: give it a source, which is built, and no deployment; it has hello.go"},
		{"go", files{"hello.go": ""}, "Handler", "", event.Structured, "was not built"},
		{"go", files{"main*": ""}, "", "./main", event.Structured, ""},
		{"binary", tools, "notes.txt", "", event.Structured, "chmod 755 notes.txt"},
		{"binary", tools, "missing", "", event.Structured, "programs in it are hello"},
		{"binary", tools, "../hello", "", event.Structured, "path of a program in the package"},
		{"binary", tools, "/bin/sh", "", event.Structured, "path of a program in the package"},
		{"binary", tools, "exec:draft:hello", "", event.Structured, "leave out draft:"},
		{"binary", tools, "http:hello", "", event.Structured, "exec: before it"},
	} {
		args, form, err := of(t, test.language).Command(unpack(t, test.files), test.entry)
		if test.message != "" {
			if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.message) {
				t.Errorf("%s %q: the error is %v, want one with %q", test.language, test.entry, err, test.message)
			}
			continue
		}
		if err != nil || args[len(args)-1] != test.want || form != test.form {
			t.Errorf("%s %q: it is %q, %d, %v; want %q", test.language, test.entry, args, form, err, test.want)
		}
	}
}

// A program that not everybody may execute is none: functions run as a user of their own.
func TestProgramForEverybody(t *testing.T) {
	t.Parallel()
	for mode, runs := range map[os.FileMode]bool{0o755: true, 0o001: true, 0o750: false, 0o700: false, 0o644: false} {
		dir := unpack(t, files{"hello": ""})
		if err := os.Chmod(filepath.Join(dir, "hello"), mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := of(t, "binary").Command(dir, "hello")
		if refused := landfall.Is(err, landfall.Invalid) &&
			strings.Contains(landfall.MessageOf(err), "chmod 755 hello"); refused == runs || err != nil == runs {
			t.Errorf("a program with the mode %o: %v, want that it runs: %t", mode, err, runs)
		}
	}
}

// Interpreters lie where functions see them. A link out of there leads nowhere for a function.
func TestInterpreter(t *testing.T) {
	t.Parallel()
	home := unpack(t, files{"node*": "", "python3*": ""})
	usr := unpack(t, files{"bin/nodejs*": "", "local/bin/python3": ""})
	for _, name := range []string{"node", "python3"} {
		if err := os.Symlink(filepath.Join(home, name), filepath.Join(usr, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := environment.Interpreter(usr, "node", "nodejs"); err != nil || got != filepath.Join(usr, "bin/nodejs") {
		t.Errorf("node is %s, %v; want the one in the folder", got, err)
	}
	_, err := environment.Interpreter(usr, "python3")
	if landfall.KindOf(err) != landfall.Unavailable ||
		!strings.Contains(landfall.MessageOf(err), "apt-get install python3") {
		t.Errorf("the error is %v, want one that says what to install", err)
	}
	if err := os.Chmod(filepath.Join(usr, "local/bin/python3"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := environment.Interpreter(usr, "python3"); err != nil ||
		!slices.Contains([]string{filepath.Join(usr, "local/bin/python3")}, got) {
		t.Errorf("python3 is %s, %v", got, err)
	}
}

// A package's only file whose name nobody said has the name of a function without an entry point.
func TestUsualFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python", "python-fastapi", "nodejs", "wasm", "binary", ""} {
		env, err := environment.Of(landfall.Environment{Name: name})
		if file := env.File(); (err != nil) != (name == "") || file == "" {
			t.Errorf("%q: got the file %q, %v", name, file, err)
		} else if name == "" {
			continue
		}
		if err := env.CheckEntrypoint(map[string]bool{env.File(): true}, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
