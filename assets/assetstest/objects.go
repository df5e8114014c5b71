package assetstest

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

func (s suite) testReadBack(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const content = "0123456789"
	create(t, store, "folder/ten", content)
	if got := read(t, store, "folder/ten"); got != content {
		t.Errorf("got %q, want %q", got, content)
	}
	object, err := store.Open(t.Context(), "folder/ten")
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	for _, seek := range []struct {
		offset int64
		whence int
		want   string
	}{{3, io.SeekStart, "345"}, {1, io.SeekCurrent, "789"}, {-4, io.SeekEnd, "678"}, {0, io.SeekStart, "012"}} {
		if _, err := object.Seek(seek.offset, seek.whence); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(seek.want))
		if _, err := io.ReadFull(object, got); err != nil || string(got) != seek.want {
			t.Errorf("seek %d from %d: got %q, %v, want %q", seek.offset, seek.whence, got, err, seek.want)
		}
	}
	if end, err := object.Seek(0, io.SeekEnd); err != nil || end != object.Size() {
		t.Errorf("the end: got %d, %v, want %d", end, err, object.Size())
	}
	if n, err := object.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: got %d, %v, want 0, EOF", n, err)
	}
	if err := store.Sync(t.Context()); err != nil {
		t.Errorf("sync: %v", err)
	}
}

func (s suite) testDigest(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const content = "these bytes"
	if got, want := create(t, store, "a", content), landfall.DigestOf([]byte(content)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The reader returns its bytes one by one.
	got, err := store.Create(t.Context(), "b", oneByte{strings.NewReader(content)}, int64(len(content)))
	if want := landfall.DigestOf([]byte(content)); err != nil || got != want {
		t.Errorf("byte by byte: got %s, %v, want %s", got, err, want)
	}
}

// oneByte reads one byte at a time.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func (s suite) testEmpty(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	if got, want := create(t, store, "a/empty", ""), landfall.DigestOf(nil); got != want {
		t.Errorf("digest: got %s, want %s", got, want)
	}
	if got := read(t, store, "a/empty"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	_, err := store.Create(t.Context(), "a/empty", strings.NewReader("x"), 1)
	wantKind(t, "create over an empty object", err, landfall.Conflict)
}

func (s suite) testAbsent(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	create(t, store, "folder/object", "x")
	for _, key := range []string{"absent", "folder", "folder/absent", "folder/object/below", "absent/below"} {
		_, err := store.Open(t.Context(), key)
		wantKind(t, "open "+key, err, landfall.NotFound)
	}
	for _, prefix := range []string{"absent", "absent/", "folder/absent/", "folder/object"} {
		if got := list(t, store, prefix); len(got) != 0 {
			t.Errorf("list %q: got %q, want nothing", prefix, got)
		}
	}
}

func (s suite) testCreateOnce(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	create(t, store, "a/b", "first")
	for _, content := range []string{"second", "first", ""} {
		_, err := store.Create(t.Context(), "a/b", strings.NewReader(content), int64(len(content)))
		wantKind(t, fmt.Sprintf("create again with %q", content), err, landfall.Conflict)
	}
	if got := read(t, store, "a/b"); got != "first" {
		t.Errorf("got %q, want the first bytes", got)
	}
	if got, want := list(t, store, ""), []string{"a/b"}; !slices.Equal(got, want) {
		t.Errorf("list: got %q, want %q", got, want)
	}
}

func (s suite) testRace(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const rounds, racers = 20, 16
	for round := range rounds {
		key := fmt.Sprintf("race/%d/object", round)
		contents := make([]string, racers)
		failures := make([]error, racers)
		var start, done sync.WaitGroup
		start.Add(1)
		for i := range racers {
			contents[i] = strings.Repeat(fmt.Sprintf("racer %d.", i), 1000*(i+1))
			done.Go(func() {
				start.Wait()
				_, failures[i] = store.Create(t.Context(), key, strings.NewReader(contents[i]), int64(len(contents[i])))
			})
		}
		start.Done()
		done.Wait()
		winner := -1
		for i, err := range failures {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("racers %d and %d both won", winner, i)
			case err == nil:
				winner = i
			default:
				wantKind(t, "a loser", err, landfall.Conflict)
			}
		}
		if winner < 0 {
			t.Fatal("nobody won")
		}
		if read(t, store, key) != contents[winner] {
			t.Errorf("round %d: the object is not the winner's", round)
		}
	}
}

func (s suite) testDelete(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	create(t, store, "a/b/c", "x")
	create(t, store, "a/b/d", "y")
	for range 2 {
		if err := store.Delete(t.Context(), "a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "a/b", "never/there"} {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q, which is no object: %v", key, err)
		}
	}
	if got, want := list(t, store, ""), []string{"a/b/d"}; !slices.Equal(got, want) {
		t.Errorf("list: got %q, want %q", got, want)
	}
	create(t, store, "a/b/c", "again")
	if err := errors.Join(store.Delete(t.Context(), "a/b/c"), store.Delete(t.Context(), "a/b/d")); err != nil {
		t.Fatal(err)
	}
	create(t, store, "a", "the folder is gone, so its name is free")
}

func (s suite) testNames(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	var want []string
	for i, name := range Names() {
		key := "names/" + name
		want = append(want, key)
		create(t, store, key, strconv.Itoa(i))
	}
	for i, key := range want {
		if got := read(t, store, key); got != strconv.Itoa(i) {
			t.Errorf("%q: got the bytes of %s, want those of %d", key, got, i)
		}
	}
	slices.Sort(want)
	if got := list(t, store, "names"); !slices.Equal(got, want) {
		t.Errorf("list: got %q, want %q", got, want)
	}
	for _, key := range want {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if got := list(t, store, ""); len(got) != 0 {
		t.Errorf("after deletion: got %q, want nothing", got)
	}
}

func (s suite) testRefusedKeys(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	for _, key := range []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "a/./b", "./a", "../a", "a/../b", "a/..", "a/../../b", "nul\x00", "\xff\xfe",
		".store", ".parts/x", ".lock", strings.Repeat("n", 256), strings.Repeat("long/", 200) + "end",
	} {
		_, err := store.Create(t.Context(), key, strings.NewReader("x"), 1)
		wantKind(t, fmt.Sprintf("create %q", key), err, landfall.Invalid)
		_, err = store.Open(t.Context(), key)
		wantKind(t, fmt.Sprintf("open %q", key), err, landfall.Invalid)
		wantKind(t, fmt.Sprintf("delete %q", key), store.Delete(t.Context(), key), landfall.Invalid)
	}
	for _, prefix := range []string{"..", "../", "a/../..", "/", "/etc", ".parts"} {
		for key, err := range store.List(t.Context(), prefix) {
			if err == nil {
				t.Errorf("list %q: got %q, want an error", prefix, key)
			}
			wantKind(t, fmt.Sprintf("list %q", prefix), err, landfall.Invalid)
		}
	}
	if got := list(t, store, ""); len(got) != 0 {
		t.Errorf("the store has %q, want nothing", got)
	}
}

func (s suite) testSiblings(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	for _, key := range []string{"a/x", "a/y/z", "ab/x", "a.b/x", "a-", "A/x", "b/a/x"} {
		create(t, store, key, key)
	}
	want := []string{"a/x", "a/y/z"}
	for _, prefix := range []string{"a", "a/"} {
		if got := list(t, store, prefix); !slices.Equal(got, want) {
			t.Errorf("list %q: got %q, want %q", prefix, got, want)
		}
	}
	if err := (assets.Collector{}).DeletePrefix(t.Context(), store, "a"); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, store, ""), []string{"A/x", "a-", "a.b/x", "ab/x", "b/a/x"}; !slices.Equal(got, want) {
		t.Errorf("after the deletion of a/: got %q, want %q", got, want)
	}
	wantKind(t, "deletion of everything", (assets.Collector{}).DeletePrefix(t.Context(), store, ""), landfall.Invalid)
	next, leave := iter.Pull2(store.List(t.Context(), ""))
	if _, err, ok := next(); err != nil || !ok {
		t.Errorf("the first of a listing: got %v, %v, want a key", err, ok)
	}
	leave()
}

func (s suite) testFolderKeys(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	create(t, store, "a", "object")
	create(t, store, "b/c", "below")
	for _, pair := range [][2]string{{"a/b", "a"}, {"b", "b/c"}} {
		before := read(t, store, pair[1])
		_, err := store.Create(t.Context(), pair[0], strings.NewReader("x"), 1)
		if err != nil { // a store may refuse
			wantKind(t, "create "+pair[0], err, landfall.Conflict)
		} else if got := read(t, store, pair[0]); got != "x" {
			t.Errorf("%q: got %q, want x", pair[0], got)
		}
		if got := read(t, store, pair[1]); got != before {
			t.Errorf("%q: got %q, want %q as before", pair[1], got, before)
		}
	}
}
