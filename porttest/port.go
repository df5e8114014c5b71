// Package porttest finds ports for the servers of tests.
package porttest

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// last makes programs, and servers of one, begin to look for a port at different places.
var last atomic.Int64

// Free returns a port that nobody has, and that no connection is given before its server is there, or while that is
// started again: the kernel gives those from 32768 on.
func Free() (port string, err error) {
	const lowest, highest, apart, attempts = 10_000, 32_000, 37, 100
	for range attempts {
		port = strconv.Itoa(lowest + (os.Getpid()*apart+int(last.Add(1)))%(highest-lowest))
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(context.Background(), "tcp",
			net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}
