package pipeline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/tree"
)

// What a build makes lies no deeper than a sandbox allows.
func TestOutputsTooDeep(t *testing.T) {
	t.Parallel()
	for folders, refused := range map[int]bool{tree.MaxDepth: false, tree.MaxDepth + 1: true} {
		dir := t.TempDir()
		deep := filepath.Join(dir, "d"+strings.Repeat("/d", folders-1))
		if err := os.MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(deep, "f"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := pipeline.CollectOutputs(dir, "d")
		if refused != (err != nil) || refused != strings.Contains(landfall.MessageOf(err), "in more than 300 folders within one another") || refused == (len(files) == 1) {
			t.Errorf("%d folders: got %d files, %v", folders, len(files), err)
		}
	}
}
