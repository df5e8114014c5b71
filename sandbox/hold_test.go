package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// heldLimit is how many MiB a holder may have: fewer than it wants where it is to be ended. One that is refused has more
// than it wants and this program takes, also with the race detector in it on a busy machine.
func heldLimit(s *sandbox.Sandbox, name string) int64 {
	const usual, refused = 64, 2048
	if refusals[name] != "" && (!sandbox.HasGroups(s) || !slices.Contains(charged, name)) {
		return refused
	}
	return usual
}

// heldEnded is the outcome of a holder that has more.
const heldEnded = "ended: it reached the memory limit"

// outcome runs a holder within heldLimit in one of the ways in which something runs, and says what became of it:
// "refused" and why, "fits", or "ended" and why.
func outcome(ctx context.Context, s *sandbox.Sandbox, way, dir, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	limit := heldLimit(s, name)
	limits := sandbox.Limits{Memory: limit * mib, Disk: 512 * mib}
	args := []string{sandbox.InitAt, "probe", "hold", name}
	var out logtest.Buffer
	var result sandbox.Result
	var err error
	if way == "build" {
		result, err = s.Run(ctx, sandbox.Command{Dir: dir, Shell: fmt.Sprintf("exec %s probe hold %q", args[0], name),
			Limits: limits, Output: &out})
	} else {
		if way == "bubblewrap" {
			s = sandbox.WithoutAlone(s)
		}
		p, failed := s.Start(sandbox.Program{Dir: dir, Args: args, Limits: limits})
		if failed != nil {
			return failed.Error()
		}
		defer p.Close()
		defer context.AfterFunc(ctx, p.Kill)()
		go func() { _, _ = io.Copy(&out, p.Stderr) }()
		_, _ = io.Copy(&out, p.Stdout)
		result, err = p.Result()
	}
	switch {
	case result.Killed != "":
		return strings.TrimSuffix("ended: "+result.Killed, fmt.Sprintf(" of %d MiB", limit))
	case err == nil && result.ExitCode == 0:
		return strings.TrimSpace(out.String())
	}
	return fmt.Sprintf("%+v, %v: %.500s", result, err, out.String())
}

// What each holder may come to where no control group is charged. All others are ended.
var refusals = map[string]string{
	"memfd": "ENOSYS", "memfd of large pages": "ENOSYS", "System V memory": "ENOSYS", "System V messages": "ENOSYS",
	"semaphores": "ENOSYS", "a message queue": "ENOSYS", "shared memory, out of its tables": "EPERM",
	"the device of zeros, shared": "ENODEV", "rules of Landlock": "ENOTSUP", "files in pipes": "EINVAL",
}

// wantHeld says what is wrong with what became of a holder without control groups; nothing when nothing is.
func wantHeld(way, name, got string) string {
	want := heldEnded
	if errno := refusals[name]; errno != "" {
		want = "refused " + errno
	}
	if way == "build" && strings.HasPrefix(name, "a file in") {
		want = "refused ENOSPC" // its folders in memory are smaller than what it may have
	}
	// a busy machine may see that before the folder is full
	if got == want || (want == "refused ENOSPC" && got == heldEnded) {
		return ""
	}
	return fmt.Sprintf("%s, %s: %s; want %s", way, name, got, want)
}

// holds is a Landfall that runs every holder; its arguments are a folder and, where it has control groups, one more. It
// prints what is wrong.
func holds(args []string) int {
	s := sandbox.Detect(context.Background(), sandbox.Auto)
	fmt.Println(s.Kind(), sandbox.IsAlone(s))
	if len(args) > 1 {
		if !sandbox.HasGroups(s) {
			fmt.Println("it has no control groups:", s.Lacks())
		}
		for _, name := range charged {
			if got, want := outcome(context.Background(), s, "function", args[0], name), heldEnded; got != want {
				fmt.Printf("%s: %s; want %s\n", name, got, want)
			}
		}
		return 0
	}
	s = sandbox.WatchOnly(s)
	for _, name := range slices.Sorted(maps.Keys(holders())) {
		for _, way := range []string{"function", "build"} {
			if wrong := wantHeld(way, name, outcome(context.Background(), s, way, args[0], name)); wrong != "" {
				fmt.Println(wrong)
			}
		}
	}
	return 0
}

// By whatever a process can hold memory that is in no table of its own, it is refused without control groups, or ended.
// A function beside it notices nothing.
func TestMemoryIsCounted(t *testing.T) {
	t.Parallel()
	s := sandbox.WatchOnly(confined(t))
	beside := start(t, s, sandbox.Program{Args: []string{"/bin/cat"}})
	for _, name := range slices.Sorted(maps.Keys(holders())) {
		for _, way := range []string{"function", "bubblewrap", "build"} {
			if _, refused := refusals[name]; refused && way == "bubblewrap" {
				continue // by the filter of the others
			}
			// K-016: without control groups a function or a build is refused, or ended, by whatever it holds more
			// memory than its limit
			if wrong := wantHeld(way, name, outcome(t.Context(), s, way, t.TempDir(), name)); wrong != "" {
				t.Error(wrong)
			}
		}
	}
	if _, err := fmt.Fprintln(beside.Stdin, "there?"); err != nil {
		t.Error(err)
	}
	if said, err := bufio.NewReader(beside.Stdout).ReadString('\n'); said != "there?\n" {
		t.Errorf("the function beside says %q, %v", said, err)
	}
}

// What two processes share while one of them starts a program is held once.
func TestSharedMemoryIsCountedOnce(t *testing.T) {
	t.Parallel()
	const most = 340 * mib // what is held, and two of this program with the race detector; not twice of what is held
	p := start(t, sandbox.WatchOnly(confined(t)),
		sandbox.Program{Args: []string{sandbox.InitAt, "probe", "twice"}, Limits: sandbox.Limits{Memory: most}})
	if said, err := bufio.NewReader(p.Stdout).ReadString('\n'); said != "fits\n" {
		t.Fatalf("it says %q, %v", said, err)
	}
	select {
	case <-p.Done():
		result, err := p.Result()
		t.Errorf("it ended: %+v, %v", result, err)
	case <-time.After(5 * inspectOpenFiles):
	}
}

// A process that has no root of its own so far is not charged with what the host has in its memory folders: a busy
// machine with much there ended a function before it began.
func TestMemoryOfHostIsNotCounted(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp("/dev/shm", sandbox.OwnName())
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(make([]byte, mib)); err != nil {
		t.Fatal(err)
	}
	if got := sandbox.TemporaryBytes(os.Getpid()); got != 0 {
		t.Errorf("%d bytes of the host's are counted", got)
	}
}

// inspectOpenFiles is how often the watch looks.
const inspectOpenFiles = 100 * time.Millisecond

// ordinary is a Landfall of an ordinary user, who is nobody on this machine.
type ordinary struct {
	program string
	dir     string // for what it runs
	home    string // where both lie, and TMPDIR is
}

const somebody = 12345

func newOrdinary(t *testing.T) ordinary {
	t.Helper()
	home := t.TempDir()
	o := ordinary{filepath.Join(home, "server"), filepath.Join(home, "dir"), home}
	program, err := os.ReadFile(self(t))
	if err = errors.Join(err, os.Chmod(filepath.Dir(home), 0o755), os.Mkdir(o.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	testkit.Program(t, o.program, program)
	if os.Getuid() != 0 {
		return o
	}
	if err := errors.Join(os.Chown(home, somebody, somebody), os.Chown(o.dir, somebody, somebody)); err != nil {
		t.Fatal(err)
	}
	return o
}

// run runs a command line as its user: the program's, or that of what becomes the user and starts it.
func (o ordinary) run(t *testing.T, line ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + o.home}
	if os.Getuid() == 0 && line[0] == o.program {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// So it is where the server is not root.
func TestMemoryIsCountedUnprivileged(t *testing.T) {
	t.Parallel()
	o := newOrdinary(t)
	out, err := o.run(t, o.program, "holds", o.dir)
	kind, wrong, _ := strings.Cut(out, "\n")
	if kind != "bubblewrap true" {
		t.Logf("this kernel lets nobody but root start programs without bubblewrap: %s", out)
		return
	}
	// K-016: so it is where the server is an ordinary user
	if err != nil || wrong != "" {
		t.Errorf("%v\n%s", err, wrong)
	}
}

// charged are holders for which a control group is charged, and locks, for which none is.
var charged = []string{
	"memfd", "System V memory", "shared memory, out of its tables", "the device of zeros, shared",
	"a file in /tmp without a name", "a file in /dev/shm", "empty files in /tmp", "pipes",
	"streams whose sender is closed", "sockets under way", "tables of pages", "mappings", "locks",
}

// Where a control group is charged, all is allowed that was, and counted by the kernel. What the kernel does not charge
// is looked for.
func TestMemoryIsCharged(t *testing.T) {
	t.Parallel()
	s := confined(t)
	if !sandbox.HasGroups(s) {
		t.Log("nobody can make control groups here")
		return
	}
	for _, name := range charged {
		// K-016: with control groups, the same is held by them
		if got, want := outcome(t.Context(), s, "function", t.TempDir(), name), heldEnded; got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	// K-016: pages that the machine has set aside are charged to no group, and refused
	if got, want := outcome(t.Context(), s, "function", t.TempDir(), "memfd of large pages"),
		"refused ENOMEM"; got != want {
		t.Errorf("large pages: %s; want %s", got, want)
	}
}

// given makes a control group of each kind for somebody, as a unit's manager does, and returns a command that runs what
// follows it there as that user. Nil where nobody can.
func given(t *testing.T, s *sandbox.Sandbox) []string {
	t.Helper()
	if os.Geteuid() != 0 || !sandbox.HasGroups(s) {
		return nil
	}
	enter := ""
	for _, folder := range sandbox.GroupFolders(s) {
		path := filepath.Join(folder, sandbox.OwnName()+"-given-"+strings.ReplaceAll(t.Name(), "/", "-"))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			eventually(t, "the group is empty", func() bool { return os.Remove(path) == nil })
		})
		files, err := filepath.Glob(filepath.Join(path, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(files, path) {
			if err := os.Chown(file, somebody, somebody); err != nil {
				t.Fatal(err)
			}
		}
		enter += "echo $$ > " + filepath.Join(path, "cgroup.procs") + "; "
	}
	return []string{"/bin/sh", "-c", enter +
		fmt.Sprintf(`exec setpriv --reuid %d --regid %d --clear-groups "$@"`, somebody, somebody), "sh"}
}

// A server that is an ordinary user makes control groups in the one that it was given, and they hold what its functions
// have.
func TestMemoryIsChargedUnprivileged(t *testing.T) {
	t.Parallel()
	wrap := given(t, confined(t))
	if wrap == nil {
		t.Log("nobody can be given a control group here")
		return
	}
	o := newOrdinary(t)
	out, err := o.run(t, append(wrap, o.program, "holds", o.dir, "by-groups")...)
	kind, wrong, _ := strings.Cut(out, "\n")
	if kind != "bubblewrap true" {
		t.Logf("this kernel lets nobody but root start programs without bubblewrap: %s", out)
		return
	}
	// K-016: so it is where the server is an ordinary user, with control groups of its own
	if err != nil || wrong != "" {
		t.Errorf("%v\n%s", err, wrong)
	}
}
