// Command conformance checks docs/conformance.md against the tree and the last test run: every test that the table
// names as a proof must still exist, carry the requirement's ID in a comment, and have run and passed. It is silent
// when all is well.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	table := flag.String("table", "docs/conformance.md", "the table of requirements and what proves them")
	results := flag.String("results", "build/test.json", "the output of go test -json")
	flag.Parse()
	problems, err := check(os.DirFS("."), *table, *results)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "conformance:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// proof is one test that the table names for one requirement.
type proof struct {
	id   string
	path string // of the file, with slashes
	test string // the Go function; empty for a script, whose subtest has the file's name
}

// check returns what is wrong with the table, one sentence each, for the tree.
func check(tree fs.FS, table, results string) ([]string, error) {
	text, err := fs.ReadFile(tree, table)
	if err != nil {
		return nil, err
	}
	proofs, problems := parseTable(string(text))
	if len(proofs) == 0 {
		return append(problems, table+" names no test"), nil
	}
	module, err := modulePath(tree)
	if err != nil {
		return problems, err
	}
	ran, err := readResults(tree, results)
	if err != nil {
		return problems, err
	}
	for _, p := range proofs {
		if problem := p.problem(tree, ran, module); problem != "" {
			problems = append(problems, p.id+": "+p.path+": "+problem)
		}
	}
	return problems, nil
}

// parseTable reads the rows "| ID | requirement | document, lines | proof, proof |". A proof is FILE_test.go:Test or
// FILE.txtar; a dash stands for none.
func parseTable(text string) (proofs []proof, problems []string) {
	row := regexp.MustCompile(`^\| ([A-Z]-\d{3}) \|.*[^\\]\| ([^|]*) \|$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ID |") {
			continue
		}
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			problems = append(problems, "not a row of the table: "+line)
			continue
		}
		for named := range strings.SplitSeq(cells[2], ", ") {
			path, test, isGo := strings.Cut(named, ":")
			switch {
			case named == "–":
			case isGo == strings.HasSuffix(path, "_test.go") && isGo != strings.HasSuffix(path, ".txtar"):
				proofs = append(proofs, proof{cells[1], path, test})
			default:
				problems = append(problems, cells[1]+": neither a Go test nor a script: "+named)
			}
		}
	}
	return proofs, problems
}

// problem says why p proves nothing; it is empty when p proves its requirement.
func (p proof) problem(tree fs.FS, ran outcomes, module string) string {
	text, err := fs.ReadFile(tree, p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if err != nil {
		return err.Error()
	}
	source, mark := string(text), `(?m)^\s*#.*\b`+p.id+`\b`
	if p.test != "" {
		mark = `(?m)^\s*//.*\b` + p.id + `\b`
		if source = function(source, p.test); source == "" {
			return "there is no " + p.test
		}
	}
	if !regexp.MustCompile(mark).MatchString(source) {
		return "its ID stands in no comment there"
	}
	return ran.problem(p, module)
}

// function returns the text of the named test, with the helpers that follow it, up to the next test: a fact that a
// helper asserts is proved by the test it was written for.
func function(source, name string) string {
	_, body, found := strings.Cut("\n"+source, "\nfunc "+name+"(")
	if !found {
		return ""
	}
	if next := nextTest.FindStringIndex(body); next != nil {
		body = body[:next[0]]
	}
	return body
}

var nextTest = regexp.MustCompile(`\nfunc (Test|Fuzz)\w+\(`)

// modulePath reads the module's path from its go.mod.
func modulePath(tree fs.FS) (string, error) {
	text, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	if i := slices.Index(words, "module"); i >= 0 && i+1 < len(words) {
		return words[i+1], nil
	}
	return "", errors.New("go.mod names no module")
}
