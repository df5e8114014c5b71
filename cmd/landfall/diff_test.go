package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// wantFiles fails the test unless a row of a table begins with the words and ends with the counts.
func wantFiles(t *testing.T, out, begins, counts string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if row := strings.Join(strings.Fields(line), " "); strings.HasPrefix(row, begins) && strings.HasSuffix(row, counts) {
			return
		}
	}
	t.Errorf("got no row %q … %q in:\n%s", begins, counts, out)
}

func TestDiffCountsFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.write("specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "code", "hello/old.py", "old",
		"site/index.html", "page", "site/a.txt", "a", "site/b.txt", "b")
	one := s.pushed(r, "shop", "One")
	r.write("hello/main.py", "other code", "hello/new.py", "new", "hello/more.py", "more", "site/index.html", "other page", "site/c.txt", "c")
	r.git("rm", "--quiet", "hello/old.py", "site/a.txt", "site/b.txt")

	out, _ := s.run(r.dir, "spec", "diff")
	// Before anything is made, the diff counts the files of a static unit.
	wantFiles(t, out, "static / changed", "1 added, 1 changed, 2 removed")
	two := s.pushed(r, "shop", "Two")
	for _, command := range []string{"release", "app"} {
		out, _ := s.run(r.dir, command, "diff", "shop", string(one), string(two))
		// The diff of two releases counts the files of each static unit and package that differs,
		wantFiles(t, out, "static / changed", "1 added, 1 changed, 2 removed")
		wantFiles(t, out, "package hello-pkg changed", "2 added, 1 changed, 1 removed")
		// And says the other way round what going back would do.
		out, _ = s.run(r.dir, command, "diff", "shop", string(two), string(one))
		wantFiles(t, out, "static / changed", "2 added, 1 changed, 1 removed")
		wantFiles(t, out, "package hello-pkg changed", "1 added, 1 changed, 2 removed")
		out, _ = s.run(r.dir, command, "diff", "shop", string(one), string(one))
		wantText(t, told{out}, "4 units unchanged")
	}
	out, _ = s.run(r.dir, "release", "diff", "shop", string(one), string(two), "-o", "json")
	files := map[string]landfall.FileChange{}
	for _, c := range decode[[]client.Change](t, []byte(out)) {
		if c.Files != nil {
			files[c.Unit.String()] = *c.Files
		}
	}
	// A program reads the same counts, and how much larger the unit became.
	wantEqual(t, "units with counts", len(files), 2)
	wantEqual(t, "static", files["static /"], landfall.FileChange{Added: 1, Changed: 1, Removed: 2, Bytes: 5})
	wantEqual(t, "package", files["package hello-pkg"], landfall.FileChange{Added: 2, Changed: 1, Removed: 1, Bytes: 10})

	r.git("rm", "-r", "--quiet", "specs/hello.yaml", "specs/env.yaml", "hello")
	three := s.pushed(r, "shop", "Three")
	out, _ = s.run(r.dir, "release", "diff", "shop", string(two), string(three))
	wantFiles(t, out, "package hello-pkg removed", "0 added, 0 changed, 3 removed")
}

func TestDiffBeforeABuild(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", appSpec("shop", `build: {command: cp -r src site, inputs: ["src/**"], outputs: [site]}`),
		"src/index.html", "page", "src/a.txt", "a")
	s.pushed(r, "shop", "One")
	r.write("src/index.html", "other page", "src/b.txt", "b")
	out, _ := s.run(r.dir, "spec", "diff")
	// What a build makes is not known before it ran; which files changed is.
	wantText(t, told{out}, "a build command makes files", "files of the commit: 1 added, 1 changed, 0 removed")
	wantEqual(t, "units are called unchanged", strings.Contains(out, "unchanged"), false)
	out, _ = s.run(r.dir, "spec", "diff", "-o", "json")
	_, data, _ := strings.Cut(out, "\n{")
	applied := decode[client.Applied](t, []byte("{"+data))
	wantEqual(t, "files of the commit", *applied.Files, landfall.FileChange{Added: 1, Changed: 1, Bytes: 7})
}

func TestDiffSeesAChangeInTheMomentOfTheCommit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.git("config", "core.trustctime", "false") // the time of a change cannot be set, and git need not look at it
	page, index := filepath.Join(r.dir, "site/index.html"), filepath.Join(r.dir, ".git/index")
	moment := time.Now().Add(-time.Hour)
	at := func(path string) {
		if err := os.Chtimes(path, moment, moment); err != nil {
			t.Fatal(err)
		}
	}
	r.write("site/index.html", "page one")
	at(page)
	s.pushed(r, "shop", "One")
	at(index)
	r.write("site/index.html", "page two")
	at(page)
	out, _ := s.run(r.dir, "spec", "diff")
	// A file of the same size that was written in the second in which git read it is a change all the same.
	wantFiles(t, out, "static / changed", "0 added, 1 changed, 0 removed")
}
