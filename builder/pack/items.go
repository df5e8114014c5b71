package pack

import (
	"bytes"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
)

// item is one object of a pack.
type item struct {
	name   plumbing.Hash
	sum    uint32 // CRC-32 of the entry as stored
	offset int64
	kind   plumbing.ObjectType
	chain  uint16 // number of deltas to apply; 0: stored whole
	base   int32  // the number of the item to which the last of them is applied
	taken  int64  // bytes of these deltas, and of their results
}

// items are the objects of a pack, by offset. They are stored in pieces: a pack may have ten million, and a list that
// is copied whenever it grows would take several times its memory.
type items struct{ pieces [][]item }

const pieceItems = 1 << 14

// add appends an item.
func (l *items) add(it item) {
	last := len(l.pieces) - 1
	switch {
	case last < 0:
		l.pieces, last = make([][]item, 1), 0 // it grows, because most packs have few
	case len(l.pieces[last]) == pieceItems:
		l.pieces, last = append(l.pieces, make([]item, 0, pieceItems)), last+1
	}
	l.pieces[last] = append(l.pieces[last], it)
}

// len returns the number of items.
func (l *items) len() int {
	last := len(l.pieces) - 1
	if last < 0 {
		return 0
	}
	return last*pieceItems + len(l.pieces[last])
}

// at returns an item by its number.
func (l *items) at(i int) *item { return &l.pieces[i/pieceItems][i%pieceItems] }

// find returns the number of the item at an offset.
func (l *items) find(offset int64) (int, bool) {
	i := sort.Search(l.len(), func(i int) bool { return l.at(i).offset >= offset })
	return i, i < l.len() && l.at(i).offset == offset
}

// byName returns the numbers of all items in the order of their names.
func (l *items) byName() []int32 {
	order := make([]int32, l.len())
	for i := range order {
		order[i] = int32(i) // #nosec G115 -- a pack has fewer
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(l.at(int(a)).name[:], l.at(int(b)).name[:]) })
	return order
}
