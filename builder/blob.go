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

// A file of Git LFS is a pointer to its bytes, which lie elsewhere: a small text that begins so.
const (
	lfsPointer    = "version https://git-lfs.github.com/spec/"
	minLFSPointer = 120 // the shortest has a version, an oid and a size
	maxLFSPointer = 1024
)

// MayBePointer reports whether a file of a commit has the size of a pointer of Git LFS, so that it is worth reading whether it
// is one.
func MayBePointer(file landfall.File) bool {
	return file.Blob != "" && file.Size >= minLFSPointer && file.Size < maxLFSPointer
}

// Read opens a file that Files listed. Readers of one Mirror may be open at once; close each. Large files are streamed.
// ctx ends the reading too. Kinds: Invalid for what is no file (as of Check), a pointer of Git LFS, and a file over the
// limit; NotFound.
func (m *Mirror) Read(ctx context.Context, file landfall.File) (io.ReadCloser, error) {
	const op = landfall.Op("builder.read")
	if err := Check(file); err != nil {
		return nil, err
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
			" is a pointer of Git LFS, and such files are not fetched: commit the file itself, or exclude it"}
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return &reader{Reader: head, Closer: r, ended: ctx.Err, m: m}, nil
}

// reader ends with its context.
type reader struct {
	io.Reader
	io.Closer
	ended func() error // the error of the context of the Read that it came from
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

// quote returns a path for a message: as it is, unless it holds what must be seen.
func quote(path string) string {
	if quoted := strconv.Quote(path); strings.Trim(quoted, `"`) != path {
		return quoted
	}
	return path
}
