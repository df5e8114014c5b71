package assetstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
)

func (s suite) testFailingReader(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const size = 1 << 20
	for _, given := range []int{0, 1, size / 2, size} {
		for _, failure := range []error{
			errors.New("the reader broke"), io.ErrUnexpectedEOF,
			&landfall.Error{Kind: landfall.Unavailable, Message: "the source is down"},
		} {
			reader := io.MultiReader(bytes.NewReader(make([]byte, given)), failingReader{failure})
			_, err := store.Create(t.Context(), "a/b", reader, size)
			wantKind(t, fmt.Sprintf("a reader that fails after %d bytes", given), err, landfall.KindOf(failure))
			wantEmpty(t, store, "a/b")
		}
	}
	create(t, store, "a/b", "a later attempt succeeds")
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func (s suite) testWrongSize(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	for _, size := range []int64{0, 4, 6, 1 << 20, -1} {
		_, err := store.Create(t.Context(), "a", strings.NewReader("12345"), size)
		wantKind(t, fmt.Sprintf("5 bytes announced as %d", size), err, landfall.Internal)
		wantEmpty(t, store, "a")
	}
}

func (s suite) testCanceled(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	create(t, store, "there", "x")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Create(ended, "a", strings.NewReader("x"), 1)
	wantKind(t, "create", err, landfall.Canceled)
	_, err = store.Open(ended, "there")
	wantKind(t, "open", err, landfall.Canceled)
	wantKind(t, "delete", store.Delete(ended, "there"), landfall.Canceled)
	wantKind(t, "sync", store.Sync(ended), landfall.Canceled)
	for _, err := range store.List(ended, "") {
		wantKind(t, "list", err, landfall.Canceled)
	}

	// The context ends in the middle of the object.
	const size = 8 << 20
	middle, cancel := context.WithCancel(t.Context())
	defer cancel()
	half := &hookReader{r: io.LimitReader(endless{}, size), at: size / 2, hook: cancel}
	_, err = store.Create(middle, "a", half, size)
	wantKind(t, "create, cancelled in the middle", err, landfall.Canceled)
	if got, want := list(t, store, ""), []string{"there"}; !slices.Equal(got, want) {
		t.Errorf("list: got %q, want %q", got, want)
	}
	create(t, store, "a", "a later attempt succeeds")
}

// hookReader calls hook after every at bytes.
type hookReader struct {
	r    io.Reader
	at   int64
	read int64
	hook func()
}

func (h *hookReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if (h.read+int64(n))/h.at > h.read/h.at {
		h.hook()
	}
	h.read += int64(n)
	return n, err
}

// endless is an endless reader.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

func (s suite) testListWhileCreating(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const fixed, moving = 200, 400
	for i := range fixed {
		create(t, store, fmt.Sprintf("p/fixed/%03d", i), "x")
	}
	var work sync.WaitGroup
	for worker := range 4 {
		work.Go(func() {
			for i := range moving {
				key := fmt.Sprintf("p/moving%d/%d/x", worker, i)
				if _, err := store.Create(t.Context(), key, strings.NewReader("x"), 1); err != nil {
					t.Errorf("create: %v", err)
				}
				if err := store.Delete(t.Context(), key); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	for range 20 {
		seen := map[string]int{}
		for key, err := range store.List(t.Context(), "p/") {
			if err != nil {
				t.Errorf("list: %v", err)
			}
			seen[key]++
		}
		for i := range fixed {
			if key := fmt.Sprintf("p/fixed/%03d", i); seen[key] != 1 {
				t.Fatalf("%s was listed %d times, want once", key, seen[key])
			}
		}
	}
	work.Wait()
}

func (s suite) testCreateWhileDeleting(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const workers, rounds = 4, 200
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			key := fmt.Sprintf("a/b/c/%d", worker)
			for range rounds {
				if _, err := store.Create(t.Context(), key, strings.NewReader("x"), 1); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if err := store.Delete(t.Context(), key); err != nil {
					t.Errorf("delete: %v", err)
					return
				}
			}
		})
	}
	work.Wait()
	if got := list(t, store, ""); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

func (s suite) testOpenWhileDeleting(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const content = "all of it or none"
	for range 50 {
		create(t, store, "a/b", content)
		var work sync.WaitGroup
		work.Go(func() {
			if err := store.Delete(t.Context(), "a/b"); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		object, err := store.Open(t.Context(), "a/b")
		if err != nil {
			wantKind(t, "open", err, landfall.NotFound)
		} else if data, err := io.ReadAll(object); errors.Join(err, object.Close()) != nil || string(data) != content {
			if landfall.KindOf(err) != landfall.NotFound {
				t.Errorf("read: got %q, %v, want all bytes or NotFound", data, err)
			}
		}
		work.Wait()
	}
}

func (s suite) testLarge(t *testing.T) {
	t.Parallel()
	store := s.open(t)
	const size, allowed, step = 160 << 20, 80 << 20, 16 << 20 // other tests are at work beside this one
	random := rand.NewChaCha8([32]byte{1})
	before := liveHeap()
	var most uint64
	source := &hookReader{r: io.LimitReader(random, size), at: step, hook: func() { most = max(most, liveHeap()) }}
	digest, err := store.Create(t.Context(), "large", source, size)
	if err != nil {
		t.Fatal(err)
	}
	if most > before+allowed {
		t.Errorf("%d bytes were in memory while %d were stored, want at most %d", most-before, size, allowed)
	}
	object, err := store.Open(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	if got := digestOf(t, object); got != digest || object.Size() != size {
		t.Errorf("got %s of %d bytes, want %s of %d", got, object.Size(), digest, size)
	}
}

// liveHeap returns how many bytes of memory are still reachable.
func liveHeap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func digestOf(t *testing.T, r io.Reader) landfall.Digest {
	t.Helper()
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		t.Fatal(err)
	}
	return landfall.DigestFromSum(hash.Sum(nil))
}
