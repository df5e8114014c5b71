package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"landfall.dev/landfall"
)

// Export writes the references of an app's repository to refs: HEAD's branch in the first line, then a line with an
// object and a name for each; and then all its objects to pack, as one pack of git's, also those that no reference
// reaches. What is pushed meanwhile may be in it or not. NotFound when there is no repository; Internal when it is
// damaged.
func (r *Repositories) Export(ctx context.Context, appID string, refs, pack io.Writer) error {
	const op landfall.Op = "remote.Export"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return err
	}
	names, err := r.list(ctx, op, path, refs)
	if err != nil {
		return err
	}
	var stderr complaint
	cmd := r.in(path, r.git(ctx, "pack-objects", "--stdout", "-q"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = names, pack, &stderr
	if err := cmd.Run(); err != nil {
		return failed(ctx, op, err, stderr.String())
	}
	return nil
}

// list writes the references to refs, and returns the names of all objects. No push is half there: its objects come
// after the agreement to it.
func (r *Repositories) list(ctx context.Context, op landfall.Op, path string, refs io.Writer) (*bytes.Buffer, error) {
	lock, err := openLock(path)
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	defer lock.Close()
	if err := lockAlone(ctx, lock); err != nil {
		return nil, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
	}
	named, err := r.references(ctx, op, path, "%(objectname) %(refname)", "refs/")
	if err != nil {
		return nil, err
	}
	head, err := output(ctx, op, r.in(path, r.git(ctx, "symbolic-ref", "HEAD")))
	if err != nil {
		return nil, err
	}
	if _, err := refs.Write(append(head, named...)); err != nil {
		return nil, err
	}
	names, err := output(ctx, op, r.in(path, r.git(ctx, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")))
	return bytes.NewBuffer(names), err
}

// references lists references below the prefixes. Git leaves out one that it cannot read, with a warning only: here
// that is an error, since who compares would take it for deleted.
func (r *Repositories) references(ctx context.Context, op landfall.Op, path, format string,
	prefixes ...string) ([]byte, error) {
	var out bytes.Buffer
	var stderr complaint
	cmd := r.in(path, r.git(ctx, append([]string{"for-each-ref", "--format=" + format}, prefixes...)...))
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, failed(ctx, op, err, stderr.String())
	}
	if stderr.Len() > 0 {
		return nil, &landfall.Error{Op: op, Message: "the repository has a damaged reference: " +
			clean(strings.TrimSpace(stderr.String()), 300)}
	}
	return out.Bytes(), nil
}

// Import makes the repository of an app from what Export wrote. Git checks every object, and that none is missing.
// Conflict when there is a repository already; Invalid when references or objects are not what Export writes.
func (r *Repositories) Import(ctx context.Context, appID string, refs []byte, pack io.Reader) error {
	const op landfall.Op = "remote.Import"
	path, err := r.checkedPath(op, appID)
	if err != nil {
		return err
	}
	if exists(path) {
		return landfall.Errorf(op, landfall.Conflict, "there is a repository of this app already")
	}
	head, commands, err := parseReferences(string(refs))
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(r.root, "new-*")
	if err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	defer os.RemoveAll(fresh)
	if _, err := output(ctx, op, r.git(ctx, "init", "--quiet", "--bare", "--template=", "--", fresh)); err != nil {
		return err
	}
	for _, step := range []struct {
		in   io.Reader
		args []string
	}{
		{pack, []string{"index-pack", "--stdin", "--strict"}},
		{strings.NewReader(commands), []string{"update-ref", "--stdin"}},
		{strings.NewReader(""), []string{"symbolic-ref", "HEAD", head}},
	} {
		if err := r.feed(ctx, op, fresh, step.in, step.args...); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	return nil
}

// feed runs git on a repository with what somebody sent, and within the limits of that.
func (r *Repositories) feed(ctx context.Context, op landfall.Op, path string, in io.Reader, args ...string) error {
	var stderr complaint
	cmd := r.in(path, r.git(ctx, args...))
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	if err := cmd.Start(); err != nil {
		return failed(ctx, op, err, "")
	}
	err = restrain(cmd.Process.Pid)
	var read error
	if err == nil {
		source := &source{Reader: in}
		_, err = io.Copy(stdin, source)
		read = source.failed
	}
	_ = stdin.Close() // git may be gone, and says why
	err = errors.Join(cmd.Wait(), err)
	switch {
	case read != nil:
		return read
	case cmd.ProcessState.Success():
		return nil
	case ctx.Err() != nil:
		return failed(ctx, op, err, stderr.String())
	}
	return &landfall.Error{Op: op, Kind: landfall.Invalid,
		Err:     fmt.Errorf("git: %w: %s", err, strings.TrimSpace(stderr.String())),
		Message: "git refuses the repository: " + clean(strings.TrimSpace(stderr.String()), 300)}
}

// source remembers what reading came to, apart from what became of the bytes.
type source struct {
	io.Reader
	failed error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// parseReferences reads what Export wrote: HEAD's branch, and the rest as commands of git update-ref.
func parseReferences(text string) (head, commands string, err error) {
	invalid := func(line string) error {
		return landfall.Errorf("remote.Import", landfall.Invalid, "%q is no reference of a repository", clean(line, 200))
	}
	head, rest, _ := strings.Cut(text, "\n")
	name, err := landfall.ParseRefName(head)
	if _, branch := name.Branch(); err != nil || !branch {
		return "", "", invalid(head)
	}
	var b strings.Builder
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(line, "\n")
		object, ref, _ := strings.Cut(line, " ")
		_, err := landfall.ParseCommitSHA(object)
		_, err2 := landfall.ParseRefName(ref)
		if errors.Join(err, err2) != nil || strings.ContainsAny(ref, " \n\x00") {
			return "", "", invalid(line)
		}
		fmt.Fprintf(&b, "create %s %s\n", ref, object)
	}
	return head, b.String(), nil
}

// Check lets git read every object of an app's repository and follow every reference. It returns what is damaged, in
// git's own words. NotFound when there is no repository.
func (r *Repositories) Check(ctx context.Context, appID string) ([]string, error) {
	const op landfall.Op = "remote.Check"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	cmd := r.in(path, r.git(ctx, "fsck", "--full", "--strict", "--no-progress", "--no-dangling"))
	cmd.Stdout, cmd.Stderr = &all, &all
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, failed(ctx, op, err, "")
	}
	var damage []string
	for line := range strings.Lines(all.String()) {
		// Without HEAD's branch nothing is wrong: it is not pushed yet. Neither is what is no error but unusual.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "notice: ") &&
			!strings.HasPrefix(line, "warning in ") {
			damage = append(damage, clean(line, 300))
		}
	}
	if err != nil && damage == nil {
		damage = []string{err.Error()}
	}
	// What git fsck passes over: a reference that is no name of an object.
	if _, err := r.references(ctx, op, path, "%(objecttype) %(refname)", "refs/"); err != nil && ctx.Err() == nil &&
		damage == nil {
		damage = append(damage, clean(err.Error(), 300))
	}
	return damage, nil
}
