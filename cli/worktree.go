package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/spec"
)

// worktree is the git work tree that a command is called in. Nothing of it is changed but that objects are added.
type worktree struct {
	top    string             // its top folder
	head   landfall.CommitSHA // empty before the first commit
	branch string             // empty when HEAD names none
}

// openWorktree finds the work tree around the current folder.
func openWorktree(ctx context.Context) (*worktree, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, landfall.Wrapf("cli", landfall.Unavailable, err, "git was not found: install it")
	}
	w := &worktree{}
	top, err := w.git(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		folder, _ := os.Getwd() // empty when it is gone, which git says
		return nil, Invalid("%s is not in a work tree of git: change to one, or make one with git init\n%s", folder,
			landfall.MessageOf(err))
	}
	w.top = top
	if head, err := w.git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil {
		if w.head, err = landfall.ParseCommitSHA(head); err != nil {
			return nil, err
		}
	}
	if ref, err := w.git(ctx, nil, "symbolic-ref", "--quiet", "HEAD"); err == nil {
		w.branch, _ = landfall.RefName(ref).Branch()
	}
	return w, nil
}

// git runs git in the work tree's top folder, with env added to the environment, and returns what it wrote less the
// last line end. An error holds what git complained about.
func (w *worktree) git(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks"}, args...)...)
	cmd.Dir = w.top
	cmd.Env = append(append(os.Environ(), "GIT_TERMINAL_PROMPT=0"), env...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", landfall.Wrapf("cli", landfall.Invalid, err, "git %s: %s", args[0], strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// list returns the names that a git command lists with -z.
func (w *worktree) list(ctx context.Context, args ...string) ([]string, error) {
	out, err := w.git(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(out, "\x00"), func(name string) bool { return name == "" }), nil
}

// changed reports whether the work tree differs from its commit, in files that git does not ignore.
func (w *worktree) changed(ctx context.Context) (bool, error) {
	out, err := w.git(ctx, nil, "status", "--porcelain", "--untracked-files=normal")
	return out != "" || w.head == "", err
}

// ignored returns the files of the entries of static of which git ignores every file: what a build made here. A file
// that git ignores within an entry that has others stays where it is.
func (w *worktree) ignored(ctx context.Context, folder string, app *spec.App) ([]string, error) {
	if app == nil || app.Build != nil || len(app.Static) == 0 { // the server's own build makes such files
		return nil, nil
	}
	others, err := w.list(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	known, err := w.list(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	isIgnored := make(map[string]bool, len(others))
	for _, name := range others {
		isIgnored[name] = true
	}
	files := below(slices.Concat(others, known), folder)
	var names []string
	for _, s := range app.Static {
		units, _, err := assets.Select([]assets.Rule{{Src: s.Src, Path: s.Path, Exclude: s.Exclude}}, files)
		if err != nil {
			continue // the server says it, with the file and line
		}
		var all []string
		for _, entry := range units[0].Entries {
			all = append(all, path.Join(folder, entry.File.Path))
		}
		if !slices.ContainsFunc(all, func(name string) bool { return !isIgnored[name] }) {
			names = append(names, all...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// below returns the files of the names that lie below a folder, as seen from there. Nobody asks for their content, so
// that each name stands for its own.
func below(names []string, folder string) []landfall.File {
	var files []landfall.File
	for _, name := range names {
		if folder != "" {
			var ok bool
			if name, ok = strings.CutPrefix(name, folder+"/"); !ok {
				continue
			}
		}
		files = append(files, landfall.File{Path: name, Blob: name})
	}
	return files
}

// snapshot makes a commit of the work tree as it is, with the files that git does not ignore and those named, and
// returns it. It works on a copy of the index, and no reference names the commit.
func (w *worktree) snapshot(ctx context.Context, named []string) (landfall.CommitSHA, error) {
	folder, err := os.MkdirTemp("", "landfall-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	index := filepath.Join(folder, "index")
	env := []string{
		"GIT_INDEX_FILE=" + index, "GIT_AUTHOR_NAME=landfall", "GIT_AUTHOR_EMAIL=landfall@localhost",
		"GIT_COMMITTER_NAME=landfall", "GIT_COMMITTER_EMAIL=landfall@localhost",
	}
	if err := w.copyIndex(ctx, index); err != nil {
		return "", err
	}
	if _, err := w.git(ctx, env, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	const atOnce = 500 // arguments of one process
	for chunk := range slices.Chunk(named, atOnce) {
		args := append([]string{"--literal-pathspecs", "add", "--force", "--"}, chunk...)
		if _, err := w.git(ctx, env, args...); err != nil {
			return "", err
		}
	}
	tree, err := w.git(ctx, env, "write-tree")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree, "-m", w.message(ctx)}
	if w.head != "" {
		args = append(args, "-p", string(w.head))
	}
	commit, err := w.git(ctx, env, args...)
	if err != nil {
		return "", err
	}
	return landfall.ParseCommitSHA(commit)
}

// copyIndex copies the user's index: what it knows of unchanged files is not read again. The copy is as old as the
// index, by which git tells the files that may have changed in the moment after they were looked at.
func (w *worktree) copyIndex(ctx context.Context, to string) error {
	from, err := w.git(ctx, nil, "rev-parse", "--git-path", "index")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(from) {
		from = filepath.Join(w.top, from)
	}
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was added yet
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// message is what a snapshot's commit says in the history.
func (w *worktree) message(ctx context.Context) string {
	subject, err := w.git(ctx, nil, "log", "-1", "--format=%s")
	if err != nil || subject == "" {
		return "uncommitted changes"
	}
	return subject + " (with uncommitted changes)"
}

// push brings a commit to a reference of a repository by HTTP. The token is seen by git alone.
func (w *worktree) push(ctx context.Context, repository, token string, commit landfall.CommitSHA,
	ref landfall.RefName) error {
	n, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // 0 when there are none
	header := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("landfall:"+token))
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(n+2)}
	for i, setting := range [][2]string{{"http." + repository + ".extraHeader", header}, {"credential.helper", ""}} {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n+i, setting[0]),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n+i, setting[1]))
	}
	_, err := w.git(ctx, env, "push", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no",
		"--quiet", "--", repository, string(commit)+":"+string(ref))
	return err
}

// newApplyID returns the random name of an apply.
func newApplyID() string {
	const length = 16
	return strings.ToLower(rand.Text())[:length]
}
