package spec_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/test/testkit"
)

// parseFixture returns the spec of a file of testdata/valid.
func parseFixture(t *testing.T, name string) *spec.Spec {
	t.Helper()
	return mustParse(t, readFixture(t, filepath.Join("testdata", "valid", name)).sources...)
}

func contains(t *testing.T, message, want string) {
	t.Helper()
	if !strings.Contains(message, want) {
		t.Errorf("message: got\n%s\nwant %s in it", message, want)
	}
}

// The seed's own files are read as they stand there.
func TestSeeds(t *testing.T) {
	t.Parallel()
	t.Run("a function, its package and its archive", func(t *testing.T) {
		t.Parallel()
		s := parseFixture(t, "scenario1.txtar")
		f, p, a := s.Functions[0], s.Packages[0], s.Archives[0]
		// B-032: a multi-document file of Function, Package with build status, and ArchiveUploadSpec is read
		testkit.Equal(t, "function", f.Name+" "+f.Environment+" "+f.Package+" "+f.FunctionName,
			"hello python-27 hello-pkg hello.main")
		testkit.Equal(t, "package", p.Name+" "+p.Source.Name+" "+p.BuildCommand, "hello-pkg hello-archive ./build.sh")
		testkit.Equal(t, "archive", a.Name+" "+strings.Join(a.Include, " "),
			"hello-archive hello/*.py hello/*.sh hello/requirements.txt")
		if strings.Contains(string(p.Spec), "buildstatus") {
			t.Errorf("package's spec: got %s, want no status in it", p.Spec)
		}
	})
	t.Run("an HTTP trigger on the latest version", func(t *testing.T) {
		t.Parallel()
		trigger := parseFixture(t, "scenario2.txtar").Triggers[0]
		// B-055: an HTTPTrigger with name, type, version, host, method and relativeurl is read
		testkit.Equal(t, "kind", trigger.Kind, landfall.HTTPTrigger)
		testkit.Equal(t, "function", trigger.Function, landfall.Reference{Name: "hello", Selector: landfall.Latest})
		testkit.Equal(t, "patterns", strings.Join(trigger.Patterns(), "|"), "GET /hello")
	})
	t.Run("two functions that share nothing", func(t *testing.T) {
		t.Parallel()
		s := parseFixture(t, "scenario3.txtar")
		// B-062: two functions with a package each
		testkit.Equal(t, "packages", s.Functions[0].Package+" "+s.Functions[1].Package, "bar-pkg foo-pkg")
		testkit.Equal(t, "archives", s.Packages[0].Source.Name+" "+s.Packages[1].Source.Name, "bar-archive foo-archive")
	})
	t.Run("two functions that share a package", func(t *testing.T) {
		t.Parallel()
		s := parseFixture(t, "scenario4.txtar")
		// B-068: one package serves both functions
		testkit.Equal(t, "packages", s.Functions[0].Package+" "+s.Functions[1].Package, "src-pkg src-pkg")
		testkit.Equal(t, "number of packages", len(s.Packages), 1)
	})
}

// What is wrong is said with its place, and what would be right.
func TestMessages(t *testing.T) {
	t.Parallel()
	invalid := func(t *testing.T, name string) string {
		t.Helper()
		return refused(t, spec.Limits{}, readFixture(t, filepath.Join("testdata", "invalid", name)).sources...)
	}
	t.Run("text that cannot be read", func(t *testing.T) {
		t.Parallel()
		// N-009: YAML that does not parse, unknown fields, duplicate keys and duplicate names have file, line and
		// nearest name
		contains(t, invalid(t, "syntax.txtar"), "specs/a.yaml:5: not YAML: mapping values are not allowed")
		// N-009: a tab, which looks like spaces, is named
		contains(t, refused(t, spec.Limits{}, one("apiVersion: landfall.dev/v1\nkind: App\n\tmetadata: {name: shop}\n")),
			"specs/a.yaml:3: not YAML: the line is indented with a tab; write spaces")
		contains(t, invalid(t, "unknown-fields.txtar"),
			`specs/app.yaml:7: unknown field "enviroment"; did you mean "environment"?`)
		contains(t, invalid(t, "duplicate-keys.txtar"), `specs/app.yaml:9: "b" is already given in line 8`)
		contains(t, invalid(t, "duplicate-names.txtar"), `specs/b.yaml:3: Package "pkg" is already defined at specs/a.yaml:8`)
	})
	t.Run("references that lead nowhere", func(t *testing.T) {
		t.Parallel()
		message := invalid(t, "references.txtar")
		// N-011: no environment, a package or a trigger's function that is not in the spec
		contains(t, message, "specs/a.yaml:4: Function nowhere names no environment")
		contains(t, message, `specs/a.yaml:5: Function nowhere names Package "gone", which the spec does not define`)
		contains(t, message, `specs/a.yaml:28: trigger t names Function "missing", which the spec does not define`)
		// B-102: a function that still names a removed package is a validation error, not a cascade
		contains(t, message, `names Package "gone", which the spec does not define`)
	})
	t.Run("a time trigger that never fires", func(t *testing.T) {
		t.Parallel()
		message := invalid(t, "triggers.txtar")
		// N-028: a cron expression that does not parse is refused with file, line and the character
		contains(t, message, `specs/a.yaml:76: TimeTrigger hour: cron "0 25 * * *": at character 3: "25" is no hour`)
		// N-028: one that never fires
		contains(t, message,
			`specs/a.yaml:81: TimeTrigger never: cron "0 0 30 2 *": at character 5: no month of "2" has a day of "30"`)
		// N-028: a time zone that there is not
		contains(t, message, `specs/a.yaml:89: TimeTrigger zone: there is no time zone "Mars/Olympus"`)
	})
	t.Run("static entries with equal paths", func(t *testing.T) {
		t.Parallel()
		// N-012: two static units with equal path, both places
		contains(t, invalid(t, "static.txtar"),
			`specs/a.yaml:9: static path "/same" is already served by the entry at specs/a.yaml:6`)
	})
}

// How a file is encoded and divided does not matter.
func TestEncodings(t *testing.T) {
	t.Parallel()
	f := readFixture(t, filepath.Join("testdata", "valid", "scenario3.txtar"))
	text := string(f.sources[0].Data)
	want := dump(t, mustParse(t, f.sources...))
	for name, variant := range map[string]string{
		"byte order mark":  "\ufeff" + text,
		"CRLF":             strings.ReplaceAll(text, "\n", "\r\n"),
		"no last newline":  strings.TrimSuffix(text, "\n"),
		"marker first":     "--- # first" + "\n" + text,
		"document end":     text + "...\n",
		"empty documents":  text + "---\n# nothing\n---\n\n---\n",
		"markers with end": strings.ReplaceAll(text, "---\n", "--- \t# next\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dump(t, mustParse(t, spec.Source{Name: f.sources[0].Name, Data: []byte(variant)}))
			if name == "marker first" {
				testkit.Equal(t, "spec", withoutPlaces(got), withoutPlaces(want))
				return
			}
			testkit.Equal(t, "spec", got, want)
		})
	}
	t.Run("not UTF-8", func(t *testing.T) {
		t.Parallel()
		contains(t, refused(t, spec.Limits{}, one("a: 1\nb: \xff\n")), "specs/a.yaml:2: the text is not UTF-8")
	})
	t.Run("other line ends", func(t *testing.T) {
		t.Parallel()
		contains(t, refused(t, spec.Limits{}, one("a: 1\r---\rb: 1\r")), "more than one document")
	})
	t.Run("nothing at all", func(t *testing.T) {
		t.Parallel()
		testkit.Equal(t, "spec", dump(t, mustParse(t)), dump(t, &spec.Spec{}))
	})
}

var places = regexp.MustCompile(`"(File|Line)": .*`)

func withoutPlaces(s string) string { return places.ReplaceAllString(s, "") }

// The order of files and of the documents in them shows only in places.
func TestOrder(t *testing.T) {
	t.Parallel()
	var documents []string
	for _, name := range []string{"app.txtar", "fission.txtar", "scenario2.txtar", "scenario3.txtar"} {
		for _, s := range readFixture(t, filepath.Join("testdata", "valid", name)).sources {
			documents = append(documents, strings.Split(strings.ReplaceAll(string(s.Data), "...\n", ""), "---\n")...)
		}
	}
	parse := func(t *testing.T, seed uint64) (string, []string) {
		t.Helper()
		r := rand.New(rand.NewPCG(seed, seed))
		r.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		var sources []spec.Source
		for rest := documents; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			text := strings.Join(rest[:n], "\n---\n")
			sources = append(sources, spec.Source{Name: fmt.Sprintf("specs/%d.yaml", r.IntN(1_000_000)), Data: []byte(text)})
			rest = rest[n:]
		}
		s := mustParse(t, sources...)
		var warnings []string
		for _, w := range s.Warnings {
			warnings = append(warnings, w.Message)
		}
		slices.Sort(warnings)
		s.Warnings = nil
		return withoutPlaces(dump(t, s)), warnings
	}
	wantSpec, wantWarnings := parse(t, 0)
	for seed := range uint64(50) {
		gotSpec, gotWarnings := parse(t, seed+1)
		testkit.Equal(t, "spec", gotSpec, wantSpec)
		if !slices.Equal(gotWarnings, wantWarnings) {
			t.Errorf("warnings: got %q, want %q", gotWarnings, wantWarnings)
		}
	}
}

// What does not change behaviour is not in the canonical spec, and what does is.
func TestCanonical(t *testing.T) {
	t.Parallel()
	const function = `
apiVersion: fission.io/v1
kind: Function
metadata: {name: f%s}
spec:
  environment: {name: nodejs}
  package: {packageref: {name: %s}, functionName: main}
  secrets: null
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: pkg}
spec: {source: {url: https://example.com/a.zip}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: other}
spec: {source: {url: https://example.com/a.zip}}
`
	canonical := func(t *testing.T, metadata, pkg string) string {
		t.Helper()
		return string(mustParse(t, one(fmt.Sprintf(function, metadata, pkg))).Functions[0].Spec)
	}
	const want = `{"environment":{"name":"nodejs","namespace":"default"},"package":{"functionName":"main",` +
		`"packageref":{"name":"pkg","namespace":"default"}}}`
	testkit.Equal(t, "spec", canonical(t, "", "pkg"), want)
	testkit.Equal(t, "spec with labels", canonical(t, ", labels: {a: b}, annotations: {c: d}", "pkg"), want)
	testkit.Equal(t, "spec with the default written", canonical(t, "", "pkg, namespace: default"), want)
	if got := canonical(t, "", "other"); got == want {
		t.Errorf("spec with another package: got the same %s", got)
	}
	if got := canonical(t, "", "pkg, namespace: else"); got == want {
		t.Errorf("spec with another namespace: got the same %s", got)
	}
}

// Patterns mean to http.ServeMux what Fission's routes mean.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trigger spec.Trigger
		path    string
		want    int
	}{
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/a"}}}, path: "/a",
			want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/a"}}}, path: "/a/b",
			want: http.StatusNotFound},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/"}}}, path: "/",
			want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/"}}}, path: "/a",
			want: http.StatusNotFound},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/{id}/x"}}}, path: "/5/x",
			want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/api", Prefix: true}}}, path: "/api",
			want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/api/", Prefix: true}}},
			path: "/api/v1/x", want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/api", Prefix: true}}},
			path: "/apis", want: http.StatusNotFound},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/", Prefix: true}}},
			path: "/any/where", want: http.StatusOK},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/a", Host: "other.example.com"}}},
			path: "/a", want: http.StatusNotFound},
		{trigger: spec.Trigger{Trigger: landfall.Trigger{HTTP: landfall.HTTPSource{URL: "/a", Host: "example.com"}}},
			path: "/a", want: http.StatusOK},
	} {
		mux := http.NewServeMux()
		c.trigger.HTTP.Methods = []string{http.MethodGet}
		for _, p := range c.trigger.Patterns() {
			mux.HandleFunc(p, func(http.ResponseWriter, *http.Request) {})
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com"+c.path,
			http.NoBody))
		if w.Code != c.want {
			t.Errorf("%+v, GET %s: got %d, want %d", c.trigger, c.path, w.Code, c.want)
		}
	}
}

// A folder without specs is one static unit.
func TestImplicit(t *testing.T) {
	t.Parallel()
	s := spec.Implicit()
	if s.App == nil || len(s.App.Static) != 1 {
		t.Fatalf("got %+v, want one static unit", s.App)
	}
	u := s.App.Static[0]
	if u.Src != "." || u.Path != "/" || !u.Implicit {
		t.Errorf("got %+v, want src ., path / and Implicit", u)
	}
}

// What people write who know something else is refused, or warned of, with what would be right.
func TestHints(t *testing.T) {
	t.Parallel()
	const before = "apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: greet-pkg}\nspec: {environment: {name: " +
		"python}, deployment: {url: 'https://example.com/p.zip'}}\n---\n"
	function := func(more string) spec.Source {
		return one(before + "apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: greet}\nspec: {environment: " +
			"{name: python}, package: {packageref: {name: greet-pkg}}, " + more + "}\n")
	}
	route := func(more string) spec.Source {
		s := function("")
		return one(string(s.Data) + "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: t}\nspec: {" +
			more + "}\n")
	}
	for _, c := range []struct {
		source spec.Source
		says   string
	}{
		{function("secrets: [STRIPE_KEY]"),
			"specs/a.yaml:9: spec.secrets[0] must be a mapping of names to values, such as {name: STRIPE_KEY}"},
		{function("functionTimeout: 30s"), "specs/a.yaml:9: spec.functionTimeout must be a whole number, without a unit"},
		{function("resources: {limits: {memory: 128}}"),
			"specs/a.yaml:9: Function greet: resources: memory is 128 bytes, and at least 1Mi; with its unit it is a " +
				"quantity such as 128Mi"},
		{route("relativeurl: /t, functionref: greet"),
			"specs/a.yaml:14: spec.functionref must be a mapping of names to values, such as {name: greet}"},
		{route("relativeurl: /t, functionref: {name: gret}"),
			`names Function "gret", which the spec does not define; did you mean "greet"?`},
		{route("relativeurl: /t, functionref: {name: greet}, resources: {limits: {ephemeral-storage: 64}}"),
			"HTTPTrigger t: resources: ephemeral-storage is 64 bytes"},
		{one("kind: ArchiveUploadSpec\nname: a\ninclude: src\n"), "specs/a.yaml:3: include must be a list, such as [src]"},
	} {
		contains(t, refused(t, spec.Limits{}, c.source), c.says)
	}
	for _, c := range []struct {
		source spec.Source
		says   string
	}{
		{function("env: {A: b}"), "specs/a.yaml:9: kept, not used: spec.env"},
		{function("resources: {limits: {memroy: 128Mi}}"),
			`specs/a.yaml:9: kept, not used: spec.resources.limits.memroy; did you mean "memory"?`},
		{route("relativeurl: /t, prefix: /u, functionref: {name: greet}"),
			"specs/a.yaml:14: HTTPTrigger t: relativeurl is not used beside prefix"},
	} {
		contains(t, fmt.Sprint(mustParse(t, c.source).Warnings), c.says)
	}
}

// A parameter as other routers write it is taken as it stands, which is worth a warning.
func TestColonInRoute(t *testing.T) {
	t.Parallel()
	const function = "apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: p}\nspec: {environment: {name: " +
		"python}, deployment: {url: 'https://example.com/p.zip'}}\n---\n" +
		"apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {environment: {name: python}, package: " +
		"{packageref: {name: p}}}\n---\n"
	for route, want := range map[string]string{
		"/orders/:id":      `[specs/a.yaml:14: HTTPTrigger t: ":id" is taken as it stands; one that stands for any segment is written {id}]`,
		"/orders/*":        `[specs/a.yaml:14: HTTPTrigger t: "*" is taken as it stands; everything below a path is written with prefix in place of relativeurl]`,
		"/orders/{id}/a:b": "[]",
	} {
		s := mustParse(t, spec.Source{Name: "specs/a.yaml", Data: []byte(function +
			"apiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: t}\nspec: {functionref: {name: f}, relativeurl: '" +
			route + "'}\n")})
		testkit.Equal(t, "warnings of "+route, fmt.Sprint(s.Warnings), want)
	}
}
