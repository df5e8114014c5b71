package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	zlibs "github.com/go-git/go-git/v5/utils/sync"
)

// file is one open pack.
type file struct {
	f     *os.File
	index index
	cache *cache
	max   int64
}

// window is read at once for the header of an entry and the beginning of its bytes.
const window = 512

// header returns the header of the entry at offset and where its compressed bytes begin.
func (p *file) header(offset int64) (header, int64, error) {
	var space [window]byte
	h, rest, err := p.peek(offset, space[:])
	return h, offset + int64(cap(space)-cap(rest)), err
}

// peek reads the header of the entry at offset into space, and returns what space has of its compressed bytes.
func (p *file) peek(offset int64, space []byte) (header, []byte, error) {
	n, err := p.f.ReadAt(space, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, nil, err
	}
	r := bytes.NewReader(space[:n])
	h, err := readHeader(r, offset)
	if err != nil {
		return header{}, nil, fmt.Errorf("%w: entry at %d: %w", ErrCorrupt, offset, err)
	}
	return h, space[n-r.Len() : n : len(space)], nil
}

// size returns the size of the object at offset, whole or delta.
func (p *file) size(offset int64) (int64, error) {
	var space [window]byte
	h, rest, err := p.peek(offset, space[:])
	if err != nil || !h.isDelta() {
		return h.size, err
	}
	at := offset + int64(window-cap(rest))
	z, err := zlibs.GetZlibReader(bytes.NewReader(rest))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var sizes [maxDeltaSizes]byte
	n, err := io.ReadFull(z.Reader, sizes[:min(h.size, maxDeltaSizes)])
	zlibs.PutZlibReader(z)
	if err != nil { // the window was too small for this delta
		z, err = zlibs.GetZlibReader(bufio.NewReader(io.NewSectionReader(p.f, at, 1<<62)))
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		n, err = io.ReadFull(z.Reader, sizes[:min(h.size, maxDeltaSizes)])
		zlibs.PutZlibReader(z)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	_, size, err := deltaSizes(sizes[:n])
	return size, err
}

// kind returns the kind of the object at offset, whole or delta.
func (p *file) kind(offset int64) (plumbing.ObjectType, error) {
	for range maxChain {
		h, _, err := p.header(offset)
		if err != nil || !h.isDelta() {
			return h.kind, err
		}
		if offset, err = p.base(h); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: endless chain of deltas", ErrCorrupt)
}

func (p *file) base(h header) (int64, error) {
	if h.kind == plumbing.OFSDeltaObject {
		return h.base, nil
	}
	offset, ok := p.index.find(h.name)
	if !ok {
		return 0, fmt.Errorf("%w: base %s", ErrNotFound, h.name)
	}
	return offset, nil
}

// content returns the object at offset, the depth-th of a chain of deltas.
func (p *file) content(offset int64, depth int) (content, error) {
	if depth > maxChain {
		return content{}, fmt.Errorf("%w: endless chain of deltas", ErrCorrupt)
	}
	if c, ok := p.cache.get(p, offset); ok {
		return c, nil
	}
	h, at, err := p.header(offset)
	if err != nil {
		return content{}, err
	}
	stored, err := p.inflate(h, at)
	if err != nil {
		return content{}, err
	}
	c := content{kind: h.kind, data: stored}
	if h.isDelta() {
		if c, err = p.patch(h, stored, depth); err != nil {
			return content{}, err
		}
	}
	p.cache.put(p, offset, c)
	return c, nil
}

// inflate returns the bytes of the entry as stored.
func (p *file) inflate(h header, at int64) ([]byte, error) {
	if h.size > p.max {
		return nil, &TooLargeError{Figure: h.size, Limit: p.max}
	}
	const trusted = 1 << 20 // what a header can make us allocate before the bytes have come
	data := bytes.NewBuffer(make([]byte, 0, min(h.size, trusted)))
	r := bufio.NewReaderSize(io.NewSectionReader(p.f, at, 1<<62), int(min(max(h.size, window), 32<<10)))
	if err := inflate(data, r, h.size); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// patch applies a delta to its base.
func (p *file) patch(h header, delta []byte, depth int) (content, error) {
	base, result, err := deltaSizes(delta)
	if err != nil {
		return content{}, err
	}
	if most := max(base, result); most > p.max {
		return content{}, &TooLargeError{Figure: most, Limit: p.max}
	}
	at, err := p.base(h)
	if err != nil {
		return content{}, err
	}
	from, err := p.content(at, depth+1)
	if err != nil {
		return content{}, err
	}
	data, err := packfile.PatchDelta(from.data, delta)
	if err != nil {
		return content{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return content{kind: from.kind, data: data}, nil
}
