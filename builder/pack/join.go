package pack

import (
	"context"
	"crypto"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

// Join makes one pack of all packs of the repository except the largest, which would be copied each time for nothing.
// It copies entries as they are: distances between a delta and its base stay, nothing is inflated, and nothing is lost,
// not even objects that no reference reaches. Only packs that Receive made may be joined. When it fails, the repository
// still has everything. It removes the old packs inside exclusive, so that no reader opens one meanwhile.
func Join(ctx context.Context, repository string, exclusive func(func() error) error) error {
	o, err := Open(repository, 0)
	if err != nil {
		return err
	}
	defer func() { _ = o.Close() }()
	small, err := o.smallPacks()
	if err != nil || len(small) < 2 {
		return err
	}
	dir := filepath.Join(o.dir, "pack")
	f, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	all, name, err := concatenate(ctx, f, small)
	if err != nil {
		return err
	}
	if err := install(dir, f, all, name); err != nil {
		return err
	}
	return exclusive(func() error {
		var errs []error
		for _, p := range small {
			base := filepath.Join(dir, "pack-"+hex.EncodeToString(p.index.packName()))
			if base != filepath.Join(dir, "pack-"+name.String()) {
				errs = append(errs, os.Remove(base+".idx"), os.Remove(base+".pack"))
			}
		}
		return errors.Join(errs...)
	})
}

// smallPacks returns all packs except the largest.
func (o *Objects) smallPacks() ([]*file, error) {
	var largest int64
	which := -1
	for i, p := range o.packs {
		info, err := p.f.Stat()
		if err != nil {
			return nil, err
		}
		if info.Size() > largest {
			largest, which = info.Size(), i
		}
	}
	var small []*file
	for i, p := range o.packs {
		if i != which {
			small = append(small, p)
		}
	}
	return small, nil
}

// concatenate writes the entries of packs to f as one pack.
func concatenate(ctx context.Context, f *os.File, packs []*file) (*items, plumbing.Hash, error) {
	total := 0
	for _, p := range packs {
		total += p.index.count
	}
	whole := hash.New(crypto.SHA1)
	w := io.MultiWriter(f, whole)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(total))
	if _, err := w.Write(head); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	all := &items{}
	at := int64(headerSize)
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return nil, plumbing.ZeroHash, err
		}
		size, err := p.f.Seek(0, io.SeekEnd)
		if err != nil || size < headerSize+nameSize {
			return nil, plumbing.ZeroHash, errors.Join(fmt.Errorf("%w: short pack", ErrCorrupt), err)
		}
		size -= headerSize + nameSize
		if _, err := io.Copy(w, io.NewSectionReader(p.f, headerSize, size)); err != nil {
			return nil, plumbing.ZeroHash, err
		}
		for i := range p.index.count {
			all.add(item{name: plumbing.Hash(p.index.name(i)), offset: p.index.offset(i) - headerSize + at, sum: p.index.sum(i)})
		}
		at += size
	}
	name := plumbing.Hash(whole.Sum(nil))
	_, err := f.Write(name[:])
	return all, name, err
}
