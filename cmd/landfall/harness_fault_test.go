package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// faultRoundsVariable says how often the experiments with faults are repeated; one round is a tenth of the full dose.
const faultRoundsVariable = "LANDFALL_FAULT_ROUNDS"

// dose returns how many faults an experiment makes: a few, or so many in each round that was asked for.
func dose(t *testing.T, few, inOneRound int) int {
	t.Helper()
	text := os.Getenv(faultRoundsVariable)
	if text == "" {
		return few
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q; right would be a number", faultRoundsVariable, text)
	}
	return rounds * inOneRound
}

// volume is a file system of a few MiB in memory. It is mounted in a mount namespace of its own, and where the tests are not root's in
// a user namespace, so that it needs no rights beyond those of the sandbox's tests and is gone with the test program, however that ends.
type volume struct {
	t      *testing.T
	folder string // where it is mounted, as a process in the namespace sees it
	pid    string // of the process that keeps the namespace
	user   int    // who owns it, and enters it where the tests are root's
}

// somebody is a user who is nobody on this machine.
const somebody = 12345

// newVolume mounts a volume, and lets the subfolders of data that are named lie on it.
func newVolume(t *testing.T, size int64, data string, subfolders ...string) *volume {
	t.Helper()
	return newVolumeOf(t, 0, size, data, subfolders...)
}

// newVolumeOf is newVolume for a server that a user starts. All folders on the way are open to all.
func newVolumeOf(t *testing.T, user int, size int64, data string, subfolders ...string) *volume {
	t.Helper()
	v := &volume{t: t, folder: t.TempDir(), user: user}
	if user != 0 {
		program := must(binary())(t)
		for _, folder := range []string{v.folder, data, program} {
			if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	script := fmt.Sprintf("set -e; mount --make-rprivate /; mount -t tmpfs -o size=%d,mode=0700,nr_inodes=20k,uid=%[2]d,gid=%[2]d tmpfs %s", size, user, v.folder)
	for _, name := range subfolders {
		on, at := filepath.Join(v.folder, name), filepath.Join(data, name)
		script += fmt.Sprintf("; mkdir -p %s %s; mount --bind %s %s", on, at, on, at)
	}
	keeper := exec.Command("sh", "-c", script+"; echo mounted; exec cat >/dev/null")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		keeper.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	keeper.Stderr = os.Stderr
	out := must(keeper.StdoutPipe())(t)
	in := must(keeper.StdinPipe())(t)
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

// enter returns the beginning of a command line whose command sees the volume.
func (v *volume) enter() []string {
	if os.Getuid() == 0 {
		line := []string{"nsenter", "--target", v.pid, "--mount", "--"}
		if v.user == 0 {
			return line
		}
		user := strconv.Itoa(v.user)
		return append(line, "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "env", "--chdir=/", "HOME="+v.folder)
	}
	// Whoever is root there is the user that the tests are, and is that user again in a namespace below.
	return []string{"nsenter", "--target", v.pid, "--user", "--mount", "--preserve-credentials", "--",
		"unshare", "--map-user=" + strconv.Itoa(os.Getuid()), "--map-group=" + strconv.Itoa(os.Getgid()), "--"}
}

// outside returns the path by which this program reaches what a process in the namespace sees at a path.
func (v *volume) outside(path string) string { return filepath.Join("/proc", v.pid, "root", path) }

// filler is the file that takes the space.
func (v *volume) filler() string { return filepath.Join(v.outside(v.folder), "filler") }

// space returns how many bytes are free.
func (v *volume) space() int64 {
	v.t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(v.outside(v.folder), &s); err != nil {
		v.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// fill leaves so many bytes free, or fewer, while the server goes on writing.
func (v *volume) fill(leave int64) {
	v.t.Helper()
	f := must(os.Create(v.filler()))(v.t)
	defer func() { _ = f.Close() }()
	var err error = unix.ENOSPC
	for errors.Is(err, unix.ENOSPC) {
		take := v.space() - leave
		if take <= 0 {
			return
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, take)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

// topUp takes the space that became free meanwhile.
func (v *volume) topUp() {
	v.t.Helper()
	f := must(os.OpenFile(v.filler(), os.O_APPEND|os.O_WRONLY, 0))(v.t)
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

// crowd makes empty files until there can be no more. What takes them back is returned.
func (v *volume) crowd() (back func()) {
	v.t.Helper()
	folder := filepath.Join(v.outside(v.folder), "crowd")
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

// drain gives the space back.
func (v *volume) drain() {
	v.t.Helper()
	if err := os.Remove(v.filler()); err != nil {
		v.t.Fatal(err)
	}
}
