package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// attempt tries a shell line as a program, and reports whether it came to success; it must come to an end.
func attempt(t *testing.T, s *sandbox.Sandbox, program sandbox.Program, line string) (in bool, said string) {
	t.Helper()
	program.Args = shell("( " + line + " ) 2>&1 && echo IT IS IN; echo tried")
	p := start(t, s, program)
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if err != nil || !strings.HasSuffix(string(out), "tried\n") {
		t.Fatalf("%q did not come to its end: %v, %q", line, err, out)
	}
	return strings.Contains(string(out), "IT IS IN\n"), string(out)
}

// A function that tries to get out, to what the server or others have, or to more than it was given: each way is
// closed. What anybody on the machine can do works outside of the sandbox, which shows that the attempt is one.
func TestEscapeProgram(t *testing.T) {
	t.Parallel()
	s, off := confined(t), sandbox.Detect(t.Context(), sandbox.Off)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { // even so
		t.Fatal(err)
	}
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Program(t, filepath.Join(dir, "id"), id)
	if err := os.Chmod(filepath.Join(dir, "id"), 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	file := canary(t, t.TempDir())
	open, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { open.Close() })      // after the attempts
	leaked, err := unix.Dup(int(open.Fd())) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(leaked) })
	victim := exec.CommandContext(t.Context(), "/bin/sleep", "infinity")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	abstract := "@landfall-escape-" + strconv.Itoa(os.Getpid())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()

	// Another function, which has a socket.
	beside := start(t, s, sandbox.Program{Dir: dir,
		Args: []string{sandbox.InitAt, "probe", "listen", abstract + "-beside"}})
	if said, err := bufio.NewReader(beside.Stdout).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the function beside says %q, %v", said, err)
	}

	loopback, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loopback.Close() })
	go func() {
		for {
			conn, err := loopback.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	byProxy := func(address string) string {
		return "HTTPS_PROXY=http://127.0.0.1:3128 PROBE get " + address + " | grep -v -e ^403 -e ^failed"
	}

	// The probes are this binary, which lies elsewhere outside of the sandbox.
	root := imageRoot(t, filepath.Join(dir, "id"))
	small := smallInit(t, t.TempDir())
	ways := map[string]struct {
		s       *sandbox.Sandbox
		program sandbox.Program
		probe   string
	}{
		"alone":            {s, sandbox.Program{Dir: dir}, sandbox.InitAt},
		"beside the proxy": {s, sandbox.Program{Dir: dir, Proxy: &sandbox.Proxy{}}, sandbox.InitAt},
		"by bubblewrap, beside it": {sandbox.WithoutAlone(s), sandbox.Program{Dir: dir, Proxy: &sandbox.Proxy{}},
			sandbox.InitAt},
		"by bubblewrap": {sandbox.WithoutAlone(s), sandbox.Program{Dir: dir}, sandbox.InitAt},
		"in an image":   {s, sandbox.Program{Dir: "/function", Root: root}, "/probe"},
		"in an image, by bubblewrap": {sandbox.WithInit(sandbox.WithoutAlone(s), small),
			sandbox.Program{Dir: "/function", Root: root}, "/probe"},
	}
	for _, test := range []struct {
		name, line string
		anybody    bool // it works outside of the sandbox, whoever runs the tests
	}{
		{"a file of the server, by its path", "cat " + file, true},
		{"a file that the server has open", fmt.Sprintf("cat /proc/%d/fd/%d", os.Getpid(), leaked), true},
		{"an inherited file", fmt.Sprintf("cat /proc/self/fd/%d", leaked), false},
		{"any inherited file",
			`for f in /proc/self/fd/*; do case ${f##*/} in 0|1|2|3) ;; *) [ -e "$f" ] && exit 0 ;; esac; done; false`, false},
		{"a working folder that leads out",
			`for i in 3 4 5 6 7 8 9 10 11 12; do ls /proc/self/fd/$i/../../../root && exit 0; done; false`, false},
		{"files of process 1", "ls /proc/1/fd/ || cat /proc/1/environ", false},
		{"the root of process 1", "ls /proc/1/root/ || ls /proc/1/cwd/", false},
		{"the memory of process 1", "head -c 1 /proc/1/mem || cat /proc/1/maps || cat /proc/1/stack", false},
		{"ptrace of its own child", "PROBE ptrace", true},
		{"mount", "mount -t tmpfs none /tmp", false},
		{"mount by its call", "PROBE mount", false},
		{"remount what is read-only", "mount -o remount,rw,bind /function || mount -o remount,rw /", false},
		{"unshare a user namespace", "unshare -U true", false},
		{"unshare a mount namespace", "unshare -m true", false},
		{"clone a user namespace", "PROBE clone", false},
		{"enter a namespace", "nsenter -t 1 -m true", false},
		{"chroot", "chroot /usr /bin/true", false},
		{"a file by its handle", "PROBE handle", false},
		{"the kernel's keys, to read", "PROBE keyctl", false},
		{"the kernel's keys, to add", "PROBE addkey", false},
		{"io_uring", "PROBE io_uring", false},
		{"AF_ALG", "PROBE alg", false},
		{"AF_VSOCK", "PROBE vsock", false},
		{"AF_PACKET", "PROBE packet", false},
		{"a raw socket", "PROBE raw", false},
		{"an abstract socket of the host", "PROBE dial unix " + abstract, true},
		{"bpf", "PROBE bpf", false},
		{"perf_event_open", "PROBE perf", false},
		{"userfaultfd", "PROBE userfaultfd", false},
		{"a setuid program of its own", `[ "$(/function/id -u)" = 0 ]`, false},
		{"a setuid program of the machine", "su -c true || sudo -n true || mount -t tmpfs none /tmp", false},
		{"become root", "PROBE setuid", false},
		{"the metadata service", "PROBE dial tcp 169.254.169.254:80", false},
		{"the metadata service of version 6", "PROBE dial tcp [fd00:ec2::254]:80", false},
		{"a name server", "PROBE dial udp 1.1.1.1:53", false},
		{"the network beside", "PROBE dial tcp 10.0.0.1:80", false},
		{"the metadata service, by the proxy", byProxy("http://169.254.169.254/"), false},
		{"the network beside, by the proxy", byProxy("http://10.0.0.1/"), false},
		{"the server, by the proxy", byProxy("http://" + loopback.Addr().String() + "/"), false},
		{"the server by its name, by the proxy", byProxy("http://localhost/"), false},
		{"another port, by the proxy", byProxy("http://1.1.1.1:25/"), false},
		{"the server", "PROBE dial tcp " + loopback.Addr().String(), true},
		{"a public address, past the proxy", "PROBE dial tcp 1.1.1.1:443", false},
		{"a public address of version 6, past the proxy", "PROBE dial tcp [2606:4700::1111]:443", false},
		{"AF_INET6", "PROBE inet6", false},
		{"UDP", "PROBE udp", false},
		{"MPTCP", "PROBE mptcp", false},
		{"write to its folder", "echo x > /function/x || rm -f /function/id && [ ! -e /function/id ]", false},
		{"change the mode of its folder", "chmod 700 /function || touch /function/id", false},
		{"write to /dev", "echo x > /dev/x || mknod /dev/x c 1 1 || mknod /tmp/x c 1 1", false},
		{"the machine's devices", "head -c 1 /dev/mem || head -c 1 /dev/kmsg || ls /dev/vda /dev/sda /dev/kvm /dev/fuse",
			false},
		{"the terminal", ": < /dev/tty", false},
		{"write to /sys", "ls /sys/kernel || echo x > /sys/fs/cgroup/cgroup.procs", false},
		{"write to /proc/sys", "echo x > /proc/sys/kernel/core_pattern || echo 1 > /proc/sys/vm/drop_caches", false},
		{"write to /proc", "echo 0 > /proc/self/oom_score_adj || echo b > /proc/sysrq-trigger || echo x > /proc/self/comm",
			false},
		{"write to the machine's programs", "echo x > /usr/bin/x || echo x > /etc/x || echo x > /x || echo x >> " +
			sandbox.InitAt, false}, {"signal a process of the host", fmt.Sprintf("kill -0 %d", victim.Process.Pid), true},
		{"kill the server", fmt.Sprintf("kill -9 %d", os.Getpid()), false},
		{"kill process 1", `for s in $(seq 64); do kill -$s 1; done; id; ! grep -q "^State:.[RSD]" /proc/1/status`, false},
		{"larger limits", `ulimit -H -n 100000 || ulimit -H -c unlimited || ulimit -H -f unlimited`, false},
		{"a higher priority", "[ \"$(nice -n -5 nice)\" -lt 0 ]", false},
		{"the clock", "date -s @0", false},
		{"the host's name", "hostname other || echo other > /proc/sys/kernel/hostname", false},
		{"the kernel's log", "dmesg", false},
		{"another function's process", `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; done | grep -- "-besid[e]"`,
			false},
		{"another function's socket", "PROBE dial unix " + abstract + "-beside", false},
		{"a core of a crash", `cd /tmp; sh -c 'kill -SEGV $$'; ls | grep core`, false},
		{"unmount", "umount -l /proc || umount /function || umount -l /", false},
		{"unmount by its call", "PROBE umount", false},
		{"change the root", "PROBE pivot", false},
		{"mount in the newer way", "PROBE fsopen", false},
		{"cut out mounts", "PROBE tree", false},
		{"change mounts", "PROBE setattr", false},
		{"enter a namespace by its call", "PROBE setns", false},
		{"make a namespace by clone3", "PROBE clone3", false},
		{"make a namespace by its call", "PROBE unshare", false},
		{"AF_NETLINK", "PROBE netlink", false},
		{"AF_INET", "PROBE inet", false},
		{"the memory of another process", "PROBE vmread", false},
		{"a file of another process", "PROBE getfd", false},
		{"addresses that are known before", "PROBE personality", false},
		{"type on a terminal", "PROBE tiocsti", false},
		{"filters of its own", "PROBE seccomp", false},
		{"the second numbering of calls", "PROBE x32", false},
		{"the older asynchronous files", "PROBE aio", false},
		{"watch all files", "PROBE fanotify", false},
		{"restart the machine", "PROBE reboot", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for way, with := range ways {
				if with.program.Proxy != nil && test.line == "PROBE inet" {
					continue // by which the proxy is reached
				}
				// S22: refused, each
				if in, said := attempt(t, with.s, with.program, strings.ReplaceAll(test.line, "PROBE", with.probe+" probe")); in {
					t.Errorf("%s: it came through: %s", way, said)
				}
			}
			if !test.anybody {
				return
			}
			if in, said := attempt(t, off, sandbox.Program{Dir: dir},
				strings.ReplaceAll(test.line, "PROBE", self(t)+" probe")); !in {
				t.Errorf("outside of the sandbox it does not work either: %s", said)
			}
		})
	}
	t.Run("kill everybody", func(t *testing.T) {
		t.Parallel()
		if _, err := start(t, s, sandbox.Program{Dir: dir, Args: shell("kill -9 -1")}).Result(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("the host's process has ended: %v", err)
		default:
			if err := victim.Process.Kill(); err != nil {
				t.Error(err)
			}
			<-ended
		}
		for _, dir := range []string{dir, filepath.Join(root, "function")} {
			if data, err := os.ReadFile(filepath.Join(dir, "id")); err != nil || len(data) != len(id) {
				t.Errorf("the folder was changed: %d bytes, %v", len(data), err)
			}
		}
	})
}

// A function that takes what it can get gets what its limits say, and a function beside it still answers.
func TestEscapeProgramLimits(t *testing.T) {
	t.Parallel()
	s := confined(t)
	for _, test := range []struct {
		name, line string
		limits     sandbox.Limits
		most       int    // of what it counts, in its last line
		killed     string // why it ends
	}{
		{"processes", `i=1; while sleep 600 & do i=$((i+1)); echo $i; done`, sandbox.Limits{Processes: 40}, 40, ""},
		{"memory", sandbox.InitAt + " probe hog 1500000000", sandbox.Limits{Memory: 128 * mib}, 0, "memory limit of 128 MiB"},
		{"memory, in /tmp", "head -c 1G /dev/zero > /tmp/x; cat /tmp/x > /tmp/y",
			sandbox.Limits{Memory: 64 * mib, Disk: 512 * mib}, 0, "memory limit of 64 MiB"},
		{"/tmp", "head -c 100M /dev/zero > /tmp/x; stat -c %s /tmp/x", sandbox.Limits{Disk: 8 * mib}, 8 * mib, ""},
		{"/dev/shm", "head -c 100M /dev/zero > /dev/shm/x; stat -c %s /dev/shm/x", sandbox.Limits{Disk: 8 * mib},
			8 * mib, ""},
		{"open files", sandbox.InitAt + " probe files", sandbox.Limits{}, 8192, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			beside := start(t, s, sandbox.Program{Args: []string{"/bin/cat"}})
			p := start(t, s, sandbox.Program{Args: shell(test.line), Limits: test.limits})
			go func() { _, _ = io.Copy(io.Discard, p.Stderr) }()
			out, err := io.ReadAll(p.Stdout)
			if err != nil {
				t.Fatal(err)
			}
			result, err := p.Result()
			if err != nil {
				t.Fatal(err)
			}
			if test.killed != "" {
				if !strings.Contains(result.Killed, test.killed) {
					t.Errorf("Result = %+v, want it killed for its %s", result, test.killed)
				}
			} else {
				lines := strings.Fields(string(out))
				if len(lines) == 0 {
					t.Fatal("it counted nothing")
				}
				if n, err := strconv.Atoi(lines[len(lines)-1]); err != nil || n < test.most/2 || n > test.most {
					t.Errorf("it got %d, %v; want at most %d and not much less", n, err, test.most)
				}
			}
			if _, err := fmt.Fprintln(beside.Stdin, "there?"); err != nil {
				t.Error(err)
			}
			if said, err := bufio.NewReader(beside.Stdout).ReadString('\n'); said != "there?\n" {
				t.Errorf("the function beside it says %q, %v", said, err)
			}
		})
	}
}

// tries are what a probe tries by a system call of its own; nil is success.
func tries() map[string]func() error {
	call := func(number uintptr, args ...uintptr) func() error {
		args = append(args, make([]uintptr, 6)...)
		return func() error {
			if _, _, errno := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
				return errno
			}
			return nil
		}
	}
	// through is for calls whose arguments are nonsense: any answer but a refusal means that the kernel looked at them.
	through := func(try func() error) func() error {
		return func() error {
			if err := try(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
				return err
			}
			return nil
		}
	}
	socket := func(family, kind, protocol int) func() error {
		return func() error {
			_, err := unix.Socket(family, kind, protocol)
			return err
		}
	}
	return map[string]func() error{
		"ptrace":      call(unix.SYS_PTRACE, unix.PTRACE_TRACEME),
		"mount":       through(call(unix.SYS_MOUNT)),
		"clone":       tryClone,
		"handle":      through(call(unix.SYS_OPEN_BY_HANDLE_AT)),
		"keyctl":      call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1),
		"addkey":      through(call(unix.SYS_ADD_KEY)),
		"io_uring":    through(call(unix.SYS_IO_URING_SETUP, 1)),
		"alg":         socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"vsock":       socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"packet":      socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"raw":         socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"bpf":         through(call(unix.SYS_BPF)),
		"perf":        through(call(unix.SYS_PERF_EVENT_OPEN)),
		"userfaultfd": call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1),
		"setuid":      func() error { return unix.Setresuid(0, 0, 0) },
		"umount":      through(call(unix.SYS_UMOUNT2)),
		"pivot":       through(call(unix.SYS_PIVOT_ROOT)),
		"fsopen":      through(call(unix.SYS_FSOPEN)),
		"tree":        through(call(unix.SYS_OPEN_TREE)),
		"setattr":     through(call(unix.SYS_MOUNT_SETATTR)),
		"setns":       through(call(unix.SYS_SETNS)),
		"clone3":      through(call(unix.SYS_CLONE3)),
		"unshare":     through(call(unix.SYS_UNSHARE)),
		"netlink":     socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"inet":        socket(unix.AF_INET, unix.SOCK_STREAM, 0),
		"inet6":       socket(unix.AF_INET6, unix.SOCK_STREAM, 0),
		"udp":         socket(unix.AF_INET, unix.SOCK_DGRAM, 0),
		"mptcp":       socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
		"vmread":      through(call(unix.SYS_PROCESS_VM_READV, 1)),
		"getfd":       through(call(unix.SYS_PIDFD_GETFD)),
		"personality": call(unix.SYS_PERSONALITY, noRandomization),
		"tiocsti":     through(call(unix.SYS_IOCTL, 0, unix.TIOCSTI)),
		"seccomp":     through(call(unix.SYS_SECCOMP, 1, 1<<3)),
		"x32":         call(1<<30 | unix.SYS_GETPID),
		"aio":         through(call(unix.SYS_IO_SETUP)),
		"fanotify":    through(call(unix.SYS_FANOTIFY_INIT)),
		"reboot":      through(call(unix.SYS_REBOOT)),
	}
}

// noRandomization is ADDR_NO_RANDOMIZE (personality(2)).
const noRandomization = 0x0040000

// probeListen holds a socket until it is killed.
func probeListen(address string) int {
	if _, err := new(net.ListenConfig).Listen(context.Background(), "unix", address); err != nil {
		answer("listen", err)
		return 1
	}
	fmt.Println("ready")
	select {}
}

// tryClone makes a process in a user namespace of its own.
func tryClone() error {
	cmd := exec.CommandContext(context.Background(), "/bin/true")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	return cmd.Run()
}

// probeFiles opens files until it gets no more, and prints how many it has.
func probeFiles() {
	count := 3
	for ; ; count++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			break
		}
	}
	fmt.Println(count)
}
