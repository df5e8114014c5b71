package builder

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"
)

// A Git LFS file is a pointer to bytes that are stored elsewhere: a small text with this beginning.
const (
	lfsPointer    = "version https://git-lfs.github.com/spec/"
	minLFSPointer = 120 // the shortest pointer has a version, an oid and a size
	maxLFSPointer = 1024
)

// MayBePointer reports whether a file of a commit has the size of a Git LFS pointer, so that it should be read.
func MayBePointer(file landfall.File) bool {
	return file.Blob != "" && !file.LFS && file.Size >= minLFSPointer && file.Size < maxLFSPointer
}

// Read opens a file that Files listed. Several readers of one Mirror may be open at once; close each. It streams large
// files. Reading also ends with ctx. A file of Git LFS is fetched when it is not here, see FetchLFS. Kinds: Invalid for
// an entry that is no file (see Check), a pointer of Git LFS that the repository does not say is one, and a file over
// the limit; NotFound; those of FetchLFS.
func (m *Mirror) Read(ctx context.Context, file landfall.File) (io.ReadCloser, error) {
	const op = landfall.Op("builder.read")
	if err := Check(file); err != nil {
		return nil, err
	}
	if file.Module != "" {
		inside, f, err := m.module(file)
		if err != nil {
			return nil, err
		}
		return inside.Read(ctx, f)
	}
	if file.LFS {
		return m.readLFS(ctx, file)
	}
	name, err := objectName(op, landfall.CommitSHA(file.Blob))
	if err != nil {
		return nil, err
	}
	var r io.ReadCloser
	var size int64
	err = m.use(func(o *pack.Objects) (err error) {
		r, size, err = o.Blob(ctx, name)
		return err
	})
	if err != nil {
		return nil, m.readError(op, err)
	}
	if size > m.limits.FileBytes {
		_ = r.Close()
		return nil, overLimit(op, quote(file.Path)+" has "+bytes(size), bytes(m.limits.FileBytes), "LANDFALL_MAX_FILE_BYTES")
	}
	reading := &reader{Reader: r, Closer: r, ended: ctx.Err, m: m}
	if size >= maxLFSPointer {
		return reading, nil
	}
	head := bufio.NewReaderSize(reading, max(int(size), len(lfsPointer)))
	begin, err := head.Peek(min(int(size), len(lfsPointer)))
	if err == nil && string(begin) == lfsPointer {
		err = &landfall.Error{Op: op, Kind: landfall.Invalid, Message: quote(file.Path) +
			" is a pointer of Git LFS, and no .gitattributes of the commit says so (filter=lfs): run git lfs track, commit " +
			"the file itself, or exclude it"}
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return &reader{Reader: head, Closer: r, ended: ctx.Err, m: m}, nil
}

// reader is a reader that ends with its context.
type reader struct {
	io.Reader
	io.Closer
	ended func() error // the error of the context of the Read call that made it
	m     *Mirror
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ended(); err != nil {
		return 0, contextError("builder.read", r.m.remote, err)
	}
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.m.readError("builder.read", err)
	}
	return n, err
}

// quote returns a path for a message: quoted only if it contains characters that must be shown.
func quote(path string) string {
	if quoted := strconv.Quote(path); strings.Trim(quoted, `"`) != path {
		return quoted
	}
	return path
}
