package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// file is one open pack.
type file struct {
	f     *os.File
	index index
	cache *cache
	spare *inflaters
	max   int64
}

// open returns the header of the entry at offset, and an inflater at its bytes. The caller gives that back.
func (p *file) open(offset int64) (header, *inflater, error) {
	i := p.spare.at(p.f, offset)
	_, err := i.in.Peek(1)
	if err == nil || errors.Is(err, io.EOF) {
		var h header
		if h, err = readHeader(i.in, offset); err == nil {
			return h, i, nil
		}
		err = fmt.Errorf("%w: entry at %d: %w", ErrCorrupt, offset, err)
	}
	p.spare.Put(i)
	return header{}, nil, err
}

// header returns the header of the entry at offset.
func (p *file) header(offset int64) (header, error) {
	var space [maxHeader]byte
	n, err := p.f.ReadAt(space[:], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	h, err := readHeader(bytes.NewReader(space[:n]), offset)
	if err != nil {
		return header{}, fmt.Errorf("%w: entry at %d: %w", ErrCorrupt, offset, err)
	}
	return h, nil
}

// size returns the size of the object at offset, whole or delta.
func (p *file) size(offset int64) (int64, error) {
	h, err := p.header(offset)
	if err != nil || !h.isDelta() {
		return h.size, err
	}
	h, i, err := p.open(offset)
	if err != nil {
		return 0, err
	}
	defer p.spare.Put(i)
	z, err := i.start()
	if err != nil {
		return 0, err
	}
	sizes := i.space[:min(h.size, maxDeltaSizes)]
	if _, err := io.ReadFull(z, sizes); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	_, size, err := deltaSizes(sizes)
	return size, err
}

// kind returns the kind of the object at offset, whole or delta.
func (p *file) kind(offset int64) (plumbing.ObjectType, error) {
	for range maxChain {
		h, err := p.header(offset)
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
	h, stored, err := p.stored(offset)
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

// stored returns the header and the bytes of the entry at offset, inflated.
func (p *file) stored(offset int64) (header, []byte, error) {
	h, i, err := p.open(offset)
	if err != nil {
		return h, nil, err
	}
	defer p.spare.Put(i)
	if h.size > p.max {
		return h, nil, &TooLargeError{Figure: h.size, Limit: p.max}
	}
	const trusted = 1 << 20 // what a header can make us allocate before the bytes have come
	data := bytes.NewBuffer(make([]byte, 0, min(h.size, trusted)))
	err = i.inflate(data, h.size)
	return h, data.Bytes(), err
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
