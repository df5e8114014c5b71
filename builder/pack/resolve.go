package pack

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"
)

// families says what is made of what by a delta. Zero stands for none: nothing comes before item 0 that it could be made
// of.
type families struct {
	roots []int32 // whole objects of which others are made
	first []int32 // of what is made of an item, that with the most bytes made of it in turn
	next  []int32 // another that is made of the same
}

func familiesOf(items []item) families {
	f := families{first: make([]int32, len(items)), next: make([]int32, len(items))}
	taken := make([]int64, len(items)) // of an item, and of all that are made of it
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].chain == 0 {
			if f.first[i] != 0 {
				f.roots = append(f.roots, int32(i))
			}
			continue
		}
		base := items[i].base // it lies before: all that are made of item i were seen
		taken[i] += items[i].taken - items[base].taken
		taken[base] += taken[i]
		if first := f.first[base]; first == 0 || taken[i] > taken[first] {
			f.first[base], f.next[i] = int32(i), first
		} else {
			f.next[first], f.next[i] = int32(i), f.next[first]
		}
	}
	return f
}

// resolver computes the names of deltas.
type resolver struct {
	families
	file  *file
	items []item
	most  int64         // bytes that all deltas may take
	held  *atomic.Int64 // bytes that wait for more to be made of them
	again *atomic.Int64 // bytes that it took to make objects once more that could not wait
}

// resolve computes the names of the deltas. It applies each of them once, from the whole objects on.
func resolve(ctx context.Context, f *os.File, items []item, limits Limits) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := resolver{
		families: familiesOf(items), items: items, most: mostOfPack(limits.Object, info.Size()),
		file: &file{f: f, max: limits.Object, cache: &cache{}, spare: &inflaters{}},
		held: new(atomic.Int64), again: new(atomic.Int64),
	}
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), 4) {
		group.Go(func() error {
			for n := taken.Add(1); n <= int64(len(r.roots)); n = taken.Add(1) {
				root := r.roots[int64(len(r.roots))-n] // in the pack's order
				c, err := r.file.content(ctx, items[root].offset)
				if err != nil {
					return err
				}
				if err := r.grow(ctx, root, c.data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// grow names all that are made of item i, whose bytes are data. What has most made of it comes last, when data need not
// wait any more: so at most one object waits for each time that the bytes of a family can be halved.
func (r *resolver) grow(ctx context.Context, i int32, data []byte) error {
	for last := r.first[i]; last != 0; last = r.first[i] {
		var err error
		for child := r.next[last]; child != 0; child = r.next[child] {
			if data, err = r.branch(ctx, i, data, child); err != nil {
				return err
			}
		}
		if data, err = r.apply(ctx, last, data); err != nil {
			return err
		}
		i = last
	}
	return nil
}

// branch names child, and all that are made of it. It returns the bytes of i, which child is made of.
func (r *resolver) branch(ctx context.Context, i int32, data []byte, child int32) ([]byte, error) {
	made, err := r.apply(ctx, child, data)
	if err != nil || r.first[child] == 0 {
		return data, err
	}
	const most = 4 // of the largest objects may wait; in what git makes, few that are large do
	size := int64(len(data))
	if r.held.Add(size)/most <= r.file.max {
		defer r.held.Add(-size)
		return data, r.grow(ctx, child, made)
	}
	r.held.Add(-size)
	if err := r.grow(ctx, child, made); err != nil {
		return nil, err
	}
	if again := r.again.Add(r.items[i].taken); again > r.most {
		return nil, &TooLargeError{Deltas: true, Figure: again, Limit: r.most}
	}
	c, err := r.file.content(ctx, r.items[i].offset)
	return c.data, err
}

func (r *resolver) apply(ctx context.Context, i int32, base []byte) ([]byte, error) {
	data, _, err := r.file.patch(ctx, r.items[i].offset, base)
	if err == nil {
		r.items[i].name = plumbing.ComputeHash(r.items[i].kind, data)
	}
	return data, err
}
