package packages_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/runtime/packages"
)

// On a disk where nothing more can be made, what nobody needs is removed all the same, which gives the space back.
func TestKeepOnFullDisk(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), archive(t, entry{"a", "x", 0o644})
	done := make(chan struct{})
	go func() { // the disk is gone with the thread, and nobody else sees it
		defer close(done)
		runtime.LockOSThread()
		if err := mountSmall(dir); err != nil {
			t.Error(err)
			return
		}
		s, err := packages.New(filepath.Join(dir, "cache"), &objects{stored: map[string][]byte{"a": data}}, packages.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		at, err := s.Open(t.Context(), "one", packages.Archive{Key: "a", Digest: digest(data)}, nothing)
		if err != nil {
			t.Error(err)
			return
		}
		for i := 0; os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700) == nil; i++ {
		}
		if err := s.Keep(only("one")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(at); err != nil {
			t.Errorf("what is needed: %v", err)
		}
		if err := s.Keep(only()); err != nil {
			t.Errorf("what nobody needs stays: %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "cache")); err != nil || len(left) != 0 {
			t.Errorf("%v is left: %v", left, err)
		}
		if moved, err := os.Stat(filepath.Join(dir, "files")); err == nil {
			t.Errorf("%s lies in the folder that the server runs in", moved.Name())
		}
	}()
	<-done
}

// mountSmall mounts a disk of few files, which only this thread sees, and makes it the folder that the thread is in.
func mountSmall(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=20"); err != nil {
		return err
	}
	return unix.Chdir(dir)
}
