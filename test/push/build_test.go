package push_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// builtSize is how many bytes the builds here make beside their input.
const builtSize = 200_000

// builds is an App document whose build makes builtSize bytes of what lies in src.
func builds(app string) string {
	return site.AppSpec(app, fmt.Sprintf(
		`build: {command: "(cat src/in; head -c %d /dev/zero) > site/out.txt", inputs: ["src/**", "site/**"], outputs: [site/out.txt]}`, builtSize))
}

// build pushes an input, as another commit each time, and returns whether the command ran, or its output was at hand.
func build(s *site.Site, r *site.Repository, app, input string) (ran bool) {
	s.T.Helper()
	r.Write("specs/app.yaml", builds(app), "src/in", input, "site/robots.txt", "all")
	release := s.Pushed(r, app, input)
	site.WantServed(s.T, s, app+"--"+string(release), "/out.txt", input+strings.Repeat("\x00", builtSize))
	stats := s.Finished(app, r.Head()).Stats
	testkit.Equal(s.T, "builds that ran or were at hand", stats.Built+stats.Cached, 1)
	return stats.Built == 1
}

// kept returns the bytes of what builds made that is kept. What goes meanwhile is not kept.
func kept(s *site.Site) (bytes int64) {
	s.T.Helper()
	err := filepath.WalkDir(filepath.Join(s.Data, "cache", "builds"), func(_ string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !entry.IsDir():
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return bytes
}

// What builds made is kept up to a bound, and what was used last stays.
func TestBuildsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	const bound = 2*builtSize + builtSize/2
	s := site.New(t, "LANDFALL_SANDBOX=off", fmt.Sprintf("LANDFALL_MAX_BUILD_CACHE=%d", bound))
	r, other := s.Repository(s.App("shop")), s.Repository(s.App("other"))
	var made []string // folders
	for i, push := range []struct {
		r          *site.Repository
		app, input string
		runs       bool
	}{
		{r, "shop", "one", true}, {r, "shop", "two", true},
		{r, "shop", "one", false},     // is used
		{other, "other", "one", true}, // one app's builds are not another's; "two" is let go
		{r, "shop", "one", false}, {other, "other", "one", false},
		{r, "shop", "two", true}, {r, "shop", "two", false}, // "one" of the shop is let go
		{other, "other", "one", false},
	} {
		testkit.Equal(t, fmt.Sprintf("push %d, %s of %s: was built", i, push.input, push.app),
			build(s, push.r, push.app, push.input), push.runs)
		s.Eventually("what is kept is within the bound", func() bool { return kept(s) <= bound })
		folders, err := fs.Glob(os.DirFS(filepath.Join(s.Data, "cache", "builds")), "*/*")
		if err != nil || len(folders) == 0 {
			t.Fatalf("got the builds %v, %v; want some", folders, err)
		}
		made = append(made, folders...)
	}
	s.Stop()
	s.Start("LANDFALL_MAX_BUILD_CACHE=1")
	// What is larger than the bound is made for each release anew.
	testkit.Equal(t, "was built", build(s, r, "shop", "three"), true)
	s.Eventually("nothing is kept", func() bool { return kept(s) == 0 })
	testkit.Equal(t, "was built", build(s, r, "shop", "three"), true)
	s.Eventually("nothing is kept", func() bool { return kept(s) == 0 })
	s.Stop()
	db, err := s.OpenState()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range made {
		app, folder := path.Split(name)
		input, _, _ := strings.Cut(folder, "-")
		// Nor are there records of what is gone.
		if _, err := db.Build(t.Context(), path.Clean(app),
			landfall.Digest("sha256:"+input)); landfall.KindOf(err) != landfall.NotFound {
			t.Errorf("%s: got %v, want no record", name, err)
		}
	}
}

// However small the bound is, what a run made stays until the run is over.
func TestBuildsInUseAreKept(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off", "LANDFALL_MAX_BUILD_CACHE=1")
	gate := t.TempDir()
	r, other := s.Repository(s.App("slow")), s.Repository(s.App("other"))
	slowly := fmt.Sprintf(`source: {url: "archive://f"}
  buildcmd: "touch %[1]s/building; while ! [ -e %[1]s/open ]; do sleep 0.1; done; cp -r $SRC_PKG $DEPLOY_PKG"`, gate)
	r.Write("specs/app.yaml", builds("slow"), "src/in", "first", "site/robots.txt", "all", "specs/env.yaml",
		site.EnvironmentSpec, "specs/f.yaml", strings.Replace(site.FunctionSpec("f"), `deployment: {url: "archive://f"}`,
			slowly, 1), "f/main.py", "code")
	commit := r.Commit("The app is built, then a package")
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = r.Try("push", "origin", "HEAD") })
	s.Eventually("the package is being built", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { site.OpenGate(t, gate) })
	testkit.Equal(t, "was built", build(s, other, "other", "one"), true)
	s.Eventually("what the other run made is gone", func() bool { return kept(s) < 2*builtSize })
	site.OpenGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the push: %v\n%s", err, out)
	}
	run := s.Finished("slow", commit)
	testkit.Equal(t, "builds", run.Stats.Built, 2)
	for _, step := range run.Steps {
		testkit.Equal(t, fmt.Sprintf("attempt at the step %s", step.Step), step.Attempt, 1)
	}
	site.WantServed(t, s, "slow", "/out.txt", "first"+strings.Repeat("\x00", builtSize))
	s.Eventually("nothing is kept", func() bool { return kept(s) == 0 })
}
