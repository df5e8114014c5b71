// Package inner is what runs first inside of the sandbox: the init of a confined command. It imports little, because every
// start of a command waits for it.
package inner

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Word is the first argument of an init. It changes with the arguments that follow, so that an init of another version is known.
const Word = "sandbox-init-4"

// Writable as an argument says that the command may write to its folder.
const Writable = "writable"

// Where a confined command finds the proxy.
const (
	ProxyHost = "127.0.0.1"
	ProxyPort = 3128
)

const (
	nobody = 65534 // the user that a command is
	first  = 3     // the number of the first file after the three that every process has
	failed = 125   // the exit code of an init that cannot do its work
)

// Main is an init: it gives up every privilege, opens the way to the proxy, runs the command, and returns its exit code. Its
// arguments, after Word, are the number of the file with the environment, the folder to start in, Writable when the command may
// write to that, the number of the socket to the server, 0 for none, the number of a pipe that the server holds as long as it
// lives, and the command. Other words are not handled.
func Main(args []string) (code int, handled bool) {
	if len(args) == 0 || args[0] != Word {
		return 0, false
	}
	code, err := initialize(args[1:])
	if err != nil {
		_, _ = os.Stderr.WriteString("the sandbox cannot be set up: " + err.Error() + "\n")
		return failed, true
	}
	return code, true
}

// Works reports whether an exit code is the one of an init that has only its word.
func Works(code int) bool { return code == failed }

func initialize(args []string) (code int, err error) {
	const own = 5
	if len(args) < own+1 {
		return 0, errors.New("arguments are missing")
	}
	env, err := ReadEnvironment(args[0])
	if err != nil {
		return 0, err
	}
	control, err := strconv.Atoi(args[3])
	if err != nil {
		return 0, err
	}
	server, err := strconv.Atoi(args[4])
	if err != nil {
		return 0, err
	}
	dir, writable, argv := args[1], args[2] == Writable, args[own:]
	runtime.LockOSThread() // what is given up counts for this thread and what it starts
	if err := giveUp(); err != nil {
		return 0, err
	}
	if err := unix.CloseRange(first, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, err
	}
	go endWith(server)
	if control != 0 {
		if err := sendListener(control); err != nil {
			return 0, err
		}
	}
	if err := restrict(dir, writable, control != 0); err != nil {
		return 0, err
	}
	process, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: dir, Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 0, err
	}
	for { // process 1 reaps everybody's children
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, err
		}
		if pid == process.Pid {
			return ExitCode(status), nil
		}
	}
}

// endWith ends this process, and with it all that it started, when the server's end of a pipe is closed: the server was killed. The
// signal that the kernel sends then reaches bubblewrap, and not always what became another user below it.
func endWith(server int) {
	var nothing [1]byte
	for {
		if _, err := unix.Read(server, nothing[:]); !errors.Is(err, unix.EINTR) {
			unix.Exit(failed) // as process 1, at once
		}
	}
}

// ExitCode returns a process's exit code as a shell counts.
func ExitCode(status syscall.WaitStatus) int {
	const signalled = 128
	if status.Signaled() {
		return signalled + int(status.Signal())
	}
	return status.ExitStatus()
}

// giveUp makes a root of the host nobody, without capabilities, and hides this process from the command.
func giveUp() error {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return errors.Join(
		unix.Capset(&header, &none[0]),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), // becoming another user took it away
	)
}

// sendListener opens the proxy's address in this network, and gives it to the server.
func sendListener(control int) error {
	const queue = 128
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer os.NewFile(uintptr(listener), "listener").Close()
	if err := unix.Bind(listener, &unix.SockaddrInet4{Port: ProxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(listener, queue); err != nil {
		return err
	}
	if err := unix.Sendmsg(control, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	return unix.Close(control)
}
