package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"landfall.dev/landfall/runtime/packages"
)

// smallDiskVariable is set where the test may mount a disk: in a process of its own, whose mounts nobody else sees.
const smallDiskVariable = "LANDFALL_TEST_SMALL_DISK"

// On a disk where nothing more can be made, what nobody needs is removed all the same, which gives the space back.
func TestKeepOnFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv(smallDiskVariable) == "" {
		again(t)
		return
	}
	dir := t.TempDir()
	mountSmall(t, dir)
	data := archive(t, entry{"a", "x", 0o644})
	s, err := packages.New(filepath.Join(dir, "cache"), &objects{stored: map[string][]byte{"a": data}}, packages.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Open(t.Context(), "one", packages.Archive{Key: "a", Digest: digest(data)}, nothing)
	if err != nil {
		t.Fatal(err)
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
	if moved, err := os.Stat("files"); err == nil {
		t.Errorf("%s lies in the folder that the server runs in", moved.Name())
	}
}

// again runs this test once more, as root of a user namespace.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), smallDiskVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// mountSmall mounts a disk of few files, and makes it the folder that the process is in.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "nr_inodes=20"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Chdir(dir); err != nil { // the process has no other test
		t.Fatal(err)
	}
}
