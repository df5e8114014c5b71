package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
)

// log reads the standard error of a process, and gives it to the execution that the process is in.
//
// A function writes its log before its answer. So when the answer was read, what belongs to the execution lies in the
// pipe at the latest; end takes it out there and does not wait for the goroutine that reads otherwise.
type log struct {
	function string
	sink     Logs // nil: nobody wants it
	most     int  // bytes of one execution
	conn     syscall.RawConn
	fd       uintptr
	kill     func()
	ended    chan struct{}
	take     func(fd uintptr) // for drain: made once

	mu        sync.Mutex
	execution string
	hide      *secret.Stream
	hidden    *secret.Redactor // of hide
	missed    []string         // the hosts that the execution did not reach
	left      int              // bytes that the execution may still write
	tail      []byte
	buffer    [4 << 10]byte
}

const (
	tailSize = 4 << 10 // bytes that a failure tells
	cutLine  = "\n(the log is cut here: it reached its limit)\n"
)

// newLog returns the log of a process that was started for an execution, to which it belongs from the beginning.
func newLog(p *sandbox.Process, f Function, execution string, sink Logs, most int) (*log, error) {
	conn, err := p.Stderr.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &log{
		function: f.ID, execution: execution, sink: sink, most: most, left: most, conn: conn, kill: p.Kill,
		ended: make(chan struct{}), hide: f.Hide.Stream(), hidden: f.Hide,
	}
	if l.fd, err = descriptor(conn); err != nil {
		return nil, err
	}
	l.take = func(fd uintptr) {
		const pipe = 64 << 10 // what was there when the answer came; a flood goes on
		for n := 0; n <= pipe; n += len(l.buffer) {
			if more, _ := l.piece(fd); !more {
				return
			}
		}
	}
	return l, nil
}

// read reads until the process has ended.
func (l *log) read() {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.write(l.hide.End())
		close(l.ended)
	}()
	_ = l.conn.Read(func(fd uintptr) bool { // ends with the pipe, or when it is closed
		for {
			if more, end := l.piece(fd); !more {
				return end
			}
		}
	})
}

// drain takes what is there now.
func (l *log) drain() {
	if l.conn != nil { // a module has no pipe
		_ = l.conn.Control(l.take)
	}
}

// Write implements io.Writer, for a module.
func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.hide.Next(text))
	return len(text), nil
}

// piece reads one piece. more is false when there is nothing now, end is true when nothing is going to come.
func (l *log) piece(fd uintptr) (more, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := readNow(fd, l.buffer[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, false
	case err != nil || n == 0:
		return false, true
	}
	l.write(l.hide.Next(l.buffer[:n]))
	return true, false
}

// write passes on what the limit lets through. The caller holds the lock.
func (l *log) write(text []byte) {
	if len(text) == 0 {
		return
	}
	if keep := tailSize - len(text); keep < len(l.tail) {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-max(keep, 0):]...)
	}
	l.tail = append(l.tail, text[max(0, len(text)-tailSize):]...)
	if l.left == 0 {
		return
	}
	keep := min(len(text), l.left)
	l.left -= keep
	if l.sink != nil {
		l.sink.Log(l.function, l.execution, text[:keep])
		if l.left == 0 {
			l.sink.Log(l.function, l.execution, []byte(cutLine))
		}
	}
	if l.left == 0 && l.execution == "" {
		l.kill() // it floods a log that nobody asked for
	}
}

// begin says whose log comes now. What was there before was taken.
func (l *log) begin(execution string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.execution != execution {
		l.write(l.hide.End())
		l.execution, l.left, l.tail, l.missed = execution, l.most, l.tail[:0], nil
	}
}

// end ends an execution's log.
func (l *log) end() {
	l.drain()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.hide.End())
	l.execution, l.left, l.missed = "", l.most, nil
}

// notReached says, once in an execution, why the function did not reach a host.
func (l *log) notReached(host string, failure error) {
	if failure == nil || errors.Is(failure, context.Canceled) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 20
	if len(l.missed) == most || slices.Contains(l.missed, host) {
		return
	}
	l.missed = append(l.missed, host)
	line := sandbox.NotReached(host, failure) + "\n"
	if n := len(l.tail); n > 0 && l.tail[n-1] != '\n' {
		line = "\n" + line
	}
	l.write([]byte(l.hidden.String(line)))
}

// proxied is the way of one process to the network. It says in the process's log what was not reached.
type proxied struct {
	mu   sync.Mutex
	log  *log     // nil: the process is being started
	asks []func() // before there was a log
}

// proxyOf returns the proxy of one process of a function; nil when it has no network.
func proxyOf(f Function) (*sandbox.Proxy, *proxied) {
	if f.Proxy == nil {
		return nil, nil
	}
	own, way := *f.Proxy, &proxied{}
	own.Log = func(host string, failure error) {
		if f.Proxy.Log != nil {
			f.Proxy.Log(host, failure)
		}
		way.note(host, failure)
	}
	return &own, way
}

func (w *proxied) note(host string, failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log == nil {
		w.asks = append(w.asks, func() { w.log.notReached(host, failure) })
		return
	}
	w.log.notReached(host, failure)
}

// begin says what was asked for while there was no log, and what comes from now on. A nil way does nothing.
func (w *proxied) begin(l *log) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = l
	for _, ask := range w.asks {
		ask()
	}
	w.asks = nil
}

// trace returns the end of the execution's log.
func (l *log) trace() string {
	l.drain()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(string(l.tail), "")
}
