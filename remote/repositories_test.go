package remote_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/remote"
)

func open(t *testing.T) *remote.Repositories {
	t.Helper()
	program, err := remote.FindGit()
	if err != nil {
		t.Fatal(err)
	}
	r, err := remote.OpenRepositories(filepath.Join(t.TempDir(), `a "folder": with \ signs`), program)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantKind fails unless err is of a kind.
func wantKind(t *testing.T, what string, err error, want landfall.Kind) {
	t.Helper()
	if err == nil || landfall.KindOf(err) != want {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// A repository is made once, also by many at once, and its HEAD can be moved to a branch that does not exist yet.
func TestCreateAndRemove(t *testing.T) {
	t.Parallel()
	r := open(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := r.Create(t.Context(), "one", "trunk"); err != nil {
				t.Errorf("creating: %v", err)
			}
		})
	}
	all.Wait()
	if got := head(t, r); got != "ref: refs/heads/trunk" {
		t.Errorf("got HEAD %q, want trunk", got)
	}
	for range 2 {
		if err := r.SetHead(t.Context(), "one", "release/2"); err != nil {
			t.Errorf("setting HEAD: %v", err)
		}
	}
	if err := r.Create(t.Context(), "one", "other"); err != nil {
		t.Errorf("creating again: %v", err)
	}
	if got := head(t, r); got != "ref: refs/heads/release/2" {
		t.Errorf("got HEAD %q, want release/2", got)
	}
	if heads, err := r.Heads(t.Context(), "one"); err != nil || len(heads) != 0 {
		t.Errorf("got heads %v, %v of an empty repository, want none", heads, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Path("one")), "new-*")); len(left) != 0 {
		t.Errorf("making it left %v", left)
	}
	for range 2 {
		if err := r.Remove(t.Context(), "one"); err != nil {
			t.Errorf("removing: %v", err)
		}
	}
	_, err := r.Heads(t.Context(), "one")
	wantKind(t, "heads of a removed repository", err, landfall.NotFound)
}

func head(t *testing.T, r *remote.Repositories) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Path("one"), "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Nothing that a person names becomes an option of git or leaves the folder.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.Create(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../one", "a/b", "-rf", "a\x00b", "hooks/../one"} {
		wantKind(t, "creating "+id, r.Create(t.Context(), id, ""), landfall.Invalid)
		wantKind(t, "removing "+id, r.Remove(t.Context(), id), landfall.Invalid)
		wantKind(t, "moving HEAD of "+id, r.SetHead(t.Context(), id, "main"), landfall.Invalid)
	}
	for _, branch := range []string{"", "../../config", "a..b", "a b", "x.lock", "a\nb"} {
		wantKind(t, "HEAD "+branch, r.SetHead(t.Context(), "one", branch), landfall.Invalid)
	}
	wantKind(t, "HEAD a..b", r.Create(t.Context(), "two", "a..b"), landfall.Invalid)
	if got := head(t, r); got != "ref: refs/heads/main" {
		t.Errorf("got HEAD %q, want it untouched", got)
	}
	for i, branch := range []string{"-d", "--delete", "--template=/tmp"} {
		// N-014: a branch whose name looks like an option is a branch.
		if err := r.SetHead(t.Context(), "one", branch); err != nil || head(t, r) != "ref: refs/heads/"+branch {
			t.Errorf("got HEAD %q and the error %v, want the branch %s", head(t, r), err, branch)
		}
		if err := r.Create(t.Context(), fmt.Sprint("new-", i), branch); err != nil {
			t.Errorf("a repository whose branch is %s: %v", branch, err)
		}
	}
}

// A git whose server was killed still moves what was agreed to. The next start reads the heads only after it.
func TestHeadsWaitForOrphans(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.Create(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	// The lock goes with the process that inherited it, as with a git of an earlier server.
	lock, err := os.OpenFile(filepath.Join(r.Path("one"), "landfall.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	w.git(t, "push", "-q", r.Path("one"), "main:refs/heads/early")
	orphan := exec.CommandContext(t.Context(), "sh", "-c", `read -r go && git push -q "$0" main:refs/heads/late`,
		r.Path("one"))
	orphan.Dir = w.dir
	orphan.ExtraFiles = []*os.File{lock}
	orphan.Env = w.command(t.Context()).Env
	let, err := orphan.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	now, err := r.Named(t.Context(), "one", []landfall.RefName{"refs/heads/early", "refs/heads/late", "refs/heads/ear"})
	if err != nil || len(now) != 1 || now["refs/heads/early"] == "" {
		t.Errorf("what is named before that move: got %v and the error %v, want early", now, err)
	}
	if now, err := r.Named(t.Context(), "one", nil); err != nil || len(now) != 0 {
		t.Errorf("what nobody asked for: got %v and the error %v, want nothing", now, err)
	}
	read := make(chan map[landfall.RefName]landfall.CommitSHA, 1)
	go func() {
		heads, err := r.Heads(t.Context(), "one")
		if err != nil {
			t.Errorf("heads: %v", err)
		}
		read <- heads
	}()
	if _, err := let.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	heads := receive(t, "the heads", read)
	if err := orphan.Wait(); err != nil {
		t.Errorf("the late move failed: %v", err)
	}
	// V7: what an orphaned git moves after a kill is among the heads that the start compares.
	if len(heads) != 2 {
		t.Errorf("got heads %v, want early and late", heads)
	}
}

// What clients name never reaches a command line: not the app, not a reference, not a header.
func TestNothingOfAClientReachesACommandLine(t *testing.T) {
	t.Parallel()
	program, err := remote.FindGit()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	record, script := filepath.Join(folder, "record"), filepath.Join(folder, "git")
	write := exec.CommandContext(t.Context(), "sh", "-c", `cat > "$0" && chmod +x "$0"`, script)
	write.Stdin = strings.NewReader("#!/bin/sh\nprintf '%s\\n' \"$*\" >> '" + record + "'\nexec '" + program +
		"' \"$@\"\n")
	if err := write.Run(); err != nil {
		t.Fatal(err)
	}
	repositories, err := remote.OpenRepositories(filepath.Join(folder, "root"), script)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Server: httptest.NewServer(remote.New(remote.Config{Repositories: repositories, Receiver: &doors{}})),
		repositories: repositories}
	t.Cleanup(s.Close)
	w := newWork(t)
	w.git(t, "-c", "protocol.version=2", "push", s.address("shop", token), "main", "HEAD:refs/heads/$(evil)",
		"HEAD:refs/heads/e;evil", "HEAD:refs/tags/evil", "HEAD:refs/heads/--evil", "HEAD:refs/heads/x/-evil",
		"HEAD:refs/tags/-evil")
	out, err := w.try(t, "push", s.address("shop", token), "HEAD:refs/evil/x")
	refused(t, out, err)
	for _, app := range []string{"--evil", "evil;evil", "..%2fevil", "$(evil)"} {
		if out, err := w.try(t, "ls-remote", s.address(app, token)); err == nil {
			t.Errorf("app %s: got %q, want an error", app, out)
		}
	}
	if err := repositories.SetHead(t.Context(), "id-shop", "--evil"); err != nil {
		t.Errorf("HEAD on a branch that looks like an option: %v", err)
	}
	post(t, s, "/git/shop.git/git-upload-pack", "application/x-git-upload-pack-request", token, strings.NewReader("0000"),
		"Git-Protocol", "version=2:--evil", "X-Evil", "--evil")
	lines, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(lines), " refs/heads/--evil\n", "") // HEAD's branch, as a name that is full
	if strings.Contains(text, "evil") || !strings.Contains(text, "receive-pack") {
		t.Errorf("got the command lines %q, want nothing that a client sent", text)
	}
}

// Where programs cannot be run, hooks would be silently left out: the remote does not open.
func TestMissingThings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := remote.OpenRepositories(filepath.Join(file, "git"), "git")
	wantKind(t, "a folder that cannot be made", err, landfall.Internal)
	r, err := remote.OpenRepositories(t.TempDir(), filepath.Join(filepath.Dir(file), "no-git"))
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "without git", r.Create(t.Context(), "one", ""), landfall.Internal)
}

// A machine without git is told what to install. It does not run beside other tests, since it changes the environment.
func TestFindGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := remote.FindGit()
	wantKind(t, "finding git", err, landfall.Unavailable)
	said(t, landfall.MessageOf(err), "apt-get install git")
}

// A reference that cannot be read is not one that was deleted: whoever compares must not take it for that.
func TestDamagedReferences(t *testing.T) {
	t.Parallel()
	s := serve(t, remote.Config{Receiver: &doors{}})
	w := newWork(t)
	w.git(t, "push", s.address("shop", token), "main", "main:other")
	path := s.repositories.Path("id-shop")
	for _, damage := range []struct{ name, content string }{
		{"refs/heads/other", ""}, {"refs/heads/other", "garbage\n"}, {"refs/heads/other", strings.Repeat("1", 40) + "\n"},
		{"packed-refs", "garbage\n"},
	} {
		t.Run(fmt.Sprintf("%q in %s", damage.content, damage.name), func(t *testing.T) {
			file := filepath.Join(path, filepath.FromSlash(damage.name))
			before, _ := os.ReadFile(file) // there may be none
			defer func() {
				if len(before) == 0 {
					os.Remove(file)
				} else if err := os.WriteFile(file, before, 0o600); err != nil {
					t.Error(err)
				}
			}()
			if err := os.WriteFile(file, []byte(damage.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if heads, err := s.repositories.Heads(t.Context(), "id-shop"); landfall.KindOf(err) != landfall.Internal ||
				err == nil {
				t.Errorf("got the heads %v, %v, want an Internal error", heads, err)
			}
			found, err := s.repositories.Check(t.Context(), "id-shop")
			if err != nil || len(found) == 0 {
				t.Errorf("got the damage %q, %v, want it named", found, err)
			}
			if damage.name == "packed-refs" {
				return
			}
			named, err := s.repositories.Named(t.Context(), "id-shop", []landfall.RefName{"refs/heads/main"})
			if err != nil || named["refs/heads/main"] != w.sha(t, "HEAD") {
				t.Errorf("got %v, %v for another reference, want it as it is", named, err)
			}
		})
	}
	if found, err := s.repositories.Check(t.Context(), "id-shop"); err != nil || len(found) > 0 {
		t.Errorf("got the damage %q, %v of a repository that is whole", found, err)
	}
}

// What many small pushes leave is joined: a file for each object, and for each reference, would make git slower with
// each push.
func TestRepackOfManySmallPushes(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.Create(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	const few, many = 100, 2000
	git := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git",
			append([]string{"--git-dir", r.Path("one"), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	files := t.TempDir()
	write := func(n int) (objects string) {
		t.Helper()
		var paths strings.Builder
		for i := range n {
			path := filepath.Join(files, fmt.Sprint(i))
			if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&paths, path)
		}
		return git(paths.String(), "hash-object", "-w", "--stdin-paths")
	}
	loose := func() string { return strings.Fields(git("", "count-objects"))[0] }
	commit := git("", "commit-tree", "-m", "one", git("", "mktree"))
	for i := range few {
		git("", "update-ref", fmt.Sprintf("refs/landfall/keep/%d", i), commit)
	}
	git("", "repack", "-d", "-q") // where there is no pack yet, git leaves what no reference reaches for the next time
	write(few)
	if err := r.Repack(t.Context(), "one"); err != nil || loose() == "0" {
		t.Errorf("%v, %s loose objects, want the few left alone", err, loose())
	}
	objects := write(many) // which no reference reaches
	if err := r.Repack(t.Context(), "one"); err != nil || loose() != "0" {
		t.Errorf("%v, %s loose objects, want none", err, loose())
	}
	if lost := git(objects, "cat-file", "--batch-check"); strings.Contains(lost, "missing") {
		t.Errorf("objects are lost:\n%s", lost)
	}
	if left, err := filepath.Glob(filepath.Join(r.Path("one"), "refs", "landfall", "keep", "*")); err != nil ||
		len(left) != 0 {
		t.Errorf("%d references have a file of their own, want none: %v", len(left), err)
	}
	if kept := strings.Count(git("", "for-each-ref", "refs/landfall/keep"), commit); kept != few {
		t.Errorf("%d references are left, want %d", kept, few)
	}
}

// What killed pushes have left goes once it is a day old, and nothing else: a push that is under way keeps its files.
func TestRepackRemovesWhatIsStale(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.Create(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(r.Path("one"), "objects")
	old := time.Now().Add(-25 * time.Hour)
	for name, age := range map[string]time.Time{
		"pack/tmp_pack_stale": old, "pack/tmp_idx_stale": old, "ab/tmp_obj_stale": old,
		"tmp_objdir-incoming-stale/pack/tmp_pack_one": old,
		"pack/tmp_pack_young":                         time.Now(), "tmp_objdir-incoming-young/pack/tmp_pack_one": time.Now(),
		"pack/pack-kept.keep": old, "ab/kept": old,
	} {
		path := filepath.Join(objects, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600),
			os.Chtimes(path, age, age))
		if top, _, inside := strings.Cut(name, "/pack/"); inside {
			err = errors.Join(err, os.Chtimes(filepath.Join(objects, top), age, age))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := r.Repack(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		var left []string
		err := fs.WalkDir(os.DirFS(objects), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left = append(left, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(left)
		if want := []string{"ab/kept", "pack/pack-kept.keep", "pack/tmp_pack_young",
			"tmp_objdir-incoming-young/pack/tmp_pack_one"}; !slices.Equal(left, want) {
			t.Errorf("got left %q, want %q", left, want)
		}
	}
}
