package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/registry"
)

const (
	tidyInterval = time.Minute
	// keepUnneeded is how long a function stays that no release has any more: a request may still be on its way to it.
	keepUnneeded = 2 * time.Minute
	// keepUnused is how long a function stays that nobody calls. Its next call unpacks its package again.
	keepUnused = 24 * time.Hour
)

// Tidy forgets the functions that no release of the newest table has any more, and those that nobody calls, until ctx
// ends.
func (h *Host) Tidy(ctx context.Context, table func() *registry.Table) error {
	tick := time.NewTicker(tidyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := h.tidy(now, table().Functions()); err != nil {
				h.Logger.WarnContext(ctx, "unpacked packages stay", "error", err)
			}
		}
	}
}

// tidy forgets the functions that have not been needed for a while and that do nothing. The needed ones are given by
// their IDs.
func (h *Host) tidy(now time.Time, needed map[string]*landfall.Function) error {
	h.forgetUnneeded(now, needed)
	inherited := h.inherited(now, needed)
	return h.Packages.Keep(func() map[string]bool {
		folders := h.folders()
		maps.Copy(folders, inherited)
		return folders
	})
}

// inherited returns the folders of functions that an earlier start of the server unpacked and nobody has called since:
// they stay as long as those that were called once, while there is room for all.
func (h *Host) inherited(now time.Time, needed map[string]*landfall.Function) map[string]bool {
	var all int64
	for _, size := range h.Packages.Sizes() {
		all += size
	}
	if now.Sub(h.began) >= keepUnused || (h.MaxBytes > 0 && all > h.MaxBytes) {
		return nil
	}
	folders := map[string]bool{}
	for _, f := range needed {
		if env, err := environment.Of(f.Environment); err == nil {
			folders[folderOf(f, env)] = true
		}
	}
	return folders
}

func (h *Host) forgetUnneeded(now time.Time, needed map[string]*landfall.Function) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.ready {
		_, has := needed[id]
		switch {
		case has:
			p.unneeded = time.Time{}
		case p.unneeded.IsZero():
			p.unneeded = now
		case now.Sub(p.unneeded) >= keepUnneeded && p.calls == 0:
			h.forget(id)
		}
	}
	h.forgetUnused(now)
}

// forget ends what runs of a function, which its next call places again. The caller holds the lock.
func (h *Host) forget(id string) {
	h.Runner.Forget(id)
	delete(h.ready, id)
	h.Redactors.set(id, nil)
}

// forgetUnused forgets functions of which nothing runs, those that were not called for longest first: what was not
// called for long, and what has more than its share of the disk. The caller holds the lock.
func (h *Host) forgetUnused(now time.Time) {
	sizes, users := h.Packages.Sizes(), map[string]int{}
	var all int64
	for _, size := range sizes {
		all += size
	}
	var unused []string
	for id, p := range h.ready {
		users[p.folder]++
		processes, _ := h.Runner.Count(id)
		if p.calls == 0 && processes == 0 && now.Sub(p.used) >= keepUnneeded {
			unused = append(unused, id)
		}
	}
	slices.SortFunc(unused, func(a, b string) int { return h.ready[a].used.Compare(h.ready[b].used) })
	for _, id := range unused {
		p := h.ready[id]
		if now.Sub(p.used) < keepUnused && (h.MaxBytes == 0 || all <= h.MaxBytes) {
			return
		}
		users[p.folder]--
		if users[p.folder] == 0 {
			all -= sizes[p.folder]
		}
		h.forget(id)
	}
}

// folders returns those of the package cache that a process runs in, or is about to.
func (h *Host) folders() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	folders := map[string]bool{}
	for _, p := range h.ready {
		folders[p.folder] = true
	}
	for folder := range h.opening {
		folders[folder] = true
	}
	return folders
}
