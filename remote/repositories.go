package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"landfall.dev/landfall"
)

// hookMode is the mode of a hook: git runs none that it may not execute.
const hookMode = 0o700

// hiddenPrefix is where the references lie that no client is shown.
const hiddenPrefix = "refs/landfall/"

// The hooks. Descriptor 3 leads to the server, descriptor 4 comes from it; see the package comment.
const (
	preReceive = `#!/bin/sh
{ printf '%s\n' "$GIT_QUARANTINE_PATH" && cat && echo; } >&3 && read -r verdict <&4 && exit "$verdict"
exit 1
`
	postReceive = `#!/bin/sh
{ cat && echo; } >&3
`
)

// Repositories are the bare repositories of the apps, ROOT/ID.git. It is safe for concurrent use.
type Repositories struct {
	root    string
	program string
}

// OpenRepositories makes the folder root, with the hooks that the remote needs, and returns its repositories. program
// is the path of git. It can be repeated. Internal when the folder cannot be written, or nothing can be run from it.
func OpenRepositories(root, program string) (*Repositories, error) {
	const op landfall.Op = "remote.OpenRepositories"
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	r := &Repositories{root: root, program: program}
	if err := os.MkdirAll(r.hooks(), 0o700); err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	for name, script := range map[string]string{"pre-receive": preReceive, "post-receive": postReceive} {
		path := filepath.Join(r.hooks(), name)
		if err := replace(path, script); err != nil {
			return nil, &landfall.Error{Op: op, Err: err}
		}
		// Git silently runs no hook that it may not execute, and would then move references unasked.
		if _, err := exec.LookPath(path); err != nil {
			return nil, landfall.Wrapf(op, landfall.Internal, err,
				"programs in the data folder cannot be run, so the built-in remote cannot check pushes: mount it without noexec")
		}
	}
	return r, nil
}

// replace writes an executable file in one step, since a git may be running the old one. One that is as it should be
// stays: a disk may be full.
func replace(path, content string) error {
	old, err := os.ReadFile(filepath.Clean(path))
	if info, stat := os.Stat(path); err == nil && stat == nil && string(old) == content && info.Mode().Perm() == hookMode {
		return nil
	}
	// A process that starts meanwhile would hold the file open, and what is open for writing cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fresh, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.WriteString(content)
	if err := errors.Join(err, fresh.Chmod(hookMode), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}

func (r *Repositories) hooks() string { return filepath.Join(r.root, "hooks") }

var appID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Path returns the folder of an app's repository, whether it exists or not.
func (r *Repositories) Path(appID string) string { return filepath.Join(r.root, appID+".git") }

// Exists reports whether there is a repository of an app.
func (r *Repositories) Exists(appID string) bool { return exists(r.Path(appID)) }

// Create makes the bare repository of an app, with HEAD on the branch head ("main" when empty). It does nothing when
// there is one. Invalid when the id cannot be a file name or head no branch.
func (r *Repositories) Create(ctx context.Context, appID, head string) error {
	const op landfall.Op = "remote.Create"
	path, err := r.checkedPath(op, appID)
	if err != nil {
		return err
	}
	if exists(path) {
		return nil
	}
	head = cmp.Or(head, "main")
	if _, err := landfall.ParseRefName(landfall.BranchPrefix + head); err != nil {
		return err
	}
	// Made beside and moved into place: nobody ever sees half a repository.
	fresh, err := os.MkdirTemp(r.root, "new-*")
	if err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	defer os.RemoveAll(fresh)
	if _, err := output(ctx, op, r.git(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch="+head, "--",
		fresh)); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil && !exists(path) {
		return &landfall.Error{Op: op, Err: err}
	}
	return nil
}

// Remove deletes the repository of an app. It does nothing when there is none. A git that is at work in it fails.
func (r *Repositories) Remove(_ context.Context, appID string) error {
	const op landfall.Op = "remote.Remove"
	path, err := r.checkedPath(op, appID)
	if err != nil {
		return err
	}
	// Moved away first: who writes into it meanwhile would keep it from being deleted.
	gone := filepath.Join(r.root, "gone-"+appID)
	if err := os.RemoveAll(gone); err != nil { // by a process that was killed
		return &landfall.Error{Op: op, Err: err}
	}
	if err := os.Rename(path, gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &landfall.Error{Op: op, Err: err}
	}
	if err := os.RemoveAll(gone); err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	return nil
}

// SetHead points HEAD of the repository at a branch, which need not exist. It can be repeated. Invalid when branch is
// no branch, NotFound when there is no repository.
func (r *Repositories) SetHead(ctx context.Context, appID, branch string) error {
	const op landfall.Op = "remote.SetHead"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return err
	}
	ref, err := landfall.ParseRefName(landfall.BranchPrefix + branch)
	if err != nil {
		return err
	}
	_, err = output(ctx, op, r.in(path, r.git(ctx, "symbolic-ref", "HEAD", string(ref))))
	return err
}

// Heads returns the branches, the tags (peeled to commits) and the references of applies of a repository, for the
// comparison with the pushes that were accepted. It waits until no reference of the repository is about to move and no
// move is about to be accepted. NotFound when there is no repository; Internal, and no answer, when a reference cannot
// be read: one that is damaged is not deleted.
func (r *Repositories) Heads(ctx context.Context, appID string) (map[landfall.RefName]landfall.CommitSHA, error) {
	const op landfall.Op = "remote.Heads"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return nil, err
	}
	lock, err := openLock(path)
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	defer lock.Close()
	if err := lockAlone(ctx, lock); err != nil {
		return nil, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
	}
	return r.named(ctx, op, path, func(landfall.RefName) bool {
		return true
	}, landfall.BranchPrefix, landfall.TagPrefix, landfall.ApplyPrefix)
}

// Named returns what references of a repository name at this moment, peeled to commits, without those that are not
// there. Unlike Heads it waits for nobody. NotFound when there is no repository.
func (r *Repositories) Named(ctx context.Context, appID string,
	refs []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	const op landfall.Op = "remote.Named"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return nil, err
	}
	heads := map[landfall.RefName]landfall.CommitSHA{}
	const atOnce = 100 // names on one command line
	for some := range slices.Chunk(refs, atOnce) {
		names := make([]string, len(some))
		for i, ref := range some {
			names[i] = string(ref)
		}
		found, err := r.named(ctx, op, path, func(ref landfall.RefName) bool { return slices.Contains(some, ref) }, names...)
		if err != nil {
			return nil, err
		}
		maps.Copy(heads, found)
	}
	return heads, nil
}

// Lacks returns those of the commits that a repository has not got, as one that is older than another copy of it.
// NotFound when there is no repository.
func (r *Repositories) Lacks(ctx context.Context, appID string,
	commits []landfall.CommitSHA) (lacks []landfall.CommitSHA, err error) {
	path, err := r.existingPath("remote.Lacks", appID)
	if err != nil {
		return nil, err
	}
	found, err := r.commits(ctx, path, nil, commits)
	for i, commit := range found {
		if commit.sha == "" {
			lacks = append(lacks, commits[i])
		}
	}
	return lacks, err
}

// named returns what the wanted references below the prefixes name.
func (r *Repositories) named(
	ctx context.Context, op landfall.Op, path string, wanted func(landfall.RefName) bool, prefixes ...string,
) (map[landfall.RefName]landfall.CommitSHA, error) {
	list, err := r.references(ctx, op, path, "%(objectname) %(objecttype) %(refname)", prefixes...)
	if err != nil {
		return nil, err
	}
	heads := map[landfall.RefName]landfall.CommitSHA{}
	var tags []landfall.RefName
	var objects []landfall.CommitSHA
	for line := range bytes.Lines(list) {
		object, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		kind, name, _ := strings.Cut(rest, " ")
		ref := landfall.RefName(name)
		switch {
		case !wanted(ref) || !utf8.ValidString(name): // one that no push made
		case kind == "commit":
			heads[ref] = landfall.CommitSHA(object)
		default:
			tags, objects = append(tags, ref), append(objects, landfall.CommitSHA(object))
		}
	}
	peeled, err := r.commits(ctx, path, nil, objects)
	for i, commit := range peeled {
		if commit.sha != "" {
			heads[tags[i]] = commit.sha
		}
	}
	return heads, err
}

// in makes cmd work on the repository at path.
func (*Repositories) in(path string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(cmd.Env, "GIT_DIR="+path)
	return cmd
}

func (r *Repositories) checkedPath(op landfall.Op, id string) (string, error) {
	if !appID.MatchString(id) {
		return "", landfall.Errorf(op, landfall.Invalid, "%q cannot be an app's id", id)
	}
	return r.Path(id), nil
}

func (r *Repositories) existingPath(op landfall.Op, id string) (string, error) {
	path, err := r.checkedPath(op, id)
	if err == nil && !exists(path) {
		err = landfall.Errorf(op, landfall.NotFound, "the app has no repository here")
	}
	return path, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(filepath.Join(path, "landfall.lock"), os.O_RDWR|os.O_CREATE, 0o600)
}

// lockAlone waits until nobody else holds the lock, or ctx ends.
func lockAlone(ctx context.Context, lock *os.File) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// How many packs, and how many objects with a file of their own, a repository may have before they are joined: readers
// look into each of the ones, and each of the others takes a block of the disk. A small push brings no pack, but a
// handful of such objects.
const (
	maxPacks = 50
	maxLoose = 1024
)

// OldApplies returns the references of applies that have been there for a day, with their commits. NotFound when there
// is no repository.
func (r *Repositories) OldApplies(ctx context.Context, appID string) (map[landfall.RefName]landfall.CommitSHA, error) {
	const op landfall.Op = "remote.OldApplies"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return nil, err
	}
	isOld := func(name string) bool {
		info, err := os.Stat(filepath.Join(path, name))
		return err == nil && time.Since(info.ModTime()) > staleAfter
	}
	packed := isOld("packed-refs")
	return r.named(ctx, op, path, func(ref landfall.RefName) bool {
		_, err := os.Lstat(filepath.Join(path, string(ref)))
		return isOld(string(ref)) || errors.Is(err, fs.ErrNotExist) && packed
	}, landfall.ApplyPrefix)
}

// DropApplies removes references of applies. Their commits stay. NotFound when there is no repository.
func (r *Repositories) DropApplies(ctx context.Context, appID string, refs []landfall.RefName) error {
	const op landfall.Op = "remote.DropApplies"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return err
	}
	var commands strings.Builder
	for _, ref := range refs {
		commands.WriteString("delete " + string(ref) + "\n")
	}
	return r.feed(ctx, op, path, strings.NewReader(commands.String()), "update-ref", "--stdin")
}

// staleAfter is how long a temporary file of git lies untouched until it is taken for one that nobody works on, and a
// reference of an apply until whoever pushed it has asked for the apply.
const staleAfter = 24 * time.Hour

// Repack joins the packs, the loose objects and the references of a repository once there are many, and keeps every
// object, also those that no reference reaches: a run may still need them. It removes what pushes that were killed have
// left, once it is a day old. It must run while nobody opens the repository's packs. It does nothing when there is no
// repository.
func (r *Repositories) Repack(ctx context.Context, appID string) error {
	const op landfall.Op = "remote.Repack"
	path, err := r.existingPath(op, appID)
	if err != nil {
		if landfall.Is(err, landfall.NotFound) {
			return nil
		}
		return err
	}
	if err := removeStale(filepath.Join(path, "objects")); err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	if many, err := isScattered(path); err != nil || !many {
		return err
	}
	if _, err := output(ctx, op, r.in(path, r.git(ctx, "repack", "-a", "-d", "-k", "-q"))); err != nil {
		return err
	}
	// Each app version has a reference, and git reads them all at each push.
	_, err = output(ctx, op, r.in(path, r.git(ctx, "pack-refs", "--all")))
	return err
}

// removeStale removes the temporary files of git below a folder of objects to which nobody has written for long: packs
// that did not arrive, and folders of objects that no push accepted.
func removeStale(objects string) error {
	for _, pattern := range []string{"tmp_objdir-*", "incoming-*", "pack/tmp_*", "pack/.tmp-*", "??/tmp_obj_*"} {
		names, err := fs.Glob(os.DirFS(objects), pattern) // the path itself is no pattern
		if err != nil {
			return err
		}
		for _, name := range names {
			path := filepath.Join(objects, name)
			info, err := os.Lstat(path)
			if err == nil && time.Since(info.ModTime()) > staleAfter {
				err = os.RemoveAll(path)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // git may take its own away meanwhile
				return err
			}
		}
	}
	return nil
}

// isScattered reports whether a repository has too many packs or loose objects. Of the latter's folders it looks into
// one in sixteen: names are as good as random.
func isScattered(path string) (bool, error) {
	const sixteenth = 16
	objects := os.DirFS(filepath.Join(path, "objects")) // the path itself is no pattern
	packs, err := fs.Glob(objects, "pack/*.pack")
	if err != nil || len(packs) > maxPacks {
		return true, err
	}
	loose, err := fs.Glob(objects, "0?/*")
	return len(loose) > maxLoose/sixteenth, err
}
