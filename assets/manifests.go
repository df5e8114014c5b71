package assets

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// The most manifests that are kept in memory, and the most files that they list together. One is always kept.
const (
	maxCached      = 64
	maxCachedFiles = 50_000
)

// Manifests reads manifests, and keeps those that were used last: to read one takes longer than to store a small change.
// Its methods can be called concurrently.
type Manifests struct {
	Store Opener

	mu     sync.Mutex
	cached []cachedManifest // the one that was used last is the first
}

type cachedManifest struct {
	ref      Ref
	manifest *Manifest
}

// Load returns the manifest that ref names. It may be deleted since it was read.
func (m *Manifests) Load(ctx context.Context, ref Ref) (*Manifest, error) {
	if kept := m.use(ref, nil); kept != nil {
		return kept, nil
	}
	manifest, err := Load(ctx, m.Store, ref)
	if err == nil {
		m.Keep(ref, manifest)
	}
	return manifest, err
}

// Keep notes what was stored.
func (m *Manifests) Keep(ref Ref, manifest *Manifest) { m.use(ref, manifest) }

// use makes the manifest of ref the first of those that are kept, and returns it: a new one, or with nil the one that is
// kept, if any.
func (m *Manifests) use(ref Ref, manifest *Manifest) *Manifest {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.cached, func(k cachedManifest) bool { return k.ref == ref }); i >= 0 {
		manifest = cmp.Or(manifest, m.cached[i].manifest)
		m.cached = slices.Delete(m.cached, i, i+1)
	}
	if manifest == nil {
		return nil
	}
	m.cached = slices.Insert(m.cached, 0, cachedManifest{ref, manifest})
	files := 0
	for i, k := range m.cached {
		files += len(k.manifest.files)
		if i > 0 && (i == maxCached || files > maxCachedFiles) {
			m.cached = slices.Delete(m.cached, i, len(m.cached))
			break
		}
	}
	return manifest
}
