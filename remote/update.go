package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"landfall.dev/landfall"
)

// Update is the movement of one reference by a push.
type Update struct {
	Ref landfall.RefName // a branch, a tag, or below refs/landfall/apply/
	// Before and After are commits: an annotated tag is peeled. Before is zero when the reference is new, After when it
	// is deleted. They are equal when an annotated tag was made anew for the same commit.
	Before landfall.CommitSHA
	After  landfall.CommitSHA
	// Forced says that Before is not an ancestor of After: history was rewritten, or a tag moved elsewhere.
	Forced  bool
	Message string // first line of After's message, at most 200 characters
}

// Deleted reports whether the update removes its reference.
func (u Update) Deleted() bool { return u.After.IsZero() }

// command is what a client asks for: one reference, and the objects that it names before and after.
type command struct {
	before, after landfall.CommitSHA
	ref           landfall.RefName
}

// parseCommand reads "before after ref", as clients and hooks write it.
func parseCommand(line string) (command, error) {
	before, rest, _ := strings.Cut(line, " ")
	after, ref, ok := strings.Cut(rest, " ")
	_, err := landfall.ParseCommitSHA(before)
	_, err2 := landfall.ParseCommitSHA(after)
	if err := errors.Join(err, err2); err != nil || !ok || strings.ContainsAny(ref, "\n\r") {
		return command{}, landfall.Wrapf("remote.parseCommand", landfall.Invalid, err,
			"the request is not a push as git sends it")
	}
	return command{landfall.CommitSHA(before), landfall.CommitSHA(after), landfall.RefName(ref)}, nil
}

var applyID = regexp.MustCompile(`^[a-z0-9]{8,40}$`)

// refuse returns an Invalid error unless the reference may be pushed so.
func (c command) refuse() error {
	invalid := func(format string) error {
		return landfall.Errorf("remote.refuse", landfall.Invalid, format, clean(string(c.ref), 100))
	}
	if !utf8.ValidString(string(c.ref)) {
		return invalid(`%q is refused: the name is not valid UTF-8`)
	}
	if _, err := landfall.ParseRefName(string(c.ref)); err != nil {
		return invalid(`%q is refused: git does not allow this name, or it is too long: a name has at most 1024 characters`)
	}
	if id, ok := strings.CutPrefix(string(c.ref), landfall.ApplyPrefix); ok {
		if !applyID.MatchString(id) {
			return invalid("%q is refused: it ends in 8 to 40 of a-z and 0-9")
		}
		if !c.before.IsZero() || c.after.IsZero() {
			return invalid("%q is refused: it is made once, and neither moved nor deleted")
		}
		return nil
	}
	_, branch := c.ref.Branch()
	if _, tag := c.ref.Tag(); !tag && !branch {
		return invalid("%q is refused: only branches (refs/heads/…) and tags (refs/tags/…) can be pushed")
	}
	return nil
}

// commit is what the remote needs to know of one.
type commit struct {
	sha     landfall.CommitSHA // empty when the object is no commit, nor a tag of one
	message string
}

// describe returns the updates that the commands ask for, in their order. env says where the new objects lie. Invalid
// when a reference may not be pushed so, or would not name a commit.
func (r *Repositories) describe(ctx context.Context, path string, env []string, commands []command) ([]Update, error) {
	objects := make([]landfall.CommitSHA, 0, 2*len(commands))
	for _, c := range commands {
		if err := c.refuse(); err != nil {
			return nil, err
		}
		objects = append(objects, c.before, c.after)
	}
	commits, err := r.commits(ctx, path, env, objects)
	if err != nil {
		return nil, err
	}
	updates := make([]Update, len(commands))
	for i, c := range commands {
		before, after := commits[2*i], commits[2*i+1]
		if after.sha == "" && !c.after.IsZero() {
			return nil, landfall.Errorf("remote.describe", landfall.Invalid,
				"%q is refused: it would name something that is not a commit", string(c.ref))
		}
		u := Update{Ref: c.ref, Before: before.sha, After: after.sha, Message: after.message}
		if u.Before != "" && u.After != "" && u.Before != u.After {
			if u.Forced, err = r.forced(ctx, path, env, u.Before, u.After); err != nil {
				return nil, err
			}
		}
		updates[i] = u
	}
	return updates, nil
}

// forced reports whether after does not descend from before.
func (r *Repositories) forced(ctx context.Context, path string, env []string, before,
	after landfall.CommitSHA) (bool, error) {
	cmd := r.in(path, r.git(ctx, "merge-base", "--is-ancestor", string(before), string(after)))
	cmd.Env = append(cmd.Env, env...)
	_, err := output(ctx, "remote.forced", cmd)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return true, nil
	}
	return false, err
}

// commits peels objects, in their order.
func (r *Repositories) commits(ctx context.Context, path string, env []string,
	objects []landfall.CommitSHA) ([]commit, error) {
	const op landfall.Op = "remote.commits"
	if len(objects) == 0 {
		return nil, nil
	}
	var names bytes.Buffer
	for _, object := range objects {
		fmt.Fprintf(&names, "%s^{commit}\n", object)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var stderr complaint
	cmd := r.in(path, r.git(ctx, "cat-file", "--batch"))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin, cmd.Stderr = &names, &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	if err := cmd.Start(); err != nil {
		return nil, failed(ctx, op, err, "")
	}
	found := make([]commit, len(objects))
	in := bufio.NewReader(out)
	for i := range found {
		if found[i], err = readCommit(in); err != nil {
			stop()
			break
		}
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, failed(ctx, op, err, stderr.String())
	}
	return found, nil
}

// readCommit reads one answer of `git cat-file --batch`.
func readCommit(in *bufio.Reader) (commit, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return commit{}, err
	}
	header := strings.Fields(line)
	if len(header) != 3 || header[1] != "commit" {
		return commit{}, nil // "… missing"
	}
	size, err := strconv.ParseInt(header[2], 10, 64)
	if err != nil {
		return commit{}, err
	}
	const enough = 64 << 10
	head := make([]byte, min(size, enough))
	if _, err := io.ReadFull(in, head); err != nil {
		return commit{}, err
	}
	if _, err := io.CopyN(io.Discard, in, size-int64(len(head))+1); err != nil { // and the newline behind it
		return commit{}, err
	}
	_, message, _ := bytes.Cut(head, []byte("\n\n"))
	message, _, _ = bytes.Cut(message, []byte("\n"))
	return commit{sha: landfall.CommitSHA(header[0]), message: clean(string(message), 200)}, nil
}
