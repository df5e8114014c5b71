package main

import (
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// functionsSpec declares functions, each NAME ENTRYPOINT, in a package of its own and behind a route of its name.
func functionsSpec(environment string, functions ...string) string {
	var text strings.Builder
	text.WriteString("apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: env}\nspec: {version: 2, runtime: {image: fission/" + environment + "}}\n")
	for _, line := range functions {
		name, entrypoint, _ := strings.Cut(line, " ")
		text.WriteString(strings.NewReplacer("NAME", name, "ENTRYPOINT", entrypoint).Replace(`---
apiVersion: fission.io/v1
kind: Function
metadata: {name: NAME}
spec:
  environment: {name: env}
  package: {packageref: {name: NAME-pkg}, functionName: ENTRYPOINT}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: NAME-pkg}
spec: {environment: {name: env}, deployment: {url: "archive://NAME"}}
---
kind: ArchiveUploadSpec
name: NAME
include: ["NAME/*"]
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: NAME}
spec: {functionref: {type: name, name: NAME}, methods: [GET, POST], relativeurl: /api/NAME}
`))
	}
	return text.String()
}

// A push makes a function answer; the next push another version of it, while the first answers at its own address.
func TestFunctionsOfReleases(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.pushed(r, "shop", "A function")
	first := s.get(s.at("shop", "/api/hello"))
	wantEqual(t, "answer", first.body, "one")
	wantEqual(t, "status", first.status, http.StatusOK)
	release := first.header.Get("Landfall-Release")
	// E-001: a page is a page beside the routes
	wantServed(t, s, "shop", "/", "page")

	r.write("hello/hello.py", "def main():\n    return 'two'\n")
	s.pushed(r, "shop", "Another one")
	second := s.get(s.at("shop", "/api/hello"))
	wantEqual(t, "answer of the new release", second.body, "two")
	wantEqual(t, "answer of the old release", s.get(s.at("shop--"+release, "/api/hello")).body, "one")
	for _, name := range []string{"Landfall-Release", "Landfall-Version", "Landfall-Execution"} {
		if first.header.Get(name) == "" || first.header.Get(name) == second.header.Get(name) {
			t.Errorf("%s: %q and then %q", name, first.header.Get(name), second.header.Get(name))
		}
	}
}

// A function is called by its name, in the version that is asked for.
func TestFunctionInvoke(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "greet greet.main"), "specs/app.yaml", appSpec("shop", "config: {greeting: Ahoy}"),
		"site/index.html", "page", "greet/greet.py", "import json\nimport os\n\n\ndef main(event):\n    assert json.loads(event['config']) == {'greeting': 'Ahoy'}\n    return os.environ['greeting'] + ', ' + event['data']['name']\n")
	s.pushed(r, "shop", "A function")
	invoke := func(name string) (string, int) {
		out, code := s.run(t.TempDir(), "function", "invoke", name, "--data", `{"name": "Ada"}`)
		return strings.TrimSpace(out), code
	}
	out, code := invoke("greet")
	wantEqual(t, "answer", out, "Ahoy, Ada")
	wantEqual(t, "exit code", code, 0)

	r.write("greet/greet.py", "def main(event):\n    raise ValueError('no more ' + event['data']['name'])\n")
	s.pushed(r, "shop", "Another one")
	out, _ = invoke("greet:1")
	wantEqual(t, "answer of the first", out, "Ahoy, Ada")
	out, code = invoke("greet")
	wantEqual(t, "exit code", code, 1)
	wantText(t, told{out}, "no more Ada", "\nexecution ", "\n  File \"greet.py\", line 2, in main\n")
}

// Where nothing can confine functions they are refused. The start, the status and the answers say so, and files are served as ever.
func TestWithoutSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main():\n    return 'one'\n")
	s.pushed(r, "shop", "A function")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir() // all that there are
	if err := os.Symlink(git, filepath.Join(programs, "git")); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.start("PATH=" + programs)
	refused := s.get(s.at("shop", "/api/hello"))
	wantEqual(t, "status", refused.status, http.StatusServiceUnavailable)
	wantText(t, told{refused.body}, "do not run here")
	wantServed(t, s, "shop", "/", "page")
	out, code := s.run(t.TempDir(), "function", "invoke", "hello")
	wantEqual(t, "exit code of a call: "+out, code, 5)
	const why = "bubblewrap is not installed"
	wantText(t, told{out}, why, "apt-get install bubblewrap", "--sandbox off")
	wantText(t, told{s.log.String()}, "build commands and functions are refused", why)
	wantText(t, told{s.landfall("status")}, "sandbox", "none", why)

	s.stop()
	s.start("PATH="+programs, "LANDFALL_SANDBOX=off")
	wantServed(t, s, "shop", "/api/hello", "one")
}

// What a route says of who may call it holds, whatever the address.
func TestFunctionAccess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := strings.Replace(functionsSpec("binary-env", "hello hello.sh"), "methods: [GET, POST]", "methods: [GET, POST], access: token", 1)
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.sh",
		"#!/bin/sh\nwhile read -r event; do\n\techo '{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/me\",\"type\":\"t\",\"datacontenttype\":\"text/plain\",\"data\":\"hi\"}'\ndone\n")
	if err := os.Chmod(filepath.Join(r.dir, "hello", "hello.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.pushed(r, "shop", "A function for some")
	stranger := s.get(s.at("shop", "/api/hello"))
	wantEqual(t, "a stranger's status", stranger.status, http.StatusUnauthorized)
	wantEqual(t, "what a stranger is asked for", stranger.header.Get("WWW-Authenticate"), "Bearer")
	known := s.readAs(s.at("shop", "/api/hello"))
	wantEqual(t, "answer to who has a token", known.body, "hi")
}

// A tag names all functions of a release as one: each is called by it in the version that it had, whatever comes later.
func TestTaggedFunctions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	for _, word := range []string{"one", "two"} {
		program := "def main():\n    return '" + word + "'\n"
		r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main", "bye bye.main"), "specs/app.yaml", appSpec("shop"),
			"site/index.html", "page", "hello/hello.py", program, "bye/bye.py", program)
		uid := s.pushed(r, "shop", word)
		if word == "one" {
			s.landfall("release", "tag", "shop", string(uid), "spring")
		}
	}
	for _, name := range []string{"hello", "bye"} {
		wantEqual(t, "live answer of "+name, s.get(s.at("shop", "/api/"+name)).body, "two")
		// the group has one name
		wantEqual(t, "answer of "+name+" by the tag", s.get(s.at("shop--spring", "/api/"+name)).body, "one")
	}
}

// A trigger that names a version, or two with weights, keeps to them while the function moves.
func TestFunctionVersionsOfRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "hello hello.main")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.pushed(r, "shop", "The first version")
	route := func(name, functionref string) string {
		return "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: " + name + "}\nspec: {functionref: " + functionref + ", relativeurl: /api/" + name + "}\n"
	}
	r.write("hello/hello.py", "def main():\n    return 'two'\n", "specs/functions.yaml", specs+
		route("pinned", `{type: name, name: hello, version: "1"}`)+
		route("none", `{type: function-weights, functionweights: {"hello:1": 100, "hello": 0}}`)+
		route("all", `{type: function-weights, functionweights: {"hello:1": 0, "hello": 100}}`)+
		route("canary", `{type: function-weights, functionweights: {"hello:1": 75, "hello": 25}}`))
	s.pushed(r, "shop", "The second version")
	for path, want := range map[string]string{"hello": "two", "pinned": "one", "none": "one", "all": "two"} {
		// the trigger's function is the version that it names
		wantEqual(t, "answer of "+path, s.get(s.at("shop", "/api/"+path)).body, want)
	}
	const calls, newer, sigmas = 200, 0.25, 5
	got := map[string]int{}
	for range calls {
		got[s.get(s.at("shop", "/api/canary")).body]++
	}
	most := sigmas * math.Sqrt(calls*newer*(1-newer))
	// both versions answer one trigger, each as many calls as its percentage says
	if got["one"]+got["two"] != calls || math.Abs(float64(got["two"])-calls*newer) > most {
		t.Errorf("of %d calls got %v, want %.0f±%.0f by the newer version and the others by the older one", calls, got, calls*newer, most)
	}
}
