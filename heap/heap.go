// Package heap lets the memory of a process grow while the process is busy, and gives it back when it is idle.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// roomy is what the heap may grow to while there is much to do. A server that keeps little would else be collected
	// every few hundred requests, at the cost of a tenth of its time.
	roomy = 32 << 20
	// often is how soon one collection follows another when there is much to do, and lull how long there is none when that
	// is over.
	often = time.Second
	lull  = 2 * time.Second

	usualPercent = 100
)

// heap is that of this process.
type heap struct {
	mu      sync.Mutex
	last    time.Time // collection
	percent int
	lull    *time.Timer
	samples []metrics.Sample
}

// Watch does so from now on, unless whoever started the process says how its memory is managed.
func Watch() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	h := &heap{percent: usualPercent, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"},
	}}
	h.lull = time.AfterFunc(lull, h.idle)
	h.watch()
}

// watch calls collected after the next collection.
func (h *heap) watch() {
	type dead struct{ _ *heap } // with a pointer, so that it shares its place with nothing that lives on
	runtime.AddCleanup(&dead{}, (*heap).collected, h)
}

// collected sets how far the heap grows until the next collection.
func (h *heap) collected() {
	defer h.watch()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	busy := now.Sub(h.last) < often
	h.last = now
	if !busy {
		return
	}
	metrics.Read(h.samples)
	h.set(percentFor(h.samples[0].Value.Uint64(), h.samples[1].Value.Uint64()+h.samples[2].Value.Uint64()))
	h.lull.Reset(lull)
}

// percentFor returns by what part of all that is looked at, which is what lives and its roots, the heap grows to roomy;
// never less than usual.
func percentFor(live, roots uint64) int {
	const all, most = 100, 5000
	if live >= roomy {
		return usualPercent
	}
	return int(min(most, max(usualPercent, all*(roomy-live)/(live+roots+1))))
}

// set sets the percentage, unless the one that holds is nearly the same. The caller holds the lock.
func (h *heap) set(percent int) {
	const part = 8
	if near := h.percent / part; percent != usualPercent && h.percent-near < percent && percent < h.percent+near {
		return
	}
	if percent != h.percent {
		debug.SetGCPercent(percent)
		h.percent = percent
	}
}

// idle gives back what the heap has grown by.
func (h *heap) idle() {
	h.mu.Lock()
	grown := h.percent != usualPercent
	h.set(usualPercent)
	h.mu.Unlock()
	if grown {
		debug.FreeOSMemory()
	}
}
