package pack

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"
)

// families says which items are made from which by a delta. Zero stands for none, because no item is before item 0 from
// which it could be made.
type families struct {
	roots []int32 // whole objects from which others are made
	first []int32 // of the items made from an item, the one from which most bytes are made in turn
	next  []int32 // the next item that is made from the same one
}

func familiesOf(all *items) families {
	f := families{first: make([]int32, all.len()), next: make([]int32, all.len())}
	taken := make([]int64, all.len()) // bytes of an item, and of all that are made from it
	for i := all.len() - 1; i >= 0; i-- {
		if all.at(i).chain == 0 {
			if f.first[i] != 0 {
				f.roots = append(f.roots, int32(i))
			}
			continue
		}
		base := all.at(i).base // it is before i: all items made from item i were seen
		taken[i] += all.at(i).taken - all.at(int(base)).taken
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
	file     *file
	items    *items
	most     int64         // bytes that all deltas may take
	heavy    chan struct{} // token for the goroutine that makes large objects, one at a time
	waiting  *atomic.Int64 // bytes of objects that wait because more will be made from them
	repeated *atomic.Int64 // bytes that it took to make objects again that could not wait
}

// resolve computes the names of the deltas. It applies each of them once, beginning at the whole objects.
func resolve(ctx context.Context, f *os.File, all *items, limits Limits) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := resolver{
		families: familiesOf(all), items: all, most: maxPackBytes(limits.Object, info.Size()),
		file:  &file{f: f, max: limits.Object, cache: &cache{}, spare: &inflaters{}},
		heavy: make(chan struct{}, 1), waiting: new(atomic.Int64), repeated: new(atomic.Int64),
	}
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), 4) {
		group.Go(func() error {
			for n := taken.Add(1); n <= int64(len(r.roots)); n = taken.Add(1) {
				root := r.roots[int64(len(r.roots))-n] // in the pack's order
				if err := r.family(ctx, root); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// largeStep bounds the bytes of an object and its result that may be made in parallel with others.
const largeStep = 16 << 20

// family names everything that is made from a whole object. A family of large objects waits until no other one is being
// made, so that all of them together take little more memory than one.
func (r *resolver) family(ctx context.Context, root int32) error {
	offset := r.items.at(int(root)).offset
	size, err := r.file.size(offset)
	if err != nil {
		return err
	}
	if size+r.largest(root) > largeStep {
		select {
		case r.heavy <- struct{}{}:
			defer func() { <-r.heavy }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c, err := r.file.content(ctx, offset)
	if err != nil {
		return err
	}
	return r.grow(ctx, root, c.data)
}

// largest returns the size of the largest delta of a family, with its result.
func (r *resolver) largest(root int32) int64 {
	var most int64
	for todo := []int32{root}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for child := r.first[i]; child != 0; child = r.next[child] {
			most = max(most, r.items.at(int(child)).taken-r.items.at(int(i)).taken)
			todo = append(todo, child)
		}
	}
	return most
}

// grow names everything that is made from item i, whose bytes are data. The child from which most bytes are made comes
// last, when data need not wait any more. So at most one object waits for each time that the bytes of a family can be
// halved.
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

// branch names child, and everything that is made from it. It returns the bytes of i, from which child is made.
func (r *resolver) branch(ctx context.Context, i int32, data []byte, child int32) ([]byte, error) {
	made, err := r.apply(ctx, child, data)
	if err != nil || r.first[child] == 0 {
		return data, err
	}
	const most = 2 // of the largest objects that may wait; in git's packs few large objects do
	size := int64(len(data))
	if r.waiting.Add(size)/most <= r.file.max {
		defer r.waiting.Add(-size)
		return data, r.grow(ctx, child, made)
	}
	r.waiting.Add(-size)
	if err := r.grow(ctx, child, made); err != nil {
		return nil, err
	}
	if again := r.repeated.Add(r.items.at(int(i)).taken); again > r.most {
		return nil, &TooLargeError{Deltas: true, Figure: again, Limit: r.most}
	}
	c, err := r.file.content(ctx, r.items.at(int(i)).offset)
	return c.data, err
}

func (r *resolver) apply(ctx context.Context, i int32, base []byte) ([]byte, error) {
	it := r.items.at(int(i))
	data, _, err := r.file.patch(ctx, it.offset, base)
	if err == nil {
		it.name = plumbing.ComputeHash(it.kind, data)
	}
	return data, err
}
