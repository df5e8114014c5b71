package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/assetstest"
	"landfall.dev/landfall/assets/disk"
)

func open(t *testing.T, folder string) *disk.Store {
	t.Helper()
	store, err := disk.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func create(t *testing.T, store *disk.Store, key, content string) {
	t.Helper()
	if _, err := store.Create(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

// filesIn returns the files below folder that belong to no lock.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	files := []string{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != ".lock" {
			rel, relErr := filepath.Rel(folder, name)
			files = append(files, rel)
			return relErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func openTemp(t *testing.T) assets.Store {
	t.Helper()
	return open(t, t.TempDir())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	// N-020: keys with .., //, backslashes and NUL are refused, or stay below the store's folder.
	assetstest.Conformance(t, openTemp)
}

// Kernels before 5.6 have no openat2, and some containers forbid it: the store is slower there, and the same.
func TestConformanceWithoutOpenat2(t *testing.T) {
	t.Parallel()
	assetstest.Conformance(t, func(t *testing.T) assets.Store {
		t.Helper()
		store := open(t, t.TempDir())
		if err := disk.WithoutOpenat2(store); err != nil {
			t.Fatal(err)
		}
		return store
	})
}

func TestLayout(t *testing.T) {
	t.Parallel()

	// An operator finds an object under its key.
	t.Run("each key is one file of its own name", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		create(t, open(t, folder), "apps/default/shop/static/root/owf2k7qa/a b.html", "x")
		got, want := filesIn(t, folder), []string{"apps/default/shop/static/root/owf2k7qa/a b.html"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	// Collection leaves no skeleton.
	t.Run("folders go with their last object", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		store := open(t, folder)
		create(t, store, "apps/a/b/c", "x")
		create(t, store, "apps/z", "x")
		if err := store.Delete(t.Context(), "apps/a/b/c"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "apps", "a")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the empty folder: got %v, want it gone", err)
		}
	})

	// A link that somebody put there leads nowhere.
	t.Run("a symlink out of the folder is not followed", func(t *testing.T) {
		t.Parallel()
		folder, outside := t.TempDir(), t.TempDir()
		store := open(t, folder)
		if err := errors.Join(os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600),
			os.Symlink(outside, filepath.Join(folder, "out"))); err != nil {
			t.Fatal(err)
		}
		// N-020: not even a link within the folder leads out of it.
		if _, err := store.Open(t.Context(), "out/secret"); err == nil {
			t.Error("open: got an object, want an error")
		}
		if _, err := store.Create(t.Context(), "out/new", strings.NewReader("x"), 1); err == nil {
			t.Error("create: got no error, want one")
		}
		if got := filesIn(t, outside); !slices.Equal(got, []string{"secret"}) {
			t.Errorf("outside: got %q, want the secret only", got)
		}
	})
}

func TestReopen(t *testing.T) {
	t.Parallel()

	t.Run("objects survive", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		store, err := disk.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		create(t, store, "a/b", "content")
		if err := errors.Join(store.Sync(t.Context()), store.Close()); err != nil {
			t.Fatal(err)
		}
		object, err := open(t, folder).Open(t.Context(), "a/b")
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		if got, err := io.ReadAll(object); err != nil || string(got) != "content" {
			t.Errorf("got %q, %v, want the content", got, err)
		}
	})

	// Two roles on one machine share a folder: the start of one must not harm the other's writes.
	t.Run("a second start leaves what a living writer is writing", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		store := open(t, folder)
		reader := io.MultiReader(strings.NewReader("first "), readerFunc(func([]byte) (int, error) {
			open(t, folder)
			return 0, io.EOF
		}), strings.NewReader("second"))
		if _, err := store.Create(t.Context(), "a", reader, int64(len("first second"))); err != nil {
			t.Errorf("got %v, want the object stored", err)
		}
	})

	t.Run("a folder that is a file is an error", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := disk.Open(file); err == nil {
			t.Error("got no error, want one")
		}
	})
}

// A folder that is gone is no folder without objects: nothing is written elsewhere, and it is used again when it is
// back, moved or copied, but no other one in its place.
func TestGone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "objects")
	away := folder + ".away"
	store := open(t, folder)
	create(t, store, "a/b", "content")
	if err := store.SetMark(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	wantGone := func(what string) {
		t.Helper()
		_, opened := store.Open(t.Context(), "a/b")
		_, created := store.Create(t.Context(), "a/c", strings.NewReader("x"), 1)
		_, marked := store.Mark(t.Context())
		var listed error
		for _, listed = range store.List(t.Context(), "") {
		}
		for door, err := range map[string]error{
			"open": opened, "create": created, "mark": marked, "list": listed,
			"delete": store.Delete(t.Context(), "a/b"), "sync": store.Sync(t.Context()),
			"set mark": store.SetMark(t.Context(), "x"),
		} {
			if landfall.KindOf(err) != landfall.Unavailable ||
				!strings.Contains(landfall.MessageOf(err), "is gone, or another one is in its place") {
				t.Errorf("%s, %s: got %v, want Unavailable and why", what, door, err)
			}
		}
	}
	wantBack := func(what string) {
		t.Helper()
		object, err := store.Open(t.Context(), "a/b")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		must(object.Close())
		create(t, store, "new/"+strings.ReplaceAll(what, " ", "-"), "x")
	}
	must(os.Rename(folder, away))
	wantGone("moved away")
	if got := filesIn(t, away); !slices.Equal(got, []string{".installation", "a/b"}) {
		t.Errorf("the folder that was moved away has %q", got)
	}
	must(os.MkdirAll(filepath.Join(folder, ".parts"), 0o700))
	wantGone("another one in its place")
	must(os.RemoveAll(folder), os.Rename(away, folder))
	wantBack("moved back")
	must(os.Rename(folder, away), os.CopyFS(folder, os.DirFS(away)), os.RemoveAll(away))
	wantBack("a copy in its place")
	must(os.RemoveAll(folder), os.Mkdir(folder, 0o700))
	wantGone("emptied")
}

// An object whose folder goes away while it is written is not stored: a copy of the folder does not have it.
func TestGoneWhileWriting(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "objects")
	store := open(t, folder)
	create(t, store, "a", "content")
	if err := store.SetMark(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	reader := io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) {
		return 0, errors.Join(os.Rename(folder, folder+".away"), os.CopyFS(folder, os.DirFS(folder+".away")), io.EOF)
	}))
	if _, err := store.Create(t.Context(), "b", reader, 1); landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	create(t, store, "b", "again")
}

// A start that is refused leaves no folder that was not there.
func TestUnused(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(t *testing.T, store *disk.Store){
		"nothing":   func(*testing.T, *disk.Store) {},
		"an object": func(t *testing.T, store *disk.Store) { t.Helper(); create(t, store, "a", "x") },
		"a mark": func(t *testing.T, store *disk.Store) {
			t.Helper()
			if err := store.SetMark(t.Context(), "mine"); err != nil {
				t.Error(err)
			}
		},
	} {
		folder := filepath.Join(t.TempDir(), "objects")
		store, err := disk.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		use(t, store)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) != (name == "nothing") {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// killedFolder tells the test binary that it is the process to be killed, and where its store lies.
const killedFolder = "LANDFALL_TEST_KILLED_FOLDER"

func TestMain(m *testing.M) {
	if folder, killed := os.LookupEnv(killedFolder); killed {
		fmt.Fprintln(os.Stderr, writeForever(folder))
		return
	}
	m.Run()
}

// writeForever begins an object and does not end it.
func writeForever(folder string) error {
	store, err := disk.Open(folder)
	if err != nil {
		return err
	}
	rest := readerFunc(func([]byte) (int, error) {
		if _, err := os.Stdout.WriteString("writing\n"); err != nil {
			return 0, err
		}
		select {} // until the kill
	})
	_, err = store.Create(context.Background(), "apps/x",
		io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), rest), 2<<20)
	return err
}

// A process that is killed in the middle of a write leaves no object, and the next start clears up.
func TestKill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writer := exec.CommandContext(t.Context(), os.Args[0])
	writer.Env = append(os.Environ(), killedFolder+"="+folder)
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("writing\n"))
	if _, err := io.ReadFull(out, line); err != nil || !bytes.Equal(line, []byte("writing\n")) {
		t.Fatalf("the writer said %q, %v", line, err)
	}
	if err := writer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	if got := filesIn(t, folder); len(got) != 1 || !strings.HasPrefix(got[0], ".parts/") {
		t.Errorf("after the kill: got %q, want one part", got)
	}
	store := open(t, folder)
	if got := filesIn(t, folder); len(got) != 0 {
		t.Errorf("after the next start: got %q, want nothing", got)
	}
	if _, err := store.Open(t.Context(), "apps/x"); landfall.KindOf(err) != landfall.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
	create(t, store, "apps/x", "the run goes on")
}
