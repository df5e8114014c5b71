package function_test

import (
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A push makes a function answer; the next push another version of it, while the first answers at its own address.
func TestFunctionsOfReleases(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.Pushed(r, "shop", "A function")
	first := s.Get(s.At("shop", "/api/hello"))
	testkit.Equal(t, "answer", first.Body, "one")
	testkit.Equal(t, "status", first.Status, http.StatusOK)
	release := first.Header.Get("Landfall-Release")
	// E-001: a page is a page beside the routes
	site.WantServed(t, s, "shop", "/", "page")

	r.Write("hello/hello.py", "def main():\n    return 'two'\n")
	s.Pushed(r, "shop", "Another one")
	second := s.Get(s.At("shop", "/api/hello"))
	testkit.Equal(t, "answer of the new release", second.Body, "two")
	testkit.Equal(t, "answer of the old release", s.Get(s.At("shop--"+release, "/api/hello")).Body, "one")
	for _, name := range []string{"Landfall-Release", "Landfall-Version", "Landfall-Execution"} {
		if first.Header.Get(name) == "" || first.Header.Get(name) == second.Header.Get(name) {
			t.Errorf("%s: %q and then %q", name, first.Header.Get(name), second.Header.Get(name))
		}
	}
}

// A function is called by its name, in the version that is asked for.
func TestFunctionInvoke(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "greet greet.main"), "specs/app.yaml",
		site.AppSpec("shop", "config: {greeting: Ahoy}"),
		"site/index.html", "page", "greet/greet.py",
		"import json\nimport os\n\n\ndef main(event):\n    assert json.loads(event['config']) == {'greeting': "+
			"'Ahoy'}\n    return os.environ['greeting'] + ', ' + event['data']['name']\n")
	s.Pushed(r, "shop", "A function")
	invoke := func(name string) (string, int) {
		out, code := s.Run(t.TempDir(), "function", "invoke", name, "--data", `{"name": "Ada"}`)
		return strings.TrimSpace(out), code
	}
	out, code := invoke("greet")
	testkit.Equal(t, "answer", out, "Ahoy, Ada")
	testkit.Equal(t, "exit code", code, 0)

	r.Write("greet/greet.py", "def main(event):\n    raise ValueError('no more ' + event['data']['name'])\n")
	s.Pushed(r, "shop", "Another one")
	out, _ = invoke("greet:1")
	testkit.Equal(t, "answer of the first", out, "Ahoy, Ada")
	out, code = invoke("greet")
	testkit.Equal(t, "exit code", code, 1)
	testkit.Contains(t, site.Told{out}, "no more Ada", "\nexecution ", "\n  File \"greet.py\", line 2, in main\n")
}

// Where nothing can confine functions they are refused. The start, the status and the answers say so, and files are
// served as ever.
func TestWithoutSandbox(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.Pushed(r, "shop", "A function")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir() // all that there are
	if err := os.Symlink(git, filepath.Join(programs, "git")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Start("PATH=" + programs)
	refused := s.Get(s.At("shop", "/api/hello"))
	testkit.Equal(t, "status", refused.Status, http.StatusServiceUnavailable)
	testkit.Contains(t, site.Told{refused.Body}, "do not run here")
	site.WantServed(t, s, "shop", "/", "page")
	out, code := s.Run(t.TempDir(), "function", "invoke", "hello")
	testkit.Equal(t, "exit code of a call: "+out, code, 5)
	const why = "bubblewrap is not installed"
	testkit.Contains(t, site.Told{out}, why, "apt-get install bubblewrap", "--sandbox off")
	testkit.Contains(t, site.Told{s.Log.String()}, "build commands and functions are refused", why)
	testkit.Contains(t, site.Told{s.Landfall("status")}, "sandbox", "none", why)

	s.Stop()
	s.Start("PATH="+programs, "LANDFALL_SANDBOX=off")
	site.WantServed(t, s, "shop", "/api/hello", "one")
}

// What a route says of who may call it holds, whatever the address.
func TestFunctionAccess(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := strings.Replace(site.FunctionsSpec("binary-env", "hello hello.sh"), "methods: [GET, POST]",
		"methods: [GET, POST], access: token", 1)
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.sh",
		"#!/bin/sh\nwhile read -r event; do\n\techo "+
			"'{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/me\",\"type\":\"t\",\"datacontenttype\":\"text/plain\",\"data\":\"hi\"}'\ndone\n")
	if err := os.Chmod(filepath.Join(r.Dir, "hello", "hello.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Pushed(r, "shop", "A function for some")
	stranger := s.Get(s.At("shop", "/api/hello"))
	testkit.Equal(t, "a stranger's status", stranger.Status, http.StatusUnauthorized)
	testkit.Equal(t, "what a stranger is asked for", stranger.Header.Get("WWW-Authenticate"), "Bearer")
	known := s.ReadAs(s.At("shop", "/api/hello"))
	testkit.Equal(t, "answer to who has a token", known.Body, "hi")
}

// A tag names all functions of a release as one: each is called by it in the version that it had, whatever comes later.
func TestTaggedFunctions(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	for _, word := range []string{"one", "two"} {
		program := "def main():\n    return '" + word + "'\n"
		r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main", "bye bye.main"),
			"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", program, "bye/bye.py", program)
		uid := s.Pushed(r, "shop", word)
		if word == "one" {
			s.Landfall("release", "tag", "shop", string(uid), "spring")
		}
	}
	for _, name := range []string{"hello", "bye"} {
		testkit.Equal(t, "live answer of "+name, s.Get(s.At("shop", "/api/"+name)).Body, "two")
		// the group has one name
		testkit.Equal(t, "answer of "+name+" by the tag", s.Get(s.At("shop--spring", "/api/"+name)).Body, "one")
	}
}

// A trigger that names a version, or two with weights, keeps to them while the function moves.
func TestFunctionVersionsOfRoutes(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main():\n    return 'one'\n")
	s.Pushed(r, "shop", "The first version")
	route := func(name, functionref string) string {
		return "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: " + name + "}\nspec: {functionref: " +
			functionref + ", relativeurl: /api/" + name + "}\n"
	}
	r.Write("hello/hello.py", "def main():\n    return 'two'\n", "specs/functions.yaml", specs+
		route("pinned", `{type: name, name: hello, version: "1"}`)+
		route("none", `{type: function-weights, functionweights: {"hello:1": 100, "hello": 0}}`)+
		route("all", `{type: function-weights, functionweights: {"hello:1": 0, "hello": 100}}`)+
		route("canary", `{type: function-weights, functionweights: {"hello:1": 75, "hello": 25}}`))
	s.Pushed(r, "shop", "The second version")
	for path, want := range map[string]string{"hello": "two", "pinned": "one", "none": "one", "all": "two"} {
		// the trigger's function is the version that it names
		testkit.Equal(t, "answer of "+path, s.Get(s.At("shop", "/api/"+path)).Body, want)
	}
	const calls, newer, sigmas = 200, 0.25, 5
	got := map[string]int{}
	for range calls {
		got[s.Get(s.At("shop", "/api/canary")).Body]++
	}
	most := sigmas * math.Sqrt(calls*newer*(1-newer))
	// both versions answer one trigger, each as many calls as its percentage says
	if got["one"]+got["two"] != calls || math.Abs(float64(got["two"])-calls*newer) > most {
		t.Errorf("of %d calls got %v, want %.0f±%.0f by the newer version and the others by the older one", calls, got,
			calls*newer, most)
	}
}
