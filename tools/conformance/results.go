package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// outcomes are the tests that ended: package, a space and test, to whether it passed.
type outcomes map[string]bool

// readResults reads the output of `go test -json`. Of a test that ran more than once every run must have passed.
func readResults(tree fs.FS, name string) (outcomes, error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ran, lines := outcomes{}, bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		ran.add(line)
		if errors.Is(err, io.EOF) {
			return ran, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// add takes one line of input; a line that is no event of a test says nothing.
func (o outcomes) add(line []byte) {
	var e struct {
		Action  string `json:"Action"`
		Package string `json:"Package"`
		Test    string `json:"Test"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Test == "" {
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		if _, known := o[key]; !known {
			o[key] = true
		}
	case "fail", "skip":
		o[key] = false
	}
}

// problem says what is wrong with how the test that p names went: a Go test by its name in the file's package, a script
// by the subtest that has the file's name, in any package.
func (o outcomes) problem(p proof, module string) string {
	key := path.Join(module, path.Dir(p.path)) + " " + p.test
	script := "/" + strings.TrimSuffix(path.Base(p.path), ".txtar")
	found := false
	for test, passed := range o {
		if test != key && (p.test != "" || !strings.HasSuffix(test, script)) {
			continue
		}
		if !passed {
			return "its test did not pass"
		}
		found = true
	}
	if !found {
		return "its test did not run"
	}
	return ""
}
