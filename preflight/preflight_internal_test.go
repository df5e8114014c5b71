package preflight

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// An image is read and unpacked once for all functions of its package, and each that cannot be run is named.
func TestImageIsUnpackedOnce(t *testing.T) {
	t.Parallel()
	specs := "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: env}\nspec: {version: 2, runtime: {image: " +
		"container-env}}\n---\n" +
		"kind: ArchiveUploadSpec\nname: files\ninclude: [image.tar]\n---\n" +
		"apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: pkg}\nspec: {environment: {name: env}, deployment: " +
		"{url: \"archive://files\"}}\n"
	for _, name := range []string{"one", "two", "three"} {
		specs += fmt.Sprintf("---\napiVersion: fission.io/v1\nkind: Function\nmetadata: {name: %s}\nspec: {environment: "+
			"{name: env}, package: {packageref: {name: pkg}}}\n", name)
	}
	s, err := spec.Parse([]spec.Source{{Name: "specs/all.yaml", Data: []byte(specs)}}, spec.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	opened := 0
	problems, err := brokenImages(t.Context(), s, []landfall.File{{Path: "image.tar", Size: int64(empty.Len())}},
		func(context.Context, landfall.File) (io.ReadCloser, error) {
			opened++
			return io.NopCloser(bytes.NewReader(empty.Bytes())), nil
		})
	if err != nil || len(problems) != 3 || opened != 1 {
		t.Errorf("the image was read %d times; found %q, %v", opened, problems, err)
	}
	for _, p := range problems {
		if !strings.Contains(p.Message, "will not run: ") {
			t.Errorf("got %q", p.Message)
		}
	}
}

// A source that nobody wrote by hand is a bundle, and is not looked at.
func TestBundlesAreNotLookedAt(t *testing.T) {
	t.Parallel()
	s, err := spec.Parse([]spec.Source{{Name: "specs/all.yaml", Data: []byte("apiVersion: fission.io/v1\nkind: " +
		"Environment\nmetadata: {name: node}\nspec: {version: 2, runtime: {image: node}}\n---\n" +
		"kind: ArchiveUploadSpec\nname: files\ninclude: [f.js]\n---\n" +
		"apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: pkg}\nspec: {environment: {name: node}, deployment: " +
		"{url: \"archive://files\"}}\n---\n" +
		"apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {environment: {name: node}, package: " +
		"{packageref: {name: pkg}, functionName: f}}\n")}}, spec.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]int{256 << 10: 1, 256<<10 + 1: 0} {
		problems, err := Unrunnable(t.Context(), s, []landfall.File{{Path: "f.js", Size: size}},
			func(context.Context, landfall.File) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader("module.exports = async (ws, clients) => {}")), nil
			})
		if err != nil || len(problems) != want {
			t.Errorf("%d bytes: found %v, %v", size, problems, err)
		}
	}
}

// A source in Go is read before it is built: an entry point that it has no function of is named with what it has.
func TestEntryPointOfASource(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"": "it has Handler", "build": "it has Handler", "make": ""} {
		s, err := spec.Parse([]spec.Source{{Name: "specs/all.yaml", Data: []byte("apiVersion: fission.io/v1\nkind: " +
			"Environment\nmetadata: {name: go}\nspec: {version: 2, runtime: {image: go-env}}\n---\n" +
			"kind: ArchiveUploadSpec\nname: files\ninclude: [\"*.go\"]\n---\n" +
			"apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: pkg}\nspec: {environment: {name: go}, source: {url: " +
			"\"archive://files\"}, buildcmd: \"" + command + "\"}\n---\n" +
			"apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {environment: {name: go}, package: " +
			"{packageref: {name: pkg}, functionName: Hanlder}}\n")}}, spec.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		problems, err := Unrunnable(t.Context(), s, []landfall.File{{Path: "f.go"}},
			func(context.Context, landfall.File) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader("package main\n\nimport \"net/http\"\n\nfunc Handler(w " +
					"http.ResponseWriter, r *http.Request) {}\n")), nil
			})
		if err != nil || (len(problems) == 1) != (want != "") ||
			want != "" && (!strings.Contains(problems[0].Message, want) || problems[0].Pos.String() != "specs/all.yaml:15") {
			t.Errorf("%q: found %v, %v", command, problems, err)
		}
	}
}
