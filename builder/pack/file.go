package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

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

// open returns the header of the entry at offset, and an inflater at its bytes. The caller returns the inflater.
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
	return 0, errEndless
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

// content returns the object at offset. However long its chain of deltas is, one delta, its base and its result are in
// memory.
func (p *file) content(ctx context.Context, offset int64) (content, error) {
	deltas, c, err := p.chain(offset)
	if err != nil {
		return content{}, err
	}
	var taken int64
	for _, at := range slices.Backward(deltas) {
		var n int64
		if c.data, n, err = p.patch(ctx, at, c.data); err != nil {
			return content{}, err
		}
		if taken += n; taken > maxChainBytes(p.max) {
			return content{}, &TooLargeError{Deltas: true, Figure: taken, Limit: maxChainBytes(p.max)}
		}
		p.cache.put(p, at, c)
	}
	return c, nil
}

// chain returns the offsets of the deltas that make the object at offset, the last one first, and the base of the
// first: a whole object, or one from the cache.
func (p *file) chain(offset int64) (deltas []int64, base content, err error) {
	for range maxChain + 1 {
		if c, ok := p.cache.get(p, offset); ok {
			return deltas, c, nil
		}
		h, i, err := p.open(offset)
		if err != nil {
			return nil, content{}, err
		}
		if !h.isDelta() {
			data, err := p.inflate(h, i)
			c := content{kind: h.kind, data: data}
			if err == nil {
				p.cache.put(p, offset, c)
			}
			return deltas, c, err
		}
		p.spare.Put(i)
		deltas = append(deltas, offset)
		if offset, err = p.base(h); err != nil {
			return nil, content{}, err
		}
	}
	return nil, content{}, errEndless
}

// inflate returns the bytes of the entry at which i was opened, and returns i.
func (p *file) inflate(h header, i *inflater) ([]byte, error) {
	defer p.spare.Put(i)
	if h.size > p.max {
		return nil, &TooLargeError{Figure: h.size, Limit: p.max}
	}
	const trusted = 1 << 20 // memory that a header can make us allocate before the bytes have arrived
	data := &sizedBuffer{data: make([]byte, 0, min(h.size, trusted)), size: h.size}
	err := i.inflate(data, h.size)
	return data.data, err
}

// sizedBuffer holds what is written to it. When it has more than the trusted part, it allocates the announced size, and
// no more.
type sizedBuffer struct {
	data []byte
	size int64
}

// Write implements io.Writer.
func (s *sizedBuffer) Write(p []byte) (int, error) {
	if len(s.data)+len(p) > cap(s.data) && int64(cap(s.data)) < s.size {
		s.data = append(make([]byte, 0, s.size), s.data...)
	}
	s.data = append(s.data, p...)
	return len(p), nil
}

// patch applies the delta at offset to its base, and returns the result and how many bytes it took.
func (p *file) patch(ctx context.Context, offset int64, base []byte) (data []byte, taken int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	h, i, err := p.open(offset)
	if err != nil {
		return nil, 0, err
	}
	delta, err := p.inflate(h, i)
	if err != nil {
		return nil, 0, err
	}
	from, result, err := deltaSizes(delta)
	if err != nil {
		return nil, 0, err
	}
	if most := max(from, result); most > p.max {
		return nil, 0, &TooLargeError{Figure: most, Limit: p.max}
	}
	if data, err = packfile.PatchDelta(base, delta); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return data, h.size + result, nil
}
