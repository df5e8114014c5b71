package pipeline_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// TestMain is also the init of what the tests confine.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// What builds of an environment begin with is made once, and each gets a copy: what one does to it no other sees.
func TestWarmup(t *testing.T) {
	t.Parallel()
	b := &pipeline.BuildSandbox{Sandbox: sandbox.Detect(t.Context(), sandbox.Off),
		Warm: filepath.Join(t.TempDir(), "warm")}
	made := filepath.Join(t.TempDir(), "made")
	warmup := environment.Warmup{Command: "echo made >> " + made + "; mkdir -p cache/a && echo warm > cache/a/b",
		Folder: "cache", Note: "once"}
	said := ""
	build := func(w environment.Warmup) string {
		var out strings.Builder
		result, err := b.Build(t.Context(), pipeline.BuildCommand{
			Shell: "cat cache/a/b 2> /dev/null; mkdir -p cache/a; echo spoilt > cache/a/b", Dir: t.TempDir(), Output: &out,
			Warmup: w, Logger: slog.New(slog.DiscardHandler), Progress: func(line string) { said += line + "\n" }})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out.String(), result.ExitCode)
	}
	for range 2 {
		testkit.Equal(t, "what a build found", build(warmup), "warm\n0")
	}
	if text, err := os.ReadFile(made); err != nil || string(text) != "made\n" {
		t.Errorf("it was made %q, %v; want once", text, err)
	}
	testkit.Equal(t, "what who waits for it was told", said, "once\n")
	// Without it a build only takes longer.
	testkit.Equal(t, "what a build without it found", build(environment.Warmup{Command: "exit 1", Folder: "cache"}), "0")
	testkit.Equal(t, "what a build found of another one",
		build(environment.Warmup{Command: warmup.Command + "; echo other > cache/a/b", Folder: "cache"}), "other\n0")
	if kept, err := os.ReadDir(b.Warm); err != nil || len(kept) != 1 {
		t.Errorf("%d are kept, %v; want the one that is used", len(kept), err)
	}
}
