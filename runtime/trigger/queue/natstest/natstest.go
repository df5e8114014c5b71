// Package natstest gives tests a real NATS server, as a process of its own.
package natstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/porttest"
)

// Server is a NATS server with JetStream that ends with its test.
type Server struct {
	URL string // with the user and the password that it wants

	t     testing.TB
	path  string
	args  []string
	cmd   *exec.Cmd
	alive io.Closer // open until the server is to end
}

// watched runs a server until the program that holds the other end of its input ends, however it ends.
const watched = `"$0" "$@" </dev/null >/dev/null 2>&1 & pid=$!; cat >/dev/null; kill -KILL $pid; wait $pid`

const (
	account  = "landfall"
	password = "a-secret-of-the-tests"
	patience = time.Minute
)

// New starts a server. args are more of its arguments.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	port, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	s := &Server{
		URL: fmt.Sprintf("nats://%s:%s@%s", account, password, address), t: t, path: path,
		args: append([]string{"-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir(), "--user", account, "--pass",
			password}, args...),
	}
	t.Cleanup(s.Kill)
	s.Start()
	return s
}

// find returns where make has put the server.
func find() (string, error) {
	const name = "nats-server"
	folder, err := os.Getwd()
	for err == nil {
		path := filepath.Join(folder, "build", "bin", name)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("%s is not installed; type: make build/bin/%s", name, name)
		}
		folder = filepath.Dir(folder)
	}
	return "", err
}

// Start starts the server, on the streams that it had, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.Background(), "sh", append([]string{"-c", watched, s.path}, s.args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.alive, err = s.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.address())
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the NATS server does not answer: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Demand makes the server want another password from its next start on; the URL's own again when it is empty.
func (s *Server) Demand(other string) {
	s.args[slices.Index(s.args, "--pass")+1] = cmp.Or(other, password)
}

// Behind returns the URL of a line to the server, with the user and the password of URL, which calls tried for each
// connection that somebody wants to make.
func (s *Server) Behind(tried func()) string {
	s.t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			tried()
			go func() {
				defer func() { _ = near.Close() }()
				far, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.address())
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(far, near)
					_ = far.Close()
				}()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return strings.Replace(s.URL, s.address(), l.Addr().String(), 1)
}

func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", s.args[3]) }

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.alive.Close()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}
