// Package sshtest is a host that gives git repositories by ssh, for tests.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Server gives the bare repositories below a folder by ssh, as forges do: git-upload-pack, and no shell.
type Server struct {
	Address string // HOST:PORT
	LFS     string // what git-lfs-authenticate answers; empty: there is no such command
	root    string
	git     string

	mu    sync.Mutex
	host  ssh.Signer
	keys  map[string]string // repository by the public key that may read it
	asked []string          // commands, as they came
}

// New starts a server, which ends with the test.
func New(tb testing.TB, root string) *Server {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Address: listener.Addr().String(), root: root, git: git, keys: map[string]string{}}
	s.ChangeHostKey(tb)
	var serving sync.WaitGroup
	var open sync.Map
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Store(conn, true)
			serving.Go(func() { s.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		open.Range(func(conn, _ any) bool {
			if c, ok := conn.(net.Conn); ok {
				_ = c.Close()
			}
			return true
		})
		serving.Wait()
	})
	return s
}

// URL is the clone address of a repository: OWNER/NAME.
func (s *Server) URL(name string) string { return "ssh://git@" + s.Address + "/" + name + ".git" }

// ChangeHostKey gives the server another host key.
func (s *Server) ChangeHostKey(tb testing.TB) {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = key
}

// HostKey is what ssh-keyscan prints of the server.
func (s *Server) HostKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, port, _ := net.SplitHostPort(s.Address)
	return "[" + host + "]:" + port + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.host.PublicKey())))
}

// Allow lets a deploy key, a line of authorized_keys, read a repository.
func (s *Server) Allow(tb testing.TB, line, name string) {
	tb.Helper()
	fields := strings.Fields(line)
	if len(fields) < 2 {
		tb.Fatalf("%q is no public key", line)
	}
	key, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[string(key)] = name
}

// Asked returns the commands that came from those whose key was taken.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name, ok := s.keys[string(key.Marshal())]
		if !ok {
			return nil, ssh.ErrNoAuth
		}
		return &ssh.Permissions{Extensions: map[string]string{"repository": name}}, nil
	}}
	s.mu.Lock()
	config.AddHostKey(s.host)
	s.mu.Unlock()
	proven, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		if asked.ChannelType() != "session" {
			_ = asked.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, commands, err := asked.Accept()
		if err != nil {
			return
		}
		for r := range commands {
			_ = r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				s.run(channel, proven.Permissions.Extensions["repository"], r.Payload)
			}
		}
	}
}

// run carries out a command.
func (s *Server) run(channel ssh.Channel, allowed string, payload []byte) {
	defer func() { _ = channel.Close() }()
	var asked struct{ Command string }
	_ = ssh.Unmarshal(payload, &asked)
	s.mu.Lock()
	s.asked = append(s.asked, asked.Command)
	s.mu.Unlock()
	program, path, _ := strings.Cut(asked.Command, " ")
	name := strings.TrimSuffix(strings.Trim(path, "'/"), ".git")
	status := uint32(1)
	switch {
	case program == "git-lfs-authenticate" && s.LFS != "":
		_, _ = channel.Write([]byte(s.LFS))
		status = 0
	case program == "git-upload-pack" && name == allowed:
		cmd := exec.CommandContext(context.Background(), s.git, "upload-pack", // it ends with the connection
			filepath.Join(s.root, filepath.FromSlash(name)+".git"))
		cmd.Env = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "PATH=/usr/bin:/bin"}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
		if cmd.Run() == nil {
			status = 0
		}
	default:
		_, _ = channel.Stderr().Write([]byte("ERROR: Repository not found.\n"))
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}
