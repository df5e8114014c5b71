package pipeline

import (
	"errors"
	"path/filepath"
	"testing"
)

// What was built on another machine is not built again while its digests are enough, and is when its bytes are needed.
func TestBuildOfAnotherMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	built := func(path, other string) map[string]string {
		return map[string]string{"in.txt": "x", "other.txt": other, "specs/app.yaml": "apiVersion: landfall.dev/v1\n" +
			"kind: App\nmetadata: {name: shop}\nspec:\n  static:\n    - {src: site, path: " + path + "}\n" +
			"    - {src: other.txt, path: /other/}\n  build: {command: make, inputs: [in.txt], outputs: [site]}\n"}
	}
	b.releases(b.commits("first", built("/", "one")))

	here := b.pipeline.Builds.Folder
	b.pipeline.Builds = &Builds{Folder: t.TempDir()}
	k := b.stored(b.planned(b.attempts(b.commits("second", built("/", "two")), false)))
	if k.stats.Built != 0 || k.stats.Cached != 1 || len(k.stored) != 1 || k.stats.FilesUploaded != 1 {
		t.Errorf("got %+v, and %+v stored, want that the other file alone is stored, and nothing built", k.stats, k.stored)
	}
	if _, err := k.commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The address is a new unit's, for which the bytes are stored once more.
	w := b.attempts(b.commits("third", built("/shop/", "two")), false)
	p := b.planned(w)
	made, err := p.build(t.Context())
	if err == nil {
		_, err = made.upload(t.Context())
	}
	if !errors.Is(err, errElsewhere) {
		t.Fatalf("got %v, want that the bytes are elsewhere", err)
	}
	w.here, w.stats.Cached, w.stats.FilesUploaded = true, 0, 0
	k, err = p.make(t.Context())
	if err != nil || k.stats.Built != 1 || k.stats.Cached != 0 || k.stats.FilesUploaded != 1 {
		t.Errorf("got %+v and %v, want it built here", k.stats, err)
	}
	if _, err := k.commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The machine that built first has the bytes still, and uses what was built last.
	b.pipeline.Builds = &Builds{Folder: here}
	k = b.stored(b.planned(b.attempts(b.commits("fourth", built("/shop/", "four")), false)))
	if k.stats.Built != 0 || k.stats.Cached != 1 {
		t.Errorf("got %+v, want nothing built", k.stats)
	}
	if kept, _ := filepath.Glob(filepath.Join(here, "*", "*")); len(kept) != 1 {
		t.Errorf("the machine has the builds %q, want its own one", kept)
	}
}
