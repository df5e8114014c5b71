package site

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Numbered pushes versions of the function hello of the app shop, which say their numbers, and returns the site. The
// route /api/named leads to the alias prod of hello from the last push on.
func Numbered(t testing.TB, versions int) *Site {
	t.Helper()
	s, _ := NumberedIn(t, versions)
	return s
}

// NumberedIn is numbered, with the repository.
func NumberedIn(t testing.TB, versions int) (*Site, *Repository) {
	t.Helper()
	s := New(t)
	r := s.Repository(s.App("shop"))
	specs := FunctionsSpec("binary-env", "hello hello")
	for n := 1; n <= versions; n++ {
		if n == versions {
			s.Landfall("function", "alias", "create", "hello", "prod", "1")
			specs = specs + "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: named}\n" +
				"spec: {functionref: {type: name, name: hello, alias: prod}, relativeurl: /api/named}\n"
		}
		r.Write("specs/functions.yaml", specs, "specs/app.yaml", AppSpec("shop"), "site/index.html", "page", "hello/hello",
			saying(strconv.Itoa(n)))
		if err := os.Chmod(filepath.Join(r.Dir, "hello", "hello"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.Pushed(r, "shop", "Version "+strconv.Itoa(n))
	}
	return s, r
}

// AddVersion applies another version of the function hello of a repository of NumberedIn, which says a text.
func AddVersion(s *Site, r *Repository, text string, noRelease bool) client.Run {
	s.T.Helper()
	r.Write("hello/hello", saying(text))
	r.Commit("Version " + text)
	return s.Applied(r, "shop", "main", noRelease)
}

// saying returns a program that answers every event with a text, and takes little of the machine.
func saying(text string) string {
	return `#!/usr/bin/perl -n
BEGIN { $| = 1 }
print qq({"specversion":"1.0","id":"1","source":"/hello","type":"said","datacontenttype":"text/plain","data":"` + text +
		`"}\n);
`
}

// FunctionsSpec declares functions, each NAME ENTRYPOINT, in a package of its own and behind a route of its name.
func FunctionsSpec(environment string, functions ...string) string {
	var text strings.Builder
	text.WriteString("apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: env}\nspec: {version: 2, runtime: " +
		"{image: fission/" + environment + "}}\n")
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

// AppSpec is an App document that serves the folder site; more follows in its spec.
func AppSpec(name string, more ...string) string {
	lines := append([]string{"apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: " + name +
		"}\nspec:\n  static:\n    - {src: site, path: /}"}, more...)
	return strings.Join(lines, "\n  ") + "\n"
}

// FunctionSpec declares a function of Python, with its package and archive, whose code is NAME/main.py.
func FunctionSpec(name string) string {
	return strings.ReplaceAll(`apiVersion: fission.io/v1
kind: Function
metadata: {name: NAME}
spec:
  environment: {name: python}
  package:
    packageref: {name: NAME-pkg}
    functionName: main.main
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: NAME-pkg}
spec:
  environment: {name: python}
  deployment: {url: "archive://NAME"}
---
kind: ArchiveUploadSpec
name: NAME
include: ["NAME/*.py"]
---
`, "NAME", name)
}

// EnvironmentSpec declares an environment of Python.
const EnvironmentSpec = "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec:\n  version: " +
	"2\n  runtime: {image: fission/python-env}\n"

// BuiltPackage declares a function with a route, /api/NAME, whose package is built from the folder of its name: by a
// command of its own, or by what the environment's builder is told.
func BuiltPackage(name, environment, builder, entrypoint, buildcmd string) string {
	source := "source:"
	if buildcmd != "" {
		source = "buildcmd: " + buildcmd + ", source:"
	}
	runtime := "runtime:"
	if builder != "" {
		runtime = "builder: {image: fission/builder, command: " + builder + "}, runtime:"
	}
	return strings.NewReplacer("deployment:", source, "runtime:", runtime, name+"/*",
		name+"/**").Replace(FunctionsSpec(environment, name+" "+entrypoint))
}

// QueueSpec declares a queue trigger of a function of the same name, unless more says otherwise.
func QueueSpec(name string, more ...string) string {
	return "---\napiVersion: fission.io/v1\nkind: MessageQueueTrigger\nmetadata: {name: " + name + "}\nspec:\n  " +
		strings.Join(more, "\n  ") + "\n"
}

// Numbered writes a page that says n, and pushes it.
func (s *Site) Numbered(r *Repository, app string, n int) landfall.UID {
	s.T.Helper()
	r.Write("site/index.html", fmt.Sprintf("page %d", n))
	return s.Pushed(r, app, fmt.Sprintf("Page %d", n))
}

// Static makes an app with the folder site at /, and more in its spec.
func (s *Site) Static(app string, more ...string) *Repository {
	s.T.Helper()
	r := s.Repository(s.App(app))
	r.Write("specs/app.yaml", AppSpec(app, more...), "site/robots.txt", "all")
	return r
}

// Gated is an App document whose build says in the folder gate that it is there, and goes on when "open" lies there.
func Gated(app, gate string) string {
	return AppSpec(app, fmt.Sprintf(
		`build: {command: "touch %[1]s/building; while ! [ -e %[1]s/open ]; do sleep 0.1; done; echo built > site/out.txt", outputs: [site/out.txt]}`, gate))
}

// OpenGate lets the builds of a gated App document go on.
func OpenGate(t testing.TB, gate string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// IsThere reports whether there is something at a path.
func IsThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// SlowBuild is an app whose build waits until a file is there.
func SlowBuild(app, gate string) string {
	return AppSpec(app, fmt.Sprintf("build: {command: 'touch %[1]s/$$; while ! [ -e %[1]s/open ]; do sleep 0.05; done; "+
		"mkdir site; cp in site/index.html', inputs: [in], outputs: [site]}", gate))
}

// TimerSpec declares time triggers, each NAME FUNCTION CRON, where the function is as functionref has it.
func TimerSpec(triggers ...string) string {
	var text strings.Builder
	for _, line := range triggers {
		name, rest, _ := strings.Cut(line, " ")
		function, cron, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&text, "---\napiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: %s}\nspec: {functionref: "+
			"{name: %q}, cron: %q}\n", name, function, cron)
	}
	return text.String()
}

// Naming returns the specs of functions that name secrets.
func Naming(specs string, secrets ...string) string {
	var list strings.Builder
	for _, s := range secrets {
		list.WriteString("  - {name: " + s + ", namespace: default}\n")
	}
	return strings.ReplaceAll(specs, "  environment: {name: env}\n  package",
		"  secrets:\n"+list.String()+"  environment: {name: env}\n  package")
}

// Content types of events.
const (
	OneEvent    = "application/cloudevents+json"
	ManyEvents  = "application/cloudevents-batch+json"
	NotEvent    = "text/plain"
	TellingCode = `import json


def main(event):
    if event.get("data") == "trouble":
        raise ValueError("trouble in " + event["id"])
    told = {name: event.get(name) for name in ("source", "type", "subject", "data", "function")}
    for name in ("config", "trigger", "protocol"):
        told[name] = json.loads(event[name]) if isinstance(event.get(name), str) else event.get(name)
    return told
`
)

// EventFrom returns an event of a source, as JSON.
func EventFrom(source string) string {
	return `{"specversion":"1.0","id":"7","source":"` + source + `","type":"order","subject":"s1","data":{"total":9}}`
}
