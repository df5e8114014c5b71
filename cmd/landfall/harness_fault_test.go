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

// dose returns how many faults an experiment makes that makes so many in one round.
func dose(t *testing.T, inOneRound int) int {
	t.Helper()
	text := os.Getenv(faultRoundsVariable)
	if text == "" {
		return inOneRound
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q; right would be a number", faultRoundsVariable, text)
	}
	return rounds * inOneRound
}

// volume is a file system of a few MiB in memory. It is mounted in a mount namespace of its own, so that it needs no rights
// beyond those of the sandbox's tests and is gone with the test program, however that ends.
type volume struct {
	t      *testing.T
	folder string // where it is mounted, as a process in the namespace sees it
	pid    string // of the process that keeps the namespace
}

// newVolume mounts a volume, and lets the subfolders of data that are named lie on it.
func newVolume(t *testing.T, size int64, data string, subfolders ...string) *volume {
	t.Helper()
	v := &volume{t: t, folder: t.TempDir()}
	script := fmt.Sprintf("set -e; mount -t tmpfs -o size=%d,mode=0700 tmpfs %s", size, v.folder)
	for _, name := range subfolders {
		on, at := filepath.Join(v.folder, name), filepath.Join(data, name)
		script += fmt.Sprintf("; mkdir -p %s %s; mount --bind %s %s", on, at, on, at)
	}
	keeper := exec.Command("sh", "-c", script+"; echo mounted; exec cat >/dev/null")
	keeper.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
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
	return []string{"nsenter", "--target", v.pid, "--user", "--mount", "--preserve-credentials", "--"}
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

// drain gives the space back.
func (v *volume) drain() {
	v.t.Helper()
	if err := os.Remove(v.filler()); err != nil {
		v.t.Fatal(err)
	}
}
