package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` and `go help buildjson` describe it.
type event struct {
	ImportPath  string `json:"ImportPath"` // of what was built, in build-output
	Action      string `json:"Action"`
	Package     string `json:"Package"`
	Test        string `json:"Test"` // empty for the package itself
	Output      string `json:"Output"`
	FailedBuild string `json:"FailedBuild"` // the ImportPath whose build failed
}

// test is one test, one subtest, or, under the empty name, a package's own output.
type test struct {
	name   string
	output strings.Builder
	action string // pass, fail, skip; empty while it runs
}

type report struct {
	out     io.Writer
	running map[string][]*test          // package to its tests, in the order in which they spoke first
	builds  map[string]*strings.Builder // what the compiler said

	closing                 []string // one line for each package
	skips                   []string
	passed, failed, skipped int
}

func newReport(out io.Writer) *report {
	return &report{out: out, running: map[string][]*test{}, builds: map[string]*strings.Builder{}}
}

// add takes one line of input. What is no event is somebody's plain output and is passed on.
func (r *report) add(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		fmt.Fprintf(r.out, "%s\n", strings.TrimRight(string(line), "\r\n"))
		return
	}
	switch {
	case e.Action == "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
	case e.Package == "":
	case e.Action == "output":
		r.test(e.Package, e.Test).output.WriteString(e.Output)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		r.test(e.Package, e.Test)
	case e.Test == "":
		r.endPackage(e)
	default:
		r.endTest(e)
	}
}

// test returns the named test of the package; it is made when it is new.
func (r *report) test(pkg, name string) *test {
	i := slices.IndexFunc(r.running[pkg], func(t *test) bool { return t.name == name })
	if i >= 0 {
		return r.running[pkg][i]
	}
	t := &test{name: name}
	r.running[pkg] = append(r.running[pkg], t)
	return t
}

func (r *report) endTest(e event) {
	t := r.test(e.Package, e.Test)
	t.action = e.Action
	switch e.Action {
	case "pass":
		r.passed++
		t.output.Reset()
	case "skip":
		r.skipped++
		r.skips = append(r.skips, e.Package+" "+e.Test+"\n"+body(t))
	default:
		r.failed++
	}
}

// endPackage prints what failed in the package and keeps its closing line, which is the one that go test wrote.
func (r *report) endPackage(e event) {
	own := body(r.test(e.Package, ""))
	line := ""
	for text := range strings.Lines(own) {
		if strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "FAIL\t") {
			line = text
		}
	}
	if line != "" {
		r.closing = append(r.closing, strings.TrimRight(line, "\n"))
	}
	if e.Action == "fail" {
		r.printFailures(e, strings.Replace(own, line, "", 1))
	}
	delete(r.running, e.Package)
}

// printFailures prints the output of all tests of the package that did not pass, then that of the package itself. A
// package that failed without a failing test (it does not build, it was killed) counts as one failure.
func (r *report) printFailures(e event, own string) {
	blamed := false
	if build := r.builds[e.FailedBuild]; build != nil {
		fmt.Fprint(r.out, build.String())
	}
	for _, t := range r.running[e.Package] {
		if t.name == "" || t.action == "pass" || t.action == "skip" {
			continue
		}
		blamed = blamed || t.action == "fail"
		fmt.Fprint(r.out, body(t))
	}
	if !blamed {
		r.failed++
	}
	if own = strings.TrimSuffix(own, "FAIL\n"); own != "" {
		fmt.Fprint(r.out, own)
	}
}

// body returns what the test said, without the notices of when it ran and paused.
func body(t *test) string {
	var b strings.Builder
	for line := range strings.Lines(t.output.String()) {
		if !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// close prints the closing lines and says whether all is well.
func (r *report) close() bool {
	for pkg := range r.running {
		r.endPackage(event{Package: pkg, Action: "fail"})
		r.closing = append(r.closing, "FAIL\t"+pkg+" [did not finish]")
	}
	slices.Sort(r.closing)
	for _, s := range r.skips {
		fmt.Fprintf(r.out, "skipped, which is not allowed: %s", s)
	}
	for _, line := range r.closing {
		fmt.Fprintln(r.out, line)
	}
	ran := r.passed+r.failed+r.skipped > 0
	if !ran {
		fmt.Fprintln(r.out, "no test ran")
	}
	fmt.Fprintf(r.out, "%d passed, %d failed", r.passed, r.failed)
	if r.skipped > 0 {
		fmt.Fprintf(r.out, ", %d skipped", r.skipped)
	}
	fmt.Fprintln(r.out)
	return ran && r.failed == 0 && r.skipped == 0
}
