package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/sandbox"
)

// patience is how long a test waits for what happens at once on a machine that has nothing else to do.
const patience = 60 * time.Second

// TestMain is also the init of what the tests confine, the programs that they run there, and the servers that they
// kill.
func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(server(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "functions" {
		os.Exit(functions(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "holds" {
		os.Exit(holds(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "neighbours" {
		os.Exit(neighbours(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// confined returns the sandbox, which must be able to confine.
func confined(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.Detect(t.Context(), sandbox.Auto)
	if s.Kind() != "bubblewrap" {
		_, err := s.Run(t.Context(), sandbox.Command{})
		t.Fatalf("nothing can confine commands here (%v); type: apt-get install bubblewrap", err)
	}
	return s
}

// self returns the path of this binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// show runs a shell line that must end by itself, and returns what it printed.
func show(t *testing.T, s *sandbox.Sandbox, c sandbox.Command) string {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	var out logtest.Buffer
	c.Output = &out
	result, err := s.Run(t.Context(), c)
	if err != nil || result.Killed != "" {
		t.Fatalf("Run(%q) = %+v, %v; want it to end by itself; it printed:\n%s", c.Shell, result, err, out.String())
	}
	return out.String()
}

// eventually waits until a condition holds that nothing signals. The room's tests stand on nothing else of ours that
// they can do without: their binary is also the first process of sandboxes that may hold little memory.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after %s", what, patience)
		}
	}
}

// running returns the processes of the machine that have a word in their command line, without those that have ended.
func running(word string) []int {
	var found []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		data, err := os.ReadFile(line)
		if err != nil || !bytes.Contains(data, []byte(word)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line))); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// leftovers lists what commands left on the machine: processes with the word in their command line, control groups, and
// what lies in TMPDIR.
func leftovers(t *testing.T, s *sandbox.Sandbox, word string) []string {
	t.Helper()
	var left []string
	for _, pid := range running(word) {
		left = append(left, fmt.Sprintf("process %d", pid))
	}
	for _, folder := range sandbox.GroupFolders(s) {
		found, err := filepath.Glob(filepath.Join(folder, sandbox.OwnName()+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	entries, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	return left
}

// server is a Landfall as far as these tests need one: it runs one command. Its arguments are the mode, the folder, the
// command.
func server(args []string) int {
	ctx := context.Background()
	s := sandbox.Detect(ctx, sandbox.Mode(args[0]))
	result, err := s.Run(ctx, sandbox.Command{Dir: args[1], Shell: args[2], Output: os.Stdout})
	if landfall.Is(err, landfall.Forbidden) {
		fmt.Println("refused:", landfall.MessageOf(err))
		return 0
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return result.ExitCode
}

// functions is a Landfall that runs one program, twice: the second time from its reserve. Its arguments are the folder
// and the line.
func functions(args []string) int {
	s := sandbox.Detect(context.Background(), sandbox.Auto)
	fmt.Println(s.Kind(), sandbox.IsAlone(s))
	if !sandbox.IsAlone(s) {
		return 0
	}
	defer s.Reserve(1)()
	for _, start := range []func(sandbox.Program) (*sandbox.Process, error){
		s.Start, func(p sandbox.Program) (*sandbox.Process, error) { return sandbox.StartSpare(s, p) },
	} {
		p, err := start(sandbox.Program{Dir: args[0], Args: []string{"/bin/sh", "-c", args[1]}})
		if err != nil {
			fmt.Println("failed:", err)
			return 1
		}
		go func() { _, _ = io.Copy(os.Stdout, p.Stderr) }()
		_, _ = io.Copy(os.Stdout, p.Stdout)
		if result, err := p.Result(); err != nil || result.ExitCode != 0 {
			fmt.Printf("failed: %+v, %v\n", result, err)
			return 1
		}
		p.Close()
	}
	return 0
}

// probe is what runs inside: it tries something, and prints what came of it.
func probe(args []string) int {
	switch args[0] {
	case "calls":
		probeCalls()
	case "sockets":
		probeSockets()
	case "dial":
		return probeDial(args[1], args[2])
	case "get":
		return probeGet(args[1])
	case "tunnel":
		return probeTunnel(args[1])
	case "listen":
		return probeListen(args[1])
	case "hog":
		return probeHog(args[1])
	case "deep":
		return probeDeep(args[1])
	case "burn":
		return probeBurn(args[1])
	case "hold":
		return hold(args[1])
	case "twice":
		return probeTwice()
	case "greedy":
		probeGreedy()
	case "modest":
		probeModest()
	case "files":
		probeFiles()
	default:
		try, known := tries()[args[0]]
		if !known {
			return 2
		}
		err := try()
		answer(args[0], err)
		if err != nil {
			return 1
		}
	}
	return 0
}

// answer prints the name of what was tried, and "done" or the error.
func answer(what string, err error) {
	if err == nil || errors.Is(err, unix.Errno(0)) {
		fmt.Println(what, "done")
		return
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		fmt.Println(what, unix.ErrnoName(errno))
		return
	}
	fmt.Println(what, strings.ReplaceAll(err.Error(), "\n", " "))
}

// probeHog takes so many bytes of memory, and keeps them until it is killed.
func probeHog(size string) int {
	n, err := strconv.Atoi(size)
	if err != nil {
		return 2
	}
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		answer("mmap", err)
		return 1
	}
	for i := 0; i < n; i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Println("the hog has it all")
	select {}
}

// probeBurn uses a processor for so long, and prints how long that took.
func probeBurn(length string) int {
	want, err := time.ParseDuration(length)
	if err != nil {
		return 2
	}
	var used unix.Rusage
	for start := time.Now(); ; {
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
			return 1
		}
		if time.Duration(used.Utime.Nano()+used.Stime.Nano()) > want {
			fmt.Println(time.Since(start))
			return 0
		}
	}
}

// probeDeep makes so many folders within one another.
func probeDeep(count string) int {
	n, err := strconv.Atoi(count)
	for ; n > 0 && err == nil; n-- {
		if err = os.Mkdir("d", 0o700); err == nil {
			err = os.Chdir("d")
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
