package roles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// What a pull request's worker built is not built again when another worker has the merge. Where the bytes are needed
// on the other one, they are built there.
func TestBuildsOfTwoWorkers(t *testing.T) {
	t.Parallel()
	f := forge.NewFleet(t, 2, 1, "LANDFALL_SANDBOX=off")
	h, _ := f.Follow("shop")
	h.Write("site/index.html", "one", "specs/app.yaml", site.AppSpec("shop"))
	one, push := h.Release("one")
	f.Hears(push)
	f.Finished("shop", one)
	gate := t.TempDir()
	h.Git("switch", "--quiet", "-c", "feature")
	h.Write("in", "two", "specs/app.yaml", site.SlowBuild("shop", gate))
	h.Git("rm", "--quiet", "-r", "site")
	two, push := h.Release("two")
	f.Hears(push, h.Pull("opened", 12, "feature"))
	f.Building(gate, 1)
	built := f.Builder(gate)
	if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "what was built of the pull request", f.Finished("shop", two).Stats.Built, 1)
	_ = built.Cmd.Process.Kill()
	<-built.Done
	merged, push, closed := h.Merge(12, "feature", forge.Squash)
	f.Hears(push, closed)
	run := f.Finished("shop", merged)
	testkit.Contains(t, site.Told{run.Reason}, "unchanged since pr-12")
	testkit.Equal(t, "what the other worker built of the merge", run.Stats.Built, 0)
	testkit.Equal(t, "what was built before", run.Stats.Cached, 1)
	f.WantServed("shop", "/", "two")

	h.Write("specs/app.yaml", strings.ReplaceAll(site.SlowBuild("shop", gate), "path: /", "path: /new"))
	moved, push := h.Release("moved")
	f.Hears(push)
	run = f.Finished("shop", moved)
	testkit.Equal(t, "what is built where the bytes are needed", run.Stats.Built, 1)
	site.Attempts(t, run, 1)
	f.WantServed("shop", "/new/", "two")
	said, _ := f.Run(t.TempDir(), "run", "logs", run.ID)
	testkit.Contains(t, site.Told{said}, "what was built before is on another machine, and is needed")
}
