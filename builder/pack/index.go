package pack

import (
	"bufio"
	"bytes"
	"crypto"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

// These are the parts of an index of version 2 (gitformat-pack(5)).
const (
	nameSize    = hash.Size
	fanoutAt    = 8
	namesAt     = fanoutAt + 256*4
	large       = 1 << 31 // flag of an offset that is in the table of large offsets
	trailerSize = 2 * nameSize
)

// index finds objects in one pack. It is immutable.
type index struct {
	data  []byte // the whole file
	count int
}

func readIndex(path string) (index, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return index{}, err
	}
	if len(data) < namesAt+trailerSize || !bytes.Equal(data[:fanoutAt], []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}) {
		return index{}, fmt.Errorf("%w: not an index of version 2", ErrCorrupt)
	}
	x := index{data: data, count: int(binary.BigEndian.Uint32(data[namesAt-4:]))}
	if len(data) < x.largeAt()+trailerSize {
		return index{}, fmt.Errorf("%w: index is short", ErrCorrupt)
	}
	for i := 1; i < 256; i++ {
		if x.fanout(i-1) > x.fanout(i) {
			return index{}, fmt.Errorf("%w: index is not sorted", ErrCorrupt)
		}
	}
	return x, nil
}

func (x index) fanout(i int) int   { return int(binary.BigEndian.Uint32(x.data[fanoutAt+4*i:])) }
func (x index) sumsAt() int        { return namesAt + x.count*nameSize }
func (x index) offsetsAt() int     { return x.sumsAt() + x.count*4 }
func (x index) largeAt() int       { return x.offsetsAt() + x.count*4 }
func (x index) name(i int) []byte  { return x.data[namesAt+i*nameSize:][:nameSize] }
func (x index) packName() []byte   { return x.data[len(x.data)-trailerSize:][:nameSize] }
func (x index) sum(i int) uint32   { return binary.BigEndian.Uint32(x.data[x.sumsAt()+4*i:]) }
func (x index) short(i int) uint32 { return binary.BigEndian.Uint32(x.data[x.offsetsAt()+4*i:]) }

// offset returns the offset of the i-th object, or -1 when the index is broken.
func (x index) offset(i int) int64 {
	short := x.short(i)
	if short&large == 0 {
		return int64(short)
	}
	at := x.largeAt() + 8*int(short&^large)
	if at+8 > len(x.data)-trailerSize {
		return -1
	}
	return int64(binary.BigEndian.Uint64(x.data[at:]) &^ (1 << 63))
}

// find returns the offset of the object.
func (x index) find(name plumbing.Hash) (int64, bool) {
	low := 0
	if name[0] > 0 {
		low = x.fanout(int(name[0]) - 1)
	}
	high := x.fanout(int(name[0]))
	i := low + sort.Search(high-low, func(i int) bool { return bytes.Compare(x.name(low+i), name[:]) >= 0 })
	if i >= high || !bytes.Equal(x.name(i), name[:]) {
		return 0, false
	}
	offset := x.offset(i)
	return offset, offset >= 0
}

// writeIndex writes the index of the pack of that name.
func writeIndex(w io.Writer, all *items, packName plumbing.Hash) error {
	order := all.byName()
	sum := hash.New(crypto.SHA1)
	out := bufio.NewWriter(io.MultiWriter(w, sum))
	word := func(v uint32) { _, _ = out.Write(binary.BigEndian.AppendUint32(nil, v)) } // bufio keeps the first error
	_, _ = out.Write([]byte{0xff, 't', 'O', 'c', 0, 0, 0, 2})
	for first, i := 0, 0; first < 256; first++ {
		for i < len(order) && int(all.at(int(order[i])).name[0]) <= first {
			i++
		}
		word(uint32(i))
	}
	for _, i := range order {
		_, _ = out.Write(all.at(int(i)).name[:])
	}
	for _, i := range order {
		word(all.at(int(i)).sum)
	}
	var far []int64
	for _, i := range order {
		offset := all.at(int(i)).offset
		if offset < large {
			word(uint32(offset))
			continue
		}
		word(large | uint32(len(far)))
		far = append(far, offset)
	}
	for _, offset := range far {
		_, _ = out.Write(binary.BigEndian.AppendUint64(nil, uint64(offset)))
	}
	_, _ = out.Write(packName[:])
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}
