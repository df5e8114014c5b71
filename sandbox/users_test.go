package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
)

const setPipeSize = 1031 // F_SETPIPE_SZ (fcntl(2))

// probeGreedy takes all watches of files, all pages in pipes, and all descriptors under way that one user may have, and
// keeps them.
func probeGreedy() {
	for range 1000 {
		if _, err := unix.InotifyInit1(0); err != nil {
			break
		}
	}
	for range 2000 {
		var ends [2]int
		if unix.Pipe2(ends[:], 0) != nil {
			break
		}
		_, _ = unix.FcntlInt(uintptr(ends[1]), setPipeSize, mib)
		unix.Close(ends[1])
	}
	fmt.Println("has it")
	rest()
}

// probeModest watches one folder, and has one pipe of the usual size, and one that is larger. It prints what came of
// that.
func probeModest() {
	fd, err := unix.InotifyInit1(0)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, "/tmp", unix.IN_CREATE)
	}
	answer("watch", err)
	var ends [2]int
	err = unix.Pipe2(ends[:], unix.O_NONBLOCK)
	answer("pipe", err)
	takes := 0
	for n := 1; n > 0 && takes < mib; takes += max(n, 0) {
		n, _ = unix.Write(ends[1], make([]byte, 4096))
	}
	fmt.Println(takes, "bytes")
	_, err = unix.FcntlInt(uintptr(ends[1]), setPipeSize, mib)
	answer("larger", err)
	_, err = io.CopyN(os.Stdout, neverEnding{}, mib) // more than any pipe takes at once
	fmt.Println()
	answer("answer", err)
}

// neverEnding is a text without an end.
type neverEnding struct{}

// Read implements io.Reader.
func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '.'
	}
	return len(p), nil
}

// beside returns what a modest function prints while a greedy one has all that it can get.
func beside(s *sandbox.Sandbox, dir string) (string, error) {
	program := func(what string) sandbox.Program {
		return sandbox.Program{Dir: dir, Args: []string{sandbox.InitAt, "probe", what}}
	}
	greedy, err := s.Start(program("greedy"))
	if err != nil {
		return "", err
	}
	defer greedy.Close()
	defer greedy.Kill()
	if said, err := bufio.NewReader(greedy.Stdout).ReadString('\n'); err != nil || said != "has it\n" {
		return "", fmt.Errorf("the greedy function says %q: %w", said, err)
	}
	modest, err := s.Start(program("modest"))
	if err != nil {
		return "", err
	}
	defer modest.Close()
	out, err := io.ReadAll(modest.Stdout)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(string(out), strings.Repeat(".", mib), "all"), nil
}

// neighbours is a Landfall with a greedy function and a modest one. Its argument is a folder.
func neighbours(args []string) int {
	s := sandbox.Detect(context.Background(), sandbox.Auto)
	fmt.Println(s.Kind(), sandbox.IsAlone(s))
	said, err := beside(s, args[0])
	fmt.Print(said)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// One function takes all watches of files and all pages in pipes that the kernel gives to one user. Another one notices
// nothing, because it is another user.
func TestUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := confined(t)
	if !sandbox.HasUsers(s) {
		t.Log("nobody can be another user here")
		return
	}
	for way, test := range map[string]struct {
		s      *sandbox.Sandbox
		larger string
	}{
		"alone": {s, "done"}, "by bubblewrap": {sandbox.WithoutAlone(s), "done"},
		"without control groups": {sandbox.WatchOnly(s), "EPERM"},
	} {
		if way != "without control groups" && !sandbox.HasGroups(s) {
			continue
		}
		got, err := beside(test.s, t.TempDir())
		if want := "watch done\npipe done\n65536 bytes\nlarger " + test.larger + "\nall\nanswer done\n"; err != nil ||
			got != want {
			t.Errorf("%s: beside a greedy one it says\n%s%v\nwant\n%s", way, got, err, want)
		}
	}
}

// Where all sandboxes have the same user, what that user may have is nobody's alone: watches are refused, pipes keep
// their size, and are smaller when there are many. Everybody still answers.
func TestUsersShared(t *testing.T) {
	t.Parallel()
	s := sandbox.WithoutUsers(confined(t))
	check := func(got string) {
		t.Helper()
		want := []string{"watch ENOSYS", "pipe done", "bytes", "larger EPERM", "all", "answer done"}
		lines := strings.Split(strings.TrimSpace(got), "\n")
		for i := range want {
			if len(lines) != len(want) || !strings.HasSuffix(lines[i], want[i]) {
				t.Fatalf("beside a greedy one it says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		}
		var takes int
		if _, err := fmt.Sscan(lines[2], &takes); err != nil || takes < 4096 {
			t.Errorf("its pipe takes %d bytes, %v; want a page at least", takes, err)
		}
	}
	got, err := beside(s, t.TempDir())
	if err != nil {
		t.Error(err)
	}
	check(got)
	o := newOrdinary(t)
	out, err := o.run(t, o.program, "neighbours", o.dir)
	kind, got, _ := strings.Cut(out, "\n")
	if kind != "bubblewrap true" {
		t.Logf("this kernel lets nobody but root start programs without bubblewrap: %s", out)
		return
	}
	if err != nil {
		t.Error(err)
	}
	check(got)
	if lacks := strings.Join(s.Lacks(), "\n"); !strings.Contains(lacks,
		"users of its own for each sandbox: inotify is refused") {
		t.Errorf("what is lacking is\n%s\nwant that it says what is refused", lacks)
	}
}

// Functions that run at one time are different users on the host, none of them root or anybody whom the machine knows;
// what a build made is the server's to read and to remove.
func TestUsersOnTheHost(t *testing.T) {
	t.Parallel()
	s := confined(t)
	if !sandbox.HasUsers(s) {
		t.Log("nobody can be another user here")
		return
	}
	owners := map[uint32]bool{0: true, 65534: true}
	for i := range 3 {
		word := fmt.Sprintf("landfall-owner-%d-%d", os.Getpid(), i)
		p := start(t, s, sandbox.Program{Args: shell("echo ready; read -r line # " + word)})
		if said, err := bufio.NewReader(p.Stdout).ReadString('\n'); said != "ready\n" {
			t.Fatalf("it says %q, %v", said, err)
		}
		for _, pid := range running(word) {
			info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			if err != nil {
				t.Fatal(err)
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok || owners[stat.Uid] || stat.Uid != stat.Gid {
				t.Errorf("function %d is the user %d in the group %d; want one of its own", i, stat.Uid, stat.Gid)
			}
			owners[stat.Uid] = true
		}
	}
	dir := t.TempDir()
	show(t, s,
		sandbox.Command{Dir: dir, Shell: "mkdir made && echo x > made/file && chmod 600 made/file && chmod 700 made"})
	if text, err := os.ReadFile(filepath.Join(dir, "made", "file")); err != nil || string(text) != "x\n" {
		t.Errorf("what it made is %q, %v", text, err)
	}
	if got := show(t, s, sandbox.Command{Shell: "id -un; id -gn"}); got != "nobody\nnogroup\n" {
		t.Errorf("a build is called %q", got)
	}
}

// An image's list of users knows the one that its program is, and everybody whom it knew.
func TestUserInImage(t *testing.T) {
	t.Parallel()
	s := confined(t)
	root := imageRoot(t, "/usr/bin/id")
	if err := os.WriteFile(filepath.Join(root, "etc", "passwd"), []byte("daemon:x:1:1::/:/bin/false\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for way, s := range map[string]*sandbox.Sandbox{
		"alone": s, "by bubblewrap": sandbox.WithInit(sandbox.WithoutAlone(s), smallInit(t, t.TempDir())),
	} {
		p := start(t, s, sandbox.Program{Dir: "/function", Root: root,
			Args: shell("cat /etc/passwd; echo x > /etc/passwd || echo no")})
		want := "nobody:x:65534:65534:nobody:/tmp:/bin/sh\ndaemon:x:1:1::/:/bin/false\nno\n"
		if got := sandbox.WithoutNames(s, said(t, p)); got != want {
			t.Errorf("%s: it sees\n%s\nwant\n%s", way, got, want)
		}
	}
}
