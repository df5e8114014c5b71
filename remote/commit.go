package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// NewCommit is a commit without a parent that the server itself makes.
type NewCommit struct {
	Ref     landfall.RefName // that is to name it; it must not be there
	Author  string
	Message string
	Files   []NewFile
}

// NewFile is a file of a NewCommit.
type NewFile struct {
	Path       string
	Executable bool
	Symlink    bool // the content is its target
	Size       int64
	Open       func() (io.ReadCloser, error)
}

// Commit makes a commit in the repository of an app, and returns it. The reference names it once all of it is stored.
// NotFound when there is no repository.
func (r *Repositories) Commit(ctx context.Context, appID string, c NewCommit) (landfall.CommitSHA, error) {
	const op landfall.Op = "remote.Commit"
	path, err := r.existingPath(op, appID)
	if err != nil {
		return "", err
	}
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := c.write(writer)
		_ = writer.CloseWithError(err) // without "done" git takes the part that it has for nothing
		written <- err
	}()
	cmd := r.in(path, r.git(ctx, "fast-import", "--quiet", "--done", "--date-format=now"))
	cmd.Stdin = reader
	_, err = output(ctx, op, cmd)
	_ = reader.Close() // the writer ends
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		err = failed
	}
	if err != nil {
		reports, _ := filepath.Glob(filepath.Join(path, "fast_import_crash_*")) // what git leaves then; the pattern is right
		for _, report := range reports {
			err = errors.Join(err, os.Remove(report))
		}
		return "", err
	}
	named, err := r.Named(ctx, appID, []landfall.RefName{c.Ref})
	return named[c.Ref], err
}

// write writes the stream that git fast-import reads: https://git-scm.com/docs/git-fast-import.
func (c NewCommit) write(to io.Writer) error {
	w := bufio.NewWriter(to)
	identity := strings.NewReplacer("<", "", ">", "", "\n", "").Replace(c.Author)
	fmt.Fprintf(w, "feature done\ncommit %s\ncommitter %s <> now\ndata %d\n%s\n", c.Ref, identity,
		len(c.Message), c.Message)
	for _, f := range c.Files {
		mode := "100644"
		switch {
		case f.Symlink:
			mode = "120000"
		case f.Executable:
			mode = "100755"
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n", mode, quoted(f.Path), f.Size)
		if err := f.copy(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "done")
	return w.Flush() // bufio keeps the first error
}

// copy writes the content, of which there must be as much as was said.
func (f NewFile) copy(to io.Writer) error {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	n, err := io.Copy(to, io.LimitReader(from, f.Size))
	if err == nil && n != f.Size {
		err = landfall.Errorf("remote.Commit", landfall.Internal, "%s has %d bytes, and %d were expected", f.Path, n, f.Size)
	}
	return err
}

// quoted writes a path as git reads it in quotes.
func quoted(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			const octal, digits = 8, 3
			number := strconv.FormatInt(int64(c), octal)
			b.WriteString("\\" + strings.Repeat("0", digits-len(number)) + number)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
