package history_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"landfall.dev/landfall/test/testkit"
)

// The mutations are of the code as it is: who changes what one of them changes writes it anew.
func TestMutationsApply(t *testing.T) {
	t.Parallel()
	for _, patch := range testkit.Must(filepath.Glob("mutations/*.patch"))(t) {
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("test", "history", patch))
		check.Dir = filepath.Join("..", "..")
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", patch, err, out)
		}
	}
}
