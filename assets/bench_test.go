package assets_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
)

// The site of the benchmarks: 10,000 files of about 4 KiB, of which a push changes 100.
const (
	siteFiles   = 10_000
	siteChanged = 100
)

// site is a made-up commit: its bytes by git's blob name.
type site struct {
	files []landfall.File
	bytes map[string][]byte
}

func newSite() *site {
	s := &site{bytes: map[string][]byte{}}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range siteFiles {
		s.files = append(s.files, landfall.File{Path: fmt.Sprintf("build/dir%02d/page%05d.html", i%100, i)})
		s.change(i, random)
	}
	return s
}

// change gives a file new bytes.
func (s *site) change(i int, random *rand.Rand) {
	data := make([]byte, 3<<10+random.IntN(2<<10))
	for j := range data {
		data[j] = byte('a' + random.IntN(26))
	}
	name := landfall.DigestOf(data).Hex()[:40]
	s.files[i].Blob, s.files[i].Size = name, int64(len(data))
	s.bytes[name] = data
}

func (s *site) read(_ context.Context, file landfall.File) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s.bytes[file.Blob])), nil
}

// push does all that a push costs here: select, plan against the manifest before, upload, and make it durable.
func (s *site) push(b *testing.B, store assets.Store, uid landfall.UID, before ...*assets.Manifest) *assets.Manifest {
	b.Helper()
	units, _, err := assets.Select([]assets.Rule{{Src: "build", Path: "/"}}, s.files)
	if err != nil {
		b.Fatal(err)
	}
	plan := assets.Plan(units[0], assets.Prefix("apps/default/bench/", "/", uid), before...)
	manifest, _, err := assets.Uploader{Store: store, Read: s.read}.Upload(b.Context(), plan)
	if err != nil {
		b.Fatal(err)
	}
	if err := store.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	return manifest
}

func openStore(tb testing.TB) *disk.Store {
	tb.Helper()
	store, err := disk.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return store
}

// BenchmarkFirstUpload is the first push of the site, to be put beside `rclone sync --checksum`.
func BenchmarkFirstUpload(b *testing.B) {
	s := newSite()
	for b.Loop() {
		b.StopTimer()
		store := openStore(b)
		b.StartTimer()
		s.push(b, store, "aaaaaaaa")
	}
}

// BenchmarkOnePercent is a push that changes 100 of the 10,000 files, with the manifest before read from the store.
func BenchmarkOnePercent(b *testing.B) {
	s, store := newSite(), openStore(b)
	s.push(b, store, "aaaaaaaa")
	random := rand.New(rand.NewPCG(3, 4))
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for i := range siteChanged {
			s.change(i*siteFiles/siteChanged, random)
		}
		b.StartTimer()
		before, err := assets.Load(b.Context(), store,
			assets.Ref{Key: assets.Prefix("apps/default/bench/", "/", "aaaaaaaa") + ".manifest.json"})
		if err != nil {
			b.Fatal(err)
		}
		s.push(b, store, landfall.UID(fmt.Sprintf("b%07d", n)), before)
	}
}

// BenchmarkManifest encodes and decodes the site's manifest.
func BenchmarkManifest(b *testing.B) {
	manifest := newSite().push(b, openStore(b), "aaaaaaaa")
	data, err := manifest.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := manifest.Encode(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := assets.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
