package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/sandbox"
)

// ways are how programs are started on this machine.
func ways(t *testing.T) map[string]func(sandbox.Program) *sandbox.Process {
	t.Helper()
	s := confined(t)
	reserved := sandbox.WithInit(s, "")
	t.Cleanup(reserved.Reserve(2))
	return map[string]func(sandbox.Program) *sandbox.Process{
		"alone":         func(p sandbox.Program) *sandbox.Process { return start(t, s, p) },
		"by bubblewrap": func(p sandbox.Program) *sandbox.Process { return start(t, sandbox.WithoutAlone(s), p) },
		"from the reserve": func(p sandbox.Program) *sandbox.Process {
			if p.Dir == "" {
				p.Dir = t.TempDir()
			}
			process, err := sandbox.StartSpare(reserved, p)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				process.Kill()
				<-process.Done()
				process.Close()
			})
			return process
		},
	}
}

// said returns what a program prints until it ends.
func said(t *testing.T, p *sandbox.Process) string {
	t.Helper()
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// However a program is started, it is nobody, on the host, too, and nobody can give it a right.
func TestProgramIsNobody(t *testing.T) {
	t.Parallel()
	s := confined(t)
	for way, start := range ways(t) {
		word := fmt.Sprintf("landfall-nobody-%d-%d", os.Getpid(), len(way))
		p := start(
			sandbox.Program{
				Args: shell(
					`id -u; id -g; id -G; grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status; ulimit -c; echo ready; read -r line; exit 3 # ` + word)})
		out := bufio.NewReader(p.Stdout)
		var lines []string
		for !slices.Contains(lines, "ready") {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: after %q: %v", way, lines, err)
			}
			lines = append(lines, sandbox.WithoutNames(s, strings.TrimSpace(strings.ReplaceAll(line, "\t", " "))))
		}
		none := " 0000000000000000"
		want := []string{"65534", "65534", "65534", "CapInh:" + none, "CapPrm:" + none, "CapEff:" + none, "CapBnd:" + none,
			"CapAmb:" + none, "NoNewPrivs: 1", "Seccomp: 2", "0", "ready"}
		if !slices.Equal(lines, want) {
			t.Errorf("%s: it prints %q, want %q", way, lines, want)
		}
		for _, pid := range running(word) {
			info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			if err != nil {
				t.Fatal(err)
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid == 0 {
				t.Errorf("%s: process %d is root's on the host", way, pid)
			}
		}
		for _, pid := range children(t, confined(t)) { // what every program has beside it, unless that is bubblewrap
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil ||
				!strings.HasPrefix(string(line), self(t)+"\x00") {
				continue
			}
			eventually(t, "no thread of an init is root's", func() bool {
				threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
				if err != nil {
					t.Fatal(err)
				}
				return !slices.ContainsFunc(threads, func(thread string) bool {
					status, err := os.ReadFile(filepath.Join(thread, "status"))
					return err == nil && strings.Contains(string(status), "\nUid:\t0\t")
				})
			})
		}
		p.Stdin.Close()
		if result, err := p.Result(); err != nil || result.ExitCode != 3 {
			t.Errorf("%s: Result = %+v, %v; want exit code 3", way, result, err)
		}
	}
}

// A program can open its own files again by the names that shells use for them, also where the server that made them is
// root.
func TestStandardFiles(t *testing.T) {
	t.Parallel()
	line := `echo a > /dev/stdout; echo b > /dev/fd/1; echo c > /proc/self/fd/1; echo d > /dev/stderr`
	for way, start := range ways(t) {
		p := start(sandbox.Program{Args: shell(line + `; cat /dev/stdin`)})
		if _, err := p.Stdin.WriteString("e\n"); err != nil {
			t.Fatal(err)
		}
		if got, want := said(t, p), "a\nb\nc\ne\n"; got != want {
			t.Errorf("%s: it prints %q, want %q", way, got, want)
		}
		if log, err := io.ReadAll(p.Stderr); err != nil || string(log) != "d\n" {
			t.Errorf("%s: its log is %q, %v", way, log, err)
		}
	}
	if got := show(t, confined(t), sandbox.Command{Shell: line}); got != "a\nb\nc\nd\n" {
		t.Errorf("a build prints %q", got)
	}
}

// Of the machine a program sees the same, however it is started.
func TestProgramSeesTheSame(t *testing.T) {
	t.Parallel()
	s := confined(t)
	line := `hostname; cat /etc/passwd /etc/hosts; ls -d /* /etc/*; ls /dev/null /dev/full /dev/urandom; head -c 4 /dev/zero | wc -c; pwd; cut -d" " -f 3- /proc/1/cmdline | wc -l; ls /proc/self/fd | wc -l; mount | grep -c nothing; python3 -c 'import ssl, zoneinfo, multiprocessing as m; m.Lock(); print("python")'; node -p '"node " + require("os").cpus().length.constructor.name'; git --version | cut -c -3`
	seen := map[string]string{}
	for way, start := range ways(t) {
		seen[way] = sandbox.WithoutNames(s, said(t, start(sandbox.Program{Args: shell(line)})))
	}
	for way, got := range seen {
		if want := seen["by bubblewrap"]; got != want {
			t.Errorf("%s it sees\n%s\nand by bubblewrap\n%s", way, got, want)
		}
	}
	for _, want := range []string{"function\n", "python\n", "node Number\n", "git\n"} {
		if !strings.Contains(seen["alone"], want) {
			t.Errorf("it lacks %q:\n%s", want, seen["alone"])
		}
	}
}

// children returns this process's children that are inits of a sandbox.
func children(t *testing.T, s *sandbox.Sandbox) []int {
	t.Helper()
	return slices.DeleteFunc(running(sandbox.Init(s)), func(pid int) bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	})
}

// What waits in reserve is limited as the program that takes it says, and nothing of it is left after its release. One
// that was killed is replaced.
func TestReserve(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is seen; so not parallel
	dir := t.TempDir()
	s := sandbox.WithInit(confined(t), "")
	release := s.Reserve(2)
	var all []*sandbox.Process
	spare := func(p sandbox.Program) *sandbox.Process {
		t.Helper()
		p.Dir = dir
		process, err := sandbox.StartSpare(s, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(process.Close)
		all = append(all, process)
		return process
	}
	p := spare(sandbox.Program{
		Args: shell(`echo "$GREETING"; head -c 9M /dev/zero > /tmp/big; stat -c %s /tmp/big`),
		Env:  map[string]string{"GREETING": "hello"}, Limits: sandbox.Limits{Disk: 8 * mib},
	})
	if got, want := said(t, p), "hello\n8388608\n"; got != want {
		t.Errorf("it prints %q, want %q", got, want)
	}
	for _, memory := range []int64{64 * mib, 3 << 30} { // less and more than the default
		p = spare(sandbox.Program{Args: []string{sandbox.InitAt, "probe", "hog", "1500000000"},
			Limits: sandbox.Limits{Memory: memory}})
		if memory < 1<<30 {
			if result, err := p.Result(); err != nil || !strings.Contains(result.Killed, "memory limit of 64 MiB") {
				t.Errorf("Result = %+v, %v; want it killed for its memory", result, err)
			}
			continue
		}
		if said, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil || said != "the hog has it all\n" {
			t.Errorf("it says %q, %v", said, err)
		}
		p.Kill()
		<-p.Done() // its memory is given back slowly: until then it would be taken for one that waits
	}
	if _, err := sandbox.StartSpare(s, sandbox.Program{Dir: dir, Args: shell("true"),
		Env: map[string]string{"A=B": ""}}); err == nil {
		t.Error("a variable that is none was given to it")
	}
	var waiting []int
	eventually(t, "two wait", func() bool {
		waiting = children(t, s)
		return len(waiting) == 2
	})
	// none that waits has a way to a proxy
	proxied := start(t, s, sandbox.Program{Args: shell(sandbox.InitAt + " probe get http://localhost:80/"),
		Proxy: &sandbox.Proxy{}})
	if got := said(t, proxied); !strings.Contains(got, "403 localhost is a private address") {
		t.Errorf("while others wait, a program with a proxy says %q", got)
	}
	if still := children(t, s); !slices.Contains(still, waiting[0]) || !slices.Contains(still, waiting[1]) {
		t.Errorf("%v waited, and %v are there behind a program with a proxy", waiting, still)
	}
	for _, pid := range waiting {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has gone", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			return err != nil
		})
	}
	for range 2 {
		if got := said(t, spare(sandbox.Program{Args: shell("echo there")})); got != "there\n" {
			t.Errorf("after the others were killed it says %q", got)
		}
	}
	for _, p := range all {
		if _, err := p.Result(); err != nil {
			t.Error(err)
		}
	}
	release()
	if left := append(leftovers(t, s, dir), fmt.Sprint(children(t, s))); !slices.Equal(left, []string{"[]"}) {
		t.Errorf("left behind: %v", left)
	}
}

// Nothing waits once no program was started for a while, and something waits again from the next start on.
//
//nolint:paralleltest // it looks at all children of this process
func TestReserveRests(t *testing.T) {
	s := sandbox.WithInit(confined(t), "")
	t.Cleanup(sandbox.ReserveFor(s, 2, 2*time.Second))
	for range 2 {
		eventually(t, "one waits", func() bool { // a busy machine may look only when it has rested again
			if got := said(t, start(t, s, sandbox.Program{Args: shell("echo there")})); got != "there\n" {
				t.Errorf("it says %q", got)
			}
			return len(children(t, s)) > 0
		})
		eventually(t, "none waits", func() bool { return len(children(t, s)) == 0 })
	}
}

// A server that is not root starts programs in the same way, where the kernel lets it.
func TestProgramUnprivileged(t *testing.T) {
	t.Parallel()
	o := newOrdinary(t)
	out, err := o.run(t, o.program, "functions", o.dir,
		`id -u; grep -E "^Cap(Eff|Bnd)|^Seccomp:" /proc/self/status; pwd; echo x > /tmp/x && cat /tmp/x; hostname; echo y > /dev/stdout
for f in /x /usr/x /etc/x /function/x `+o.home+
			`/x; do (echo x > $f) 2>/dev/null && echo "DONE: $f"; done; [ -r /proc/1/environ ] && echo DONE; unshare -m true 2>/dev/null && echo DONE; true`)
	kind, said, _ := strings.Cut(out, "\n")
	if kind != "bubblewrap true" {
		t.Logf("this kernel lets nobody but root start programs without bubblewrap: %s", out)
		return
	}
	want := strings.Repeat(
		"65534\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nSeccomp:\t2\n/function\nx\nfunction\ny\n", 2)
	if err != nil || said != want {
		t.Errorf("they print %v\n%s\nwant\n%s", err, said, want)
	}
}

// Where namespaces cannot be made without bubblewrap, that is said, with what follows.
func TestLacksAlone(t *testing.T) {
	t.Parallel()
	s := confined(t)
	says := func(s *sandbox.Sandbox) bool {
		return slices.ContainsFunc(s.Lacks(), func(lack string) bool {
			return strings.Contains(lack, "functions are started by bubblewrap, in twice the time")
		})
	}
	if got, want := says(s), !sandbox.IsAlone(s); got != want {
		t.Errorf("it says so: %t, want %t", got, want)
	}
	if !says(sandbox.WithoutAlone(s)) {
		t.Error("where they are not made, nothing is said")
	}
}
