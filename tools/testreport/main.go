// Command testreport reads the output of `go test -json`, keeps it in a file, and prints what a person needs of it:
// every failure in full, then one line for each package, then "N passed, N failed". It ends with 1 when a test failed
// or was skipped, when a package did not finish, and when no test ran.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	file := flag.String("o", "build/test.json", "where the output of go test is kept")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run copies in to the named file, writes the report of it to out, and says whether all is well.
func run(in io.Reader, out io.Writer, name string) (ok bool, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return false, err
	}
	file, err := os.Create(name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	r := newReport(out)
	lines := bufio.NewReader(io.TeeReader(in, file))
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.add(line)
		}
		if errors.Is(err, io.EOF) {
			return r.close(), nil
		}
		if err != nil {
			return false, err
		}
	}
}
