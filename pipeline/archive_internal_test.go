package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// What was made of an archive is not taken for another package that makes something else of it, and the name in an
// address is one that a file can have.
func TestJobsOfArchives(t *testing.T) {
	t.Parallel()
	image, packed := spec.Package{Environment: "container"}, spec.Package{Environment: "python"}
	d := draft{source: source{checkout: checkout{attempt: &attempt{}}, spec: &spec.Spec{}}}
	ref := spec.ArchiveRef{URL: "https://files.example/image.tar"}
	whole, unpacked := d.jobOf(image, ref, 1), d.jobOf(packed, ref, 1)
	if whole.key == unpacked.key || whole.archive.tars || !unpacked.archive.tars {
		t.Errorf("an image and a packed folder at one address are the same: %s, %s", whole.key, unpacked.key)
	}
	ref.URL = "https://files.example/" + strings.Repeat("a", 256)
	testkit.Equal(t, "the file of a long name", d.jobOf(image, ref, 1).archive.name, "image.tar")
}

// Plans fetch no more at once than may be, of an app and of all.
func TestPlansThatFetch(t *testing.T) {
	t.Parallel()
	p := &Pipeline{}
	begin := func(app string, packages ...spec.Package) (func(), error) {
		a := &attempt{Pipeline: p, app: landfall.App{ID: app}}
		return draft{source: source{checkout: checkout{attempt: a}, spec: &spec.Spec{Packages: packages}}}.beginFetch()
	}
	fetched := spec.Package{Deployment: spec.ArchiveRef{URL: "https://files.example/a.zip"}}
	first := testkit.Must(begin("a", fetched))(t)
	for _, app := range []string{"a", "b", "b"} {
		testkit.Must(begin(app, fetched))(t)
	}
	for _, app := range []string{"a", "c"} {
		_, err := begin(app, fetched)
		testkit.Kind(t, "one more plan", err, landfall.Unavailable, "try again later")
	}
	testkit.Must(begin("a", spec.Package{}))(t) // fetches nothing
	first()
	_, err := begin("b", fetched)
	testkit.Kind(t, "a third one of an app", err, landfall.Unavailable)
	testkit.Must(begin("c", fetched))(t)
}

// A plan forgets no record of a build: its files may be on the machine that works on runs.
func TestPlansForgetNoBuild(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db, key := b.pipeline.DB, landfall.DigestOf([]byte("input"))
	b.update(db, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.PutBuild(ctx, b.app.ID, key, "run", []byte(`{"folder":"none","files":[{"path":"a","size":1}]}`), time.Now())
		return err
	})
	for _, dry := range []bool{true, false} {
		a := &attempt{Pipeline: b.pipeline, app: b.app, dry: dry, here: true, outputs: map[landfall.Digest]string{}}
		files, err := a.cachedBuild(t.Context(), key)
		if _, lost := db.Build(t.Context(), b.app.ID, key); files != nil || err != nil || (lost == nil) != dry {
			t.Errorf("a plan: %t: got %v, %v; then the record: %v", dry, files, err, lost)
		}
	}
}
