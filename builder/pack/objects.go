package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
)

// cacheBytes is how many bytes of delta bases one Objects holds.
const cacheBytes = 16 << 20

// Objects reads the objects that a bare repository had when it was opened. Its methods are safe for concurrent use.
type Objects struct {
	dir   string // the folder "objects"
	max   int64
	packs []*file
}

// Open opens the repository in a folder. It never holds an object larger than most in memory.
func Open(repository string, most int64) (*Objects, error) {
	o := &Objects{dir: filepath.Join(repository, "objects"), max: most}
	if _, err := os.Stat(o.dir); err != nil {
		return nil, err
	}
	for range 3 { // git may replace packs of the built-in remote meanwhile
		err := o.openPacks()
		if err == nil {
			return o, nil
		}
		_ = o.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: packs keep changing", ErrNotFound)
}

func (o *Objects) openPacks() error {
	o.packs = nil
	names, err := filepath.Glob(filepath.Join(globQuote(o.dir), "pack", "*.idx")) // git gives the index its name last
	if err != nil {
		return err
	}
	shared, spare := &cache{max: cacheBytes}, &inflaters{}
	for _, name := range names {
		x, err := readIndex(name)
		if err != nil {
			return err
		}
		f, err := os.Open(strings.TrimSuffix(name, ".idx") + ".pack")
		if err != nil {
			return err
		}
		o.packs = append(o.packs, &file{f: f, index: x, cache: shared, spare: spare, max: o.max})
	}
	return nil
}

// globQuote returns path so that filepath.Glob takes it literally.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Packs returns how many packs the repository has.
func (o *Objects) Packs() int { return len(o.packs) }

// Close closes the packs. Open readers fail.
func (o *Objects) Close() error {
	var errs []error
	for _, p := range o.packs {
		errs = append(errs, p.f.Close())
	}
	return errors.Join(errs...)
}

func (o *Objects) find(name plumbing.Hash) (*file, int64, bool) {
	for _, p := range o.packs {
		if offset, ok := p.index.find(name); ok {
			return p, offset, true
		}
	}
	return nil, 0, false
}

// Has reports whether the repository has the object.
func (o *Objects) Has(name plumbing.Hash) bool {
	if _, _, ok := o.find(name); ok {
		return true
	}
	_, err := os.Stat(o.loose(name))
	return err == nil
}

// Size returns the object's size in bytes, or ErrNotFound.
func (o *Objects) Size(name plumbing.Hash) (int64, error) {
	if p, offset, ok := o.find(name); ok {
		return p.size(offset)
	}
	_, size, r, err := o.openLoose(name)
	if err != nil {
		return 0, err
	}
	return size, r.Close()
}

// Read returns a whole object, or a TooLargeError when it is larger than the limit of Open. The caller must not change
// the bytes. It returns ErrNotFound when the object is missing or is of another kind.
func (o *Objects) Read(ctx context.Context, kind plumbing.ObjectType, name plumbing.Hash) ([]byte, error) {
	got, data, err := o.read(ctx, name)
	if err != nil {
		return nil, err
	}
	if got != kind {
		return nil, fmt.Errorf("%w: %s is a %s, not a %s", ErrNotFound, name, got, kind)
	}
	return data, nil
}

// Kind returns the kind of the object, or ErrNotFound.
func (o *Objects) Kind(name plumbing.Hash) (plumbing.ObjectType, error) {
	if p, offset, ok := o.find(name); ok {
		return p.kind(offset)
	}
	kind, _, r, err := o.openLoose(name)
	if err != nil {
		return 0, err
	}
	return kind, r.Close()
}

func (o *Objects) read(ctx context.Context, name plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	if p, offset, ok := o.find(name); ok {
		c, err := p.content(ctx, offset)
		return c.kind, c.data, err
	}
	kind, size, r, err := o.openLoose(name)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	if size > o.max {
		return 0, nil, &TooLargeError{Figure: size, Limit: o.max}
	}
	var data bytes.Buffer
	n, err := io.Copy(&data, io.LimitReader(r, size+1))
	if err != nil || n != size {
		return 0, nil, fmt.Errorf("%w: %s: %d of %d bytes: %w", ErrCorrupt, name, n, size, err)
	}
	return kind, data.Bytes(), nil
}

// Blob opens a blob for reading, and returns its size. It streams a blob that is stored whole; one that is stored as a
// delta is in memory until it is closed.
func (o *Objects) Blob(ctx context.Context, name plumbing.Hash) (io.ReadCloser, int64, error) {
	p, offset, packed := o.find(name)
	if !packed {
		kind, size, r, err := o.openLoose(name)
		if err == nil && kind != plumbing.BlobObject {
			_ = r.Close()
			err = fmt.Errorf("%w: %s is a %s", ErrNotFound, name, kind)
		}
		if err != nil {
			return nil, 0, err
		}
		return &exactReader{Reader: r, close: r.Close, left: size}, size, nil
	}
	h, i, err := p.open(offset)
	if err != nil {
		return nil, 0, err
	}
	if h.kind != plumbing.BlobObject {
		p.spare.Put(i)
		data, err := o.Read(ctx, plumbing.BlobObject, name)
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
	}
	done := func() error {
		p.spare.Put(i)
		return nil
	}
	z, err := i.start()
	if err != nil {
		return nil, 0, errors.Join(err, done())
	}
	return &exactReader{Reader: z, close: done, left: h.size}, h.size, nil
}

// exactReader fails when the underlying reader does not have exactly the promised number of bytes. It is closed once,
// because others use the underlying reader again.
type exactReader struct {
	io.Reader
	close  func() error
	closed bool
	left   int64
}

func (e *exactReader) Read(b []byte) (int, error) {
	if e.closed {
		return 0, fs.ErrClosed
	}
	n, err := e.Reader.Read(b)
	e.left -= int64(n)
	if e.left < 0 || (errors.Is(err, io.EOF) && e.left != 0) {
		return 0, fmt.Errorf("%w: object is not as long as it says", ErrCorrupt)
	}
	return n, err
}

// Close closes the object. It may be repeated.
func (e *exactReader) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	return e.close()
}

func (o *Objects) loose(name plumbing.Hash) string {
	digits := name.String()
	return filepath.Join(o.dir, digits[:2], digits[2:])
}

func (o *Objects) openLoose(name plumbing.Hash) (plumbing.ObjectType, int64, io.ReadCloser, error) {
	f, err := os.Open(o.loose(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return 0, 0, nil, err
	}
	r, err := objfile.NewReader(f)
	if err != nil {
		_ = f.Close()
		return 0, 0, nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	kind, size, err := r.Header()
	if err != nil || size < 0 {
		_ = f.Close()
		return 0, 0, nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	return kind, size, &looseReader{Reader: r, f: f}, nil
}

// looseReader also closes the file.
type looseReader struct {
	*objfile.Reader
	f *os.File
}

// Close closes the object and its file.
func (l *looseReader) Close() error { return errors.Join(l.Reader.Close(), l.f.Close()) }
