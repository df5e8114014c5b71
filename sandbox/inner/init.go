// Package inner is what runs first inside the sandbox: the init of a confined command. It imports little, because every
// start of a command waits for it.
package inner

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Word is the first argument of an init. It changes with the arguments after it, so that an init of another version is
// noticed.
const Word = "sandbox-init-9"

// This is the address of the proxy inside the sandbox.
const (
	ProxyHost = "127.0.0.1"
	ProxyPort = 3128
)

// Nobody is the user of a command that cannot have one of its own.
const Nobody = 65534

// Diagnosis is the number of the open socket with which the memory of all sockets in the init's network can be read.
const Diagnosis = 250

const (
	first  = 3   // the number of the first file after standard input, output and error
	failed = 125 // the exit code of an init that cannot do its work
)

// These are the words for an init that makes the sandbox's root itself. It is started in new namespaces, in which it
// has every right. Alone shows the command what it needs of the machine; Rooted shows it a root of its own. Spare is
// Alone for an init that may wait long until it is told what to run.
const (
	Alone  = "alone"
	Rooted = "rooted"
	Spare  = "spare"
)

// Main is an init: it makes the sandbox if nobody else has, gives up every privilege, opens the connection to the
// proxy, runs the command, and returns its exit code. Its arguments, after Word, are one of the words above or another
// one; the number of the pipe with the plan, which the server holds as long as it lives; the number of the socket to
// the server, 0 for none; and the user of the command. Other words are not handled.
func Main(args []string) (code int, handled bool) {
	if len(args) == 0 || args[0] != Word {
		return 0, false
	}
	code, err := initialize(args[1:])
	if err != nil {
		said := err.Error()
		if start := (*os.PathError)(nil); !errors.As(err, &start) || start.Op != opStart {
			said = "the sandbox cannot be set up: " + said
		}
		_, _ = os.Stderr.WriteString(said + "\n")
		return failed, true
	}
	return code, true
}

// Works reports whether an exit code is that of an init with no other argument than Word.
func Works(code int) bool { return code == failed }

// startError says why a program cannot be started. It is in the sandbox by now, so the file that is missing is usually
// one that the program needs.
func startError(p *Plan, err error) error {
	program := p.Args[0]
	if !strings.HasPrefix(program, "/") {
		program = p.At + "/" + program
	}
	if _, stat := os.Stat(program); stat == nil && errors.Is(err, os.ErrNotExist) {
		err = errors.New("it is there, but not the interpreter that its first line (#!) names, or the system's libraries " +
			"that it was built for")
	}
	return &os.PathError{Op: opStart, Path: p.Args[0], Err: err}
}

const opStart = "the program cannot be started:"

func initialize(args []string) (code int, err error) {
	const own = 4
	if len(args) != own {
		return 0, errors.New("arguments are missing")
	}
	var server, control, user int
	for i, number := range []*int{&server, &control, &user} {
		if *number, err = strconv.Atoi(args[1+i]); err != nil {
			return 0, err
		}
	}
	runtime.LockOSThread() // what is given up counts only for this thread and what it starts
	host, err := prepare(args[0], user)
	if err != nil {
		return 0, err
	}
	plan, err := readPlan(pipe(server)) // an init in reserve waits here
	if err != nil {
		return 0, err
	}
	if err := plan.confine(host, control); err != nil {
		return 0, err
	}
	if err := resetSignals(); err != nil {
		return 0, err
	}
	process, err := syscall.ForkExec(plan.Args[0], plan.Args,
		&syscall.ProcAttr{Dir: plan.At, Env: plan.Env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, startError(plan, err)
	}
	go watchOver(host, server)
	for { // process 1 reaps all orphans
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, err
		}
		if pid == process {
			return ExitCode(status), nil
		}
	}
}

// prepare does everything that needs no plan: it removes rights from all later processes, and makes the root as far as
// possible. It does nothing when somebody else makes the root.
func prepare(word string, user int) (*material, error) {
	switch word {
	case Alone, Rooted, Spare:
	default:
		return nil, errors.Join(dropBounds(), becomeUser(user))
	}
	host, err := gather(user)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(dropBounds(), becomeUserOnThread(user)); err != nil {
		return nil, err
	}
	if word == Rooted {
		return host, nil
	}
	if err := host.showMachine(); err != nil {
		return nil, err
	}
	if err := host.makeRoot(); err != nil {
		return nil, err
	}
	if word == Alone {
		return host, nil
	}
	err = host.dropOtherThreads()
	return host, err
}

// confine completes the confinement of the command, and leaves nothing with which the command could undo it.
func (p *Plan) confine(host *material, control int) error {
	if host == nil { // somebody else has made the root, and the folders in it
		if err := p.writeFiles(""); err != nil {
			return err
		}
	} else if err := p.enter(host); err != nil {
		return err
	}
	if err := errors.Join(giveUp(), unix.CloseRange(first, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)); err != nil {
		return err
	}
	if control != 0 { // before the limit of open files, which also applies to files that are sent
		if err := sendListener(control); err != nil {
			return err
		}
	}
	if !p.Charged {
		openDiagnosis()
	}
	if err := errors.Join(p.limit(), restrict(p.At, p.Writable, p.Network)); err != nil {
		return err
	}
	return enforce(p.Filter)
}

// openDiagnosis opens the socket for reading the memory of the sockets in this network. Without it the server reports
// that they are not counted.
func openDiagnosis() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err == nil {
		_ = unix.Dup3(fd, Diagnosis, unix.O_CLOEXEC)
		_ = unix.Close(fd)
	}
}

// limit sets the limits that the kernel enforces for each process. A crash leaves no core dump, and starts no program
// of the host that would read it; with a limit of zero bytes it would.
func (p *Plan) limit() error {
	const files, counted, signals = 8192, 1024, 4096
	limits := map[int]uint64{
		syscall.RLIMIT_CORE: 1, syscall.RLIMIT_NOFILE: files, syscall.RLIMIT_FSIZE: uint64(p.File), // #nosec G115 -- a size
	}
	if !p.Charged {
		limits[syscall.RLIMIT_NOFILE] = counted // each open file may hold kernel memory, and is looked at
	}
	if p.Processes > 0 {
		limits[unix.RLIMIT_NPROC], limits[unix.RLIMIT_SIGPENDING] = uint64(p.Processes), signals // #nosec G115 -- a count
	}
	for resource, most := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(resource, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// pipe reads from a file by its number, without closing it.
type pipe int

// Read implements io.Reader.
func (p pipe) Read(buffer []byte) (int, error) {
	for {
		n, err := unix.Read(int(p), buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = errors.New("the server has ended")
		}
		return max(n, 0), err
	}
}

// watchOver does what can wait until the program has begun, and ends with the server.
func watchOver(host *material, server int) {
	// milliseconds; fewer when the server ends
	const begun = 20
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(server), Events: unix.POLLIN}}, begun) // #nosec G115 -- a descriptor
	if err := host.dropOtherThreads(); err != nil {
		unix.Exit(failed)
	}
	endWith(server)
}

// endWith ends this process, and with it all that it started, when the server closes its end of a pipe because it was
// killed. The signal that the kernel sends then does not always reach a process that became another user.
func endWith(server int) {
	var nothing [1]byte
	for {
		if _, err := pipe(server).Read(nothing[:]); err != nil {
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

// dropBounds keeps all later programs from getting any capability.
func dropBounds() error {
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > unix.CAP_BPF { // there are no more capabilities
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		}
		if errors.Is(err, unix.EPERM) { // nobody has any to give
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// becomeUserOnThread makes root of the host another user, on this thread, which keeps its rights while it makes the
// sandbox. Its group is already that user's.
func becomeUserOnThread(user int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	change := func() error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			return errno
		}
		return nil
	}
	return errors.Join(unix.Capget(&header, &rights[0]), unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0), change(),
		unix.Capset(&header, &rights[0]))
}

// dropOtherThreads makes the other threads that user, so that they lose their rights. Go has started them for itself,
// and they do nothing with these rights. It takes a few turns of each thread, so it is not done in the program's first
// moments.
func (m *material) dropOtherThreads() error {
	if m == nil || !m.root {
		return nil
	}
	m.root = false
	return syscall.Setuid(m.user)
}

// becomeUser makes root of the host another user, without rights.
func becomeUser(user int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(user), syscall.Setuid(user))
}

// giveUp gives up every right, and hides this process from the command.
func giveUp() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return errors.Join(
		unix.Capset(&header, &none[0]),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), // becoming another user has removed it
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
	)
}

// resetSignals makes process 1 ignore the signals of its own processes, as it would without Go, which has a handler for
// every signal. So the program cannot end it with the sandbox, or keep it busy.
func resetSignals() error {
	// the signals of Go and the C library for their threads are left; a set of signals has 64 bits
	const last, forThreads, set = 64, 33, 8
	nothing, err := unix.MmapPtr(-1, 0, nil, uintptr(os.Getpagesize()), unix.PROT_READ,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for signal := uintptr(1); signal <= last; signal++ {
		if signal == forThreads || signal == uintptr(unix.SIGKILL) || signal == uintptr(unix.SIGSTOP) {
			continue
		}
		// A struct of zeros is SIG_DFL, without flags.
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(nothing), 0, set, 0, 0); errno != 0 {
			return errno
		}
	}
	return nil
}

// sendListener opens the proxy's address in this network, and sends it to the server.
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
