package bench_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
)

// The site of the figures: 10,000 files of 4 KiB, of which a push changes 100.
const (
	siteFiles   = 10_000
	siteChanged = 100
	fileSize    = 4 << 10
)

const branch = landfall.RefName("refs/heads/main")

// workTree is a repository with a static site.
type workTree struct {
	*site.Repository
	random *rand.Rand
	bytes  [][]byte // of each file
	round  int
}

func newWorkTree(b *testing.B, files int) *workTree {
	b.Helper()
	return fillTree(site.NewRepository(b), files)
}

// fillTree is newWorkTree for a repository that is empty.
func fillTree(r *site.Repository, files int) *workTree {
	s := &workTree{Repository: r, random: rand.New(rand.NewPCG(1, 2)), bytes: make([][]byte, files)}
	s.Write("specs/app.yaml", site.AppSpec("bench"))
	for i := range files {
		s.change(i)
	}
	return s
}

// name returns where a file is served.
func name(i int) string { return fmt.Sprintf("/dir%02d/page%05d.html", i%100, i) }

// change gives a file new bytes.
func (s *workTree) change(i int) {
	s.T.Helper()
	data := make([]byte, fileSize)
	for j := range data {
		data[j] = byte('a' + s.random.IntN(26))
	}
	s.bytes[i] = data
	s.Write("site"+name(i), string(data))
}

// changeSome gives every hundredth file new bytes, other ones in each round, and returns which.
func (s *workTree) changeSome() []int {
	s.T.Helper()
	s.round++
	var changed []int
	for i := s.round % (len(s.bytes) / siteChanged); i < len(s.bytes); i += len(s.bytes) / siteChanged {
		s.change(i)
		changed = append(changed, i)
	}
	return changed
}

// commit commits everything.
func (s *workTree) commit() landfall.CommitSHA {
	s.T.Helper()
	return s.Commit(fmt.Sprint("round ", s.round))
}

// push commits everything, and pushes it to the bare repository.
func (s *workTree) push() landfall.CommitSHA {
	s.T.Helper()
	commit := s.commit()
	s.Git("push", "--quiet", "origin", "main")
	return commit
}

// all returns the numbers of all files.
func (s *workTree) all() []int {
	all := make([]int, len(s.bytes))
	for i := range all {
		all[i] = i
	}
	return all
}

// check fails the benchmark unless get returns the bytes of these files.
func (s *workTree) check(files []int, get func(path string) []byte) {
	s.T.Helper()
	for _, i := range files {
		if got := get(name(i)); !bytes.Equal(got, s.bytes[i]) {
			s.T.Fatalf("%s is not what was committed", name(i))
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

// newBare makes an empty bare repository, and the work tree's remote of that name.
func (s *workTree) newBare(remote string) string {
	s.T.Helper()
	bare := &site.Repository{T: s.T, Dir: s.T.TempDir()}
	bare.Git("init", "--quiet", "--bare", "--initial-branch=main")
	bare.Git("config", "gc.auto", "0")
	s.Git("remote", "add", remote, bare.Dir)
	return bare.Dir
}
