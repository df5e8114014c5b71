package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What go test writes is read from the real go test, run on small packages.
func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module sample\n\ngo 1.26.0\n")
	write(t, dir, "good/good_test.go", `package good
import "testing"
func TestGood(t *testing.T) { t.Run("part", func(t *testing.T) { t.Log("quiet") }) }
`)
	write(t, dir, "bad/bad_test.go", `package bad
import "testing"
func TestBad(t *testing.T) { t.Errorf("got 1, want 2") }
func TestGood(t *testing.T) { t.Log("quiet") }
`)
	write(t, dir, "skips/skips_test.go", `package skips
import "testing"
func TestLazy(t *testing.T) { t.SkipNow() }
`)
	write(t, dir, "broken/broken_test.go", "package broken\nvar x int = \"text\"\n")
	write(t, dir, "exits/exits_test.go", `package exits
import ("os"; "testing")
func TestExits(t *testing.T) { os.Exit(3) }
`)
	write(t, dir, "empty/empty.go", "package empty\n")

	tests := []struct {
		name     string
		packages string
		ok       bool
		last     string   // the last line
		says     []string // lines that must be there, or beginnings of them
		not      string   // what must not be there
	}{
		{
			"all pass", "./good ./empty", true, "2 passed, 0 failed",
			[]string{"ok  \tsample/good\t"},
			"quiet",
		},
		{
			"a failure is shown in full", "./good ./bad", false, "3 passed, 1 failed",
			[]string{"--- FAIL: TestBad", "    bad_test.go:3: got 1, want 2", "FAIL\tsample/bad\t", "ok  \tsample/good\t"},
			"quiet",
		},
		{
			"a skipped test fails and is named", "./good ./skips", false, "2 passed, 0 failed, 1 skipped",
			[]string{"skipped, which is not allowed: sample/skips TestLazy"},
			"FAIL",
		},
		{
			"a package that does not build fails", "./good ./broken", false, "2 passed, 1 failed",
			[]string{"broken/broken_test.go:2:", "FAIL\tsample/broken [build failed]"},
			"quiet",
		},
		{
			"a package that is not there fails", "./good ./nowhere", false, "2 passed, 1 failed",
			[]string{"FAIL\t./nowhere [setup failed]"},
			"quiet",
		},
		{
			"a test process that ends itself fails", "./exits", false, "0 passed, 1 failed",
			[]string{"FAIL\tsample/exits\t"},
			"ok",
		},
		{
			"no test at all fails", "./empty", false, "0 passed, 0 failed",
			[]string{"no test ran"},
			"FAIL",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-json"}, strings.Fields(test.packages)...)...)
			cmd.Dir = dir
			input, _ := cmd.Output() // it fails when a test fails

			ok, out := reportOf(t, string(input))
			if ok != test.ok {
				t.Errorf("all well: got %v, want %v", ok, test.ok)
			}
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if got := lines[len(lines)-1]; got != test.last {
				t.Errorf("last line: got %q, want %q", got, test.last)
			}
			for _, want := range test.says {
				if !strings.Contains("\n"+out, "\n"+want) {
					t.Errorf("want a line %q in:\n%s", want, out)
				}
			}
			if strings.Contains(out, test.not) {
				t.Errorf("want no %q in:\n%s", test.not, out)
			}
		})
	}
}

// A go test that was killed leaves packages without an end.
func TestReportOfTornInput(t *testing.T) {
	t.Parallel()
	ok, out := reportOf(t, `{"Action":"start","Package":"sample/torn"}
{"Action":"run","Package":"sample/torn","Test":"TestOne"}
{"Action":"pass","Package":"sample/torn","Test":"TestOne"}
{"Action":"run","Package":"sample/torn","Test":"TestTwo"}
{"Action":"output","Package":"sample/torn","Test":"TestTwo","Output":"    said before the end\n"}
words of somebody else
{"Action":"ou`)
	if ok {
		t.Error("all well: got true, want false")
	}
	for _, want := range []string{
		"    said before the end\n", "words of somebody else\n", "FAIL\tsample/torn [did not finish]\n1 passed, 1 failed\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
}

// reportOf runs the program's body on input, and checks that the input was kept as it came.
func reportOf(t *testing.T, input string) (ok bool, printed string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "made", "test.json")
	var out strings.Builder
	ok, err := run(strings.NewReader(input), &out, name)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(kept); got != input {
		t.Errorf("kept: got %q, want %q", got, input)
	}
	return ok, out.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
