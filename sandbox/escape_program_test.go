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
)

// attempt tries a shell line as a program, and reports whether it came to success; it must come to an end.
func attempt(t *testing.T, s *sandbox.Sandbox, dir, line string) (in bool, said string) {
	t.Helper()
	p := start(t, s, sandbox.Program{Dir: dir, Args: shell("( " + line + " ) 2>&1 && echo IT IS IN; echo tried")})
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if err != nil || !strings.HasSuffix(string(out), "tried\n") {
		t.Fatalf("%q did not come to its end: %v, %q", line, err, out)
	}
	return strings.Contains(string(out), "IT IS IN\n"), string(out)
}

// A function that tries to get out, to what the server or others have, or to more than it was given: each way is closed. What
// anybody on the machine can do works outside of the sandbox, which shows that the attempt is one.
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
	if err := os.WriteFile(filepath.Join(dir, "id"), id, 0o755); err != nil {
		t.Fatal(err)
	}
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
	victim := exec.CommandContext(t.Context(), "/bin/sleep", "600")
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

	// The probes are this binary, which lies elsewhere outside of the sandbox.
	for _, test := range []struct {
		name, line string
		anybody    bool // it works outside of the sandbox, whoever runs the tests
	}{
		{"a file of the server, by its path", "cat " + file, true},
		{"a file that the server has open", fmt.Sprintf("cat /proc/%d/fd/%d", os.Getpid(), leaked), true},
		{"an inherited file", fmt.Sprintf("cat /proc/self/fd/%d", leaked), false},
		{"any inherited file", `for f in /proc/self/fd/*; do case ${f##*/} in 0|1|2|3) ;; *) [ -e "$f" ] && exit 0 ;; esac; done; false`, false},
		{"a working folder that leads out", `for i in 3 4 5 6 7 8 9 10 11 12; do ls /proc/self/fd/$i/../../../root && exit 0; done; false`, false},
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
		{"write to its folder", "echo x > /function/x || rm -f /function/id && [ ! -e /function/id ]", false},
		{"change the mode of its folder", "chmod 700 /function || touch /function/id", false},
		{"write to /dev", "echo x > /dev/x || mknod /dev/x c 1 1 || mknod /tmp/x c 1 1", false},
		{"the machine's devices", "head -c 1 /dev/mem || head -c 1 /dev/kmsg || ls /dev/vda /dev/sda /dev/kvm /dev/fuse", false},
		{"the terminal", ": < /dev/tty", false},
		{"write to /sys", "ls /sys/kernel || echo x > /sys/fs/cgroup/cgroup.procs", false},
		{"write to /proc/sys", "echo x > /proc/sys/kernel/core_pattern || echo 1 > /proc/sys/vm/drop_caches", false},
		{"write to /proc", "echo 0 > /proc/self/oom_score_adj || echo b > /proc/sysrq-trigger || echo x > /proc/self/comm", false},
		{"write to the machine's programs", "echo x > /usr/bin/x || echo x > /etc/x || echo x > /x || echo x >> " + sandbox.InitAt, false},
		{"signal a process of the host", fmt.Sprintf("kill -0 %d", victim.Process.Pid), true},
		{"kill the server", fmt.Sprintf("kill -9 %d", os.Getpid()), false},
		{"kill process 1", `kill -9 1; kill -SEGV 1; [ ! -e /proc/1 ]`, false},
		{"larger limits", `ulimit -H -n 100000 || ulimit -H -c unlimited || ulimit -H -f unlimited`, false},
		{"a higher priority", "[ \"$(nice -n -5 nice)\" -lt 0 ]", false},
		{"the clock", "date -s @0", false},
		{"the host's name", "hostname other || echo other > /proc/sys/kernel/hostname", false},
		{"the kernel's log", "dmesg", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// S22: refused, each
			if in, said := attempt(t, s, dir, strings.ReplaceAll(test.line, "PROBE", sandbox.InitAt+" probe")); in {
				t.Errorf("it came through: %s", said)
			}
			if !test.anybody {
				return
			}
			if in, said := attempt(t, off, dir, strings.ReplaceAll(test.line, "PROBE", self(t)+" probe")); !in {
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
		if data, err := os.ReadFile(filepath.Join(dir, "id")); err != nil || len(data) != len(id) {
			t.Errorf("the folder was changed: %d bytes, %v", len(data), err)
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
		{"memory, in /tmp", "head -c 1G /dev/zero > /tmp/x; cat /tmp/x > /tmp/y", sandbox.Limits{Memory: 64 * mib, Disk: 512 * mib}, 0, "memory limit of 64 MiB"},
		{"/tmp", "head -c 100M /dev/zero > /tmp/x; stat -c %s /tmp/x", sandbox.Limits{Disk: 8 * mib}, 8 * mib, ""},
		{"/dev/shm", "head -c 100M /dev/zero > /dev/shm/x; stat -c %s /dev/shm/x", sandbox.Limits{Disk: 8 * mib}, 8 * mib, ""},
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
	}
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
