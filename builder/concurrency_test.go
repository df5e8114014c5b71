package builder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
)

// Fetches one after the other, packs being joined meanwhile, and readers that were there before all of it.
func TestFetchReadAndJoinAtOnce(t *testing.T) {
	t.Parallel()
	const pushes, readers = 55, 2
	origin := newRepository(t)
	large := strings.Repeat("a large file that is read while packs come and go\n", 8_000)
	contents := func(i int) map[string]string {
		return map[string]string{"index.html": fmt.Sprint("page ", i), "large.txt": large,
			fmt.Sprintf("old/%d.txt", i): fmt.Sprint(i)}
	}
	commits := []landfall.CommitSHA{origin.commit(contents(0))}
	origin.set(mainRef, commits[0])
	first := commits[0]
	s := origin.serve(t)
	m := mirrors(t, s)
	early := fetch(t, m, s.remote(), mainRef, first)
	slow, err := early.Read(t.Context(), list(t, early, first)["large.txt"])
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()

	for i := 1; i <= pushes; i++ {
		c := origin.commit(contents(i), commits[i-1])
		commits = append(commits, c)
		origin.set(mainRef, c)
		var both sync.WaitGroup
		for range 2 { // two runs of the same push
			both.Go(func() {
				mirror, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
				if err != nil {
					t.Errorf("Fetch of push %d: %v", i, err)
					return
				}
				defer mirror.Close()
				// L-004: two runs at once both get their commit
				if got := read(t, mirror, list(t, mirror, c)["index.html"]); got != fmt.Sprint("page ", i) {
					t.Errorf("push %d gives %q", i, got)
				}
			})
		}
		for range readers {
			both.Go(func() {
				// L-004: runs share the mirror: a reader that was there first is not disturbed by fetches and joins
				if got := read(t, early, list(t, early, first)["index.html"]); got != "page 0" {
					t.Errorf("an early reader got %q", got)
				}
			})
		}
		both.Wait()
	}

	var whole strings.Builder
	buffer := make([]byte, 8<<10)
	for {
		n, err := slow.Read(buffer)
		whole.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	if whole.String() != large {
		t.Errorf("the large file was opened before and read after: got %d bytes, want %d", whole.Len(), len(large))
	}
	dir := onlyMirror(t, m)
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) > 51 {
		t.Errorf("there are %d packs, %v; want at most 51", len(packs), err)
	}
	for i, c := range commits {
		if got := read(t, early, list(t, early, c)["index.html"]); got != fmt.Sprint("page ", i) {
			t.Errorf("at the end commit %d gives %q", i, got)
		}
	}
	runGit(t, dir, nil, "fsck", "--full")
}

// A process that is killed in a fetch leaves temporary files, a half-made mirror, or a pack without index.
func TestFetchAfterAKill(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	s := origin.serve(t)
	m := mirrors(t, s)
	fetch(t, m, s.remote(), mainRef, c)
	dir := onlyMirror(t, m)
	write := func(path string) {
		if err := os.WriteFile(filepath.Join(dir, path), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("objects/pack/tmp_pack_1234")
	write("objects/pack/tmp_idx_1234")
	write("packed-refs.new")
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.idx"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("got indexes %v, %v", packs, err)
	}
	if err := os.Remove(packs[0]); err != nil { // killed between the two renames
		t.Fatal(err)
	}
	mirror := fetch(t, m, s.remote(), mainRef, c)
	if got := read(t, mirror, list(t, mirror, c)["a"]); got != "1" {
		t.Errorf("got %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "tmp_*")); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	packs, err = filepath.Glob(filepath.Join(dir, "objects", "pack", "*.idx"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("got indexes %v, %v", packs, err)
	}
	if err := os.Remove(packs[0]); err != nil { // the machine lost power
		t.Fatal(err)
	}
	write(strings.TrimPrefix(packs[0], dir))
	mirror = fetch(t, m, s.remote(), mainRef, c)
	if got := read(t, mirror, list(t, mirror, c)["a"]); got != "1" {
		t.Errorf("after a broken index: got %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "HEAD")); err != nil { // killed while the mirror was made
		t.Fatal(err)
	}
	fetch(t, m, s.remote(), mainRef, c)
}

// What is stored whole is streamed; a small change of a large file is stored as a delta.
func TestReadOfDeltasAndLooseObjects(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	var lines strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&lines, "line %d of a file that changes a little\n", i)
	}
	text := lines.String()
	var parent []landfall.CommitSHA
	var commits []landfall.CommitSHA
	contents := func(i int) string { return strings.Replace(text, "line 77 ", fmt.Sprintf("line 77 (%d) ", i), 1) }
	for i := range 12 {
		c := origin.commit(map[string]string{"big.txt": contents(i), "small.txt": fmt.Sprint(i)}, parent...)
		parent = []landfall.CommitSHA{c}
		commits = append(commits, c)
	}
	origin.set(mainRef, commits[11])
	s := origin.serve(t)
	check := func(name string, get func(int) (string, int64)) {
		for i := range commits {
			if got, size := get(i); got != contents(i) || size != int64(len(got)) {
				t.Errorf("%s: big.txt of commit %d has %d bytes, says %d, want %d", name, i, len(got), size, len(contents(i)))
			}
		}
	}
	m := mirrors(t, s)
	loose := fetch(t, m, origin.local(), mainRef, commits[11])
	get := func(i int) (string, int64) {
		f := list(t, loose, commits[i])["big.txt"]
		return read(t, loose, f), f.Size
	}
	check("loose", get)
	external := fetch(t, m, s.remote(), mainRef, commits[11])
	check("fetched", func(i int) (string, int64) {
		f := list(t, external, commits[i])["big.txt"]
		return read(t, external, f), f.Size
	})
	origin.git("repack", "-adfq", "--depth=50", "--window=20")
	if got := origin.git("count-objects"); !strings.HasPrefix(got, "0 ") {
		t.Fatalf("objects are still loose: %s", got)
	}
	check("packed while open", get)
	ctx, cancel := newCancel(t)
	r, err := external.Read(ctx, list(t, external, commits[0])["big.txt"])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	_, err = r.Read(make([]byte, 10))
	wantError(t, err, landfall.Canceled)
}
