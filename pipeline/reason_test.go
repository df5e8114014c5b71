package pipeline_test

import (
	"os"
	"strings"
	"testing"

	"landfall.dev/landfall/pipeline"
)

// The reason of a failed build is the line that a person would point at, whatever the tools print after it.
func TestReasonOfAFailedBuild(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/failures.txtar")
	if err != nil {
		t.Fatal(err)
	}
	said, want := map[string]string{}, map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		if name, isReason := strings.CutSuffix(name, ": reason"); isReason {
			want[name] = strings.TrimSpace(content)
		} else {
			said[name] = strings.ReplaceAll(content, "␛", "\x1b")
		}
	}
	const fewest = 40
	if len(said) < fewest || len(said) != len(want) {
		t.Fatalf("there are %d outputs and %d reasons", len(said), len(want))
	}
	for name, output := range said {
		// K-011: the reason is the line that names the error, without what colours it
		if got := pipeline.ReasonOf(strings.Split(output, "\n")); got != want[name] {
			t.Errorf("%s: the reason is %q, want %q", name, got, want[name])
		}
	}
}

// What a build failed for want of a host has that for its reason, whatever the tool makes of it; a host that it could
// do without is no reason.
func TestReasonIsAHost(t *testing.T) {
	t.Parallel()
	const registry, other = "registry.example.com was not reached: no such host",
		"telemetry.example.com was not reached: no such host"
	for _, test := range []struct{ line, want string }{
		{"npm error 403 403 Forbidden - GET https://registry.example.com/left-pad", registry},
		{"ERROR: No matching distribution found for flask", other},
		{"fatal: unable to access 'https://elsewhere/': CONNECT tunnel failed", other},
		{"", other},
		{"TypeError: page is not a function", "TypeError: page is not a function"},
		{"src/api.ts(12,5): error TS2339: Property 'timeout' does not exist on type 'Options'.",
			"src/api.ts(12,5): error TS2339: Property 'timeout' does not exist on type 'Options'."},
		{"src/network.ts:403:7 - error TS2322: fetch failed", "src/network.ts:403:7 - error TS2322: fetch failed"},
		{"AssertionError: expected 200 to equal 403", "AssertionError: expected 200 to equal 403"},
		{"ImportError: cannot import name 'Forbidden'", "ImportError: cannot import name 'Forbidden'"},
		{"TypeError: cannot read old-registry.example.com.au", "TypeError: cannot read old-registry.example.com.au"},
	} {
		// K-012: a host that the proxy of builds refused is named
		if got := pipeline.ReasonFor(test.line, registry, other); got != test.want {
			t.Errorf("%q: got %q, want %q", test.line, got, test.want)
		}
	}
	if got := pipeline.ReasonFor("npm error 403 403 Forbidden"); got != "npm error 403 403 Forbidden" {
		t.Errorf("without such a host: got %q", got)
	}
}
