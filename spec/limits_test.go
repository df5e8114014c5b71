package spec_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/test/testkit"
)

// The config maps and secrets of a function have so many keys together, as each is a file.
func TestMaxFiles(t *testing.T) {
	t.Parallel()
	for keys, want := range map[int]string{
		spec.MaxFiles - 1: "",
		spec.MaxFiles:     "specs/a.yaml:15: Function hello names config maps and secrets with 501 keys; it may have 500",
	} {
		text := "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: node}\nspec: {version: 2, runtime: " +
			"{image: node}}\n---\n" +
			"apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: pkg}\nspec: {environment: {name: node}, deployment: " +
			"{type: literal, literal: eA==}}\n---\n" +
			"apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: hello}\nspec: {environment: {name: node}, package: " +
			"{packageref: {name: pkg}}, secrets: [{name: one}],\n" +
			"  configmaps: [{name: large}]}\n---\n" +
			"apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  config:\n    large:\n"
		for i := range keys {
			text += fmt.Sprintf("      k%d: v\n", i)
		}
		_, err := spec.Parse([]spec.Source{{Name: "specs/a.yaml", Data: []byte(text)}}, spec.Limits{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%d keys: got %v, want %q", keys, err, want)
		}
	}
}

// measured makes the test binary a process that parses one text: only there is what is allocated known exactly.
const measured = "SPEC_TEST_MEASURE"

// measurement is what such a process found.
type measurement struct {
	Allocated uint64 // in all, whether or not it was freed again
	Message   string // of the error
}

// measure parses standard input as one spec file and writes a measurement.
func measure() int {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	sources := []spec.Source{{Name: "specs/a.yaml", Data: text}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, parsed := spec.Parse(sources, spec.Limits{})
	runtime.ReadMemStats(&after)
	found := measurement{after.TotalAlloc - before.TotalAlloc, landfall.MessageOf(parsed)}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return 1
	}
	return 0
}

// measureText runs measure in a process of its own.
func measureText(t *testing.T, text string) measurement {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), measured+"=1")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("a process that parses the text: %v", err)
	}
	var found measurement
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return found
}

func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 40 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	return b.String()
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func staircase(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Small texts that would become large, deep or slow are refused before they do.
func TestBombs(t *testing.T) {
	t.Parallel()
	const app = "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  config: "
	for name, bomb := range map[string]struct{ text, want string }{
		"billion laughs":           {laughs(), "kind is missing"},
		"laughs within a document": {app + "\n    " + strings.ReplaceAll(laughs(), "\n", "\n    "), "anchors and aliases"},
		"aliases by the million": {app + "{a: &a x, b: [" + strings.Repeat("*a,", 1_000_000) + "]}\n",
			"LANDFALL_MAX_SPEC_VALUES"},
		"anchors": {app + "\n" + repeated(100_000, "  - &a%d x\n"), "LANDFALL_MAX_SPEC_VALUES"},
		"flow sequences": {app + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
			"LANDFALL_MAX_SPEC_DEPTH"},
		"flow mappings": {app + strings.Repeat("{a: ", 10_000) + strings.Repeat("}", 10_000),
			"LANDFALL_MAX_SPEC_DEPTH"},
		"flow sequences left open": {app + strings.Repeat("[", 1_000_000), "LANDFALL_MAX_SPEC_VALUES"},
		"flow hidden by text": {app + "{a: " + strings.Repeat(`["]", `, 9_000) + strings.Repeat("]", 9_000) + "}",
			"the limit is 100"},
		"compact sequences": {strings.Repeat("- ", 10_000) + "a", "LANDFALL_MAX_SPEC_DEPTH"},
		"compact keys":      {strings.Repeat("? ", 10_000) + "a", "LANDFALL_MAX_SPEC_DEPTH"},
		"indentation": {app + "\n" + strings.ReplaceAll("\n"+staircase(2_000), "\n", "\n    "),
			"levels deep; the limit is 100"},
		"nesting just over": {app + "{a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}",
			"levels deep; the limit is 100"},
		"commas":     {app + "{a: [" + strings.Repeat("1,", 500_000) + "]}", "LANDFALL_MAX_SPEC_VALUES"},
		"directives": {repeated(90_000, "%%TAG !a%d! x\n") + "---\na: 1\n", "directives"},
		"documents": {strings.Repeat("---\na\n", 1_300_000),
			"1300000 documents; the limit is 10000 (setting LANDFALL_MAX_SPEC_OBJECTS)"},
		"empty documents":           {strings.Repeat("---\n", 2_000_000) + "a", "a document is a mapping"},
		"problems by the thousand":  {repeated(40_000, "a%d: 1\n"), "kind is missing"},
		"unknown fields":            {"apiVersion: landfall.dev/v1\nkind: App\n" + repeated(40_000, "a%d: 1\n"), "more"},
		"a syntax error at the end": {app + "\n" + repeated(40_000, "    a%d: 1\n") + "  b\n", ":40006: not YAML"},
		"an endless quote":          {app + "\"" + strings.Repeat("a\n    ", 40_000), "not YAML"},
		"syntax errors everywhere":  {strings.Repeat("---\na: [\n\n\n\n\n\n\n\n", 9_000), "more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := measureText(t, bomb.text)
			// N-010: aliases by the million and nesting by the thousand are refused, with bounded memory, at once
			contains(t, got.Message, bomb.want)
			limit := uint64(256 << 20) // what the YAML parser takes for as much as the limits let through
			if strings.Contains(bomb.want, "LANDFALL") {
				limit = uint64(4 << 20) // refused before it is decoded
			}
			if got.Allocated > limit {
				t.Errorf("memory: got %d bytes for a text of %d, want at most %d", got.Allocated, len(bomb.text), limit)
			}
		})
	}
}

// Over a limit, nothing is decoded, and the message has the figure, the limit and the setting.
func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		text := strings.Repeat("#", 8<<20)
		got := measureText(t, text+"\n")
		contains(t, got.Message, "8388609 bytes; the limit is 8388608 (setting LANDFALL_MAX_SPEC_BYTES)")
		if got.Allocated > 1<<20 {
			t.Errorf("memory: got %d bytes, want next to nothing", got.Allocated)
		}
		mustParse(t, one(text))
	})
	t.Run("objects", func(t *testing.T) {
		t.Parallel()
		text := strings.Repeat("---\nkind: DeploymentConfig\n", 3)
		contains(t, refused(t, spec.Limits{Objects: 2}, one(text)), "3 documents; the limit is 2")
		if _, err := spec.Parse([]spec.Source{one(text)}, spec.Limits{Objects: 3}); err != nil {
			t.Errorf("within the limit: got %v, want no error", err)
		}
	})
	t.Run("depth", func(t *testing.T) {
		t.Parallel()
		const text = "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec: {config: {a: {b: 1}}}\n"
		contains(t, refused(t, spec.Limits{Depth: 4}, one(text)),
			"nested 5 levels deep; the limit is 4 (setting LANDFALL_MAX_SPEC_DEPTH)")
		if _, err := spec.Parse([]spec.Source{one(text)}, spec.Limits{Depth: 5}); err != nil {
			t.Errorf("within the limit: got %v, want no error", err)
		}
	})
	t.Run("routes", func(t *testing.T) {
		t.Parallel()
		const text = "apiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: t}\n" +
			"spec: {functionref: {name: f}, relativeurl: /a, methods: [GET, PUT, POST]}\n"
		contains(t, refused(t, spec.Limits{Objects: 2}, one(text)),
			"3 routes, counted by method; the limit is 2 (setting LANDFALL_MAX_SPEC_OBJECTS)")
	})
}

// Thousands of objects are read.
func TestLarge(t *testing.T) {
	t.Parallel()
	const function = `---
apiVersion: fission.io/v1
kind: Function
metadata: {name: f%[1]d}
spec: {environment: {name: nodejs}, package: {packageref: {name: p%[1]d}}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: p%[1]d}
spec: {deployment: {url: "https://example.com/p.zip"}}
`
	s := mustParse(t, one(repeated(2_500, function)))
	testkit.Equal(t, "functions", len(s.Functions), 2_500)
	testkit.Equal(t, "packages", len(s.Packages), 2_500)
}

// A literal is as large as one of Fission may be.
func TestLiteralSize(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{
		256 << 10:   "",
		256<<10 + 1: "specs/a.yaml:4: Package p: source.literal has 262145 bytes; the limit is 262144: commit the file",
	} {
		text := "apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: p}\nspec: {environment: {name: python}, source: " +
			"{literal: " + base64.StdEncoding.EncodeToString(make([]byte, size)) + "}}\n"
		_, err := spec.Parse([]spec.Source{{Name: "specs/a.yaml", Data: []byte(text)}}, spec.Limits{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}
