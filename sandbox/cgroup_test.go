package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
)

// In version 2 each limit has its own file; here in a folder that looks like a group.
func TestGroupOfVersion2(t *testing.T) {
	t.Parallel()
	g, folder := sandbox.NewGroup(t.TempDir())
	if err := g.Limit(sandbox.Limits{Memory: 64 * mib, Processes: 40, CPU: 250}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without files for the limits: %v", err)
	}
	want := map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "40", "cpu.max": "25000 100000", "cgroup.kill": "1",
		"cgroup.procs": "",
	}
	for name := range want {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Limit(sandbox.Limits{Memory: 64 * mib, Processes: 40, CPU: 250}); err != nil {
		t.Error(err)
	}
	g.Kill()
	for name, want := range want {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
}

// Go's runtime interrupts threads by signals, and the kernel stops to serve one before it has set a limit of version 1.
func TestLimitAmongSignals(t *testing.T) {
	t.Parallel()
	g, ok := sandbox.MemoryGroup(confined(t))
	if !ok {
		t.Log("nobody can make a group here")
		return
	}
	defer g.Remove()
	runtime.LockOSThread() // the one that gets the signals
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancel(t.Context())
	var signals sync.WaitGroup
	defer signals.Wait()
	defer stop()
	thread := unix.Gettid()
	signals.Go(func() {
		for ctx.Err() == nil {
			_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG)
		}
	})
	for range 5_000 {
		if err := g.Limit(sandbox.Limits{Memory: 64 * mib}); err != nil {
			t.Fatal(err)
		}
	}
}

// version2 returns a folder in which groups of version 2 can be made, which may have no controllers; empty where nobody
// can.
func version2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var info unix.Statfs_t
		if unix.Statfs(mount, &info) == nil && info.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(mount, unix.W_OK) == nil {
			return mount
		}
	}
	t.Log("nobody can make a group of version 2 here")
	return ""
}

// In a container, or in a unit whose group is its own, the server and what it started make room: groups can be made
// beside them then. It leaves the processes of others where they are.
func TestMakesRoom(t *testing.T) {
	t.Parallel()
	parent := version2(t)
	if parent == "" {
		return
	}
	g, folder := sandbox.NewGroup(parent)
	defer g.Remove()
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	// it is nobody's child
	other := exec.CommandContext(t.Context(), "/bin/sh", "-c", "setsid sleep 600 > /dev/null 2>&1 & echo $!")
	if out, err := other.Output(); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), out, 0o600); err != nil {
		t.Fatal(err)
	}
	members := func(folder string) int {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		return len(strings.Fields(string(text)))
	}
	if err := sandbox.MakeRoom(folder, false); err == nil || members(folder) != 2 {
		t.Errorf("beside a stranger: %v, and %d are left; want that nothing moves", err, members(folder))
	}
	if err := sandbox.MakeRoom(folder, true); err != nil || members(folder) != 0 ||
		members(filepath.Join(folder, "server")) != 2 {
		t.Errorf("in a container: %v, and %d are left", err, members(folder))
	}
	if err := sandbox.MakeRoom(folder, false); err != nil { // again, by a server that is started again
		t.Error(err)
	}
	for _, folder := range []string{filepath.Join(folder, "server"), folder} {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well; it should have been killed")
	}
	eventually(t, "the group is empty", func() bool { return os.Remove(filepath.Join(folder, "server")) == nil })
}

// A process begins in its group of version 2, and ends with it; here on a mount that has no controllers, where there is
// one.
func TestBeginsInGroupOfVersion2(t *testing.T) {
	t.Parallel()
	parent := version2(t)
	if parent == "" {
		return
	}
	g, folder := sandbox.NewGroup(parent)
	defer g.Remove()
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(text), filepath.Base(folder)+"\n") {
		t.Errorf("it is in %q, %v; want %s", text, err, folder)
	}
	g.Kill()
	if err := <-ended; err == nil {
		t.Error("it ended well; it should have been killed")
	}
}

// What a killed server left is removed with the groups that were made in it, at once: a start does not wait for them.
func TestDetectRemovesNestedGroups(t *testing.T) {
	t.Parallel()
	// no process has this number
	owner := strings.Replace(sandbox.OwnName(), fmt.Sprintf("-%d-", os.Getpid()), "-4194304-", 1) + "-"
	var left []string
	for _, folder := range sandbox.GroupFolders(sandbox.Detect(t.Context(), sandbox.Off)) {
		path := filepath.Join(folder, owner+strings.ReplaceAll(t.Name(), "/", "-"))
		if err := os.MkdirAll(filepath.Join(path, owner+"inner"), 0o755); err != nil {
			t.Fatal(err)
		}
		left = append(left, path)
	}
	sandbox.Detect(t.Context(), sandbox.Off)
	for _, path := range left {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
}

// A server in a container beside this one, which sees the same control groups and temporary files but not this one's
// processes, takes nothing of it for what a dead one left. Nor does it follow a link that somebody put in the way.
func TestDetectLeavesOthers(t *testing.T) {
	t.Parallel()
	s := confined(t)
	beside := start(t, s, sandbox.Program{Args: []string{"/bin/cat"}})
	victim := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(victim, 0o500); err != nil {
		t.Fatal(err)
	}
	dead := strings.Replace(sandbox.OwnName(), fmt.Sprintf("-%d-", os.Getpid()), "-4194304-", 1)
	link, temp := filepath.Join(os.TempDir(), dead+"-link"), filepath.Join(os.TempDir(), sandbox.OwnName()+"-others") //nolint:usetesting // where servers look
	if err := os.Symlink(filepath.Dir(victim), link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(link) })
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(temp) })

	sandbox.Detect(t.Context(), sandbox.Off)
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("behind the link the folder is %v, %v; want it as it was", info.Mode(), err)
	}
	unshare := []string{"--pid", "--fork", "--mount-proc"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	if err := exec.CommandContext(t.Context(), "unshare", append(unshare, "true")...).Run(); err != nil {
		t.Log("nobody can make a container here: ", err)
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare",
		append(unshare, self(t), "server", "off", t.TempDir(), "echo it ran")...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "it ran") {
		t.Fatalf("the server beside: %v\n%s", err, out)
	}
	if _, err := os.Stat(temp); err != nil {
		t.Errorf("the temporary folder: %v", err)
	}
	if _, err := fmt.Fprintln(beside.Stdin, "there?"); err != nil {
		t.Error(err)
	}
	if said, err := bufio.NewReader(beside.Stdout).ReadString('\n'); said != "there?\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
}
