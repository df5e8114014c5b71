package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"

	"landfall.dev/landfall"
)

// Program is a process that stays: it is spoken to through pipes, until it ends or is killed.
type Program struct {
	// Args are the program, by a path that may be relative to Dir, and its arguments.
	Args []string

	// Dir is the host's folder that the program starts in. A confined one sees it as /function and can only read it; all that
	// lies in it must be readable by everybody. Many programs may share it.
	Dir string

	Env map[string]string // all that it gets beside PATH, HOME, TMPDIR, LANG and the proxy's address

	// Network lets a confined program reach public addresses through an HTTP proxy, and nothing else. Without it there is no
	// network at all.
	Network bool

	// Limits bound the program; Wall and Output are not looked at. Disk is the size of its /tmp, which counts as memory, too.
	Limits Limits
}

// Process is a program that was started. Its three files are the ends of pipes to it, and have deadlines; whoever started it
// closes them.
type Process struct {
	Stdin, Stdout, Stderr *os.File

	done   chan struct{}
	result Result
	err    error
	kill   context.CancelFunc
}

// Done is closed when nothing of the process is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Result says how the process ended. It waits for that.
func (p *Process) Result() (Result, error) {
	<-p.done
	return p.result, p.err
}

// Kill ends the process and all that it started, and does not wait for that. It may be called at any time, and more than once.
func (p *Process) Kill() { p.kill() }

// Start starts a program. That it cannot be run shows in what it prints, and in its exit code. Forbidden when functions are
// refused here, with what to do about it; Invalid when a variable cannot be given to a process.
func (s *Sandbox) Start(p Program) (*Process, error) {
	const op landfall.Op = "sandbox.Start"
	if err := s.refused(op, "functions"); err != nil {
		return nil, err
	}
	command := Command{Dir: p.Dir, Env: p.Env, Limits: p.Limits.withDefaults()}
	if p.Network {
		command.Proxy = &Proxy{}
	}
	r := &run{sandbox: s, command: command, argv: p.Args, at: homeDir, stays: true}
	process, err := r.start()
	if err != nil {
		r.closeFiles()
		r.letGo()
		return nil, &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: errors.Join(err, r.removeTemp())}
	}
	return process, nil
}

// start starts the program, and leaves a goroutine that waits for its end.
func (r *run) start() (*Process, error) {
	if err := r.prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	process := &Process{done: make(chan struct{}), kill: cancel}
	theirs, err := process.pipes()
	if err != nil {
		cancel()
		return nil, err
	}
	r.group = r.sandbox.groups.make(r.command.Limits)
	cmd := r.launch(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	started := make(chan error)
	go func() {
		// The program ends with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		r.closeFiles()
		started <- err
		if err == nil {
			defer close(process.done)
			defer cancel()
			if r.proxy != nil {
				r.proxy.start(ctx)
			}
			process.result, process.err = r.finish(ctx, cmd)
		}
	}()
	err = <-started
	for _, file := range theirs {
		file.Close()
	}
	if err != nil {
		cancel()
		process.Close()
		r.group.remove()
		return nil, err
	}
	return process, nil
}

// finish waits until nothing of the program is left.
func (r *run) finish(ctx context.Context, cmd *exec.Cmd) (Result, error) {
	killed := r.wait(ctx, cmd.Process.Pid)
	err := cmd.Wait()
	r.letGo()
	r.group.remove()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	return Result{ExitCode: exitCode(cmd.ProcessState), Killed: killed}, errors.Join(err, r.removeTemp())
}

// held reports whether the kernel holds every limit by itself.
func (r *run) held() bool {
	return r.sandbox.mode != Off && r.sandbox.sized && r.group.memory != "" && r.group.processes != ""
}

// pipes makes the three pipes, and returns the program's ends.
func (p *Process) pipes() (theirs []*os.File, err error) {
	var failed [3]error
	var in, out, report *os.File
	in, p.Stdin, failed[0] = os.Pipe()
	p.Stdout, out, failed[1] = os.Pipe()
	p.Stderr, report, failed[2] = os.Pipe()
	theirs = []*os.File{in, out, report}
	if err = errors.Join(failed[:]...); err != nil {
		p.Close()
		for _, file := range theirs {
			file.Close() // also of none
		}
	}
	return theirs, err
}

// Close closes the pipes: the program reads the end of its input.
func (p *Process) Close() {
	for _, file := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
		file.Close() // also of none
	}
}
