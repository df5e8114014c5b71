package bench_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/builder"
)

// counter is a store that counts what is asked of it.
type counter struct {
	assets.Store

	created, opened, other atomic.Int64
}

func (c *counter) Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error) {
	c.created.Add(1)
	return c.Store.Create(ctx, key, r, size)
}

func (c *counter) Open(ctx context.Context, key string) (assets.Object, error) {
	c.opened.Add(1)
	return c.Store.Open(ctx, key)
}

func (c *counter) Delete(ctx context.Context, key string) error {
	c.other.Add(1)
	return c.Store.Delete(ctx, key)
}

func (c *counter) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	c.other.Add(1)
	return c.Store.List(ctx, prefix)
}

// newStore opens an empty folder store.
func newStore(b *testing.B) *counter {
	b.Helper()
	store, err := disk.Open(filepath.Join(b.TempDir(), "objects"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return &counter{Store: store}
}

// objects returns how many objects the store has.
func (c *counter) objects(b testing.TB) int {
	b.Helper()
	n := 0
	for _, err := range c.Store.List(b.Context(), "") {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	return n
}

// upload does all that a push costs between the commit that arrived and the release that can be made of it: list the
// commit's files, select, read the manifest before, plan, store, write the manifest, flush to the disk.
func upload(ctx context.Context, store assets.Store, bare string, commit landfall.CommitSHA, uid landfall.UID,
	before string,
) (m *assets.Manifest, key string, err error) {
	mirrors := &builder.Mirrors{}
	mirror, err := mirrors.Fetch(ctx, builder.Remote{Local: bare}, branch, commit)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, mirror.Close()) }()
	files, err := mirror.Files(ctx, commit, "")
	if err != nil {
		return nil, "", err
	}
	units, _, err := assets.Select([]assets.Rule{{Src: "site", Path: "/"}}, files)
	if err != nil {
		return nil, "", err
	}
	var known []*assets.Manifest
	if before != "" {
		m, err := assets.Load(ctx, store, assets.Ref{Key: before})
		if err != nil {
			return nil, "", err
		}
		known = append(known, m)
	}
	plan := assets.Plan(units[0], assets.Prefix("apps/bench/", "/", uid), known...)
	m, result, err := assets.Uploader{Store: store, Read: mirror.Read}.Upload(ctx, plan)
	if err != nil {
		return nil, "", err
	}
	return m, result.Manifest.Key, store.Sync(ctx)
}

// uploaded uploads a commit, checks that exactly so many files and one manifest were written, that nothing was listed,
// and what is stored for the changed files. It returns the manifest's key and how long the upload took.
func (s *workTree) uploaded(store *counter, bare string, commit landfall.CommitSHA, before string,
	changed []int) (key string, took float64) {
	s.T.Helper()
	had := store.objects(s.T)
	store.created.Store(0)
	store.opened.Store(0)
	var manifest *assets.Manifest
	var err error
	took = timed(func() { manifest, key, err = upload(s.T.Context(), store, bare, commit, landfall.NewUID(), before) })
	if err != nil {
		s.T.Fatal(err)
	}
	created, opened, other, more := store.created.Load(), store.opened.Load(), store.other.Load(), store.objects(s.T)-had
	reads := 0
	if before != "" {
		reads = 1 // the manifest before
	}
	if want := len(changed) + 1; int(created) != want || more != want || int(opened) != reads || other != 0 {
		s.T.Fatalf(
			"got %d files written (%d new ones), %d opened and %d other requests; want %d written, %d opened, no other",
			created, more, opened, other, want, reads)
	}
	if len(changed) > siteChanged {
		changed = some(changed)
	}
	s.check(changed, func(path string) []byte {
		file, ok := manifest.Lookup(path)
		if !ok {
			s.T.Fatalf("nothing is served at %s", path)
		}
		object, err := store.Store.Open(s.T.Context(), file.Key)
		if err != nil {
			s.T.Fatal(err)
		}
		defer object.Close()
		data, err := io.ReadAll(object)
		if err != nil {
			s.T.Fatal(err)
		}
		return data
	})
	return key, took
}

// BenchmarkP6 stores the files of a commit that is on the machine already: ours out of the bare repository, rclone's
// out of a work tree.
func BenchmarkP6(b *testing.B) {
	work := newWorkTree(b, siteFiles)
	bare := work.newBare("origin")
	commit := work.push()
	peer := "rclone sync " + checksum
	first := table.Row(bench.Row{Figure: "P6 first upload of 10,000 files", Unit: "ms", Peer: peer, Target: 0.75})
	some := table.Row(bench.Row{Figure: "P6 upload of 100 of 10,000 files", Unit: "ms", Peer: peer, Floor: 0.5})
	var starts []float64

	source, target := filepath.Join(work.Dir, "site"), b.TempDir()
	sync := func(target string) float64 {
		return timed(func() { run(b, "", "rclone", "sync", checksum, source, target) })
	}
	store := newStore(b)
	key, _ := work.uploaded(store, bare, commit, "", work.all())
	sync(target)
	for b.Loop() {
		_, ours := work.uploaded(newStore(b), bare, commit, "", work.all())
		empty := b.TempDir()
		first.Add(ours, sync(empty))
		work.check(work.all(), inFolder(b, empty))

		changed := work.changeSome()
		commit = work.push()
		key, ours = work.uploaded(store, bare, commit, key, changed)
		some.Add(ours, sync(target))
		work.check(changed, inFolder(b, target))
		starts = append(starts, timed(func() { run(b, "", "rclone", "version") }))
	}
	table.Notef("P6: %s. Ours reads the commit out of git and ends with a flush to the disk; rclone reads plain files "+
		"and flushes nothing; %.0f %% of its time for 100 files are the start of its process.",
		version(b, "rclone", "version"), 100*bench.Quantile(starts, 0.5)/bench.Quantile(some.Theirs, 0.5))
	table.Notef("P6: in each round exactly 100 files and 1 manifest were written, 1 manifest read, nothing listed, " +
		"headed or copied.")
	summarize(b, some)
}
