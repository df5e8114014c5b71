package pack_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

func git(tb testing.TB, dir string, stdin []byte, args ...string) []byte {
	tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return out
}

func repository(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	git(tb, dir, nil, "init", "-q", "--bare", ".")
	return dir
}

// history returns a pack of commits commits in which one of files files changes a little each time, and all object
// names.
func history(tb testing.TB, files, commits int) (packed []byte, names []plumbing.Hash) {
	tb.Helper()
	dir := repository(tb)
	var stream bytes.Buffer
	body := strings.Repeat("a line that all have\n", 200)
	for i := range commits {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\n", 1700000000+i)
		for f := range files {
			if i == 0 || f == i%files {
				text := fmt.Sprintf("file %d\n%scommit %d\n", f, body, i)
				fmt.Fprintf(&stream, "M 100644 inline d%d/f%d\ndata %d\n%s\n", f%7, f, len(text), text)
			}
		}
	}
	git(tb, dir, stream.Bytes(), "fast-import", "--quiet")
	list := git(tb, dir, nil, "rev-list", "--objects", "--all")
	for line := range strings.Lines(string(list)) {
		names = append(names, plumbing.NewHash(line[:40]))
	}
	packed = git(tb, dir, list, "pack-objects", "--stdout", "-q", "--delta-base-offset", "--depth=50", "--window=10")
	return packed, names
}

func limits() pack.Limits { return pack.Limits{Objects: 1 << 20, Object: 16 << 20} }

func TestReceiveWritesWhatGitWrites(t *testing.T) {
	t.Parallel()
	packed, names := history(t, 40, 60)
	ours, theirs := repository(t), filepath.Join(t.TempDir(), "x.pack")
	if err := pack.Receive(t.Context(), ours, bytes.NewReader(packed), limits()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, "", nil, "index-pack", theirs)
	want, err := os.ReadFile(strings.TrimSuffix(theirs, ".pack") + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(ours, "objects/pack/*.idx"))
	if len(found) != 1 {
		t.Fatalf("got indexes %v, want one", found)
	}
	got, err := os.ReadFile(found[0])
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the index differs from git's (%d and %d bytes, %v)", len(got), len(want), err)
	}
	git(t, ours, nil, "fsck", "--full", "--strict")
	o, err := pack.Open(ours, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, name := range names {
		kind, err := o.Kind(name)
		if err != nil {
			t.Fatalf("Kind of %s: %v", name, err)
		}
		data, err := o.Read(t.Context(), kind, name)
		if err != nil || plumbing.ComputeHash(kind, data) != name {
			t.Errorf("%s %s reads as something else: %v", kind, name, err)
		}
		if size, err := o.Size(name); err != nil || size != int64(len(data)) || !o.Has(name) {
			t.Errorf("%s has size %d, %v; want %d", name, size, err, len(data))
		}
	}
	if o.Has(plumbing.ZeroHash) {
		t.Error("an object that is not there is there")
	}
}

func TestJoinLosesNothing(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	var all []plumbing.Hash
	for i := range 6 {
		packed, names := history(t, 3+i, 10+i)
		if err := pack.Receive(t.Context(), dir, bytes.NewReader(packed), limits()); err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	exclusive := 0
	for range 2 { // the second time there is nothing to do
		err := pack.Join(t.Context(), dir, func(f func() error) error { exclusive++; return f() })
		if err != nil {
			t.Fatal(err)
		}
	}
	o, err := pack.Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Packs() != 2 || exclusive != 1 {
		t.Errorf("got %d packs after %d exclusive parts, want 2 after 1", o.Packs(), exclusive)
	}
	for _, name := range all {
		kind, err := o.Kind(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if data, err := o.Read(t.Context(), kind, name); err != nil || plumbing.ComputeHash(kind, data) != name {
			t.Errorf("%s reads as something else: %v", name, err)
		}
	}
	git(t, dir, nil, "fsck", "--full")
}

// forge builds packs that no honest program writes.
type forge struct {
	body    bytes.Buffer
	count   uint32
	offsets []int
	z       *zlib.Writer
}

func (f *forge) offset() int { return 12 + f.body.Len() }

// add appends an entry. prefix is what stands between header and data.
func (f *forge) add(kind plumbing.ObjectType, size int64, prefix, data []byte) *forge {
	f.offsets = append(f.offsets, f.offset())
	f.count++
	c := byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		f.body.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	f.body.WriteByte(c)
	f.body.Write(prefix)
	if f.z == nil { // to make one costs more than what most entries take
		f.z = zlib.NewWriter(nil)
	}
	f.z.Reset(&f.body)
	_, _ = f.z.Write(data)
	_ = f.z.Close()
	return f
}

// delta appends a delta to the entry at that number that says it makes result bytes out of base.
func (f *forge) delta(base int, baseSize, result uint64, commands []byte) *forge {
	data := slices.Concat(binary.AppendUvarint(nil, baseSize), binary.AppendUvarint(nil, result), commands)
	return f.add(plumbing.OFSDeltaObject, int64(len(data)), distance(f.offset()-f.offsets[base]), data)
}

// distance encodes the way to a base.
func distance(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

func (f *forge) bytes() []byte { return seal(f.count, f.body.Bytes()) }

func seal(count uint32, body []byte) []byte {
	data := append(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count), body...)
	sum := hash.New(crypto.SHA1)
	_, _ = sum.Write(data)
	return sum.Sum(data)
}

func TestReceiveRefusesHostilePacks(t *testing.T) {
	t.Parallel()
	blob := []byte("hello")
	const object = 1 << 20
	good := func() *forge { return new(forge).add(plumbing.BlobObject, 5, nil, blob) }
	chain := func(n int) []byte {
		f := good()
		for i := range n {
			f.delta(i, 5, 5, []byte{0x90, 5})
		}
		return f.bytes()
	}
	zeros := make([]byte, 8<<20)
	copies := bytes.Repeat([]byte{0x80}, 1<<14) // each copies 64 KiB of the base
	for name, test := range map[string]struct {
		data []byte
		want error // nil: a TooLargeError
	}{
		"a billion objects":             {seal(1<<30, nil), nil},
		"fewer objects than it says":    {seal(3, good().body.Bytes()), pack.ErrCorrupt},
		"more objects than it says":     {seal(0, good().body.Bytes()), pack.ErrCorrupt},
		"a blob longer than it says":    {new(forge).add(plumbing.BlobObject, 4, nil, blob).bytes(), pack.ErrCorrupt},
		"a blob shorter than it says":   {new(forge).add(plumbing.BlobObject, 1<<40, nil, blob).bytes(), pack.ErrCorrupt},
		"a blob that inflates for ever": {new(forge).add(plumbing.BlobObject, 5, nil, zeros).bytes(), pack.ErrCorrupt},
		"a huge folder":                 {new(forge).add(plumbing.TreeObject, 8<<20, nil, zeros).bytes(), nil},
		"a folder that lies":            {new(forge).add(plumbing.TreeObject, 1<<50, nil, blob).bytes(), nil},
		"a delta that makes a huge blob": {new(forge).add(plumbing.BlobObject, 65536, nil, zeros[:65536]).delta(0, 65536,
			65536<<14, copies).bytes(), nil},
		"a delta that lies about its end": {good().delta(0, 5, 1<<40, []byte{0x90, 5}).bytes(), nil},
		"a delta that ends too early":     {good().delta(0, 5, 10, []byte{0x90, 5}).bytes(), pack.ErrCorrupt},
		"a delta of another base":         {good().delta(0, 6, 5, []byte{0x90, 5}).bytes(), pack.ErrCorrupt},
		"a delta out of its base":         {good().delta(0, 5, 9, []byte{0x91, 4, 9}).bytes(), pack.ErrCorrupt},
		"a delta of nothing": {good().add(plumbing.OFSDeltaObject, 4, distance(3),
			[]byte{5, 5, 0x90, 5}).bytes(), pack.ErrCorrupt},
		"a delta of itself": {good().add(plumbing.OFSDeltaObject, 4, []byte{0}, []byte{5, 5, 0x90, 5}).bytes(),
			pack.ErrCorrupt},
		"a delta of what is before all": {good().add(plumbing.OFSDeltaObject, 4, distance(1<<20),
			[]byte{5, 5, 0x90, 5}).bytes(), pack.ErrCorrupt},
		"a distance without end": {good().add(plumbing.OFSDeltaObject, 4, bytes.Repeat([]byte{0xff}, 30), blob).bytes(),
			pack.ErrCorrupt},
		"an empty delta": {good().add(plumbing.OFSDeltaObject, 0, distance(14), nil).bytes(), pack.ErrCorrupt},
		"a delta by name": {good().add(plumbing.REFDeltaObject, 4, make([]byte, 20), []byte{5, 5, 0x90, 5}).bytes(),
			pack.ErrUnsupported},
		"a chain without end": {chain(5000), pack.ErrCorrupt},
		"a type that is none": {new(forge).add(5, 5, nil, blob).bytes(), pack.ErrCorrupt},
		"type zero":           {new(forge).add(0, 5, nil, blob).bytes(), pack.ErrCorrupt},
		"a size without end":  {seal(1, bytes.Repeat([]byte{0xff}, 40)), pack.ErrCorrupt},
		"no pack":             {[]byte("<html>a page</html>"), pack.ErrCorrupt},
		"nothing":             {nil, pack.ErrCorrupt},
		"another version": {append([]byte("PACK\x00\x00\x00\x03\x00\x00\x00\x00"), make([]byte, 20)...),
			pack.ErrCorrupt},
		"another checksum":        {append(good().bytes()[:len(good().bytes())-1], 'x'), pack.ErrCorrupt},
		"something after the end": {append(good().bytes(), 'x'), pack.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			var before, after runtime.MemStats // of all tests that run beside, which take little
			runtime.ReadMemStats(&before)
			err := pack.Receive(t.Context(), dir, bytes.NewReader(test.data), pack.Limits{Objects: 1 << 20, Object: object})
			runtime.ReadMemStats(&after)
			_, large := errors.AsType[*pack.TooLargeError](err)
			if test.want == nil && !large {
				t.Errorf("got %v, want a TooLargeError", err)
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 128<<20 {
				t.Errorf("%d MiB were allocated", grown>>20)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "objects", "pack")); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
	t.Run("honest ones pass", func(t *testing.T) {
		for name, data := range map[string][]byte{
			"empty": seal(0, nil), "one blob": good().bytes(), "a chain of 4,000": chain(4000),
			"the same twice": good().add(plumbing.BlobObject, 5, nil, blob).bytes(),
			"a blob over the limit of what is held": new(forge).add(plumbing.BlobObject, 2*object, nil,
				zeros[:2*object]).bytes(),
		} {
			if err := pack.Receive(t.Context(), repository(t), bytes.NewReader(data),
				pack.Limits{Objects: 1 << 20, Object: object}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestReceiveOfDamagedPacks(t *testing.T) {
	t.Parallel()
	packed, _ := history(t, 4, 6)
	dir := repository(t)
	for at := 0; at < len(packed); at += 1 + len(packed)/150 {
		damaged := slices.Clone(packed)
		damaged[at] ^= 0x41
		for what, data := range map[string][]byte{"cut": packed[:at], "changed": damaged} {
			err := pack.Receive(t.Context(), dir, bytes.NewReader(data), limits())
			if err == nil {
				t.Errorf("a pack %s at %d passed", what, at)
			}
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "objects", "pack")); len(left) != 0 {
		t.Errorf("damaged packs left %v", left)
	}
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	packed, _ := history(t, 4, 6)
	ctx, cancel := context.WithCancel(t.Context())
	dir := repository(t)
	half := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, io.ErrNoProgress
	}))
	if err := pack.Receive(ctx, dir, half, limits()); err == nil {
		t.Error("half a pack passed")
	}
	if err := pack.Receive(ctx, dir, bytes.NewReader(packed), limits()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestOpenOfBrokenRepositories(t *testing.T) {
	t.Parallel()
	if _, err := pack.Open(filepath.Join(t.TempDir(), "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
	packed, names := history(t, 4, 6)
	dir := repository(t)
	if err := pack.Receive(t.Context(), dir, bytes.NewReader(packed), limits()); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*.idx"))
	whole, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 13 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 0xff
		if at%2 == 0 {
			damaged = whole[:at]
		}
		if err := errors.Join(os.Remove(found[0]), os.WriteFile(found[0], damaged, 0o600)); err != nil {
			t.Fatal(err)
		}
		o, err := pack.Open(dir, 1<<20)
		if err != nil {
			continue
		}
		for _, name := range names { // it may fail or not, but it must end, and must not panic
			if kind, err := o.Kind(name); err == nil {
				_, _ = o.Read(t.Context(), kind, name)
			}
			_, _ = o.Size(name)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(new(forge).add(plumbing.BlobObject, 5, nil, []byte("hello")).delta(0, 5, 5, []byte{0x90, 5}).body.Bytes())
	f.Fuzz(func(t *testing.T, body []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "objects", "pack"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, count := range []uint32{1, 2} {
			_ = pack.Receive(t.Context(), dir, bytes.NewReader(seal(count, body)), pack.Limits{Objects: 100, Object: 1 << 16})
		}
	})
}
