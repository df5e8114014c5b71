package pipeline

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
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
