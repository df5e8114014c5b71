package push_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

func TestDiffCountsFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml", site.FunctionSpec("hello"), "hello/main.py",
		"code", "hello/old.py", "old", "site/index.html", "page", "site/a.txt", "a", "site/b.txt", "b")
	one := s.Pushed(r, "shop", "One")
	r.Write("hello/main.py", "other_code", "hello/new.py", "new", "hello/more.py", "more", "site/index.html", "other page",
		"site/c.txt", "c")
	r.Git("rm", "--quiet", "hello/old.py", "site/a.txt", "site/b.txt")

	out, _ := s.Run(r.Dir, "spec", "diff")
	// Before anything is made, the diff counts the files of a static unit.
	site.WantFiles(t, out, "static / changed", "1 added, 1 changed, 2 removed")
	two := s.Pushed(r, "shop", "Two")
	for _, command := range []string{"release", "app"} {
		out, _ := s.Run(r.Dir, command, "diff", "shop", string(one), string(two))
		// The diff of two releases counts the files of each static unit and package that differs,
		site.WantFiles(t, out, "static / changed", "1 added, 1 changed, 2 removed")
		site.WantFiles(t, out, "package hello-pkg changed", "2 added, 1 changed, 1 removed")
		// And says the other way round what going back would do.
		out, _ = s.Run(r.Dir, command, "diff", "shop", string(two), string(one))
		site.WantFiles(t, out, "static / changed", "2 added, 1 changed, 1 removed")
		site.WantFiles(t, out, "package hello-pkg changed", "1 added, 1 changed, 2 removed")
		out, _ = s.Run(r.Dir, command, "diff", "shop", string(one), string(one))
		testkit.Contains(t, site.Told{out}, "4 units unchanged")
	}
	out, _ = s.Run(r.Dir, "release", "diff", "shop", string(one), string(two), "-o", "json")
	files := map[string]landfall.FileChange{}
	for _, c := range testkit.Decode[struct{ Units []client.Change }](t, []byte(out)).Units {
		if c.Files != nil {
			files[c.Unit.String()] = *c.Files
		}
	}
	// A program reads the same counts, and how much larger the unit became.
	testkit.Equal(t, "units with counts", len(files), 2)
	testkit.Equal(t, "static", files["static /"], landfall.FileChange{Added: 1, Changed: 1, Removed: 2, Bytes: 5})
	testkit.Equal(t, "package", files["package hello-pkg"],
		landfall.FileChange{Added: 2, Changed: 1, Removed: 1, Bytes: 10})

	r.Git("rm", "-r", "--quiet", "specs/hello.yaml", "specs/env.yaml", "hello")
	three := s.Pushed(r, "shop", "Three")
	out, _ = s.Run(r.Dir, "release", "diff", "shop", string(two), string(three))
	site.WantFiles(t, out, "package hello-pkg removed", "0 added, 0 changed, 3 removed")
}

func TestDiffBeforeABuild(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop",
		`build: {command: cp -r src site, inputs: ["src/**"], outputs: [site]}`),
		"src/index.html", "page", "src/a.txt", "a")
	s.Pushed(r, "shop", "One")
	r.Write("src/index.html", "other page", "src/b.txt", "b")
	out, _ := s.Run(r.Dir, "spec", "diff")
	// What a build makes is not known before it ran; which files changed is.
	testkit.Contains(t, site.Told{out}, "a build command makes files",
		"files of the commit: 1 added, 1 changed, 0 removed")
	testkit.Equal(t, "units are called unchanged", strings.Contains(out, "unchanged"), false)
	out, _ = s.Run(r.Dir, "spec", "diff", "-o", "json")
	_, data, _ := strings.Cut(out, "\n{")
	applied := testkit.Decode[client.Applied](t, []byte("{"+data))
	testkit.Equal(t, "files of the commit", *applied.Files, landfall.FileChange{Added: 1, Changed: 1, Bytes: 7})
}

func TestDiffSeesAChangeInTheMomentOfTheCommit(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Git("config", "core.trustctime", "false") // the time of a change cannot be set, and git need not look at it
	page, index := filepath.Join(r.Dir, "site/index.html"), filepath.Join(r.Dir, ".git/index")
	moment := time.Now().Add(-time.Hour)
	at := func(path string) {
		if err := os.Chtimes(path, moment, moment); err != nil {
			t.Fatal(err)
		}
	}
	r.Write("site/index.html", "page one")
	at(page)
	s.Pushed(r, "shop", "One")
	at(index)
	r.Write("site/index.html", "page two")
	at(page)
	out, _ := s.Run(r.Dir, "spec", "diff")
	// A file of the same size that was written in the second in which git read it is a change all the same.
	site.WantFiles(t, out, "static / changed", "0 added, 1 changed, 0 removed")
}
