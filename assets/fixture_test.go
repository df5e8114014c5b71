package assets_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// tree is a commit: the bytes of its files by path. Bytes that begin with "built:" were made by its build.
type tree map[string]string

func (tr tree) files() []landfall.File {
	var files []landfall.File
	for name, content := range tr {
		file := landfall.File{Path: name, Size: int64(len(content))}
		if strings.HasPrefix(content, "built:") {
			file.Digest = landfall.DigestOf([]byte(content))
		} else {
			sum := sha1.Sum([]byte(content))
			file.Blob = hex.EncodeToString(sum[:])
		}
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b landfall.File) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

func (tr tree) read(_ context.Context, file landfall.File) (io.ReadCloser, error) {
	content, ok := tr[file.Path]
	if !ok {
		return nil, &landfall.Error{Kind: landfall.NotFound, Message: "no file " + file.Path}
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

// with returns the tree with some files changed, added, or (empty) removed.
func (tr tree) with(changes tree) tree {
	next := maps.Clone(tr)
	for name, content := range changes {
		if next[name] = content; content == "" {
			delete(next, name)
		}
	}
	return next
}

// sel returns the units that rules make of the tree.
func (tr tree) sel(t *testing.T, rules ...assets.Rule) []assets.Unit {
	t.Helper()
	units, _, err := assets.Select(rules, tr.files())
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// upload plans and uploads the first unit that the rule makes.
func (tr tree) upload(t *testing.T, store assets.Creator, rule assets.Rule, uid landfall.UID,
	known ...*assets.Manifest) (*assets.Manifest, assets.UploadResult) {
	t.Helper()
	unit := tr.sel(t, rule)[0]
	plan := assets.Plan(unit, assets.Prefix("apps/default/shop/", unit.Rule.Path, uid), known...)
	manifest, result, err := assets.Uploader{Store: store, Read: tr.read}.Upload(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return manifest, result
}

// paths returns the URL paths of a unit's entries.
func paths(unit assets.Unit) []string {
	var all []string
	for _, entry := range unit.Entries {
		all = append(all, entry.Path)
	}
	return all
}

// served returns the bytes that the manifest serves at a path.
func served(t *testing.T, store assets.Opener, manifest *assets.Manifest, name string) string {
	t.Helper()
	file, ok := manifest.Lookup(name)
	if !ok {
		t.Fatalf("nothing is served at %q", name)
	}
	object, err := store.Open(t.Context(), file.Key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(object)
	if err := errors.Join(err, object.Close()); err != nil {
		t.Fatal(err)
	}
	if got := landfall.DigestOf(data); got != file.Digest || int64(len(data)) != file.Size {
		t.Errorf("%q: got %s of %d bytes, want %s of %d as the manifest says", name, got, len(data), file.Digest, file.Size)
	}
	return string(data)
}

// wantServed checks that the manifest serves exactly these bytes at these paths.
func wantServed(t *testing.T, store assets.Opener, manifest *assets.Manifest, want map[string]string) {
	t.Helper()
	if got := len(manifest.Files()); got != len(want) {
		t.Errorf("got %d files, want %d", got, len(want))
	}
	for name, content := range want {
		if got := served(t, store, manifest, name); got != content {
			t.Errorf("%q: got %q, want %q", name, got, content)
		}
	}
}

// wantInvalid fails unless err is Invalid and its message has all the parts.
func wantInvalid(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil || landfall.KindOf(err) != landfall.Invalid {
		t.Fatalf("got %v, want an Invalid error", err)
	}
	for _, part := range parts {
		if message := landfall.MessageOf(err); !strings.Contains(message, part) {
			t.Errorf("the message is %q, want %q in it", message, part)
		}
	}
}

// counter is a store that writes down what is asked of it, and can be told to fail.
type counter struct {
	assets.Store

	mu      sync.Mutex
	created []string // keys, in the order in which they were stored
	opened  []string
	others  int
	allowed int // creates that succeed before the store "dies"; negative: all
}

func count(store assets.Store) *counter { return &counter{Store: store, allowed: -1} }

func (c *counter) Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error) {
	c.mu.Lock()
	dead := c.allowed == 0
	c.allowed--
	c.mu.Unlock()
	if dead {
		return "", &landfall.Error{Kind: landfall.Unavailable, Message: "killed"}
	}
	digest, err := c.Store.Create(ctx, key, r, size)
	if err == nil {
		c.mu.Lock()
		c.created = append(c.created, key)
		c.mu.Unlock()
	}
	return digest, err
}

func (c *counter) Open(ctx context.Context, key string) (assets.Object, error) {
	c.mu.Lock()
	c.opened = append(c.opened, key)
	c.mu.Unlock()
	return c.Store.Open(ctx, key)
}

func (c *counter) Delete(ctx context.Context, key string) error {
	c.others++
	return c.Store.Delete(ctx, key)
}

func (c *counter) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	c.others++
	return c.Store.List(ctx, prefix)
}

// keys returns all keys of a store, sorted.
func keys(t *testing.T, store assets.Remover) []string {
	t.Helper()
	var all []string
	for key, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// put stores an object.
func put(t *testing.T, store assets.Creator, key, content string) {
	t.Helper()
	if _, err := store.Create(t.Context(), key, bytes.NewReader([]byte(content)), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

// blackHole takes every object and keeps none.
type blackHole struct{ assets.Opener }

func (blackHole) Create(_ context.Context, _ string, r io.Reader, _ int64) (landfall.Digest, error) {
	data, err := io.ReadAll(r)
	return landfall.DigestOf(data), err
}

// nothing reads as an empty file.
func nothing(context.Context, landfall.File) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}
