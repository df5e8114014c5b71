package pack

import (
	"fmt"
	"io"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxChain is git's own limit for a delta chain (OE_DEPTH_BITS of pack-objects.h).
const maxChain = 4095

// The work for deltas is counted in their bytes and those of their results. One chain may take as many bytes as 256
// objects of the largest allowed size, each made by a delta of the same size. Git's chains have 50 deltas, or 250 when
// it packs aggressively; longer chains have smaller objects. All deltas of a pack may take that, plus the same multiple
// of the largest size to which zlib could inflate the pack.
const (
	chainFactor = 512
	packFactor  = 1024
)

// maxChainBytes returns how many bytes the deltas of one chain may take. object is the limit of an object.
func maxChainBytes(object int64) int64 { return min(object, math.MaxInt64/2/chainFactor) * chainFactor }

// maxPackBytes returns how many bytes all deltas of a pack of size bytes may take.
func maxPackBytes(object, size int64) int64 {
	return maxChainBytes(object) + min(size, math.MaxInt64/2/packFactor)*packFactor
}

// header is the part before the compressed bytes of an entry of a pack (gitformat-pack(5)).
type header struct {
	kind plumbing.ObjectType
	size int64         // inflated: of the object, or of the delta
	base int64         // offset of the base, for OFSDeltaObject
	name plumbing.Hash // of the base, for REFDeltaObject
}

// maxHeader is the longest header: the size, and a name.
const maxHeader = 9 + nameSize

func (h header) isDelta() bool { return h.kind.IsDelta() }

// readHeader reads the header of the entry at offset.
func readHeader(r io.ByteReader, offset int64) (header, error) {
	c, err := r.ReadByte()
	if err != nil {
		return header{}, err
	}
	h := header{kind: plumbing.ObjectType(c >> 4 & 7), size: int64(c & 15)}
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil {
			return header{}, err
		}
		if shift > 53 {
			return header{}, fmt.Errorf("%w: size at %d", ErrCorrupt, offset)
		}
		h.size |= int64(c&0x7f) << shift
	}
	switch h.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return h, nil
	case plumbing.OFSDeltaObject:
		h.base, err = readBase(r, offset)
		return h, err
	case plumbing.REFDeltaObject:
		for i := range h.name {
			if h.name[i], err = r.ReadByte(); err != nil {
				return header{}, err
			}
		}
		return h, nil
	case plumbing.InvalidObject, plumbing.AnyObject:
	}
	return header{}, fmt.Errorf("%w: entry of type %d at %d", ErrCorrupt, h.kind, offset)
}

// readBase reads the distance to a delta's base and returns the base's offset.
func readBase(r io.ByteReader, offset int64) (int64, error) {
	c, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	distance := int64(c & 0x7f)
	for c&0x80 != 0 {
		if c, err = r.ReadByte(); err != nil {
			return 0, err
		}
		if distance >= 1<<48 {
			return 0, fmt.Errorf("%w: base of %d", ErrCorrupt, offset)
		}
		distance = (distance+1)<<7 | int64(c&0x7f)
	}
	if distance <= 0 || distance > offset {
		return 0, fmt.Errorf("%w: base of %d", ErrCorrupt, offset)
	}
	return offset - distance, nil
}

// deltaSizes returns the sizes of base and result at the beginning of a delta.
func deltaSizes(delta []byte) (base, result int64, err error) {
	for _, size := range []*int64{&base, &result} {
		for shift := 0; ; shift += 7 {
			if len(delta) == 0 || shift > 56 {
				return 0, 0, fmt.Errorf("%w: delta without sizes", ErrCorrupt)
			}
			c := delta[0]
			delta = delta[1:]
			*size |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				break
			}
		}
	}
	return base, result, nil
}

// maxDeltaSizes is how many bytes the two sizes at a delta's beginning can take.
const maxDeltaSizes = 18
