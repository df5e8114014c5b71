package assets

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// The most manifests that are kept in memory, and the most files that they list together. One is always kept.
const (
	maxKept      = 64
	maxKeptFiles = 50_000
)

// Manifests reads manifests, and keeps those that were used last: to read one takes longer than to store a small change.
// Its methods can be called concurrently.
type Manifests struct {
	Store Opener

	mu   sync.Mutex
	kept []keptManifest // the one that was used last is the first
}

type keptManifest struct {
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
	if i := slices.IndexFunc(m.kept, func(k keptManifest) bool { return k.ref == ref }); i >= 0 {
		manifest = cmp.Or(manifest, m.kept[i].manifest)
		m.kept = slices.Delete(m.kept, i, i+1)
	}
	if manifest == nil {
		return nil
	}
	m.kept = slices.Insert(m.kept, 0, keptManifest{ref, manifest})
	files := 0
	for i, k := range m.kept {
		files += len(k.manifest.files)
		if i > 0 && (i == maxKept || files > maxKeptFiles) {
			m.kept = slices.Delete(m.kept, i, len(m.kept))
			break
		}
	}
	return manifest
}
