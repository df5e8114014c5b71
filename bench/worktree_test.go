package bench_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"landfall.dev/landfall"
)

// The site of the figures: 10,000 files of 4 KiB, of which a push changes 100.
const (
	siteFiles   = 10_000
	siteChanged = 100
	fileSize    = 4 << 10
)

const branch = landfall.RefName("refs/heads/main")

// site is a work tree with a static site.
type site struct {
	b      *testing.B
	dir    string
	random *rand.Rand
	bytes  [][]byte // of each file
	round  int
}

func newSite(b *testing.B, files int) *site {
	b.Helper()
	s := &site{b: b, dir: b.TempDir(), random: rand.New(rand.NewPCG(1, 2)), bytes: make([][]byte, files)}
	run(b, s.dir, "git", "init", "--quiet", "--initial-branch=main")
	run(b, s.dir, "git", "config", "gc.auto", "0")
	s.write("specs/app.yaml", []byte("apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: bench}\nspec:\n  static:\n    - {src: site, path: /}\n"))
	for i := range files {
		s.change(i)
	}
	return s
}

func (s *site) write(name string, data []byte) {
	s.b.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.b.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		s.b.Fatal(err)
	}
}

// name returns where a file is served.
func name(i int) string { return fmt.Sprintf("/dir%02d/page%05d.html", i%100, i) }

// change gives a file new bytes.
func (s *site) change(i int) {
	s.b.Helper()
	data := make([]byte, fileSize)
	for j := range data {
		data[j] = byte('a' + s.random.IntN(26))
	}
	s.bytes[i] = data
	s.write("site"+name(i), data)
}

// changeSome gives every hundredth file new bytes, other ones in each round, and returns which.
func (s *site) changeSome() []int {
	s.b.Helper()
	s.round++
	var changed []int
	for i := s.round % (len(s.bytes) / siteChanged); i < len(s.bytes); i += len(s.bytes) / siteChanged {
		s.change(i)
		changed = append(changed, i)
	}
	return changed
}

// commit commits everything.
func (s *site) commit() landfall.CommitSHA {
	s.b.Helper()
	run(s.b, s.dir, "git", "add", "--all")
	run(s.b, s.dir, "git", "commit", "--quiet", "--message", fmt.Sprint("round ", s.round))
	return landfall.CommitSHA(run(s.b, s.dir, "git", "rev-parse", "HEAD"))
}

// push commits everything, and pushes it to the bare repository.
func (s *site) push() landfall.CommitSHA {
	s.b.Helper()
	commit := s.commit()
	run(s.b, s.dir, "git", "push", "--quiet", "origin", "main")
	return commit
}

// all returns the numbers of all files.
func (s *site) all() []int {
	all := make([]int, len(s.bytes))
	for i := range all {
		all[i] = i
	}
	return all
}

// check fails the benchmark unless get returns the bytes of these files.
func (s *site) check(files []int, get func(path string) []byte) {
	s.b.Helper()
	for _, i := range files {
		if got := get(name(i)); !bytes.Equal(got, s.bytes[i]) {
			s.b.Fatalf("%s is not what was committed", name(i))
		}
	}
}

// inFolder returns what a folder of files has at a path.
func inFolder(b *testing.B, dir string) func(path string) []byte {
	return func(path string) []byte {
		b.Helper()
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
}

// newBare makes an empty bare repository, and the site's remote of that name.
func (s *site) newBare(remote string) string {
	s.b.Helper()
	dir := filepath.Join(s.b.TempDir(), "site.git")
	run(s.b, "", "git", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	run(s.b, dir, "git", "config", "gc.auto", "0")
	run(s.b, s.dir, "git", "remote", "add", remote, dir)
	return dir
}
