package sandbox

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// proxyServer serves a proxy on a listener that the init of a run sends. The listener is in the network of the sandbox,
// and the server is here.
type proxyServer struct {
	server  *http.Server
	control *net.UnixConn

	connections int
	cancel      context.CancelFunc
	served      chan struct{} // closed when the listener is closed; nil before start

	mu      sync.Mutex
	stopped bool
	busy    sync.WaitGroup // the requests
}

// newProxyServer returns a server with a limit of connections at the same time, and the file over which the init sends
// the listener.
func newProxyServer(handler http.Handler, connections int) (*proxyServer, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	control, ok := conn.(*net.UnixConn)
	if !ok {
		theirs.Close()
		return nil, nil, errors.New("not a unix socket")
	}
	s := &proxyServer{control: control, connections: connections}
	s.server = &http.Server{ReadHeaderTimeout: dialTimeout, IdleTimeout: idleTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.begin() {
				defer s.busy.Done()
				handler.ServeHTTP(w, r)
			}
		})}
	return s, theirs, nil
}

// begin counts a request, and reports whether it may still be answered.
func (s *proxyServer) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.busy.Add(1)
	}
	return !s.stopped
}

// start waits for the listener and serves.
func (s *proxyServer) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		listener, err := receiveListener(s.control)
		if err != nil {
			return // the init has ended before, and says why
		}
		_ = s.server.Serve(&boundedListener{Listener: listener, places: make(chan struct{}, s.connections), done: ctx.Done()})
		listener.Close()
	}()
}

// stop ends all connections, and waits until the requests are done.
func (s *proxyServer) stop() {
	_ = s.control.Close()
	if s.served == nil {
		return
	}
	s.cancel()
	_ = s.server.Close()
	<-s.served
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.busy.Wait()
}

// receiveListener reads the one message with the one file that the init sends.
func receiveListener(control *net.UnixConn) (net.Listener, error) {
	const fileSize = 4
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(fileSize))
	_, n, flags, _, err := control.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return nil, errors.New("too much was sent")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no file was sent"), err)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return nil, errors.Join(errors.New("no file was sent"), err)
	}
	file := os.NewFile(uintptr(files[0]), "listener")
	defer file.Close()
	return net.FileListener(file)
}

// These bound the connections that a command and a program, of which there are more, may have to the proxy at the same
// time. Each connection takes two of the server's files.
const (
	commandConnections = 256
	programConnections = 64
)

// boundedListener is a listener with a limit of connections at the same time.
type boundedListener struct {
	net.Listener
	places chan struct{}
	done   <-chan struct{}
}

// Accept implements net.Listener.
func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		<-b.places
		return nil, net.ErrClosed
	}
	return &boundedConn{TCPConn: tcp, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
