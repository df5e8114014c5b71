package pack

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// content is a whole object.
type content struct {
	kind plumbing.ObjectType
	data []byte
}

// cache holds objects that may be the base of a delta. Entries that are used together are near each other in a pack, so
// clearing a full cache loses little.
type cache struct {
	max int

	mu      sync.Mutex
	used    int
	entries map[place]content
}

type place struct {
	p      *file
	offset int64
}

func (c *cache) get(p *file, offset int64) (content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries[place{p, offset}]
	return found, ok
}

func (c *cache) put(p *file, offset int64, v content) {
	const overhead = 96 // of the entry itself
	size := cap(v.data) + overhead
	if size > c.max/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || c.used+size > c.max {
		c.entries, c.used = make(map[place]content), 0
	}
	c.entries[place{p, offset}] = v
	c.used += size
}
