package environment_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
)

// A function of Python that is surely not in its file is found without a call; where only a call can tell, nothing is
// said.
func TestUndefined(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ language, entry, files, source, want string }{
		{"python", "hello.mian", "hello.py", "def main():\n    pass\nasync def other(): pass\n",
			"hello.py has no function mian; it has main, other"},
		{"python", "hello", "main.py", "def hello(): pass", ""},
		{"python", "", "main.py", "def hello(): pass", "main.py has no function main; it has hello"},
		{"python", "hello.handler", "hello.py", "X = 5\n", ""},
		{"python", "hello.handler", "hello.py", "# handler\ndef x(): pass", ""},
		{"python", "hello.main", "hello.py", "main = lambda: 1\ndef x(): pass", ""},
		{"python", "hello.main", "hello.py", "def x(): pass\nfrom other import main", ""},
		{"python", "hello.main", "hello.py", "def x(): pass\nfrom other import \\\n *", ""},
		{"python", "hello.main", "hello.py", "def x(): pass\nsys.modules[__name__] = x", ""},
		{"python", "hello.main", "hello.py", "def x(): pass\nglobals()[name] = print", ""},
		{"python", "hello.main", "hello.py hello/__init__.py", "def x(): pass", ""},
		{"python", "handler", "user/__init__.py util.py", "def x(): pass", ""},
		{"python", "hello.café", "hello.py", "def x(): pass", ""},
		{"python", "compiled.main", "compiled.so only.py", "def x(): pass", ""},
		{"python-fastapi", "", "main.py", "from fastapi import FastAPI\napp = FastAPI()\nasync def root(): return 1", ""},
		{"python-fastapi", "main.web", "main.py", "def x(): pass", "main.py has no function web; it has x"},
		{"nodejs", "index.main", "index.js", "def x(): pass", ""},
	} {
		env, err := environment.Of(landfall.Environment{Name: test.language})
		if err != nil {
			t.Fatal(err)
		}
		files, got := map[string]bool{}, ""
		for name := range strings.FieldsSeq(test.files) {
			files[name] = false
		}
		if err := env.CheckDefined(files, []byte(test.source), test.entry); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s, %s of %q: got %q, want %q", test.language, test.entry, test.source, got, test.want)
		}
	}
}

// What a package has is named although none of it lies at its top.
func TestMissingBelow(t *testing.T) {
	t.Parallel()
	for language, test := range map[string]struct{ entry, file string }{
		"python": {"src.main", "app/main.py"}, "nodejs": {"src/index", "app/index.js"}, "binary": {"bin/hello", "app/hello"},
	} {
		env, err := environment.Of(landfall.Environment{Name: language})
		if err != nil {
			t.Fatal(err)
		}
		if err := env.CheckEntrypoint(map[string]bool{test.file: true}, test.entry); err == nil ||
			!strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: got %v, want %s named", language, err, test.file)
		}
	}
}
