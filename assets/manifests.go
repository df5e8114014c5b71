package assets

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// These bound how many manifests are kept in memory, and how many files they have together. One manifest is always
// kept.
const (
	maxCached      = 64
	maxCachedFiles = 50_000
)

// Manifests reads manifests, and keeps those that were used last, because reading one takes longer than storing a small
// change. Its methods can be called concurrently.
type Manifests struct {
	Store Opener

	mu     sync.Mutex
	cached []cachedManifest // the one that was used last is first
}

type cachedManifest struct {
	ref      Ref
	manifest *Manifest
}

// Load returns the manifest that ref names. It may have been deleted since it was read.
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

// Keep adds a manifest that was just stored.
func (m *Manifests) Keep(ref Ref, manifest *Manifest) { m.use(ref, manifest) }

// use puts the manifest of ref in the first place, and returns it: the given one, or, when it is nil, the cached one,
// if any.
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
