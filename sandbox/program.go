package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"landfall.dev/landfall"
)

// Program is a process that stays: its caller talks to it through pipes, until it ends or is killed.
type Program struct {
	// Args are the program, with a path that may be relative to Dir, and its arguments.
	Args []string

	// Dir is the host's folder in which the program starts. A confined program sees it as /function and can only read
	// it, so everybody must be able to read everything in it. Many programs may share it.
	Dir string

	// Root, when set, is the host's folder that the program sees as its root, in place of the machine's programs. Dir
	// is then a path in it. It can only be read; the program does not see what it has at /proc, /dev, /tmp and /run. It
	// is refused without a sandbox, and with an init that needs libraries, which the root may not have.
	Root string

	Env map[string]string // in addition to PATH, HOME, TMPDIR, LANG and the proxy's address

	// Files are small files in memory that only a confined program sees, and can only read, by their paths: clean, and
	// below /secrets or /configs. They count as memory.
	Files map[string]string

	// Proxy, when set, lets a confined program reach public addresses through an HTTP proxy, and nothing else. Without
	// it there is no network. Programs may share a proxy.
	Proxy *Proxy

	// Limits bound the program; Wall and Output have no effect. Disk is the size of its /tmp, which also counts as
	// memory.
	Limits Limits
}

// Process is a started program. Its three files are the ends of pipes to it, and have deadlines. The caller of Start
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

// Result waits for the end of the process, and says how it ended.
func (p *Process) Result() (Result, error) {
	<-p.done
	return p.result, p.err
}

// Kill ends the process and all that it started, and does not wait for that. It may be called at any time, and more
// than once.
func (p *Process) Kill() { p.kill() }

// Start starts a program. If it cannot be run, its output and exit code show that. Forbidden when functions are refused
// here, with what to do about it; Invalid when a process cannot have one of the variables.
func (s *Sandbox) Start(p Program) (*Process, error) {
	const op landfall.Op = "sandbox.Start"
	if err := s.refused(op, "functions"); err != nil {
		return nil, err
	}
	if err := s.refusedRoot(op, p.Root); err != nil {
		return nil, err
	}
	command := Command{Dir: p.Dir, Env: p.Env, Files: p.Files, Limits: p.Limits.withDefaults(), Proxy: p.Proxy}
	if s.mode != Off && s.direct {
		process, err := s.startDirect(p, command)
		if err != nil {
			return nil, &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: err}
		}
		return process, nil
	}
	r := &run{sandbox: s, command: command, argv: p.Args, at: homeDir, isProgram: true, root: p.Root}
	if p.Root != "" {
		r.at, r.command.Dir = p.Dir, p.Root
	}
	process, err := r.start(func() error {
		r.group = s.groups.make(command.Limits)
		return r.prepare()
	})
	if err != nil {
		return nil, &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: err}
	}
	return process, nil
}

// start starts the program after prepare. After an error nothing is left.
func (r *run) start(prepare func() error) (process *Process, err error) {
	defer func() {
		if err != nil {
			r.closeFiles()
			r.release()
			r.group.remove()
			r.sandbox.users.free(r.user)
			err = errors.Join(err, r.removeTemp())
		}
	}()
	r.user = r.sandbox.users.take(true)
	if err := prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	process = &Process{done: make(chan struct{}), kill: cancel}
	theirs, err := process.pipes()
	if err != nil {
		cancel()
		return nil, err
	}
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
	}()
	if err = r.give(theirs...); err == nil {
		cmd := r.launch(ctx)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
		err = r.run(ctx, cmd, cancel, process)
	}
	if err != nil {
		cancel()
		process.Close()
		return nil, err
	}
	return process, nil
}

// run starts the command, and a goroutine that waits for its end.
func (r *run) run(ctx context.Context, cmd *exec.Cmd, cancel context.CancelFunc, process *Process) error {
	started := make(chan error)
	onThread(func() { // the program ends with the thread that started it
		err := r.group.start(cmd)
		r.closeFiles()
		if err == nil {
			r.pid = cmd.Process.Pid
		}
		started <- err
		r.group.leave()
		if err == nil {
			defer close(process.done)
			defer cancel()
			if r.ready == nil {
				r.begin(ctx)
			} else {
				select {
				case <-r.ready:
					r.serve(ctx)
				case <-ctx.Done():
				}
			}
			process.result, process.err = r.finish(ctx, cmd)
		}
	})
	return <-started
}

// finish waits until nothing of the program is left.
func (r *run) finish(ctx context.Context, cmd *exec.Cmd) (Result, error) {
	killed := r.wait(ctx, cmd.Process.Pid)
	err := cmd.Wait()
	r.release()
	r.group.remove()
	r.sandbox.users.free(r.user)
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	return Result{ExitCode: exitCode(cmd.ProcessState), Killed: killed}, errors.Join(err, r.removeTemp())
}

// kernelEnforces reports whether the kernel enforces every limit by itself.
func (r *run) kernelEnforces() bool {
	return r.sandbox.mode != Off && (r.sandbox.sized || r.initWord != "") && r.group.memory != "" &&
		r.group.processes != ""
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
			file.Close() // a nil file, too
		}
	}
	return theirs, err
}

// Close closes the pipes: the program reads the end of its input.
func (p *Process) Close() {
	for _, file := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
		file.Close() // a nil file, too
	}
}
