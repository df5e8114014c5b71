package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// adopt runs a command that is not confined, and ends everything that comes from it once it has ended: a process that loses
// its parent becomes a child of this one, whatever session it is in. It returns the command's exit code.
func adopt(argv []string) (code int, err error) {
	if len(argv) == 0 {
		return 0, errors.New("arguments are missing")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err = cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return 0, err
	}
	own := os.Getpid()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for left := descendants(own); len(left) > 1; left = descendants(own) {
		for _, p := range left {
			if p.pid != own {
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		<-tick.C
	}
	return exitCode(cmd.ProcessState.Sys()), nil
}
