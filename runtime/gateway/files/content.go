package files

import (
	"context"
	"hash/maphash"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/runtime/registry"
)

// Content is where static units lie. Both methods return NotFound for what is not there, or not any more.
type Content interface {
	// Manifest returns the manifest that a unit names (registry.Unit.Manifest). Nobody changes it afterwards.
	Manifest(ctx context.Context, name string) (*Manifest, error)
	// Open returns the object at a key; the caller closes it.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
}

// Manifest lists the files of one version of a static unit by the path at which they are served, decoded and absolute:
// "/static/js/app.js".
type Manifest struct {
	Files map[string]File
}

// File is one file of a manifest.
type File struct {
	Key    string // of the object
	SHA256 landfall.Digest
	Size   int64
	Type   string // the Content-Type
}

// Stored is the Content of an object store.
type Stored struct {
	Objects   assets.Opener
	Manifests *assets.Manifests // of the same store
}

var _ Content = Stored{}

// Manifest implements Content.
func (s Stored) Manifest(ctx context.Context, name string) (*Manifest, error) {
	m, err := s.Manifests.Load(ctx, assets.ParseRef(name))
	if err != nil {
		return nil, err
	}
	files := make(map[string]File, len(m.Files()))
	for _, f := range m.Files() {
		files[f.Path] = File{Key: f.Key, SHA256: f.Digest, Size: f.Size, Type: f.Type}
	}
	return &Manifest{Files: files}, nil
}

// Open implements Content, and packages.Opener.
func (s Stored) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	return s.Objects.Open(ctx, key)
}

// maxListed is how many files the manifests in memory list together; fewManifests is how many are not worth a look.
const (
	maxListed    = 200_000
	fewManifests = 64
)

// maxNoted is how many paths are noted of the manifests of releases that were live before, 4 bytes each.
const maxNoted = 8_000_000

// manifests holds the manifests that were used last. Those of releases that nobody can reach any more are let go
// whenever there are twice as many as were wanted before.
type manifests struct {
	content Content
	table   func() *registry.Table
	kept    *bounded[string, *Manifest]
	noted   *bounded[string, []uint32] // hashes of the paths of loadable files, sorted
	seed    maphash.Seed               // of these hashes
	flights singleflight.Group
	many    atomic.Int64 // from which number on it is looked which are wanted
}

func newManifests(content Content, table func() *registry.Table) *manifests {
	return &manifests{content: content, table: table, kept: newBounded[string, *Manifest](maxListed, nil),
		noted: newBounded[string, []uint32](maxNoted, nil), seed: maphash.MakeSeed()}
}

// sweep lets go of what nobody can reach, if that may be much.
func (m *manifests) sweep() {
	table := m.table()
	if table == nil || int64(m.kept.entries()) <= max(fewManifests, m.many.Load()) {
		return
	}
	reachable := table.Manifests()
	m.noted.retain(func(key string) bool { return reachable[key] })
	m.many.Store(2 * int64(m.kept.retain(func(key string) bool { return reachable[key] })))
}

// at returns the manifest at key.
func (m *manifests) at(ctx context.Context, key string) (*Manifest, error) {
	if manifest, ok := m.kept.get(key); ok {
		return manifest, nil
	}
	return m.load(ctx, key, func(manifest *Manifest) {
		m.kept.add(key, manifest, int64(len(manifest.Files))+1)
		m.sweep()
	})
}

// load reads the manifest at key, once for all who ask for it at the same time, and lets keep have it if there is one.
func (m *manifests) load(ctx context.Context, key string, keep func(*Manifest)) (*Manifest, error) {
	flight := m.flights.DoChan(key, func() (any, error) {
		const patience = time.Minute
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		manifest, err := m.content.Manifest(ctx, key)
		if err == nil {
			keep(manifest)
		}
		return manifest, err
	})
	select {
	case <-ctx.Done():
		return nil, &landfall.Error{Op: "gateway.manifest", Kind: landfall.Canceled, Err: ctx.Err()}
	case result := <-flight:
		manifest, _ := result.Val.(*Manifest)
		return manifest, result.Err
	}
}

// file returns what the release serves at exactly this path: the file of the most specific unit that has it.
func (m *manifests) file(ctx context.Context, release *registry.Release, path string) (File, bool, error) {
	for i := range release.Units {
		unit := &release.Units[i]
		if !covers(unit.Path, path) {
			continue
		}
		manifest, err := m.at(ctx, unit.Manifest)
		if err != nil {
			return File{}, false, err
		}
		if file, ok := manifest.Files[path]; ok {
			return file, true, nil
		}
	}
	return File{}, false, nil
}
