// Package assetstest holds the conformance suite that every object store passes.
package assetstest

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// Conformance tests that the stores that open returns keep the contract of assets.Store. Each call of open returns an
// empty store, which exists as long as its t.
func Conformance(t *testing.T, open func(t *testing.T) assets.Store) {
	t.Helper()
	s := suite{open: open}
	t.Run("a large object is streamed in bounded memory", s.testLarge)
	t.Run("what was created is read back, whole and in ranges", s.testReadBack)
	t.Run("the digest returned is that of the bytes", s.testDigest)
	t.Run("an empty object is an object", s.testEmpty)
	t.Run("an object that is not there is NotFound", s.testAbsent)
	t.Run("a key is created once", s.testCreateOnce)
	t.Run("of many creates of one key exactly one wins", s.testRace)
	t.Run("deleting twice is fine, and makes room", s.testDelete)
	t.Run("every name that git allows survives into a key and back", s.testNames)
	t.Run("keys that are none are refused", s.testRefusedKeys)
	t.Run("a folder's sibling of like name is not listed with it", s.testSiblings)
	t.Run("a key that is a folder of another harms neither", s.testFolderKeys)
	t.Run("a reader that fails leaves nothing", s.testFailingReader)
	t.Run("a reader of another length than announced leaves nothing", s.testWrongSize)
	t.Run("an ended context is Canceled and leaves nothing", s.testCanceled)
	t.Run("listing goes on while others create and delete", s.testListWhileCreating)
	t.Run("folders come and go under concurrent creates and deletes", s.testCreateWhileDeleting)
	t.Run("objects stay readable while they are deleted or afterwards are NotFound", s.testOpenWhileDeleting)
}

// suite is the tests of one kind of store.
type suite struct {
	open func(t *testing.T) assets.Store
}

// Names returns file names that git keeps and that have been a problem for stores.
func Names() []string {
	return []string{
		"a b.html", " leading", "trailing ", "ünïcödé/\u65e5\u672c\u8a9e.html", "e\u0301 is not \u00e9", "\u00e9",
		"new\nline", "tab\there", "README", "readme", "ReadMe", "-rf", "--", "%2e", "%2E%2e%2f", "%", "%25", "a%00b", "..a",
		"a..", "...", ".hidden/x", "~", "a~", "a~12345678", `back\slash`, `"quoted"`, "it's", "<b>&amp;", "?query=1",
		"#fragment", "a+b", "a&b=c", "*", "[id].html", "{x}", "$HOME", "`id`", "COM1", "a:b", "con.", "\x01\x7f",
		"\u202etxt.exe", "\ufeffbom", "\U0001f600", "emptyish/\u200b",
		strings.Repeat("n", 246), strings.Repeat("long/", 180) + "end",
	}
}

func create(t *testing.T, store assets.Store, key, content string) landfall.Digest {
	t.Helper()
	digest, err := store.Create(t.Context(), key, strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatalf("create %q: %v", key, err)
	}
	return digest
}

func read(t *testing.T, store assets.Store, key string) string {
	t.Helper()
	object, err := store.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("open %q: %v", key, err)
	}
	data, err := io.ReadAll(object)
	if err := errors.Join(err, object.Close()); err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	if object.Size() != int64(len(data)) {
		t.Errorf("size of %q: got %d, want %d", key, object.Size(), len(data))
	}
	return string(data)
}

// list returns the keys below prefix, sorted.
func list(t *testing.T, store assets.Store, prefix string) []string {
	t.Helper()
	keys := []string{}
	for key, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func wantKind(t *testing.T, what string, err error, want landfall.Kind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error, want %v", what, want)
	} else if got := landfall.KindOf(err); got != want {
		t.Errorf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

func wantEmpty(t *testing.T, store assets.Store, key string) {
	t.Helper()
	_, err := store.Open(t.Context(), key)
	wantKind(t, "open "+key, err, landfall.NotFound)
	if keys := list(t, store, ""); len(keys) != 0 {
		t.Errorf("the store lists %q, want nothing", keys)
	}
}
