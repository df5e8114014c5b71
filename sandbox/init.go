package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The words that make this binary the init of a confined command, and the parent of one that is not confined.
const (
	initArgument   = "sandbox-init"
	parentArgument = "sandbox-parent"
)

// proxyAddress is where a confined command finds the proxy.
const proxyAddress = "127.0.0.1:3128"

// Forward is what a confined command runs in: when args begin with the word by which Run starts this binary inside the
// sandbox, it gives up every privilege, opens the way to the proxy, runs the command, and returns its exit code. Otherwise
// handled is false. The program calls it before anything else.
func Forward(args []string) (code int, handled bool) {
	if len(args) == 0 {
		return 0, false
	}
	var err error
	switch args[0] {
	case initArgument:
		code, err = initialize(args[1:])
	case parentArgument:
		code, err = adopt(args[1:])
	default:
		return 0, false
	}
	if err != nil {
		const failed = 125
		fmt.Fprintln(os.Stderr, "the sandbox cannot be set up:", err)
		return failed, true
	}
	return code, true
}

// initialize is the init. Its arguments are the number of the file with the environment, the folder to start in, the number of
// the socket to the server, 0 for none, and the command.
func initialize(args []string) (code int, err error) {
	const own = 3
	if len(args) < own+1 {
		return 0, errors.New("arguments are missing")
	}
	env, err := readEnvironment(args[0])
	if err != nil {
		return 0, err
	}
	control, err := strconv.Atoi(args[2])
	if err != nil {
		return 0, err
	}
	dir, argv := args[1], args[own:]
	runtime.LockOSThread() // what is given up counts for this thread and what it starts
	if err := giveUp(); err != nil {
		return 0, err
	}
	if err := unix.CloseRange(firstExtraFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, err
	}
	if control != 0 {
		if err := sendListener(control); err != nil {
			return 0, err
		}
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
			return exitCode(status), nil
		}
	}
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
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", proxyAddress)
	if err != nil {
		return err
	}
	defer listener.Close()
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return errors.New("not a TCP listener")
	}
	file, err := tcp.File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Sendmsg(control, []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return err
	}
	return unix.Close(control)
}
