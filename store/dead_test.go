package store_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// aloneVariable is set in the process that has a network of its own.
const aloneVariable = "LANDFALL_TEST_ALONE"

// Whoever waits for a machine that is gone without a word does not wait for long, whether the question arrived there or
// not. The network that goes away is that of a process of the test's own.
func TestDeadMachine(t *testing.T) {
	t.Parallel()
	if os.Getenv(aloneVariable) != "" {
		testDeadMachine(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestDeadMachine$", "-test.v")
	child.Env = append(os.Environ(), aloneVariable+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func testDeadMachine(t *testing.T) {
	t.Helper()
	loopback(t, true)
	listener := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	heard := make(chan bool, 2)
	connect := func() net.Conn {
		conn := testkit.Must(store.Dialer().DialContext(t.Context(), "tcp", listener.Addr().String()))(t)
		server := testkit.Must(listener.Accept())(t)
		go func() {
			_, err := server.Read(make([]byte, 1))
			heard <- err == nil
		}()
		return conn
	}
	arrived, lost := connect(), connect()
	testkit.Must(arrived.Write([]byte("?")))(t)
	testkit.Same(t, "whether the question arrived", receive(t, "the question", heard), true)
	loopback(t, false)
	testkit.Must(lost.Write([]byte("?")))(t)
	failed := make(chan error, 2)
	for _, conn := range []net.Conn{arrived, lost} {
		go func() { failed <- second(conn.Read(make([]byte, 1))) }()
	}
	began := time.Now()
	for range 2 {
		if err := receive(t, "the end of a connection", failed); !errors.Is(err, unix.ETIMEDOUT) {
			t.Errorf("got %v, want a connection that timed out", err)
		}
	}
	if took := time.Since(began); took > testkit.Patience/2 {
		t.Errorf("they waited for %v", took)
	}
}

// loopback turns the network of this process on or off.
func loopback(t *testing.T, on bool) {
	t.Helper()
	fd := testkit.Must(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
	defer func() { _ = unix.Close(fd) }()
	request := testkit.Must(unix.NewIfreq("lo"))(t)
	if on {
		request.SetUint16(unix.IFF_UP)
	}
	testkit.Must(0, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))(t)
}
