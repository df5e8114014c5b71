package packages_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/packages"
)

// objects are stored archives.
type objects struct {
	mu     sync.Mutex
	stored map[string][]byte
	opened int
	wait   chan struct{} // closed when reading may go on; nil: at once
}

// Open implements packages.Opener.
func (o *objects) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	o.mu.Lock()
	o.opened++
	data, ok := o.stored[key]
	wait := o.wait
	o.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, &landfall.Error{Op: "test", Kind: landfall.Canceled, Err: ctx.Err()}
		}
	}
	if !ok {
		return nil, &landfall.Error{Op: "test", Kind: landfall.NotFound, Message: "there is no such object"}
	}
	return struct {
		*bytes.Reader
		io.Closer
	}{bytes.NewReader(data), io.NopCloser(nil)}, nil
}

// entry is a file of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func digest(data []byte) landfall.Digest {
	sum := sha256.Sum256(data)
	return landfall.DigestFromSum(sum[:])
}

func nothing(context.Context, string) error { return nil }

type scene struct {
	*packages.Cache
	*objects
	dir string
}

func open(t *testing.T, limits packages.Limits, stored map[string][]byte) scene {
	t.Helper()
	s := scene{objects: &objects{stored: stored}, dir: filepath.Join(t.TempDir(), "functions")}
	var err error
	if s.Cache, err = packages.New(s.dir, s.objects, limits); err != nil {
		t.Fatal(err)
	}
	return s
}

// left returns what lies in the cache's folder.
func (s scene) left(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestOpen(t *testing.T) {
	t.Parallel()
	data := archive(t, entry{"main.py", "print()", 0o600}, entry{"bin/tool", "#!/bin/sh", 0o700},
		entry{"bin/", "", fs.ModeDir | 0o700})
	s := open(t, packages.Limits{}, map[string][]byte{"a": data})
	installed := 0
	install := func(_ context.Context, dir string) error {
		installed++
		return os.WriteFile(filepath.Join(dir, "adaptor"), nil, 0o600)
	}
	var dir string
	for range 2 {
		var err error
		if dir, err = s.Cache.Open(t.Context(), "one", packages.Archive{Key: "a", Digest: digest(data)},
			install); err != nil {
			t.Fatal(err)
		}
	}
	if installed != 1 || s.opened != 1 {
		t.Errorf("it was read %d times and installed %d times, want once", s.opened, installed)
	}
	for name, mode := range map[string]fs.FileMode{".": fs.ModeDir | 0o755, "main.py": 0o644, "bin": fs.ModeDir | 0o755,
		"bin/tool": 0o755} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want %s: processes of other users read it", name, info, err, mode)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "main.py")); err != nil || string(text) != "print()" {
		t.Errorf("main.py: %q %v", text, err)
	}
	if err := s.Keep(only("one")); err != nil || len(s.left(t)) != 1 {
		t.Errorf("Keep: %v; %q is left", err, s.left(t))
	}
	if err := s.Keep(only()); err != nil || len(s.left(t)) != 0 {
		t.Errorf("Keep of none: %v; %q is left", err, s.left(t))
	}
}

// Nothing of a package that cannot be unpacked stays, and nothing is written outside.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data []byte
		says string
		kind landfall.Kind
	}{
		"another folder":   {archive(t, entry{"../out", "x", 0o644}), "no plain file inside it", landfall.Invalid},
		"an absolute path": {archive(t, entry{"/etc/out", "x", 0o644}), "no plain file inside it", landfall.Invalid},
		"a backslash":      {archive(t, entry{`a\b`, "x", 0o644}), "no plain file inside it", landfall.Invalid},
		"a link": {archive(t, entry{"l", "/etc/passwd", fs.ModeSymlink | 0o777}), "leads out of it",
			landfall.Invalid},
		"a device":     {archive(t, entry{"d", "", fs.ModeDevice | 0o644}), "no plain file inside it", landfall.Invalid},
		"a file twice": {archive(t, entry{"a", "1", 0o644}, entry{"a", "2", 0o644}), `"a" twice`, landfall.Invalid},
		"many files": {archive(t, entry{"a", "1", 0o644}, entry{"b", "", 0o644}, entry{"c", "", 0o644},
			entry{"d", "", 0o644}), "4 files; the limit is 3", landfall.Invalid},
		"many bytes": {archive(t, entry{"a", strings.Repeat("x", 60), 0o644}, entry{"b", strings.Repeat("x", 60), 0o644}),
			"more bytes than the limit", landfall.Invalid}, "no archive": {[]byte("text"), "no zip archive", landfall.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, packages.Limits{Files: 3, Bytes: 100}, map[string][]byte{"a": c.data})
			_, err := s.Cache.Open(t.Context(), "one", packages.Archive{Key: "a", Digest: digest(c.data)}, nothing)
			if err == nil || landfall.KindOf(err) != c.kind || !strings.Contains(landfall.MessageOf(err), c.says) {
				t.Errorf("got %v: %v, want %v: %s", landfall.KindOf(err), err, c.kind, c.says)
			}
			if left := s.left(t); len(left) != 0 {
				t.Errorf("%q is left", left)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(s.dir), "out")); err == nil {
				t.Error("a file was written outside")
			}
		})
	}
}

// What failed is tried again by the next call; what is damaged is told, and not read for each of them.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	data := archive(t, entry{"a", "x", 0o644})
	s := open(t, packages.Limits{}, map[string][]byte{})
	a := packages.Archive{Key: "a", Digest: digest(data)}
	if _, err := s.Cache.Open(t.Context(), "one", a, nothing); landfall.KindOf(err) != landfall.NotFound {
		t.Errorf("an object that is not there: %v", err)
	}
	s.stored["a"] = append(bytes.Clone(data), 0)
	before := s.opened
	for range 3 {
		if _, err := s.Cache.Open(t.Context(), "one", a, nothing); err == nil ||
			!strings.Contains(landfall.MessageOf(err), "damaged") {
			t.Errorf("a damaged object: %v", err)
		}
	}
	refuses := func(context.Context, string) error {
		return &landfall.Error{Op: "test", Kind: landfall.Invalid, Message: "no function"}
	}
	s.stored["a"] = data
	for range 3 {
		if _, err := s.Cache.Open(t.Context(), "two", a, refuses); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("a package that is no function: %v", err)
		}
	}
	if reads := s.opened - before; reads != 2 {
		t.Errorf("what is no package was read %d times, want once for each", reads)
	}
	if err := s.Keep(only()); err != nil || len(s.left(t)) != 0 {
		t.Errorf("Keep: %v; %q is left", err, s.left(t))
	}
	broken := errors.New("broken")
	if _, err := s.Cache.Open(t.Context(), "three", a, func(context.Context, string) error {
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("install fails: %v", err)
	}
	if _, err := s.Cache.Open(t.Context(), "three", a, nothing); err != nil {
		t.Error(err)
	}
}

// Who unpacks a package for others may go away.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	data := archive(t, entry{"a", "x", 0o644})
	s := open(t, packages.Limits{}, map[string][]byte{"a": data})
	s.wait = make(chan struct{})
	a := packages.Archive{Key: "a", Digest: digest(data)}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := s.Cache.Open(ctx, "one", a, nothing)
		first <- err
	}()
	for opened := 0; opened == 0; {
		s.mu.Lock()
		opened = s.opened
		s.mu.Unlock()
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := s.Cache.Open(t.Context(), "one", a, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	cancel()
	if err := <-first; landfall.KindOf(err) != landfall.Canceled {
		t.Errorf("who went away: %v", err)
	}
	close(s.wait)
	group.Wait()
	if s.opened != 2 {
		t.Errorf("it was read %d times, want twice", s.opened)
	}
	if err := s.Keep(only()); err != nil || len(s.left(t)) != 0 {
		t.Errorf("%v; %q is left", err, s.left(t))
	}
}

// only returns the names that Keep is to keep.
func only(names ...string) func() map[string]bool {
	return func() map[string]bool {
		kept := map[string]bool{}
		for _, name := range names {
			kept[name] = true
		}
		return kept
	}
}
