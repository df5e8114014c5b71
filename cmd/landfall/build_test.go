package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/sandbox"
)

// builtSize is how many bytes the builds here make beside their input.
const builtSize = 200_000

// builds is an App document whose build makes builtSize bytes of what lies in src.
func builds(app string) string {
	return appSpec(app, fmt.Sprintf(
		`build: {command: "(cat src/in; head -c %d /dev/zero) > site/out.txt", inputs: ["src/**", "site/**"], outputs: [site/out.txt]}`, builtSize))
}

// build pushes an input, as another commit each time, and returns whether the command ran, or its output was at hand.
func (s *site) build(r *repository, app, input string) (ran bool) {
	s.t.Helper()
	r.write("specs/app.yaml", builds(app), "src/in", input, "site/robots.txt", "all")
	release := s.pushed(r, app, input)
	wantServed(s.t, s, app+"--"+string(release), "/out.txt", input+strings.Repeat("\x00", builtSize))
	stats := s.finished(app, r.head()).Stats
	wantEqual(s.t, "builds that ran or were at hand", stats.Built+stats.Cached, 1)
	return stats.Built == 1
}

// kept returns the bytes of what builds made that is kept. What goes meanwhile is not kept.
func (s *site) kept() (bytes int64) {
	s.t.Helper()
	err := filepath.WalkDir(filepath.Join(s.data, "cache", "builds"), func(_ string, entry fs.DirEntry, err error) error {
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
		s.t.Fatal(err)
	}
	return bytes
}

// What builds made is kept up to a bound, and what was used last stays.
func TestBuildsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	const bound = 2*builtSize + builtSize/2
	s := newSite(t, "LANDFALL_SANDBOX=off", fmt.Sprintf("LANDFALL_MAX_BUILD_CACHE=%d", bound))
	r, other := s.repository(s.app("shop")), s.repository(s.app("other"))
	var made []string // folders
	for i, push := range []struct {
		r          *repository
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
		wantEqual(t, fmt.Sprintf("push %d, %s of %s: was built", i, push.input, push.app), s.build(push.r, push.app, push.input), push.runs)
		s.eventually("what is kept is within the bound", func() bool { return s.kept() <= bound })
		folders, err := fs.Glob(os.DirFS(filepath.Join(s.data, "cache", "builds")), "*/*")
		if err != nil || len(folders) == 0 {
			t.Fatalf("got the builds %v, %v; want some", folders, err)
		}
		made = append(made, folders...)
	}
	s.stop()
	s.start("LANDFALL_MAX_BUILD_CACHE=1")
	// What is larger than the bound is made for each release anew.
	wantEqual(t, "was built", s.build(r, "shop", "three"), true)
	s.eventually("nothing is kept", func() bool { return s.kept() == 0 })
	wantEqual(t, "was built", s.build(r, "shop", "three"), true)
	s.eventually("nothing is kept", func() bool { return s.kept() == 0 })
	s.stop()
	db, err := s.openState()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range made {
		app, folder := path.Split(name)
		input, _, _ := strings.Cut(folder, "-")
		// Nor are there records of what is gone.
		if _, err := db.Build(t.Context(), path.Clean(app), landfall.Digest("sha256:"+input)); landfall.KindOf(err) != landfall.NotFound {
			t.Errorf("%s: got %v, want no record", name, err)
		}
	}
}

// However small the bound is, what a run made stays until the run is over.
func TestBuildsInUseAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off", "LANDFALL_MAX_BUILD_CACHE=1")
	gate := t.TempDir()
	r, other := s.repository(s.app("slow")), s.repository(s.app("other"))
	slowly := fmt.Sprintf(`source: {url: "archive://f"}
  buildcmd: "touch %[1]s/building; while ! [ -e %[1]s/open ]; do sleep 0.1; done; cp -r $SRC_PKG $DEPLOY_PKG"`, gate)
	r.write("specs/app.yaml", builds("slow"), "src/in", "first", "site/robots.txt", "all", "specs/env.yaml", environmentSpec,
		"specs/f.yaml", strings.Replace(functionSpec("f"), `deployment: {url: "archive://f"}`, slowly, 1), "f/main.py", "code")
	commit := r.commit("The app is built, then a package")
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = r.try("push", "origin", "HEAD") })
	s.eventually("the package is being built", func() bool { return isThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { openGate(t, gate) })
	wantEqual(t, "was built", s.build(other, "other", "one"), true)
	s.eventually("what the other run made is gone", func() bool { return s.kept() < 2*builtSize })
	openGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the push: %v\n%s", err, out)
	}
	run := s.finished("slow", commit)
	wantEqual(t, "builds", run.Stats.Built, 2)
	for _, step := range run.Steps {
		wantEqual(t, fmt.Sprintf("attempt at the step %s", step.Step), step.Attempt, 1)
	}
	wantServed(t, s, "slow", "/out.txt", "first"+strings.Repeat("\x00", builtSize))
	s.eventually("nothing is kept", func() bool { return s.kept() == 0 })
}

// What builds of an environment begin with is made once, and each gets a copy: what one does to it no other sees.
func TestWarmup(t *testing.T) {
	t.Parallel()
	b := buildSandbox{sandbox: sandbox.Detect(t.Context(), sandbox.Off), warm: filepath.Join(t.TempDir(), "warm"), warming: new(sync.Mutex)}
	made := filepath.Join(t.TempDir(), "made")
	warmup := environment.Warmup{Command: "echo made >> " + made + "; mkdir -p cache/a && echo warm > cache/a/b", Folder: "cache", Note: "once"}
	said := ""
	build := func(w environment.Warmup) string {
		var out strings.Builder
		result, err := b.Build(t.Context(), pipeline.BuildCommand{
			Shell: "cat cache/a/b 2> /dev/null; mkdir -p cache/a; echo spoilt > cache/a/b", Dir: t.TempDir(), Output: &out, Warmup: w, Logger: slog.New(slog.DiscardHandler),
			Say: func(line string) { said += line + "\n" }})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out.String(), result.ExitCode)
	}
	for range 2 {
		wantEqual(t, "what a build found", build(warmup), "warm\n0")
	}
	if text, err := os.ReadFile(made); err != nil || string(text) != "made\n" {
		t.Errorf("it was made %q, %v; want once", text, err)
	}
	wantEqual(t, "what who waits for it was told", said, "once\n")
	// Without it a build only takes longer.
	wantEqual(t, "what a build without it found", build(environment.Warmup{Command: "exit 1", Folder: "cache"}), "0")
	wantEqual(t, "what a build found of another one", build(environment.Warmup{Command: warmup.Command + "; echo other > cache/a/b", Folder: "cache"}), "other\n0")
	if kept, err := os.ReadDir(b.warm); err != nil || len(kept) != 1 {
		t.Errorf("%d are kept, %v; want the one that is used", len(kept), err)
	}
}
