package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/tree"
	"landfall.dev/landfall/unpack"
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
		files, err := artifact.Collect(dir, "", artifact.Build{What: "it", Outputs: []string{"d"}})
		if refused != (err != nil) || refused != strings.Contains(landfall.MessageOf(err),
			"in more than 300 folders within one another") || refused == (len(files) == 1) {
			t.Errorf("%d folders: got %d files, %v", folders, len(files), err)
		}
	}
}

// What is wrong with the output of a package's build is said by the name that its author knows.
func TestDeployedIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := func(message string) {
		t.Helper()
		if _, err := artifact.Collect(dir, "", artifact.Build{What: "it", Outputs: []string{artifact.Folder},
			Deploy: true}); landfall.MessageOf(err) != "the build of it "+message {
			t.Errorf("the error is %v, want %q", err, message)
		}
	}
	want("did not make DEPLOY_PKG")
	if err := os.Mkdir(filepath.Join(dir, "deploy"), 0o700); err != nil {
		t.Fatal(err)
	}
	want("made no file in DEPLOY_PKG")
	if err := os.Symlink("/etc", filepath.Join(dir, "deploy", "out")); err != nil {
		t.Fatal(err)
	}
	want("made the symbolic link DEPLOY_PKG/out, which leads out of DEPLOY_PKG, to /etc: copy what it leads to, or " +
		"remove it")
	if _, err := artifact.Collect(dir, "", artifact.Build{What: "it",
		Outputs: []string{"deploy"}}); !strings.Contains(landfall.MessageOf(err), "made the symbolic link deploy/out") {
		t.Errorf("another output has another name: %v", err)
	}
}

// What is fetched is unpacked by its first bytes, unless it is to stay what it is; a file can be executed.
func TestUnpack(t *testing.T) {
	t.Parallel()
	var zipped, packed bytes.Buffer
	z, w := zip.NewWriter(&zipped), tar.NewWriter(&packed)
	inside, err := z.Create("inside")
	if err == nil {
		_, err = io.WriteString(inside, "x")
	}
	if err := errors.Join(err, z.Close(), w.WriteHeader(&tar.Header{Name: "inside", Typeflag: tar.TypeReg}),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, content, want string
		tars                bool
	}{
		{"file", zipped.String(), "inside", false},
		{"file", packed.String(), "inside", true},
		{"image.tar", packed.String(), "image.tar", false},
		{"main.py", "text", "main.py", true},
		{"empty", "", "empty", true},
	} {
		dir := t.TempDir()
		file := testkit.Must(os.Create(filepath.Join(dir, "archive")))(t)
		into := filepath.Join(dir, "into")
		_, err := file.WriteString(c.content)
		if err = errors.Join(err, os.Mkdir(into, 0o700)); err == nil {
			err = artifact.Unpack(into, c.name, "it", file, c.tars, unpack.Limits{Files: 1, Bytes: 10})
		}
		if err = errors.Join(err, file.Close()); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		info, err := os.Stat(filepath.Join(into, c.want))
		if err != nil || c.want == c.name && info.Mode() != 0o755 {
			t.Errorf("%s: got %v, %v", c.name, info, err)
		}
	}
}
