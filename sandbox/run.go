package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox/inner"
)

// run is one run of a command.
type run struct {
	sandbox   *Sandbox
	command   Command
	argv      []string       // what to run
	at        string         // the path at which a confined command sees Dir
	isProgram bool           // it is a program, and Dir is not its own
	root      string         // of a program: the host's folder that it sees as its root
	output    *limitedWriter // of a command
	group     group
	user      int          // the user of a confined command
	temp      string       // HOME and TMPDIR on the host, in mode Off
	args      []string     // what to start
	files     []*os.File   // open files of the command, from firstExtraFile on
	proxy     *proxyServer // nil: none
	initWord  string       // the word of an init that makes the sandbox; empty: there is none
	plan      *inner.Plan  // for the init; nil without one
	server    *os.File     // the pipe to the init, which tells it what to do and that the server lives

	sockets *diagnosis // for counting its sockets; nil: not opened yet

	pid   int           // set once it is started
	ready chan struct{} // of a directInit: closed when the fields above say what to run
}

// do prepares, runs and cleans up.
func (r *run) do(ctx context.Context) (Result, error) {
	defer r.closeFiles()
	defer r.release()
	r.user = r.sandbox.users.take(false)
	defer r.sandbox.users.free(r.user)
	r.group = r.sandbox.groups.make(r.command.Limits)
	if err := r.prepare(); err != nil {
		r.group.remove()
		return Result{}, errors.Join(err, r.removeTemp())
	}
	var result Result
	var err error
	<-onThread(func() { result, err = r.execute(ctx) }) // the command ends with the thread that started it
	r.release()
	r.group.remove()
	return result, errors.Join(err, openFolders(r.command.Dir), r.removeTemp())
}

// release closes what the server holds for the command. It may be called more than once.
func (r *run) release() {
	r.server.Close() // a nil file, too
	if r.sockets != nil {
		r.sockets.file.Close()
	}
	if r.proxy != nil {
		r.proxy.stop()
		r.proxy = nil
	}
}

func (r *run) removeTemp() error {
	if r.temp == "" {
		return nil
	}
	return errors.Join(openFolders(r.temp), os.RemoveAll(r.temp))
}

func (r *run) closeFiles() {
	for _, file := range r.files {
		file.Close()
	}
	r.files = nil
}

// launcher sets the limits that a shell can set, and becomes the command. Its arguments are the largest file in blocks
// of 512 bytes, and the command. When the machine runs out of memory, the kernel ends the command first.
const launcher = `echo 1000 > /proc/self/oom_score_adj
ulimit -c 0; ulimit -f "$1"; ulimit -n 8192 2>/dev/null; shift
exec "$@"`

// begin serves the proxy of a started command, and tells the init what to do.
func (r *run) begin(ctx context.Context) {
	r.serve(ctx)
	if r.plan != nil {
		_ = r.tell() // an init that has ended is noticed later
	}
}

// serve opens the connection to the proxy.
func (r *run) serve(ctx context.Context) {
	if r.proxy != nil {
		r.proxy.start(ctx)
	}
}

// execute starts the command, watches it, and waits until nothing of it is left.
func (r *run) execute(ctx context.Context) (Result, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return Result{}, err
	}
	defer reader.Close()
	stdin, err := emptyFile()
	if err != nil {
		writer.Close()
		return Result{}, err
	}
	defer stdin.Close()
	if err := r.give(writer); err != nil {
		writer.Close()
		return Result{}, err
	}
	cmd := r.launch(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, writer, writer

	err = r.group.start(cmd)
	r.group.leave()
	writer.Close()
	if err != nil {
		return Result{}, err
	}
	r.closeFiles()
	r.pid = cmd.Process.Pid
	r.begin(ctx)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(r.output, reader) // ends with the pipe
	}()
	killed := r.wait(ctx, cmd.Process.Pid)
	err = cmd.Wait()
	r.endOutput(reader, copied)
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return Result{}, err
	}
	return Result{ExitCode: exitCode(cmd.ProcessState), Killed: killed}, nil
}

// launch returns what to start: an init that makes the sandbox directly, anything else by a shell.
func (r *run) launch(ctx context.Context) *exec.Cmd {
	ctx = context.WithoutCancel(ctx) // the watch ends it, with all its processes
	if r.initWord != "" {
		cmd := exec.CommandContext(ctx, r.args[0], r.args[1:]...)
		cmd.Dir, cmd.Env, cmd.ExtraFiles, cmd.SysProcAttr = "/", []string{"GOMAXPROCS=1", "GOGC=off"}, r.files, r.namespaces()
		return cmd
	}
	const block = 512
	launch := append([]string{"-c", launcher, "sh", strconv.FormatInt(r.maxFileSize()/block, 10)}, r.args...)
	cmd := exec.CommandContext(ctx, "/bin/sh", launch...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = r.command.Dir, []string{}, r.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// give makes the command's user the owner of files, so that the command can open them again by /dev/stdout.
func (r *run) give(files ...*os.File) error {
	if r.sandbox.mode == Off || os.Geteuid() != 0 {
		return nil
	}
	for _, file := range files {
		if err := file.Chown(r.user, r.user); err != nil {
			return err
		}
	}
	return nil
}

// wait watches the process until it has ended, ends what it left, and returns the limit that it reached. It does not
// reap the process: until then no other process can get its number, by which it is killed.
func (r *run) wait(ctx context.Context, pid int) (killed string) {
	w := &watch{run: r, leader: pid}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(ctx, ended)
	}()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	close(ended)
	<-watched
	_ = unix.Kill(-pid, unix.SIGKILL) // what mode Off left in the background, if there is something
	r.group.kill()
	if w.killed == "" && ctx.Err() == nil {
		w.killed = w.excess()
	}
	return w.killed
}

// endOutput waits until all output is passed on. Only a process that mode Off could not find can still hold the pipe
// then; it is not waited for.
func (r *run) endOutput(reader *os.File, copied <-chan struct{}) {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
		reader.Close()
		<-copied
	}
	r.output.end()
}

// emptyFile returns an empty file that cannot be written to, and is not a file of the host.
func emptyFile() (*os.File, error) {
	r, w, err := os.Pipe()
	if err == nil {
		w.Close()
	}
	return r, err
}

// dataFile returns a file in memory with the data.
func dataFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("data", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "data")
	if _, err = file.Write(data); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// exitCode returns the exit code of a process that has ended, as a shell does.
func exitCode(state *os.ProcessState) int {
	status, _ := state.Sys().(syscall.WaitStatus)
	return inner.ExitCode(status)
}

// limitedWriter passes on output up to a limit and drops the rest, so that a flood neither blocks the command nor fills
// a log.
type limitedWriter struct {
	to      io.Writer
	left    int64
	dropped bool
}

// Write implements io.Writer. It takes everything: a failing output ends the output, not the command.
func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.to == nil {
		return len(p), nil
	}
	keep := min(int64(len(p)), w.left)
	w.dropped = w.dropped || keep < int64(len(p))
	if keep > 0 {
		w.left -= keep
		if _, err := w.to.Write(p[:keep]); err != nil {
			w.to = nil
		}
	}
	return len(p), nil
}

func (w *limitedWriter) end() {
	if w.to != nil && w.dropped {
		fmt.Fprint(w.to, "\n(the output is cut here: it reached its limit)\n")
	}
}
