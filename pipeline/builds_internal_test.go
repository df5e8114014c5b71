package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What builds of a deleted app made goes when the last run that uses it is over.
func TestDropWaitsForTheLastRun(t *testing.T) {
	t.Parallel()
	b := Builds{Folder: t.TempDir()}
	folder := b.hold("app/one")
	b.hold("app/two")
	if err := errors.Join(os.MkdirAll(folder, 0o755), b.Drop("app")); err != nil {
		t.Fatal(err)
	}
	b.releaseOne("app/two")
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("the output that a run uses: got %v, want it to be there", err)
	}
	b.release([]string{"app/one"}, time.Now())
	if _, err := os.Stat(filepath.Dir(folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the app: got %v, want it to be gone", err)
	}
}
