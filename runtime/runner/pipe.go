package runner

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readNow reads what is there. EAGAIN when there is nothing; 0 bytes are the end.
func readNow(fd uintptr, p []byte) (int, error) { return whole(unix.Read, fd, p) }

// writeNow writes what there is room for. EAGAIN when there is none; up to atOnce bytes are written together or not at
// all.
func writeNow(fd uintptr, p []byte) (int, error) { return whole(unix.Write, fd, p) }

// whole makes a system call again that a signal interrupted.
func whole(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// pending reports for two descriptors whether there is something to be read, or they have ended.
func pending(one, other uintptr) (first, second bool) {
	poll := [2]unix.PollFd{{Fd: int32(one), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	_, err := unix.Poll(poll[:], 0)
	return err != nil || poll[0].Revents != 0, err != nil || poll[1].Revents != 0
}

// descriptor returns the descriptor of a pipe. It is good until the pipe is closed.
func descriptor(pipe interface {
	Control(f func(fd uintptr)) error
}) (fd uintptr, err error) {
	err = pipe.Control(func(of uintptr) { fd = of })
	return fd, err
}
