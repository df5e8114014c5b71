package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Volume is a file system of a few MiB in memory. It is mounted in a mount namespace of its own, and where the tests
// are not root's in a user namespace, so that it needs no rights beyond those of the sandbox's tests and is gone with
// the test program, however that ends.
type Volume struct {
	t      testing.TB
	Folder string // where it is mounted, as a process in the namespace sees it
	pid    string // of the process that keeps the namespace
	user   int    // who owns it, and enters it where the tests are root's
}

// Somebody is a user who is nobody on this machine.
const Somebody = 12345

// NewVolume mounts a volume, and lets the subfolders of data that are named lie on it.
func NewVolume(t testing.TB, size int64, data string, subfolders ...string) *Volume {
	t.Helper()
	return NewVolumeOf(t, 0, size, data, subfolders...)
}

// NewVolumeOf is NewVolume for a server that a user starts. All folders on the way are open to all.
func NewVolumeOf(t testing.TB, user int, size int64, data string, subfolders ...string) *Volume {
	t.Helper()
	v := &Volume{t: t, Folder: t.TempDir(), user: user}
	if user != 0 {
		program := testkit.Must(site.Binary())(t)
		for _, folder := range []string{v.Folder, data, program} {
			if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	var script strings.Builder
	fmt.Fprintf(&script, "set -e; mount --make-rprivate /; mount -t tmpfs -o "+
		"size=%d,mode=0700,nr_inodes=20k,uid=%[2]d,gid=%[2]d tmpfs %s", size, user, v.Folder)
	for _, name := range subfolders {
		on, at := filepath.Join(v.Folder, name), filepath.Join(data, name)
		fmt.Fprintf(&script, "; mkdir -p %s %s; mount --bind %s %s", on, at, on, at)
	}
	keeper := exec.Command("sh", "-c", script.String()+"; echo mounted; exec cat >/dev/null")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		keeper.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	keeper.Stderr = os.Stderr
	out := testkit.Must(keeper.StdoutPipe())(t)
	in := testkit.Must(keeper.StdinPipe())(t)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = keeper.Wait()
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "mounted\n" {
		t.Fatalf("the volume is not mounted: %v", err)
	}
	v.pid = strconv.Itoa(keeper.Process.Pid)
	return v
}

// Enter returns the beginning of a command line whose command sees the volume.
func (v *Volume) Enter() []string {
	if os.Getuid() == 0 {
		line := []string{"nsenter", "--target", v.pid, "--mount", "--"}
		if v.user == 0 {
			return line
		}
		user := strconv.Itoa(v.user)
		return append(line, "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "env", "--chdir=/",
			"HOME="+v.Folder)
	}
	// Whoever is root there is the user that the tests are, and is that user again in a namespace below.
	return []string{"nsenter", "--target", v.pid, "--user", "--mount", "--preserve-credentials", "--",
		"unshare", "--map-user=" + strconv.Itoa(os.Getuid()), "--map-group=" + strconv.Itoa(os.Getgid()), "--"}
}

// Outside returns the path by which this program reaches what a process in the namespace sees at a path.
func (v *Volume) Outside(path string) string { return filepath.Join("/proc", v.pid, "root", path) }

// filler is the file that takes the space.
func (v *Volume) filler() string { return filepath.Join(v.Outside(v.Folder), "filler") }

// Space returns how many bytes are free.
func (v *Volume) Space() int64 {
	v.t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(v.Outside(v.Folder), &s); err != nil {
		v.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// Fill leaves so many bytes free, or fewer, while the server goes on writing.
func (v *Volume) Fill(leave int64) {
	v.t.Helper()
	f := testkit.Must(os.Create(v.filler()))(v.t)
	defer func() { _ = f.Close() }()
	var err error = unix.ENOSPC
	for errors.Is(err, unix.ENOSPC) {
		take := v.Space() - leave
		if take <= 0 {
			return
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, take)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

// TopUp takes the space that became free meanwhile.
func (v *Volume) TopUp() {
	v.t.Helper()
	f := testkit.Must(os.OpenFile(v.filler(), os.O_APPEND|os.O_WRONLY, 0))(v.t)
	defer func() { _ = f.Close() }()
	block := make([]byte, 4<<10)
	for {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				v.t.Fatal(err)
			}
			return
		}
	}
}

// Crowd makes empty files until there can be no more. What takes them back is returned.
func (v *Volume) Crowd() (back func()) {
	v.t.Helper()
	folder := filepath.Join(v.Outside(v.Folder), "crowd")
	err := os.Mkdir(folder, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		v.t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(folder); err != nil {
			v.t.Fatal(err)
		}
	}
}

// Drain gives the space back.
func (v *Volume) Drain() {
	v.t.Helper()
	if err := os.Remove(v.filler()); err != nil {
		v.t.Fatal(err)
	}
}
