package remote_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

// hostileNames are 200 names of branches that would be options or commands if they came where such are read. Each has
// the word evil.
func hostileNames() (names []string) {
	for _, form := range []string{"-%s", "--%s", "--upload-pack=%s", "--receive-pack=%s", "--exec=%s", "--output=%s",
		"-c%s", "-c.core.sshCommand=%s", "--git-dir=%s", "-u%s", "a/-%s", "a/--upload-pack=%s", "$(%s)", "`%s`", ";%s", "|%s",
		"&%s", "'%s'", "\"%s\"", "%%0a%s"} {
		for n := range 10 {
			names = append(names, fmt.Sprintf(form, fmt.Sprintf("evil%d", n)))
		}
	}
	return names
}

// Whatever a branch is called, git gets no option or command by it.
func TestNamesAreNoOptions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	record, program := filepath.Join(folder, "record"), filepath.Join(folder, "git")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >> '" + record + "'\nexec '" + testkit.Must(remote.FindGit())(t) + "' \"$@\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	repositories := testkit.Must(remote.OpenRepositories(filepath.Join(folder, "repositories"), program))(t)
	if err := repositories.Create(t.Context(), "shop", "main"); err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	push := []string{"push", "--quiet", repositories.Path("shop")}
	var refs []landfall.RefName
	for _, name := range hostileNames() {
		ref := landfall.RefName(landfall.BranchPrefix + name)
		if _, err := landfall.ParseRefName(string(ref)); err != nil {
			t.Errorf("%s: %v, want that git has such a branch", name, err)
		}
		refs, push = append(refs, ref), append(push, "HEAD:"+string(ref))
	}
	w.git(t, push...)
	heads := testkit.Must(repositories.Heads(t.Context(), "shop"))(t)
	named := testkit.Must(repositories.Named(t.Context(), "shop", refs))(t)
	testkit.Equal(t, "branches", len(heads), len(refs))
	testkit.Same(t, "the same, asked for by name", named, heads)
	for _, name := range hostileNames() {
		if err := repositories.SetHead(t.Context(), "shop", name); err != nil {
			t.Errorf("%s as the branch of clones: %v", name, err)
		}
		// a commit that is none
		_, _ = repositories.Lacks(t.Context(), "shop", []landfall.CommitSHA{landfall.CommitSHA(name)})
	}
	said := string(testkit.Must(os.ReadFile(record))(t))
	for arg := range strings.Lines(said) {
		// S10: a name stands after refs/, so git takes it for nothing else
		if strings.Contains(arg, "evil") && !strings.HasPrefix(arg, "refs/") {
			t.Errorf("git got the argument %q", arg)
		}
	}
	if !strings.Contains(said, "refs/heads/--upload-pack=evil0") {
		t.Error("git got no name of a branch, so nothing was tried")
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*evil*")); len(left) != 0 {
		t.Errorf("there are the files %q", left)
	}
}
