package builder_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

// The repository of the benchmarks: 10,000 YAML files in 100 folders, 500 commits of 40 changes.
const (
	benchFiles   = 10_000
	benchCommits = 500
	benchChanges = 40
)

// benchRepository returns a served repository, and its branch's commit.
func benchRepository(b *testing.B) (origin *repository, s *server, head landfall.CommitSHA) {
	b.Helper()
	origin = newRepository(b)
	var stream bytes.Buffer
	for i := range benchCommits {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\n", 1700000000+i)
		changed := func(f int) bool {
			return i == 0 || f >= i*benchChanges%benchFiles && f < i*benchChanges%benchFiles+benchChanges
		}
		for f := range benchFiles {
			if changed(f) {
				text := fmt.Sprintf("kind: Thing\nname: thing-%d\nrevision: %d\nsum: %x\nlist:\n%s", f, i, f*7919+i,
					strings.Repeat(fmt.Sprintf("  - item-%d\n", f%97), 10+f%30))
				fmt.Fprintf(&stream, "M 100644 inline d%02d/s%d/f%d.yaml\ndata %d\n%s\n", f%100, f%5, f, len(text), text)
			}
		}
	}
	runGit(b, origin.dir, stream.Bytes(), "fast-import", "--quiet")
	origin.git("repack", "-adq")
	head = landfall.CommitSHA(origin.git("rev-parse", "refs/heads/main"))
	s = origin.serve(b)
	return origin, s, head
}

func BenchmarkClone(b *testing.B) {
	_, s, head := benchRepository(b)
	b.Run("landfall", func(b *testing.B) {
		for b.Loop() {
			m := mirrors(b, s)
			closeNow(b, m, s.remote(), head)
			if err := m.Sweep(b.Context(), wanting()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("git", func(b *testing.B) {
		for b.Loop() {
			dir := filepath.Join(b.TempDir(), "x.git")
			runGit(b, "", nil, "clone", "-q", "--mirror", s.remote().URL, dir)
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func closeNow(b *testing.B, m *builder.Mirrors, r builder.Remote, c landfall.CommitSHA) {
	b.Helper()
	mirror, err := m.Fetch(b.Context(), r, mainRef, c)
	if err != nil {
		b.Fatal(err)
	}
	if err := mirror.Close(); err != nil {
		b.Fatal(err)
	}
}

// Every round fetches one more commit. The mirrors stay small: what joining costs is in the figure.
func BenchmarkFetchOneCommit(b *testing.B) {
	origin, s, head := benchRepository(b)
	parent := head
	push := func(b *testing.B, i int) landfall.CommitSHA {
		b.Helper()
		blob := origin.blob(fmt.Sprint("pushed ", parent, i))
		tree := origin.git("rev-parse", string(parent)+"^{tree}")
		index := fmt.Sprintf("040000 tree %s\tsub\n100644 blob %s\tpushed.txt\n", tree, blob)
		parent = origin.commitTree(runGit(b, origin.dir, []byte(index), "mktree"), "one more", parent)
		origin.set(mainRef, parent)
		return parent
	}
	b.Run("landfall", func(b *testing.B) {
		m := mirrors(b, s)
		closeNow(b, m, s.remote(), parent)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			c := push(b, i)
			b.StartTimer()
			closeNow(b, m, s.remote(), c)
		}
	})
	b.Run("git", func(b *testing.B) {
		dir := filepath.Join(b.TempDir(), "x.git")
		runGit(b, "", nil, "clone", "-q", "--mirror", s.remote().URL, dir)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			push(b, i)
			b.StartTimer()
			runGit(b, dir, nil, "-c", "gc.auto=0", "fetch", "-q")
		}
	})
}

func BenchmarkFiles(b *testing.B) {
	_, s, head := benchRepository(b)
	m := mirrors(b, s)
	closeNow(b, m, s.remote(), head)
	b.Run("landfall", func(b *testing.B) {
		for b.Loop() {
			mirror, err := m.Fetch(b.Context(), s.remote(), mainRef, head)
			if err != nil {
				b.Fatal(err)
			}
			files, err := mirror.Files(b.Context(), head, "")
			if err != nil || len(files) != benchFiles {
				b.Fatalf("got %d files, %v", len(files), err)
			}
			if err := mirror.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	dir := onlyMirror(b, m)
	b.Run("git", func(b *testing.B) {
		for b.Loop() {
			runGit(b, dir, nil, "ls-tree", "-r", "-l", "-z", string(head))
		}
	})
}

func BenchmarkReadAll(b *testing.B) {
	_, s, head := benchRepository(b)
	m := mirrors(b, s)
	mirror := fetch(b, m, s.remote(), mainRef, head)
	files, err := mirror.Files(b.Context(), head, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("landfall", func(b *testing.B) {
		for b.Loop() {
			for _, f := range files {
				r, err := mirror.Read(b.Context(), f)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r); err != nil {
					b.Fatal(err)
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	dir := onlyMirror(b, m)
	b.Run("git", func(b *testing.B) {
		for b.Loop() {
			runGit(b, dir, nil, "archive", "--format=tar", "-o", os.DevNull, string(head))
		}
	})
}
