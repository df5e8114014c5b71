package wasm

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// budget is what the memories of all instances may have together.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

// memory is the memory of one instance: pages of the kernel's, which cost nothing until they are written, and are given
// back as they came.
type memory struct {
	budget  *budget
	most    int64 // bytes
	pages   []byte
	size    int64
	refused bool // the module wanted more than most
	full    bool // the module wanted more than all together may have
}

var _ experimental.MemoryAllocator = (*memory)(nil)

// Allocate implements experimental.MemoryAllocator. A module has one memory.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	m.most = min(m.most, int64(most))
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if int64(size) > m.most {
		m.refused = true
		return nil
	}
	if m.pages == nil {
		pages, err := unix.Mmap(-1, 0, int(m.most), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			m.full = true
			return nil
		}
		m.pages = pages
	}
	if !m.budget.take(int64(size) - m.size) {
		m.full = true
		return nil
	}
	m.size = int64(size)
	return m.pages[:size:size]
}

// Free implements experimental.LinearMemory. The instance may still be asked something afterwards: see release.
func (*memory) Free() {}

// release gives everything back, when the run is over.
func (m *memory) release() {
	m.budget.used.Add(-m.size)
	if m.pages != nil {
		_ = unix.Munmap(m.pages) // they are its own
	}
}
