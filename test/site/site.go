package site

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/porttest"
	"landfall.dev/landfall/test/testkit"
)

// Site is a running `landfall serve`, as a process of its own, with its data folder.
type Site struct {
	*client.Client
	T      testing.TB
	Engine Engine
	Data   string
	Port   string
	Env    []string
	Main   []string // its command line; empty: landfall serve
	Flags  []string // more of the command line
	Within []string // what the command line begins with, when the server runs somewhere else than the tests
	Cmd    *exec.Cmd
	Log    *logtest.Buffer
	Done   chan struct{} // closed when the process has ended
	Strays bool          // that objects are left which nothing points at is no fault of the server's
}

// Peak returns the most memory that the server has used so far, in MiB.
func (s *Site) Peak() int {
	s.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if figure, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(figure), "kB")))
			if err != nil {
				s.T.Fatal(err)
			}
			return kib >> 10
		}
	}
	s.T.Fatal("the kernel does not tell the server's memory")
	return 0
}

// In returns the site for a subtest.
func (s *Site) In(t testing.TB) *Site {
	t.Helper()
	c := *s
	c.T = t
	return &c
}

// Exit codes of the command line, as `landfall --help` has them.
const (
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitUnavailable = 6
)

// New makes a data folder and a free port, and starts the server. env are NAME=VALUE settings.
func New(t testing.TB, env ...string) *Site {
	t.Helper()
	return NewOn(t, NewEngine(t), env...)
}

// NewOn is New on engines that the test needs.
func NewOn(t testing.TB, on Engine, env ...string) *Site {
	t.Helper()
	s := NewStopped(t, on, env...)
	s.Start()
	s.ReadToken()
	return s
}

// NewStopped is New on an engine, before the start.
func NewStopped(t testing.TB, on Engine, env ...string) *Site {
	t.Helper()
	s := &Site{T: t, Engine: on, Data: t.TempDir(), Port: FreePort(t)}
	s.Env = append(on.Settings(), env...)
	s.Client = &client.Client{URL: "http://localhost:" + s.Port}
	t.Cleanup(s.Stop)
	return s
}

// ReadToken reads the token that the server made.
func (s *Site) ReadToken() {
	s.T.Helper()
	token, err := os.ReadFile(filepath.Join(s.Data, "token"))
	if err != nil {
		s.T.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
}

// FreePort returns a port that nobody listens at.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Start starts the server, with more settings, and waits until it is ready or dead.
func (s *Site) Start(env ...string) {
	s.T.Helper()
	s.Launch(env...)
	s.Begun()
}

// Launch is start without the wait.
func (s *Site) Launch(env ...string) {
	s.T.Helper()
	main := s.Main
	if len(main) == 0 {
		main = []string{testkit.Must(Binary())(s.T), "serve"}
	}
	s.Log = &logtest.Buffer{}
	line := slices.Concat(s.Within, main, s.Flags)
	s.Cmd = exec.Command(line[0], line[1:]...)
	s.Cmd.Env = Environ(slices.Concat([]string{"LANDFALL_DATA=" + s.Data, "LANDFALL_LISTEN=127.0.0.1:" + s.Port},
		s.Env, env)...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	if err := s.Cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	cmd, done := s.Cmd, make(chan struct{}) // a later start has others
	s.Done = done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

// Begun waits until a server that was launched is ready or dead.
func (s *Site) Begun() {
	s.T.Helper()
	s.Eventually("the server is ready or dead", func() bool {
		select {
		case <-s.Done:
			return true
		default:
		}
		resp, err := http.Get("http://127.0.0.1:" + s.Port + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Stop ends the server as an administrator would, and fails the test when it does not end by itself.
func (s *Site) Stop() {
	if s.Cmd == nil {
		return
	}
	_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.Done:
	case <-time.After(testkit.Patience):
		_ = s.Cmd.Process.Kill()
		s.T.Errorf("the server did not end after SIGTERM")
	}
	if strings.Contains(s.Log.String(), "DATA RACE") || strings.Contains(s.Log.String(), "panic:") || s.T.Failed() {
		s.T.Logf("the server's log:\n%s", s.Log)
	}
	if strings.Contains(s.Log.String(), "DATA RACE") || strings.Contains(s.Log.String(), "panic:") {
		s.T.Errorf("the server had a data race or panicked")
	}
}

// Kill ends the server at once and starts it again.
func (s *Site) Kill() {
	s.T.Helper()
	_ = s.Cmd.Process.Kill()
	<-s.Done
	s.Start()
}

// Eventually waits until what is true.
func (s *Site) Eventually(what string, is func() bool) {
	s.T.Helper()
	for began := time.Now(); !is(); {
		waited := time.Since(began)
		if waited > testkit.Patience {
			s.T.Fatalf("waited %s in vain until %s; the server's log:\n%s", testkit.Patience, what, s.Log)
		}
		const share, soonest, latest = 8, 10 * time.Millisecond, 250 * time.Millisecond
		<-time.After(max(soonest, min(waited/share, latest))) // who asks without a pause slows down all others
	}
}

// RoleSecret is the secret of processes with different roles.
const RoleSecret = "what the processes of one installation share"

// Dies waits until the server has ended.
func (s *Site) Dies() {
	s.T.Helper()
	select {
	case <-s.Done:
	case <-time.After(testkit.Patience):
		s.T.Fatalf("the server lives on; its log:\n%s", s.Log)
	}
}
