package pack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
)

// holds checks that the repository has these objects, and that each reads as what its name says.
func holds(t *testing.T, dir string, names []plumbing.Hash) {
	t.Helper()
	o, err := pack.Open(dir, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, name := range names {
		kind, err := o.Kind(name)
		if err != nil {
			t.Fatalf("Kind of %s: %v", name, err)
		}
		if data, err := o.Read(t.Context(), kind, name); err != nil || plumbing.ComputeHash(kind, data) != name {
			t.Errorf("%s %s reads as something else: %v", kind, name, err)
		}
	}
}

func blobName(data []byte) plumbing.Hash { return plumbing.ComputeHash(plumbing.BlobObject, data) }

func TestChainOfLargeDeltasTakesTheMemoryOfOne(t *testing.T) {
	t.Parallel()
	const deltas, inserts = 20, 72 << 10 // each of 9 MiB, which no cache of bases takes
	inserted := bytes.Repeat(append([]byte{127}, make([]byte, 127)...), inserts)
	data := make([]byte, inserts*127+1)
	f := new(forge).add(plumbing.BlobObject, 1, nil, []byte("x"))
	base := uint64(1)
	for i := range deltas {
		f.delta(i, base, uint64(len(data)), append(inserted, 1, byte(i)))
		base = uint64(len(data))
	}
	data[len(data)-1] = deltas - 1
	if most := peak(t, f.bytes(), blobName(data).String()); most > 130 {
		t.Errorf("%d deltas of 9 MiB took %d MiB of memory at once", deltas, most)
	}
}

func TestDeltasThatTakeTooMuch(t *testing.T) {
	t.Parallel()
	const object, deltas = 1 << 20, 600 // 600 MiB, where one chain may take 512
	for name, base := range map[string]func(i int) int{
		"a chain":           func(i int) int { return i },
		"many of one":       func(i int) int { return min(i, 1) },
		"many short chains": func(i int) int { return i - i%100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := new(forge).add(plumbing.BlobObject, object, nil, make([]byte, object))
			for i := range deltas {
				f.delta(base(i), object, object, bytes.Repeat([]byte{0x80}, object>>16)) // 64 KiB each, of the base
			}
			dir := repository(t)
			err := pack.Receive(t.Context(), dir, bytes.NewReader(f.bytes()), pack.Limits{Objects: 1 << 20, Object: object})
			large, ok := errors.AsType[*pack.TooLargeError](err)
			if !ok || !large.Deltas || large.Limit > 600<<20 || large.Figure <= large.Limit {
				t.Fatalf("got %v, want that the deltas take more than some 512 MiB", err)
			}
			if ofOne := large.Limit == 512<<20; ofOne != (name == "a chain") {
				t.Errorf("the limit is %d bytes", large.Limit)
			}
			if !strings.Contains(err.Error(), strconv.FormatInt(large.Limit, 10)) {
				t.Errorf("%q does not name the limit, %d", err, large.Limit)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "objects", "pack")); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// What git itself receives, as the built-in remote does, was never in our hands before it is read.
func TestReadOfAChainThatTakesTooMuch(t *testing.T) {
	t.Parallel()
	const size, deltas = 64 << 10, 600
	f := new(forge).add(plumbing.BlobObject, size, nil, make([]byte, size))
	var data []byte
	for i := range deltas {
		f.delta(i, size, size, []byte{0xb0, 0xfe, 0xff, 2, byte(i), byte(i >> 8)})
		data = append(make([]byte, size-2), byte(i), byte(i>>8))
	}
	dir := repository(t)
	git(t, dir, f.bytes(), "index-pack", "--stdin")
	o, err := pack.Open(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	_, err = o.Read(t.Context(), plumbing.BlobObject, blobName(data))
	if large, ok := errors.AsType[*pack.TooLargeError](err); !ok || !large.Deltas || large.Limit != 512*size {
		t.Errorf("got %v, want that the deltas take more than %d bytes", err, 512*size)
	}
}

// ending is a context that ends when it was asked that often.
type ending int

func (*ending) Deadline() (at time.Time, ok bool) { return at, false }
func (*ending) Done() <-chan struct{}             { return nil }
func (*ending) Value(any) any                     { return nil }

func (e *ending) Err() error {
	*e--
	if *e < 0 {
		return context.Canceled
	}
	return nil
}

func TestReadEndsWithItsContextWithinAChain(t *testing.T) {
	t.Parallel()
	f := new(forge).add(plumbing.BlobObject, 5, nil, []byte("hello"))
	const deltas = 100
	for i := range deltas {
		f.delta(i, uint64(5+i), uint64(6+i), []byte{0x90, byte(5 + i), 1, 'x'})
	}
	dir := repository(t)
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(f.bytes()), limits()); err != nil {
		t.Fatal(err)
	}
	name := blobName([]byte("hello" + strings.Repeat("x", deltas)))
	o, err := pack.Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ctx := ending(deltas / 2)
	if _, err := o.Read(&ctx, plumbing.BlobObject, name); !errors.Is(err, context.Canceled) {
		t.Errorf("half of a chain after the context ended: got %v, want context canceled", err)
	}
	holds(t, dir, []plumbing.Hash{name})
}

// Each object is the base of two, so more of them are needed again than may wait.
func TestReceiveOfABush(t *testing.T) {
	t.Parallel()
	const size, objects = 32 << 10, 1 << 9
	f := new(forge).add(plumbing.BlobObject, size, nil, make([]byte, size))
	contents := [][]byte{make([]byte, size)}
	names := []plumbing.Hash{blobName(contents[0])}
	for i := 1; i < objects; i++ {
		base := (i - 1) / 2
		// all but its first two bytes, and two more
		f.delta(base, size, size, []byte{0xb1, 2, 0xfe, 0x7f, 2, byte(i), byte(i >> 8)})
		contents = append(contents, append(slices.Clone(contents[base][2:]), byte(i), byte(i>>8)))
		names = append(names, blobName(contents[i]))
	}
	dir := repository(t)
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(f.bytes()),
		pack.Limits{Objects: objects, Object: size}); err != nil {
		t.Fatal(err)
	}
	git(t, dir, nil, "fsck", "--full")
	holds(t, dir, names)
}

func TestDeepChainsOfGit(t *testing.T) {
	t.Parallel()
	origin := repository(t)
	var stream bytes.Buffer
	var lines []string
	for i := range 600 { // the further apart two commits are, the more do they differ
		lines = append(lines, fmt.Sprintf("%x\n", sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
	}
	for i := range 300 {
		text := strings.Join(lines[i:i+300], "")
		fmt.Fprintf(&stream,
			"commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\nM 100644 inline f\ndata %d\n%s\n", 1700000000+i,
			len(text), text)
	}
	git(t, origin, stream.Bytes(), "fast-import", "--quiet")
	git(t, origin, nil, "-c", "gc.aggressiveDepth=250", "-c", "gc.aggressiveWindow=2", "gc", "-q", "--aggressive")
	deep := git(t, origin, []byte("refs/heads/main\n"), "pack-objects", "--stdout", "-q", "--revs", "--delta-base-offset",
		"--depth=250")
	var names []plumbing.Hash
	for line := range strings.Lines(string(git(t, origin, nil, "rev-list", "--objects", "--all"))) {
		names = append(names, plumbing.NewHash(line[:40]))
	}
	holds(t, origin, names)
	dir := repository(t)
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(deep), limits()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, names)
	found, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*.idx"))
	verified := git(t, dir, nil, "verify-pack", "-v", found[0])
	if !regexp.MustCompile(`chain length = (1\d\d|2\d\d):`).Match(verified) {
		t.Error("git made no chain of 100 deltas")
	}
}

// A thin pack has deltas of what is not in it. Git completes it, as the built-in remote does; we never ask for one.
func TestThinPacks(t *testing.T) {
	t.Parallel()
	packed, names := history(t, 3, 20)
	origin, dir := repository(t), repository(t)
	git(t, origin, packed, "index-pack", "--stdin")
	commits := strings.Fields(string(git(t, origin, nil, "rev-list", names[0].String())))
	old := git(t, origin, []byte(commits[5]+"\n"), "pack-objects", "--stdout", "-q", "--revs", "--delta-base-offset")
	thin := git(t, origin, []byte(commits[0]+"\n^"+commits[5]+"\n"), "pack-objects", "--stdout", "-q", "--revs", "--thin")
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(old), limits()); err != nil {
		t.Fatal(err)
	}
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(thin), limits()); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	git(t, dir, thin, "index-pack", "--stdin", "--fix-thin")
	holds(t, dir, names)
}
