package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// wanted is how much memory a holder wants, and piece what it takes at a time.
const (
	wanted = 192 * mib
	piece  = mib
)

// holders are ways to hold memory of which little or nothing is resident in the process. Each takes as much as it can
// get, of all that is wanted, and returns the error that stopped it.
func holders() map[string]func() error {
	return map[string]func() error{
		"memfd":                            holdMemfd(0),
		"memfd of large pages":             holdMemfd(unix.MFD_HUGETLB),
		"System V memory":                  holdShm,
		"System V messages":                func() error { return holdIDs(unix.SYS_MSGGET, 0, 0o600) },
		"semaphores":                       func() error { return holdIDs(unix.SYS_SEMGET, 0, 30000, 0o600) },
		"a message queue":                  holdQueue,
		"shared memory, out of its tables": func() error { return holdShared(-1, unix.MAP_SHARED|unix.MAP_ANON) },
		"the device of zeros, shared":      holdZeros,
		"a file in /tmp without a name":    func() error { return holdFile("/tmp/held") },
		"a file in /dev/shm":               func() error { return holdFile("/dev/shm/held") },
		"empty files in /tmp":              holdEmpty,
		"pipes":                            holdPipes,
		"streams between processes":        func() error { return holdSockets(unix.SOCK_STREAM, false) },
		"streams whose sender is closed":   func() error { return holdSockets(unix.SOCK_STREAM, true) },
		"datagrams":                        func() error { return holdSockets(unix.SOCK_DGRAM, false) },
		"sockets under way":                holdUnderWay,
		"tables of pages":                  holdTables,
		"mappings":                         holdMappings,
		"locks":                            holdLocks,
		"epoll":                            holdEpoll,
		"rules of Landlock":                holdRules,
		"files in pipes":                   holdSplice,
		"the process's own memory":         holdOwn,
	}
}

// hold runs a holder, and keeps what it got until it is killed.
func hold(name string) int {
	if err := holders()[name](); err != nil && !errors.Is(err, unix.EMFILE) {
		answer("refused", err)
		return 0
	}
	fmt.Println("fits")
	rest()
	return 0
}

// rest waits without anything that would need a file, of which there may be no more.
func rest() {
	for {
		_ = unix.Pause()
	}
}

func holdMemfd(flags int) func() error {
	return func() error {
		fd, err := unix.MemfdCreate("held", flags)
		if err != nil {
			return err
		}
		return fill(fd)
	}
}

// fill writes what is wanted to a file.
func fill(fd int) error {
	for range wanted / piece {
		if _, err := unix.Write(fd, make([]byte, piece)); err != nil {
			return err
		}
	}
	return nil
}

func holdShm() error {
	for range wanted / (16 * piece) {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 16*piece, 0o600)
		if err != nil {
			return err
		}
		memory, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		touch(memory)
		if err := unix.SysvShmDetach(memory); err != nil {
			return err
		}
	}
	return nil
}

func touch(memory []byte) {
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
}

// holdIDs makes things of System V until it gets no more.
func holdIDs(call uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0)
	for range 2000 {
		if _, _, errno := unix.Syscall(call, args[0], args[1], args[2]); errno != 0 {
			return errno
		}
	}
	return nil
}

// holdQueue opens a queue of messages without a name: whoever may open one hears that this is no address.
func holdQueue() error { return holdIDs(unix.SYS_MQ_OPEN) }

// holdShared maps memory that is shared, writes to it, and takes it out of its tables again.
func holdShared(fd, flags int) error {
	memory, err := unix.Mmap(fd, 0, wanted, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return err
	}
	for i := 0; i < wanted; i += piece {
		touch(memory[i : i+piece])
		if err := unix.Madvise(memory[i:i+piece], unix.MADV_DONTNEED); err != nil {
			return err
		}
	}
	return nil
}

func holdZeros() error {
	fd, err := unix.Open("/dev/zero", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return holdShared(fd, unix.MAP_SHARED)
}

func holdFile(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil {
		return err
	}
	return fill(fd)
}

func holdEmpty() error {
	for i := range wanted / 1024 {
		fd, err := unix.Open(fmt.Sprintf("/tmp/%d", i), unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// inChildren runs a holder in so many other processes, which keep what they got. Those have none.
func inChildren(count int, name string) error {
	const child = "HELD_BY_CHILD"
	program, err := os.Executable()
	if err != nil || os.Getenv(child) != "" {
		return err
	}
	for range count {
		cmd := exec.Command(program, "probe", "hold", name)
		cmd.Env = append(os.Environ(), child+"=yes")
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	return nil
}

func holdPipes() error {
	if err := inChildren(3, "pipes"); err != nil {
		return err
	}
	data := make([]byte, 64<<10)
	for held := 0; held < wanted; held += len(data) {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
			return err
		}
		_, _ = unix.Write(ends[1], data)
		unix.Close(ends[1])
	}
	return nil
}

// send fills the queue of a socket, and returns its two ends.
func send(kind int) (ends [2]int, err error) {
	if ends, err = unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK, 0); err != nil {
		return ends, err
	}
	_ = unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_SNDBUF, piece)
	data := make([]byte, 64<<10)
	for {
		if _, err := unix.Write(ends[0], data); err != nil {
			return ends, nil //nolint:nilerr // it is full
		}
	}
}

func holdSockets(kind int, closed bool) error {
	for range wanted / (128 << 10) {
		ends, err := send(kind)
		if err != nil {
			return err
		}
		if closed {
			unix.Close(ends[0])
		}
	}
	return nil
}

// holdUnderWay puts full sockets into the queue of another one, and closes them.
func holdUnderWay() error {
	queue, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	for range 800 {
		ends, err := send(unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		if err := unix.Sendmsg(queue[0], []byte{0}, unix.UnixRights(ends[0], ends[1]), nil, 0); err != nil {
			return err
		}
		unix.Close(ends[0])
		unix.Close(ends[1])
	}
	return nil
}

// holdTables reads a byte of every two megabytes: each read takes a page of the kernel's for the table.
func holdTables() error {
	const step = 2 * mib
	const size = wanted / 4096 * step
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	sum := byte(0)
	for i := 0; i < size; i += step {
		sum += memory[i]
	}
	if sum != 0 {
		return unix.EIO
	}
	return nil
}

// holdMappings makes as many mappings as a process may have, in several.
func holdMappings() error {
	if err := inChildren(8, "mappings"); err != nil {
		return err
	}
	const pages = 60000
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, pages*page, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	for i := 0; i < pages && err == nil; i += 2 {
		err = unix.Mprotect(memory[i*page:(i+1)*page], unix.PROT_NONE)
	}
	return err
}

// holdLocks locks every other byte of many files.
func holdLocks() error {
	for file := range 900 {
		fd, err := unix.Open(fmt.Sprintf("/tmp/locks-%d", file), unix.O_CREAT|unix.O_RDWR, 0o600)
		for i := int64(0); i < 500 && err == nil; i++ {
			err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func holdEpoll() error {
	if err := inChildren(1, "epoll"); err != nil {
		return err
	}
	var targets [500]int
	for i := range targets {
		fd, err := unix.Eventfd(0, 0)
		if err != nil {
			return err
		}
		targets[i] = fd
	}
	for {
		fd, err := unix.EpollCreate1(0)
		if err != nil {
			return nil //nolint:nilerr // it has as many as it may
		}
		for _, target := range &targets {
			if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, target, &unix.EpollEvent{}); err != nil {
				return err
			}
		}
	}
}

// holdRules asks for the version of Landlock, which is how who wants rules begins.
func holdRules() error { return holdIDs(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) }

// holdSplice keeps pages of a file in a pipe.
func holdSplice() error {
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], 0); err != nil {
		return err
	}
	_, err = unix.Splice(fd, nil, ends[1], nil, 4096, 0)
	return err
}

func holdOwn() error {
	memory, err := unix.Mmap(-1, 0, wanted, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		touch(memory)
	}
	return err
}

// probeTwice holds memory of its own, which another process has as well: as the one does that a program makes to start
// another.
func probeTwice() int {
	if err := holdOwn(); err != nil {
		answer("refused", err)
		return 0
	}
	go func() {
		runtime.LockOSThread()
		vfork()
	}()
	for children := ""; children == ""; {
		files, _ := filepath.Glob("/proc/self/task/*/children")
		for _, file := range files {
			data, _ := os.ReadFile(file)
			children += string(data)
		}
	}
	fmt.Println("fits")
	rest()
	return 0
}

// vfork makes a process with the memory of this one, and never returns: the thread that made it waits until it ends.
//
//go:norace
func vfork() {
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_VFORK|unix.CLONE_VM|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for errno == 0 || errno == unix.EINTR {
		_, _, errno = unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
	}
}
