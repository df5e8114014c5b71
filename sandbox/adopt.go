package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt runs a command that is not confined, and ends all its descendants once it has ended: a process that loses its
// parent becomes a child of this one, whatever its session. Its arguments are the number of the file with the
// environment, and the command. It returns the command's exit code.
func adopt(args []string) (code int, err error) {
	if len(args) <= 1 {
		return 0, errors.New("arguments are missing")
	}
	env, err := readVariables(args[0])
	if err != nil {
		return 0, err
	}
	argv := args[1:]
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err = cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return 0, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for childless := false; !childless; <-tick.C {
		for _, p := range descendants(os.Getpid()) { // may miss one that has just lost its parent, and is a child then
			if p.pid != os.Getpid() {
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			childless = errors.Is(err, unix.ECHILD)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	return exitCode(cmd.ProcessState), nil
}

// readVariables reads an environment from the file with that number, with a zero byte between two variables, and closes
// the file.
func readVariables(number string) ([]string, error) {
	fd, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "environment")
	defer file.Close()
	data, err := io.ReadAll(file)
	return strings.Split(string(data), "\x00"), err
}
