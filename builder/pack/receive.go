package pack

import (
	"bufio"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
	"golang.org/x/sync/errgroup"
)

const headerSize = 12 // "PACK", version, count

// Limits bound what a pack from outside may be.
type Limits struct {
	Objects int64 // how many objects it may have
	Object  int64 // bytes of any object that must be in memory as a whole: all except blobs that are stored whole
}

// Receive reads one pack from r, checks all of it, and adds it to the repository. A pack without objects adds nothing.
// When it fails or ctx ends, the repository is as before. It returns ErrCorrupt, ErrUnsupported, a TooLargeError, or an
// error of r.
func Receive(ctx context.Context, repository string, r io.Reader, limits Limits) error {
	dir := filepath.Join(repository, "objects", "pack")
	f, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // it is gone when it got its name
	}()
	all, err := scan(ctx, r, f, limits)
	if err != nil || all.len() == 0 {
		return err
	}
	name, err := sums(f, all)
	if err != nil {
		return err
	}
	if err := resolve(ctx, f, all, limits); err != nil {
		return err
	}
	return install(dir, f, all, name)
}

// input reads a pack once, copies it to a file and knows its position.
type input struct {
	*bufio.Reader
	inflater inflater
	sizes    prefixBuffer
	read     int64
}

func (in *input) offset() int64 { return in.read - int64(in.Buffered()) }

// countingReader tells an input how many bytes were taken.
type countingReader struct {
	r  io.Reader
	in *input
}

func (c countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.in.read += int64(n)
	return n, err
}

// prefixBuffer keeps the first bytes that are written to it: the sizes in a delta.
type prefixBuffer struct {
	space [maxDeltaSizes]byte
	n     int
}

func (b *prefixBuffer) Write(p []byte) (int, error) {
	b.n += copy(b.space[b.n:], p)
	return len(p), nil
}

// scan copies the pack to f and returns its objects by offset; those stored as deltas have no name yet.
func scan(ctx context.Context, r io.Reader, f *os.File, limits Limits) (*items, error) {
	in := &input{}
	in.Reader = bufio.NewReaderSize(countingReader{io.TeeReader(r, f), in}, 64<<10)
	in.inflater.in = in.Reader
	var head [headerSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, asCorrupt(err)
	}
	if string(head[:8]) != "PACK\x00\x00\x00\x02" {
		return nil, fmt.Errorf("%w: not a pack of version 2", ErrCorrupt)
	}
	count := int64(binary.BigEndian.Uint32(head[8:]))
	if count > limits.Objects {
		return nil, &TooLargeError{Objects: true, Figure: count, Limit: limits.Objects}
	}
	all := &items{}
	var taken int64
	for range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		it, err := scanItem(in, all, limits)
		if err != nil {
			return nil, asCorrupt(err)
		}
		if it.chain > 0 {
			taken += it.taken - all.at(int(it.base)).taken
		}
		all.add(it)
	}
	end := in.offset()
	if most := maxPackBytes(limits.Object, end); taken > most {
		return nil, &TooLargeError{Deltas: true, Figure: taken, Limit: most}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(in, nameSize+1)); err != nil || n != nameSize {
		return nil, asCorrupt(errors.Join(fmt.Errorf("%w: pack does not end where it should", ErrCorrupt), err))
	}
	return all, f.Truncate(end + nameSize)
}

// asCorrupt turns the error of a pack that ends too early into ErrCorrupt.
func asCorrupt(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early: %w", ErrCorrupt, err)
	}
	return err
}

// scanItem reads one entry. before are the entries before it.
func scanItem(in *input, before *items, limits Limits) (item, error) {
	it := item{offset: in.offset()}
	h, err := readHeader(in, it.offset)
	if err != nil {
		return item{}, err
	}
	switch {
	case h.kind == plumbing.REFDeltaObject:
		return item{}, fmt.Errorf("%w: delta by name at %d", ErrUnsupported, it.offset)
	case h.kind != plumbing.BlobObject && h.size > limits.Object:
		return item{}, &TooLargeError{Figure: h.size, Limit: limits.Object}
	case !h.isDelta():
		it.kind = h.kind
		sum := plumbing.NewHasher(h.kind, h.size)
		if err := in.inflater.inflate(sum, h.size); err != nil {
			return item{}, err
		}
		it.name = sum.Sum()
		return it, nil
	}
	i, ok := before.find(h.base)
	if !ok {
		return item{}, fmt.Errorf("%w: base of %d is no entry", ErrCorrupt, it.offset)
	}
	base := before.at(i)
	it.kind, it.chain, it.base = base.kind, base.chain+1, int32(i)
	if it.chain > maxChain {
		return item{}, errEndless
	}
	it.taken, err = scanDelta(in, h, base.taken, limits)
	return it, err
}

// scanDelta reads a delta and returns how many bytes it takes to apply its chain. before is the part without this
// delta.
func scanDelta(in *input, h header, before int64, limits Limits) (int64, error) {
	in.sizes.n = 0
	if err := in.inflater.inflate(&in.sizes, h.size); err != nil {
		return 0, err
	}
	base, result, err := deltaSizes(in.sizes.space[:in.sizes.n])
	if err != nil {
		return 0, err
	}
	if most := max(base, result); most > limits.Object {
		return 0, &TooLargeError{Figure: most, Limit: limits.Object}
	}
	taken := before + h.size + result
	if most := maxChainBytes(limits.Object); taken > most {
		return 0, &TooLargeError{Deltas: true, Figure: taken, Limit: most}
	}
	return taken, nil
}

// sums fills in the checksum of every entry, checks that of the pack, and returns it.
func sums(f *os.File, all *items) (name plumbing.Hash, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return name, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return name, err
	}
	r := bufio.NewReaderSize(f, 256<<10)
	whole := hash.New(crypto.SHA1)
	if _, err := io.CopyN(whole, r, headerSize); err != nil {
		return name, err
	}
	for i := range all.len() {
		end := size - nameSize
		if i+1 < all.len() {
			end = all.at(i + 1).offset
		}
		entry := crc32.NewIEEE()
		if _, err := io.CopyN(io.MultiWriter(whole, entry), r, end-all.at(i).offset); err != nil {
			return name, err
		}
		all.at(i).sum = entry.Sum32()
	}
	if _, err := io.ReadFull(r, name[:]); err != nil {
		return name, err
	}
	if got := plumbing.Hash(whole.Sum(nil)); got != name {
		return name, fmt.Errorf("%w: its checksum is %s, not %s", ErrCorrupt, got, name)
	}
	return name, nil
}

// install gives a pack and its index their names: the index last, because whoever finds it expects the pack.
func install(dir string, f *os.File, all *items, name plumbing.Hash) error {
	base := filepath.Join(dir, "pack-"+name.String())
	x, err := os.CreateTemp(dir, "tmp_idx_")
	if err != nil {
		return err
	}
	defer func() {
		_ = x.Close()
		_ = os.Remove(x.Name())
	}()
	if err := writeIndex(x, all, name); err != nil {
		return err
	}
	var flushes errgroup.Group // at once: the disk then waits once for both
	for _, file := range []*os.File{f, x} {
		flushes.Go(func() error { return errors.Join(file.Chmod(0o444), file.Sync()) })
	}
	if err := flushes.Wait(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), base+".pack"); err != nil {
		return err
	}
	return os.Rename(x.Name(), base+".idx")
}

// Sweep removes what a killed fetch left. No Receive or Join may run on the repository.
func Sweep(repository string) error {
	left, err := filepath.Glob(filepath.Join(globQuote(repository), "objects", "pack", "tmp_*"))
	sort.Strings(left)
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
