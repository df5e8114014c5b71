package main

import (
	"slices"
	"testing"
	"testing/fstest"
)

const heading = "# Conformance\n\n| ID | requirement | document, lines | proved by |\n|---|---|---|---|\n"

// Not one raw string: a line that begins as a comment with an ID would be a proof in this file.
const sources = "package spec_test\n\n" +
	"func TestOther(t *testing.T) {\n\t// B-002: stands in another test\n}\n\n" +
	"func TestParse(t *testing.T) {\n\t// B-001: the fact\n\twantFact(t, got)\n}\n\n" +
	"func wantFact(t *testing.T, got string) {\n\t// B-004: the fact that a helper asserts\n\tt.Error(got)\n}\n"

// Each row either holds, or is one sentence that names the row and the file.
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rows string
		want []string
	}{
		{"a Go test and a script that passed",
			"| B-001 | words | 2 Fission, 3 | spec/a_test.go:TestParse, testdata/script/apply.txtar |\n", nil},
		{"a helper of the test", "| B-004 | words | 2 Fission, 3 | spec/a_test.go:TestParse |\n", nil},
		{"a bar in the words", "| B-001 | this \\| that | 2 Fission, 3 | spec/a_test.go:TestParse |\n", nil},
		{"an open row beside a proved one",
			"| B-009 | words | x, – | – |\n| B-001 | w | x, 1 | spec/a_test.go:TestParse |\n", nil},
		{"no proof at all", "| B-009 | words | x, – | – |\n", []string{"docs/conformance.md names no test"}},
		{"a file that went", "| B-001 | w | x, 1 | spec/gone_test.go:TestParse |\n",
			[]string{"B-001: spec/gone_test.go: there is no such file"}},
		{"a test that went", "| B-001 | w | x, 1 | spec/a_test.go:TestPars |\n",
			[]string{"B-001: spec/a_test.go: there is no TestPars"}},
		{
			"an ID that went", "| B-002 | w | x, 1 | spec/a_test.go:TestParse |\n",
			[]string{"B-002: spec/a_test.go: its ID stands in no comment there"},
		},
		{
			"a test that failed", "| B-003 | w | x, 1 | testdata/script/fails.txtar |\n",
			[]string{"B-003: testdata/script/fails.txtar: its test did not pass"},
		},
		{
			"a test of that name in another package only", "| B-001 | w | x, 1 | other/a_test.go:TestParse |\n",
			[]string{"B-001: other/a_test.go: its test did not run"},
		},
		{
			"a row that cannot be read", "| B-1 | w | x, 1 | spec/a_test.go:TestParse |\n",
			[]string{"not a row of the table: | B-1 | w | x, 1 | spec/a_test.go:TestParse |",
				"docs/conformance.md names no test"},
		},
		{
			"a proof of another form", "| B-001 | w | x, 1 | README.md |\n",
			[]string{"B-001: neither a Go test nor a script: README.md", "docs/conformance.md names no test"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{
				"go.mod":                      {Data: []byte("module example.com/shop\n\ngo 1.26.0\n")},
				"docs/conformance.md":         {Data: []byte(heading + test.rows)},
				"spec/a_test.go":              {Data: []byte(sources)},
				"other/a_test.go":             {Data: []byte(sources)},
				"testdata/script/apply.txtar": {Data: []byte("# B-001: the fact\nstdout fact\n")},
				"testdata/script/fails.txtar": {Data: []byte("# B-003: the fact\nstdout fact\n")},
				"build/test.json": {Data: []byte(`{"Action":"run","Package":"example.com/shop/spec","Test":"TestParse"}
{"Action":"pass","Package":"example.com/shop/spec","Test":"TestParse"}
{"Action":"pass","Package":"example.com/shop/spec","Test":"TestOther"}
{"Action":"pass","Package":"example.com/shop/cmd","Test":"TestScripts/apply"}
{"Action":"fail","Package":"example.com/shop/cmd","Test":"TestScripts/fails"}
not an event
{"Action":"pass","Package":"example.com/shop/cmd"}
`)},
			}
			got, err := check(tree, "docs/conformance.md", "build/test.json")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Without results nothing is proved.
func TestCheckWithoutResults(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"go.mod":              {Data: []byte("module example.com/shop\n")},
		"docs/conformance.md": {Data: []byte(heading + "| B-001 | w | x, 1 | spec/a_test.go:TestParse |\n")},
	}
	if got, err := check(tree, "docs/conformance.md", "build/test.json"); err == nil {
		t.Errorf("got %q and no error, want one about build/test.json", got)
	}
}
