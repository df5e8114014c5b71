package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

const secret = "the-canary-sings"

// canary writes the secret to a new file in dir, open to everybody as far as the file's own mode goes.
func canary(t *testing.T, dir string) string {
	t.Helper()
	file, err := os.CreateTemp(dir, "landfall-canary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file.Name()) })
	if _, err := file.WriteString(secret); err != nil {
		t.Fatal(err)
	}
	if err := file.Chmod(0o644); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// No way leads to a file of the host: not by its path, not through /proc, not through a link in the command's own
// folder, not through a file that the server has open. Outside of the sandbox the same lines read it.
func TestEscapeReading(t *testing.T) {
	t.Parallel()
	s := confined(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for where, path := range map[string]string{"the data folder": canary(t, data), "the home": canary(t, home),
		"/tmp": canary(t, "/tmp")} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			open, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			leaked, err := unix.Dup(int(open.Fd())) // without close-on-exec, as somebody who starts the server may leave it
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(leaked)
			ways := []string{"$p", "/proc/self/root$p", "/proc/self/cwd/link", "link",
				fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), leaked)}
			off := sandbox.Detect(t.Context(), sandbox.Off)
			for _, way := range ways {
				out := show(t, off, sandbox.Command{Dir: dir, Shell: fmt.Sprintf("p='%s'; cat %s; true", path, way)})
				if !strings.Contains(out, secret) {
					t.Errorf("outside of the sandbox, %s does not lead to the file either: %s", way, out)
				}
			}
			lines := fmt.Sprintf(`p='%s'
for f in %s "/proc/1/root$p" "/proc/1/cwd/../..$p" "/oldroot$p" "/newroot$p" "/proc/$PPID/root$p"; do cat "$f"; done
ln "$p" hard; cat hard; ln -s "$p" soft; cat soft; true`, path, strings.Join(ways, " "))
			if out := show(t, s, sandbox.Command{Dir: dir, Shell: lines}); strings.Contains(out, secret) {
				t.Errorf("the host's file was read:\n%s", out)
			}
			// Links are looked at, not followed.
			out := show(t, s,
				sandbox.Command{Shell: "readlink /proc/[0-9]*/fd/* /proc/[0-9]*/cwd /proc/[0-9]*/root; ls /proc/self/fd; true"})
			if strings.Contains(out, filepath.Base(path)) || !strings.HasSuffix(out, "0\n1\n2\n3\n") {
				t.Errorf("files of the server are open in the command; beside its own three, ls has one:\n%s", out)
			}
		})
	}
}

// Nothing of the host can be changed but what lies in the command's own folder: not by writing, not by mounting anew,
// not by changing the mode of a device or of the program that confines.
func TestEscapeWriting(t *testing.T) {
	t.Parallel()
	s := confined(t)
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]os.FileMode{}
	for _, path := range []string{"/dev/null", "/dev/zero", bwrap, "/usr/bin"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		modes[path] = info.Mode()
	}
	marker := filepath.Base(canary(t, t.TempDir()))
	dir := t.TempDir()
	out := show(t, s, sandbox.Command{Dir: dir, Shell: `m=` + marker + `; [ -e ` + sandbox.InitAt + ` ] || exit 99
try() { if ( "$@" ) 2>/dev/null; then echo "DONE: $*"; fi; }
put() { : >> "$1"; }
again() { chmod "$(stat -Lc %a "$1")" "$1"; }
timed() { touch -c -d "@$(stat -Lc %Y "$1")" "$1"; }
owned() { chown "$(stat -Lc %u "$1")" "$1"; }
for d in /usr /usr/bin /usr/local/bin /etc /etc/ssl/certs / /bin /lib /dev /run /run/landfall /proc /proc/sys/kernel /root /home /var; do try put "$d/$m"; done
for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory /proc/sysrq-trigger /proc/1/oom_score_adj ` + sandbox.InitAt + ` /etc/passwd /proc/self/exe /proc/1/exe /proc/1/mem; do try put "$f"; done
for what in / /usr /etc /dev /proc /run; do try mount -o remount,rw "$what"; done
try mount -t tmpfs none /build; try mount --bind / /build; try umount /usr; try umount -l /proc; try unshare -r true; try unshare -m true; try chroot / true
for f in /dev/null /dev/zero /dev/tty /proc/1/exe /proc/self/exe /proc/self/fd/0 /usr/bin/env /usr/bin ` + sandbox.InitAt + `; do try again "$f"; try owned "$f"; try timed "$f"; done
try mknod /build/disk b 8 0; try mknod /build/memory c 1 1
echo x > "/tmp/$m" && echo x > "/dev/shm/$m" && echo x > "/build/$m" && echo written where it may be`})
	if strings.Contains(out, "DONE:") || !strings.Contains(out, "written where it may be") {
		t.Errorf("the command changed something, or could not write to its own folders:\n%s", out)
	}
	for path, want := range modes {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got != want {
			t.Errorf("the mode of %s is %v now; want %v", path, got, want)
			if err := os.Chmod(path, want); err != nil {
				t.Error(err)
			}
		}
	}
	for _, folder := range []string{"/tmp", "/dev/shm", "/usr", "/etc", "/", "/run"} {
		if _, err := os.Lstat(filepath.Join(folder, marker)); err == nil {
			t.Errorf("%s was written to on the host", folder)
		}
	}
	written, err := os.Stat(filepath.Join(dir, marker))
	if err != nil {
		t.Fatal(err)
	}
	if stat, ok := written.Sys().(*syscall.Stat_t); !ok || stat.Uid == 0 {
		t.Errorf("on the host, what the command wrote belongs to root: %+v", stat)
	}
}

// A program that gives its user rights gives none here, and the command has none to begin with.
func TestEscapePrivileges(t *testing.T) {
	t.Parallel()
	s := confined(t)
	dir := t.TempDir()
	program, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"before", "hidden/deep"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.Program(t, path, program)
		if err := os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
	}
	out := show(t, s, sandbox.Command{Dir: dir,
		Shell: `cp /usr/bin/id mine; chmod 6755 mine; for p in ./before ./hidden/deep ./mine; do $p -u; done
cat /proc/self/status; echo; while read -r device at kind options rest; do case ",$options," in *,nosuid,*) ;; *) echo "SUID AT $at";; esac; done < /proc/self/mounts`})
	for _, line := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapInh:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("the status of a process lacks %q:\n%s", line, out)
		}
	}
	if !strings.HasPrefix(sandbox.WithoutNames(s, out), "65534\n65534\n65534\n") || strings.Contains(out, "SUID AT") {
		t.Errorf("a setuid program gained something, or could:\n%s", out)
	}
}

// The system calls by which sandboxes are left are refused.
func TestEscapeCalls(t *testing.T) {
	t.Parallel()
	out := show(t, confined(t),
		sandbox.Command{Shell: sandbox.InitAt + " probe calls; " + sandbox.InitAt + " probe sockets"})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	const calls, sockets = 37, 9
	if len(lines) != calls+sockets {
		t.Errorf("%d calls were tried, want %d:\n%s", len(lines), calls+sockets, out)
	}
	for _, line := range lines {
		what, came, _ := strings.Cut(line, " ")
		want := []string{"EPERM"}
		if strings.HasPrefix(what, "allowed-") {
			want = []string{"done"}
		}
		switch what {
		case "clone3":
			want = []string{"ENOSYS"}
		case "alg", "packet", "vsock", "netfilter":
			want = []string{"EAFNOSUPPORT"}
		case "raw":
			want = []string{"EPROTONOSUPPORT"}
		}
		if !slices.Contains(want, came) {
			t.Errorf("%s: %s, want %v", what, came, want)
		}
	}
}

func probeCalls() {
	for _, call := range []struct {
		name   string
		number uintptr
	}{
		{"mount", unix.SYS_MOUNT},
		{"umount2", unix.SYS_UMOUNT2},
		{"pivot_root", unix.SYS_PIVOT_ROOT},
		{"chroot", unix.SYS_CHROOT},
		{"open_tree", unix.SYS_OPEN_TREE},
		{"move_mount", unix.SYS_MOVE_MOUNT},
		{"fsopen", unix.SYS_FSOPEN},
		{"fsconfig", unix.SYS_FSCONFIG},
		{"fsmount", unix.SYS_FSMOUNT},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR},
		{"setns", unix.SYS_SETNS},
		{"unshare", unix.SYS_UNSHARE},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT},
		{"ptrace", unix.SYS_PTRACE},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD},
		{"kcmp", unix.SYS_KCMP},
		{"keyctl", unix.SYS_KEYCTL},
		{"add_key", unix.SYS_ADD_KEY},
		{"request_key", unix.SYS_REQUEST_KEY},
		{"bpf", unix.SYS_BPF},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN},
		{"userfaultfd", unix.SYS_USERFAULTFD},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT},
		{"kexec_load", unix.SYS_KEXEC_LOAD},
		{"init_module", unix.SYS_INIT_MODULE},
		{"finit_module", unix.SYS_FINIT_MODULE},
		{"reboot", unix.SYS_REBOOT},
		{"syslog", unix.SYS_SYSLOG},
		{"clock_settime", unix.SYS_CLOCK_SETTIME},
		{"clone3", unix.SYS_CLONE3},
	} {
		_, _, errno := unix.Syscall6(call.number, 0, 0, 0, 0, 0, 0)
		answer(call.name, errno)
	}
	// With nothing but the flag: were it let through, the kernel would make the namespace, and this process fork.
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		os.Exit(0)
	}
	answer("clone", errno)
}

func probeSockets() {
	for _, socket := range []struct {
		name                   string
		family, kind, protocol int
	}{
		{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		{"allowed-unix", unix.AF_UNIX, unix.SOCK_STREAM, 0},
		{"allowed-inet", unix.AF_INET, unix.SOCK_STREAM, 0},
		{"allowed-inet6", unix.AF_INET6, unix.SOCK_DGRAM, 0},
		{"allowed-route", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	} {
		_, err := unix.Socket(socket.family, socket.kind, socket.protocol)
		answer(socket.name, err)
	}
}

// Of the network there is nothing: not the host's loopback, not its neighbours, not the metadata service, not its unix
// sockets.
func TestEscapeNetwork(t *testing.T) {
	t.Parallel()
	s := confined(t)
	dir := t.TempDir()
	name := "landfall-test-" + strconv.Itoa(os.Getpid())
	listeners := map[string]net.Listener{}
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp": "0.0.0.0:0", "unix": "@" + name} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		listeners[network] = listener
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				if _, err := conn.Write([]byte(secret)); err != nil {
					t.Log(err)
				}
				conn.Close()
			}
		}()
	}
	_, port, err := net.SplitHostPort(listeners["tcp"].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tries := []string{
		"unix @" + name, "tcp " + listeners["tcp4"].Addr().String(), "tcp 169.254.169.254:80", "tcp 10.0.0.1:80",
		"tcp 192.168.0.1:80", "tcp 1.1.1.1:443", "udp 1.1.1.1:53", "tcp [fe80::1]:80", "tcp [2606:4700::1111]:443",
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok {
			tries = append(tries, "tcp "+net.JoinHostPort(ip.IP.String(), port))
		}
	}
	shell := ""
	for _, try := range tries {
		shell += sandbox.InitAt + " probe dial " + try + "\n"
	}
	for kind, proxy := range map[string]*sandbox.Proxy{"without a network": nil, "beside the proxy": {}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			out := show(t, s, sandbox.Command{Dir: dir, Shell: shell + "true", Proxy: proxy})
			if strings.Contains(out, secret) || strings.Contains(out, "connected") ||
				strings.Count(out, "failed") != len(tries) {
				t.Errorf("want %d failures:\n%s", len(tries), out)
			}
		})
	}
	if out, err := exec.CommandContext(t.Context(), self(t), "probe", "dial", "unix",
		"@"+name).CombinedOutput(); err != nil || !strings.Contains(string(out), secret) {
		t.Errorf("outside of the sandbox the socket cannot be reached either: %s, %v", out, err)
	}
}

// Processes of the host cannot be seen, nor signalled, nor their numbers guessed.
func TestEscapeProcesses(t *testing.T) {
	t.Parallel()
	s := confined(t)
	victim := exec.CommandContext(t.Context(), "/bin/sleep", "infinity")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	out := show(t, s,
		sandbox.Command{
			Shell: fmt.Sprintf(`is=IS; for p in /proc/[0-9]*; do echo "HERE $is ${p#/proc/} $(tr '\0' ' ' < $p/cmdline)"; done
kill -9 %d && echo "HERE $is DEAD"; kill -9 %d && echo "HERE $is DEAD"; true`, victim.Process.Pid, os.Getpid())})
	if strings.Contains(out, "HERE IS DEAD") || strings.Contains(out, "sleep 600") || strings.Count(out, "HERE IS") > 4 {
		t.Errorf("the command saw or killed processes of the host:\n%s", out)
	}
	select {
	case err := <-ended:
		t.Errorf("the host's process has ended: %v", err)
	default:
	}
	if err := victim.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
}

// What a command leaves in the background ends with it, also when it has left its session, its parent and its output.
func TestEscapeDaemon(t *testing.T) {
	t.Parallel()
	s := confined(t)
	off := sandbox.Detect(t.Context(), sandbox.Off)
	for name, s := range map[string]*sandbox.Sandbox{
		"with control groups": s, "with the watch alone": sandbox.WatchOnly(s), "without a sandbox": off,
		"without anything": sandbox.WatchOnly(off),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			word := "31415" + strconv.Itoa(len(name))
			show(t, s,
				sandbox.Command{Dir: dir, Shell: `setsid nohup sh -c 'trap "" TERM HUP INT; touch up; while :; do sleep ` + word +
					`; done' > /dev/null 2>&1 < /dev/null &
while [ ! -e up ]; do sleep 0.02; done`})
			if _, err := os.Stat(filepath.Join(dir, "up")); err != nil {
				t.Fatalf("the daemon was not there: %v", err)
			}
			// I8: nothing of a command outlives it
			if left := running(word); len(left) > 0 {
				t.Errorf("after Run the daemon is still there: %v", left)
			}
		})
	}
}

// A server that is killed takes its commands with it, and its next start removes what was left of them.
func TestEscapeDeathOfTheServer(t *testing.T) {
	t.Parallel()
	s := confined(t)
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.Off} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			dir, temp := t.TempDir(), t.TempDir()
			word := "27182" + strconv.Itoa(len(mode))
			cmd := exec.CommandContext(t.Context(), self(t), "server", string(mode), dir,
				"touch up; setsid sleep "+word+" & sleep "+word)
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command runs", func() bool {
				_, err := os.Stat(filepath.Join(dir, "up"))
				return err == nil && len(running(word)) > 0
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("the server ended well; it should have been killed")
			}
			if mode == sandbox.Auto {
				eventually(t, "the command is gone without anybody's help", func() bool { return len(running(word)) == 0 })
			}
			next := exec.CommandContext(t.Context(), self(t), "server", string(mode), dir, "true")
			next.Env = cmd.Env
			if out, err := next.CombinedOutput(); err != nil {
				t.Fatalf("the next server: %v: %s", err, out)
			}
			if sandbox.HasGroups(s) || mode == sandbox.Auto {
				// I8: no process
				if left := running(word); len(left) > 0 {
					t.Errorf("after the next start there are still processes: %v", left)
				}
			}
			for _, folder := range sandbox.GroupFolders(s) {
				found, err := filepath.Glob(filepath.Join(folder, fmt.Sprintf("landfall-%d-*", cmd.Process.Pid)))
				if err != nil {
					t.Fatal(err)
				}
				// I8: no control group
				if len(found) > 0 {
					t.Errorf("after the next start there are still control groups: %v", found)
				}
			}
			entries, err := os.ReadDir(temp)
			if err != nil {
				t.Fatal(err)
			}
			// I8: no temporary folder
			if len(entries) > 0 {
				t.Errorf("after the next start there are still temporary folders: %v", entries)
			}
		})
	}
}

// The server's environment stays with the server, and its terminal.
func TestEscapeEnvironment(t *testing.T) {
	t.Setenv("LANDFALL_GITHUB_TOKEN", secret) // so not parallel
	s := confined(t)
	for name, s := range map[string]*sandbox.Sandbox{"confined": s, "off": sandbox.Detect(t.Context(), sandbox.Off)} {
		t.Run(name, func(t *testing.T) {
			out := show(t, s, sandbox.Command{
				Env: map[string]string{"GREETING": "a'b\"c $HOME\nd", "LANG": "en"},
				Shell: `printf '%s|' "$GREETING"; env | cut -d= -f1 | sort | tr '\n' ' '
cat; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo; (: < /dev/tty) 2>/dev/null && echo TERMINAL; [ -r /proc/1/environ ] && echo READABLE; true`,
			})
			want := "a'b\"c $HOME\nd|GREETING HOME LANG PATH PWD TMPDIR d "
			if name == "off" { // the terminal and process 1 are the host's there
				if !strings.HasPrefix(out, want) {
					t.Errorf("the command printed %q, want it to begin with %q", out, want)
				}
				return
			}
			if out != want+"\n" {
				t.Errorf("the command printed %q, want %q", out, want+"\n")
			}
		})
	}
}

// What the command's environment says does not move the init, which has more rights at first.
func TestEscapeInit(t *testing.T) {
	t.Parallel()
	out := show(t, confined(t), sandbox.Command{
		Env:   map[string]string{"LD_PRELOAD": "/build/evil.so", "GODEBUG": "inittrace=1", "LD_DEBUG": "files"},
		Proxy: &sandbox.Proxy{},
		Shell: `echo the command begins`,
	})
	before, _, found := strings.Cut(out, "the command begins")
	if !found || strings.Contains(before, sandbox.InitAt) || strings.Contains(before, "init internal/") {
		t.Errorf("the init took the command's environment:\n%.2000s", out)
	}
}
