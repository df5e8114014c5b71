package files

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// bounded keeps the entries that were used last, up to a total weight.
type bounded[K comparable, V any] struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[K, weighed[V]]
	limit int64
	spare int64 // weight that is left
}

type weighed[V any] struct {
	value  V
	weight int64
}

// newBounded returns an empty cache. dropped is called, under the cache's lock, for each entry that leaves it; it may
// be nil.
func newBounded[K comparable, V any](limit int64, dropped func(K, V)) *bounded[K, V] {
	b := &bounded[K, V]{limit: limit, spare: limit}
	b.lru, _ = simplelru.NewLRU(math.MaxInt, func(key K, entry weighed[V]) {
		b.spare += entry.weight
		if dropped != nil {
			dropped(key, entry.value)
		}
	}) // its only error is a size below one
	return b
}

func (b *bounded[K, V]) get(key K) (V, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry, ok := b.lru.Get(key)
	return entry.value, ok
}

// add keeps value, and drops what was not used for longest, but never value itself. An entry that is there already
// stays.
func (b *bounded[K, V]) add(key K, value V, weight int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lru.Contains(key) {
		return
	}
	b.lru.Add(key, weighed[V]{value, weight})
	b.spare -= weight
	for b.spare < 0 && b.lru.Len() > 1 {
		b.lru.RemoveOldest()
	}
}

// remove drops the entry of key.
func (b *bounded[K, V]) remove(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lru.Remove(key)
}

// retain drops what is not wanted, and returns how many entries are left.
func (b *bounded[K, V]) retain(wanted func(K) bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range b.lru.Keys() {
		if !wanted(key) {
			b.lru.Remove(key)
		}
	}
	return b.lru.Len()
}

// entries returns how many entries there are.
func (b *bounded[K, V]) entries() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lru.Len()
}

// used returns the weight of what is kept.
func (b *bounded[K, V]) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit - b.spare
}
