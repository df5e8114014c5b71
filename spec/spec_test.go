package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

const golden = "golden"

func update() bool { return flag.Lookup("update").Value.String() == "true" }

func TestMain(m *testing.M) {
	if os.Getenv(measured) != "" {
		os.Exit(measure())
	}
	flag.Bool("update", false, "rewrite the golden sections of testdata")
	flag.Parse()
	os.Exit(m.Run())
}

// fixture is a file of testdata: a comment, spec files, and what Parse is to say of them, each section after a line "--
// NAME --".
type fixture struct {
	path    string
	head    string // everything before the golden section
	sources []spec.Source
	want    string
}

func readFixture(t testing.TB, path string) fixture {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{path: path}
	name, at := "", 0
	var section strings.Builder
	end := func() {
		switch name {
		case "":
		case golden:
			f.want = section.String()
		default:
			f.sources = append(f.sources, spec.Source{Name: name, Data: []byte(section.String())})
		}
		section.Reset()
	}
	f.head = string(data)
	for line := range strings.Lines(string(data)) {
		inner, ok := strings.CutPrefix(line, "-- ")
		next, closed := strings.CutSuffix(inner, " --\n")
		if ok && closed {
			end()
			if name = next; name == golden {
				f.head = string(data[:at])
			}
		} else {
			section.WriteString(line)
		}
		at += len(line)
	}
	end()
	return f
}

// check compares what Parse said with the golden section, or rewrites it.
func (f fixture) check(t *testing.T, got string) {
	t.Helper()
	if update() {
		if err := os.WriteFile(f.path, []byte(f.head+"-- "+golden+" --\n"+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != f.want {
		t.Errorf("%s: got\n%s\nwant\n%s", f.path, got, f.want)
	}
}

func fixtures(t testing.TB, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures in %s: %v", folder, err)
	}
	return paths
}

func dump(t testing.TB, s *spec.Spec) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func mustParse(t testing.TB, sources ...spec.Source) *spec.Spec {
	t.Helper()
	s, err := spec.Parse(sources, spec.Limits{})
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return s
}

// refused returns the message of the Invalid error that the sources must give.
func refused(t testing.TB, limits spec.Limits, sources ...spec.Source) string {
	t.Helper()
	s, err := spec.Parse(sources, limits)
	if s != nil || landfall.KindOf(err) != landfall.Invalid {
		t.Fatalf("got %v and error %v, want no spec and an Invalid error", s, err)
	}
	e, ok := errors.AsType[*landfall.Error](err)
	if !ok || e.Op != "spec.parse" {
		t.Errorf("error: got %#v, want one of spec.parse", err)
	}
	return landfall.MessageOf(err)
}

func one(text string) spec.Source { return spec.Source{Name: "specs/a.yaml", Data: []byte(text)} }

// Right specs become what the golden sections show.
func TestValid(t *testing.T) {
	t.Parallel()
	for _, path := range fixtures(t, "valid") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			f := readFixture(t, path)
			f.check(t, dump(t, mustParse(t, f.sources...)))
		})
	}
}

// Wrong specs give the messages of the golden sections.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, path := range fixtures(t, "invalid") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			f := readFixture(t, path)
			f.check(t, refused(t, spec.Limits{}, f.sources...)+"\n")
		})
	}
}
