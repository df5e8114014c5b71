package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// start starts a program that ends with the test at the latest.
func start(t *testing.T, s *sandbox.Sandbox, p sandbox.Program) *sandbox.Process {
	t.Helper()
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	process, err := s.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		<-process.Done()
		process.Close()
	})
	return process
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

// A program is spoken to for as long as it lives, and ends when its input does. Nothing of it is left.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is seen; so not parallel
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			word := fmt.Sprintf("landfall-program-%d", os.Getpid())
			p := start(t, s, sandbox.Program{
				Dir: dir, Args: shell(`while read -r line; do echo "$GREETING $line"; echo "$line was here" >&2; done; exit 7 # ` +
					word), Env: map[string]string{"GREETING": "hello"},
			})
			out, log := bufio.NewReader(p.Stdout), bufio.NewReader(p.Stderr)
			for _, name := range []string{"Ada", "Grace"} {
				if _, err := fmt.Fprintln(p.Stdin, name); err != nil {
					t.Fatal(err)
				}
				said, err := out.ReadString('\n')
				if want := "hello " + name + "\n"; said != want {
					t.Fatalf("it says %q, %v; want %q", said, err, want)
				}
				if said, err := log.ReadString('\n'); said != name+" was here\n" {
					t.Fatalf("its log has %q, %v", said, err)
				}
			}
			p.Stdin.Close()
			if result, err := p.Result(); err != nil || result.ExitCode != 7 || result.Killed != "" {
				t.Errorf("Result = %+v, %v; want exit code 7", result, err)
			}
			if left := leftovers(t, s, word); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A program that is deaf to signals, and all that it started, ends when it is killed, at once.
func TestProgramIsKilled(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is seen; so not parallel
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			word := fmt.Sprintf("landfall-deaf-%d", os.Getpid())
			p := start(t, s, sandbox.Program{Dir: dir,
				Args: shell(`trap "" TERM INT HUP; sleep 600 & setsid sleep 600 & echo ready; while :; do sleep 0.1; done # ` +
					word)})
			if said, err := bufio.NewReader(p.Stdout).ReadString('\n'); said != "ready\n" {
				t.Fatalf("it says %q, %v", said, err)
			}
			p.Kill()
			p.Kill()
			if result, err := p.Result(); err != nil || result.ExitCode == 0 {
				t.Errorf("Result = %+v, %v", result, err)
			}
			// N-025: nothing of it is left
			if left := leftovers(t, s, word); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if rest, err := io.ReadAll(p.Stdout); err != nil || len(rest) > 0 {
				t.Errorf("its output goes on: %q, %v", rest, err)
			}
		})
	}
}

// A program that wants more memory than it may have is ended, and the result says so.
func TestProgramOutOfMemory(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at := sandbox.InitAt
			if s.Kind() == "off" {
				at = self(t)
			}
			p := start(t, s, sandbox.Program{Args: []string{at, "probe", "hog", "1500000000"},
				Limits: sandbox.Limits{Memory: 256 * mib}})
			result, err := p.Result()
			// N-023: what is killed for its memory is said to be
			if want := "memory limit of 256 MiB"; err != nil || !strings.Contains(result.Killed, want) {
				t.Errorf("Result = %+v, %v; want %q", result, err, want)
			}
		})
	}
}

// Of the machine a program sees its folder, which it cannot change, and a temporary folder of its own that is as large
// as it was said to be.
func TestProgramSeesLittle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.Program(t, filepath.Join(dir, "handler"), []byte("#!/bin/sh\necho handled\n"))
	s := confined(t)
	p := start(t, s, sandbox.Program{
		Args: shell(
			`pwd; ./handler; echo x > here || echo no; head -c 9M /dev/zero > /tmp/big || echo full; stat -c %s /tmp/big; id -u; hostname; ls /proc/self/fd | wc -l`),
		Dir: dir, Limits: sandbox.Limits{Disk: 8 * mib},
	})
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sandbox.WithoutNames(s, string(out)),
		"/function\nhandled\nno\nfull\n8388608\n65534\nfunction\n4\n"; got != want {
		t.Errorf("it prints\n%swant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err == nil {
		t.Error("it wrote into its folder")
	}
}

// A program gets no more of the processors than its share.
func TestProgramHasAShareOfTheProcessors(t *testing.T) {
	t.Parallel()
	s := confined(t)
	if !sandbox.HasGroups(s) {
		t.Fatal("no control groups can be made here")
	}
	p := start(t, s, sandbox.Program{Args: []string{sandbox.InitAt, "probe", "burn", "300ms"},
		Limits: sandbox.Limits{CPU: 200}})
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	took, err := time.ParseDuration(strings.TrimSpace(string(out)))
	if err != nil || took < time.Second {
		t.Errorf("300 ms of a processor took %s, %v; want at least a second with a fifth of one", took, err)
	}
}

// Where nothing can confine programs they are refused.
func TestProgramRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := sandbox.Detect(t.Context(), sandbox.Auto)
	if _, err := s.Start(sandbox.Program{Args: shell("true"), Dir: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "functions are refused") {
		t.Errorf("the error is %v", err)
	}
}

// A program that may reach the network reaches the proxy, which refuses what is not public; one that may not has
// nothing to ask. Neither has another way.
func TestProgramNetwork(t *testing.T) {
	t.Parallel()
	s := confined(t)
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	line := fmt.Sprintf(
		`echo "$HTTP_PROXY|$https_proxy"; HTTPS_PROXY=http://127.0.0.1:3128 %[1]s probe get http://localhost:80/; %[1]s probe dial tcp %[2]s`, sandbox.InitAt, host(t, server))
	for proxy, want := range map[*sandbox.Proxy][]string{
		{}:  {"http://127.0.0.1:3128|http://127.0.0.1:3128\n", "403 localhost is a private address", "\nfailed "},
		nil: {"|\n", "failed EAFNOSUPPORT\n", "\nfailed "},
	} {
		t.Run(fmt.Sprint(proxy != nil), func(t *testing.T) {
			t.Parallel()
			p := start(t, s, sandbox.Program{Args: shell(line), Proxy: proxy})
			out, err := io.ReadAll(p.Stdout)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range want {
				if !strings.Contains(string(out), want) || strings.Contains(string(out), "connected") {
					t.Errorf("it prints %q, which lacks %q", out, want)
				}
			}
		})
	}
}

// Where the kernel has Landlock, it is a second wall: what the folders of the sandbox would let through is refused,
// too, while a program and a build can do in their own folders what they need to. What is lacking is said.
func TestLandlock(t *testing.T) {
	t.Parallel()
	s := confined(t)
	refused := "Permission denied"
	if slices.ContainsFunc(s.Lacks(), func(lack string) bool { return strings.HasPrefix(lack, "Landlock:") }) {
		refused = "No such device or address"
	}
	for kind, test := range map[string]struct {
		s       *sandbox.Sandbox
		refused string
	}{"alone": {s, "Read-only file system"}, "by bubblewrap": {sandbox.WithoutAlone(s), refused}} {
		p := start(t, test.s,
			sandbox.Program{
				Args: shell(
					`exec 2>&1; (: > /dev/tty); mkdir /tmp/a /tmp/b && echo x > /tmp/a/f && mv /tmp/a/f /tmp/b/ && cat /tmp/b/f; echo y > /dev/shm/f; cat /dev/shm/f; cp /bin/true /tmp && /tmp/true && echo z > /dev/null && echo done`)})
		out, err := io.ReadAll(p.Stdout)
		if err != nil || !strings.Contains(string(out), test.refused) || !strings.HasSuffix(string(out), "x\ny\ndone\n") {
			t.Errorf("%s: it prints %q, %v; want %q once", kind, out, err, test.refused)
		}
	}
	if out := show(t, s,
		sandbox.Command{
			Shell: `mkdir a b && echo x > a/f && mv a/f b/ && ln b/f a/g && cat a/g && cp /bin/true . && ./true && echo done`}); out != "x\ndone\n" {
		t.Errorf("the build prints %q", out)
	}
	for _, lack := range sandbox.WatchOnly(s).Lacks() {
		if !strings.Contains(lack, ":") {
			t.Errorf("a lack without what follows from it: %q", lack)
		}
	}
}

// A program's small files are its alone: it finds them at their paths, can read them and not change them, and no other
// program has them. It finds its own folder where Fission has it, too.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := confined(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "word"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line := shell(`cat /secrets/shop/key/part; cat /configs/shop/queue/URL; cat /userfunc/deployarchive/word
stat -c %a /secrets/shop/key/part; test "$(stat -c %u /secrets/shop/key/part)" = "$(id -u)" && echo its own
echo other > /secrets/shop/key/part; echo more > /configs/more; ls /secrets /configs; grep " /secrets " /proc/mounts`)
	files := map[string]string{"/secrets/shop/key/part": "a secret\n", "/configs/shop/queue/URL": "a\x00b\n",
		"/configs/shop/large": strings.Repeat("x", 1<<20)}
	const own = "400\nits own\n"
	for way, test := range map[string]struct {
		box   *sandbox.Sandbox
		owned string
		only  string // how the folders are mounted
	}{
		"alone": {s, own, " ro,"}, "by bubblewrap": {sandbox.WithoutAlone(s), own, " "},
		"without Landlock": {sandbox.WithoutLandlock(s),
			map[bool]string{true: "444\n", false: own}[os.Geteuid() == 0], " ro,"},
	} {
		t.Run(way, func(t *testing.T) {
			box := test.box
			p := start(t, box, sandbox.Program{Args: line, Dir: dir, Files: files})
			said, err := io.ReadAll(p.Stdout)
			if want := "a secret\na\x00b\nhello\n" + test.owned + "/configs:"; err != nil ||
				!strings.HasPrefix(string(said), want) {
				log, _ := io.ReadAll(p.Stderr)
				t.Errorf("it says %q, %v, and %q; want %q", said, err, log, want)
			}
			if strings.Contains(string(said), "more") || !strings.Contains(string(said), " /secrets tmpfs"+test.only) {
				t.Errorf("it wrote a file, or could: %q", said)
			}
			other := start(t, box, sandbox.Program{Args: shell("ls /secrets /configs"), Dir: dir})
			if said, err := io.ReadAll(other.Stdout); err != nil || string(said) != "/configs:\n\n/secrets:\n" {
				t.Errorf("another program sees %q, %v", said, err)
			}
		})
	}
}
