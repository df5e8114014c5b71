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

// Programs are started without bubblewrap where this process may do itself what bubblewrap does: it starts the init in new
// namespaces, and the init makes the root. That takes half the time.

// namespaces are what an init that makes the sandbox is started in. The server's own user is nobody there, with the rights to make
// mounts; a root of the host stays root until the init gives that up.
func (r *run) namespaces() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_NEWCGROUP,
	}
	user := os.Geteuid()
	if user == 0 {
		attributes.Credential = &syscall.Credential{Gid: uint32(r.user)} // #nosec G115 -- a user; and in no group beside
	} else {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: inner.Nobody, HostID: user, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: inner.Nobody, HostID: os.Getegid(), Size: 1}}
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	}
	return attributes
}

// directInit is an init that makes the sandbox, started before it is told what to run.
type directInit struct {
	*run
	process *Process
}

// startDirect starts a program in a sandbox that waits, or in a new one.
func (s *Sandbox) startDirect(p Program, command Command) (*Process, error) {
	for a := s.take(p); a != nil; a = s.take(p) {
		heard, err := a.tell(command, p.Args)
		if err != nil || heard {
			return a.process, err
		}
		a.process.Close() // somebody has killed it
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
	_, err = a.tell(command, p.Args) // when it has ended before, it has said why
	return a.process, err
}

// startIdle starts an init with nothing to run. Of the command only the way to the proxy counts, and whether its processors are limited.
func (s *Sandbox) startIdle(word string, command Command) (*directInit, error) {
	r := &run{sandbox: s, command: command, at: homeDir, isProgram: true, initWord: word, ready: make(chan struct{})}
	process, err := r.start(func() error {
		// Whoever started the server may have left files open in it, which would go along.
		if err := unix.CloseRange(firstExtraFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return err
		}
		r.group = s.groups.makeUnlimited(command.Limits.CPU > 0)
		return r.prepareInit(s.init)
	})
	return &directInit{r, process}, err
}

// tell lets it run a program, and reports whether it had not ended before. After an error nothing of it is left.
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

// drop ends one that nobody told anything.
func (a *directInit) drop() {
	a.process.Kill()
	<-a.process.Done()
	a.process.Close()
}

// lives reports whether nobody has killed it.
func (a *directInit) lives() bool {
	var info unix.Siginfo
	return unix.Waitid(unix.P_PID, a.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) == nil && info.Signo == 0
}

// tell gives an init its plan. That it has ended is seen with a plan of the usual size only; nobody waits for another to be read.
func (r *run) tell() error {
	const pipe = 4 << 10 // what one takes in any case
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
		said, _ := io.ReadAll(p.Stderr) // what it says when it fails
		if result, err := p.Result(); err == nil && result.ExitCode == 0 {
			return ""
		}
		return strings.TrimPrefix(strings.TrimSpace(string(said)), "the sandbox cannot be set up: ")
	}()
	s.direct, s.indirectReason = reason == "", reason
}
