package remote_test

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

// A commit that the server makes has its files as they were given, also under odd names; one whose content fails leaves
// nothing.
func TestCommit(t *testing.T) {
	t.Parallel()
	program := testkit.Must(exec.LookPath("git"))(t)
	repositories := testkit.Must(remote.OpenRepositories(t.TempDir(), program))(t)
	if err := repositories.Create(t.Context(), "app", ""); err != nil {
		t.Fatal(err)
	}
	file := func(path, content string) remote.NewFile {
		return remote.NewFile{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(content)), nil
		}}
	}
	run, link := file("bin/run", "#!/bin/sh\n"), file("link", "bin/run")
	run.Executable, link.Symlink = true, true
	c := remote.NewCommit{Ref: "refs/landfall/apply/one", Author: "ada <x>\n", Message: "By hand\n\nM 100644 inline x\n",
		Files: []remote.NewFile{
			file("a \"b\"\\\n\tö.txt", "text without an end"), run, link, file("empty", ""),
		}}
	sha := testkit.Must(repositories.Commit(t.Context(), "app", c))(t)
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, append([]string{"--git-dir", repositories.Path("app")},
			args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	testkit.Equal(t, "files", git("ls-tree", "-r", "-z", "--name-only", string(sha)),
		"a \"b\"\\\n\tö.txt\x00bin/run\x00empty\x00link\x00")
	testkit.Equal(t, "modes", git("ls-tree", "-r", "--format=%(objectmode)", string(sha)),
		"100644\n100755\n100644\n120000\n")
	testkit.Equal(t, "a file", git("show", string(sha)+":link"), "bin/run")
	testkit.Equal(t, "author", git("show", "--no-patch", "--format=%an|%s", string(sha)), "ada x|By hand\n")

	broken := errors.New("the disk is gone")
	c.Ref, c.Files[3] = "refs/landfall/apply/two",
		remote.NewFile{Path: "gone", Size: 4, Open: func() (io.ReadCloser, error) {
			return nil, broken
		}}
	if _, err := repositories.Commit(t.Context(), "app", c); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v, want %v", err, broken)
	}
	testkit.Equal(t, "references after a commit that failed", git("for-each-ref", "--format=%(refname)"),
		"refs/landfall/apply/one\n")
}
