package sandbox

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox/inner"
)

// Mode says whether processes are confined.
type Mode string

// The modes.
const (
	Auto Mode = "auto" // confined, or refused where it is not possible
	Off  Mode = "off"  // not confined: only for repositories that are trusted like the server itself
)

// Sandbox runs commands. It is safe for concurrent use.
type Sandbox struct {
	mode           Mode
	bwrap          string // path of bubblewrap; empty when it is missing or does not work
	init           string // path of the program that becomes process 1
	sized          bool   // bubblewrap can limit the size of files in memory
	direct         bool   // programs are started without bubblewrap
	indirectReason string // why they are not

	walled bool // the kernel has Landlock

	reserve       *reserve // nil: none
	reason        string   // why bwrap is empty
	groups        groups
	users         *users // nil: all sandboxes have the same user
	socketsReason string // why sockets are not counted; empty: they are

	filters map[inner.Walls]func() ([]byte, error) // filters of system calls
}

// Detect finds out what can confine processes on this machine, and removes what a killed server left.
func Detect(ctx context.Context, mode Mode) *Sandbox {
	s := &Sandbox{mode: mode, walled: inner.HasLandlock(), groups: findGroups(ctx),
		filters: map[inner.Walls]func() ([]byte, error){}}
	for _, network := range []inner.Network{inner.Nothing, inner.Proxied, inner.Itself} {
		for _, walls := range []inner.Walls{{}, {Charged: true}, {Own: true}, {Charged: true, Own: true}} {
			walls.Network = network
			s.filters[walls] = sync.OnceValues(func() ([]byte, error) { return inner.Filter(walls) })
		}
	}
	for _, folder := range append(s.groups.folders(), os.TempDir()) {
		sweep(folder)
	}
	if mode == Off {
		return s
	}
	s.users = findUsers()
	if s.groups.memory == "" {
		s.socketsReason = detectSockets()
	}
	path, err := exec.LookPath("bwrap")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		s.reason = "bubblewrap is not installed"
		return s
	}
	if s.init, err = findInit(ctx); err != nil {
		s.reason = "the server's own program cannot be found (" + err.Error() + ")"
		return s
	}
	for _, s.sized = range []bool{true, false} {
		var out []byte
		args, _ := s.confinement("", "probe", Limits{}.withDefaults().Memory/2, true) // it reads no folder
		args = append(args, "--", "/bin/true")
		if out, err = exec.CommandContext(ctx, path, args...).CombinedOutput(); err == nil {
			s.bwrap = path
			s.detectDirect(ctx)
			return s
		}
		s.reason = "bubblewrap does not work here (" + strings.TrimSpace(string(out)) + ")"
	}
	return s
}

// Kind returns what confines commands: "bubblewrap", "off", or "none" when commands are refused.
func (s *Sandbox) Kind() string {
	switch {
	case s.mode == Off:
		return "off"
	case s.bwrap != "":
		return "bubblewrap"
	}
	return "none"
}

// Lacks lists what this machine lacks, for people: what is missing although commands are confined, or why all are
// refused. It is empty when nothing is missing, or nothing must be confined.
func (s *Sandbox) Lacks() []string {
	switch s.Kind() {
	case "off":
		return nil
	case "none":
		return []string{"what can confine build commands and functions, which are refused: " + s.remedy()}
	}
	lacks := inner.Lacks()
	if s.groups.memory == "" || s.groups.processes == "" {
		lacks = append(lacks, "control groups ("+s.groups.why+"): limits are held by a watch, which is late by a moment")
	}
	if s.groups.memory == "" {
		lacks = append(lacks,
			"a control group for memory: processes, files in memory, pipes, sockets, locks, watches and the kernel's tables "+
				"are added up by the watch; refused are memfd_create, System V IPC, message queues, shared memory without a "+
				"file, splice and sendfile; "+
				"not added up are descriptors under way from one process to another, of which there are 1,277 at most")
		if s.socketsReason != "" {
			lacks = append(lacks, "news of sockets from the kernel ("+s.socketsReason+
				"): what lies in them is not added up to memory")
		}
	}
	if s.groups.memory != "" && s.groups.swaps {
		lacks = append(lacks,
			"a limit of swap in the control group for memory: a process may hold more than its limit, there")
	}
	if s.users == nil {
		lacks = append(lacks, "users of its own for each sandbox: inotify is refused, and pipes keep their size; "+
			"when the pipes of one take many pages, those that others make are smaller")
	}
	if s.groups.cpu == "" {
		lacks = append(lacks, "a control group for processors: they are shared without limits")
	}
	if !s.direct {
		lacks = append(lacks, "namespaces of the server's own making ("+s.indirectReason+
			"): functions are started by bubblewrap, in twice the time")
	}
	if !s.sized {
		lacks = append(lacks, "a bubblewrap with --size: /tmp is as large as its memory")
	}
	return lacks
}

// Limits bound a command. Zero fields have defaults: 10 minutes, 2 GiB of memory, 2 GiB of disk, 512 processes and 16
// MiB of output. A command that reaches the limit of time, memory, disk or processes is ended, with all that it
// started.
type Limits struct {
	Wall   time.Duration
	Memory int64 // bytes of all its processes, including its files in /tmp, which take at most half of it
	// bytes in Dir; every file counts as whole blocks, including files that are open and have no name any more
	Disk      int64
	Processes int   // processes and threads at the same time, including a few of ours
	Output    int64 // bytes; further output is dropped, and a line says so
	CPU       int   // thousandths of a processor; 0: no limit. Enforced only where control groups can be made
}

func (l Limits) withDefaults() Limits {
	const gib = 1 << 30
	l.Wall = cmp.Or(l.Wall, 10*time.Minute)
	l.Memory = cmp.Or(l.Memory, 2*gib)
	l.Disk = cmp.Or(l.Disk, 2*gib)
	l.Processes = cmp.Or(l.Processes, 512)
	l.Output = cmp.Or(l.Output, 16<<20)
	return l
}

// Command is what to run.
type Command struct {
	Shell string // for /bin/sh -c

	// Dir is the host's folder in which the command starts, and which it may change; it sees it as /build. It must be
	// made for this command: when the server is root, everything in it gets the command's user as owner.
	Dir string

	Env map[string]string // in addition to PATH, HOME, TMPDIR, LANG and the proxy's address
	// small files in memory for the command alone, by their paths below /secrets or /configs; none without a sandbox
	Files  map[string]string
	Limits Limits
	Output io.Writer // gets standard output and error, as they are written; nil: nobody

	// Proxy, when set, lets the command reach public addresses through an HTTP proxy, and nothing else.
	Proxy *Proxy
}

// Result says how a command ended.
type Result struct {
	ExitCode int    // of the shell; 128 plus the signal's number when a signal ended it
	Killed   string // the limit that ended it, for people; empty when it ended by itself
	Dir      string // the path at which it saw Dir
}

// Run runs a command and waits until nothing of it is left. A failing command is a Result. Kinds: Forbidden when
// commands are refused here, with what to do about it; Invalid when a process cannot have one of the variables;
// Canceled when ctx ended it.
func (s *Sandbox) Run(ctx context.Context, c Command) (Result, error) {
	const op landfall.Op = "sandbox.Run"
	if err := s.refused(op, "build commands"); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: context.Cause(ctx)}
	}
	c.Limits = c.Limits.withDefaults()
	r := &run{
		sandbox: s, command: c, argv: []string{"/bin/sh", "-c", c.Shell}, at: workDir,
		output: &limitedWriter{to: c.Output, left: c.Limits.Output},
	}
	result, err := r.do(ctx)
	if result.Dir = r.at; s.mode == Off {
		result.Dir = c.Dir
	}
	if err != nil {
		return result, &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: err}
	}
	if ctx.Err() != nil {
		return result, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: context.Cause(ctx)}
	}
	return result, nil
}

// refused returns the error when processes cannot be confined.
func (s *Sandbox) refused(op landfall.Op, what string) error {
	if s.Kind() != "none" {
		return nil
	}
	return &landfall.Error{Op: op, Kind: landfall.Forbidden,
		Message: what + " are refused because nothing can confine them: " + s.remedy()}
}

// remedy says why processes cannot be confined, and what to do about it.
func (s *Sandbox) remedy() string {
	return s.reason + "; install it on the server (apt-get install bubblewrap), or start the server with --sandbox off"
}
