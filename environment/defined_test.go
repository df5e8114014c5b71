package environment_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// A function of Python that is surely not in its file is found without a call; where only a call can tell, nothing is said.
func TestUndefined(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ entry, file, source, want string }{
		{"hello.mian", "hello.py", "def main():\n    pass\nasync def other(): pass\n", "hello.py has no function mian; it has main, other"},
		{"hello", "main.py", "def hello(): pass", ""},
		{"", "main.py", "def hello(): pass", "main.py has no function main; it has hello"},
		{"hello.handler", "hello.py", "# handler\nX = 'handler'\n", ""},
		{"hello.main", "hello.py", "main = lambda: 1", ""},
		{"hello.main", "hello.py", "from other import main", ""},
		{"hello.main", "hello.py", "from other import *", ""},
		{"hello.main", "hello.py", "globals()['main'] = print", ""},
		{"lib.hello.main", "lib/hello/__init__.py", "def x(): pass", "lib/hello/__init__.py has no function main; it has x"},
		{"compiled.main", "only.py", "def x(): pass", ""},
	} {
		env, err := environment.Of("python", spec.Runtime{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := env.Undefined(test.file, []byte(test.source), test.entry); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s of %q: got %q, want %q", test.entry, test.source, got, test.want)
		}
	}
	env, err := environment.Of("nodejs", spec.Runtime{})
	if err != nil || env.Undefined("index.js", []byte("x"), "index.main") != nil {
		t.Errorf("of another language something is said: %v", err)
	}
}

// What a package has is named although none of it lies at its top.
func TestMissingBelow(t *testing.T) {
	t.Parallel()
	for language, test := range map[string]struct{ entry, file string }{
		"python": {"src.main", "app/main.py"}, "nodejs": {"src/index", "app/index.js"}, "binary": {"bin/hello", "app/hello"},
	} {
		env, err := environment.Of(language, spec.Runtime{})
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Missing(map[string]bool{test.file: true}, test.entry); err == nil || !strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: got %v, want %s named", language, err, test.file)
		}
	}
}
