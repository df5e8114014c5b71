package sandbox

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox/inner"
)

// Programs are started without bubblewrap where this process may do itself what bubblewrap does: it starts the init in
// new namespaces, and the init makes the root. That takes half the time.

// namespaces returns the namespaces in which an init that makes the sandbox is started. There, the server's own user is
// nobody with the right to make mounts; root of the host stays root until the init gives that up.
func (r *run) namespaces() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_NEWCGROUP,
	}
	user := os.Geteuid()
	if user == 0 {
		attributes.Credential = &syscall.Credential{Gid: uint32(r.user)} // #nosec G115 -- a user, who is in no other group
	} else {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: inner.Nobody, HostID: user, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: inner.Nobody, HostID: os.Getegid(), Size: 1}}
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	}
	return attributes
}

// directInit is an init that makes the sandbox, started before it knows what to run.
type directInit struct {
	*run
	process *Process
}

// startDirect starts a program in a waiting sandbox, or in a new one.
func (s *Sandbox) startDirect(p Program, command Command) (*Process, error) {
	for a := s.take(p); a != nil; a = s.take(p) {
		heard, err := a.tell(command, p.Args)
		if err != nil || heard {
			return a.process, err
		}
		a.process.Close() // it was killed
	}
	word := inner.Alone
	if p.Root != "" {
		word = inner.Rooted
	}
	a, err := s.startIdle(word, command)
	if err != nil {
		return nil, err
	}
	if p.Root != "" {
		a.at, a.root, command.Dir = p.Dir, p.Root, p.Root
	}
	_, err = a.tell(command, p.Args) // an init that has ended before has said why
	return a.process, err
}

// startIdle starts an init that waits for its program. Of the command it uses only the proxy, and whether its
// processors are limited.
func (s *Sandbox) startIdle(word string, command Command) (*directInit, error) {
	r := &run{sandbox: s, command: command, at: homeDir, isProgram: true, initWord: word, ready: make(chan struct{})}
	process, err := r.start(func() error {
		// The process that started the server may have left files open in it, which the init would inherit.
		if err := unix.CloseRange(firstExtraFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return err
		}
		r.group = s.groups.makeUnlimited(command.Limits.CPU > 0)
		return r.prepareInit(s.init)
	})
	return &directInit{r, process}, err
}

// tell gives it a program to run, and reports whether it was still alive. After an error nothing of it is left.
func (a *directInit) tell(command Command, argv []string) (heard bool, err error) {
	a.command, a.argv = command, argv
	err = a.makePlan()
	if err == nil {
		err = a.group.limit(command.Limits)
	}
	if err != nil {
		a.drop()
		return false, err
	}
	close(a.ready)
	return a.run.tell() == nil, nil
}

// drop ends one that was told nothing.
func (a *directInit) drop() {
	a.process.Kill()
	<-a.process.Done()
	a.process.Close()
}

// lives reports whether it is still alive.
func (a *directInit) lives() bool {
	var info unix.Siginfo
	return unix.Waitid(unix.P_PID, a.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) == nil && info.Signo == 0
}

// tell gives an init its plan. For a plan of usual size it notices that the init has ended; it does not wait until the
// init has read a larger one.
func (r *run) tell() error {
	const pipe = 4 << 10 // what a pipe holds in any case
	plan := r.plan.Bytes()
	if len(plan) > pipe {
		go func() { _, _ = r.server.Write(plan) }()
		return nil
	}
	_, err := r.server.Write(plan)
	return err
}

// detectDirect finds out whether programs can be started without bubblewrap, and if not, why.
func (s *Sandbox) detectDirect(ctx context.Context) {
	s.direct = true
	reason := func() string {
		p, err := s.Start(Program{Args: []string{"/bin/true"}, Dir: "/usr"})
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		defer context.AfterFunc(ctx, p.Kill)()
		said, _ := io.ReadAll(p.Stderr) // the reason of a failure
		if result, err := p.Result(); err == nil && result.ExitCode == 0 {
			return ""
		}
		return strings.TrimPrefix(strings.TrimSpace(string(said)), "the sandbox cannot be set up: ")
	}()
	s.direct, s.indirectReason = reason == "", reason
}
