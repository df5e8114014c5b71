package storetest

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a proxy to a PostgreSQL server whose connections can be cut.
type Proxy struct {
	URL      string // of the same database, through the proxy
	target   string
	listener net.Listener

	mu    sync.Mutex
	open  []net.Conn
	armed atomic.Int32
	then  atomic.Value // func(): what else happens at the cut
	stall sync.RWMutex // locked while nothing passes
}

const (
	disarmed = iota
	armedBefore
	armedAfter
	fired
)

// NewProxy starts a proxy to the database at an address. It ends with t.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Proxy{target: u.Host, listener: listener}
	u.Host = listener.Addr().String()
	l.URL = u.String()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { l.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		group.Wait()
	})
	return l
}

// carry copies both ways until one side ends.
func (l *Proxy) carry(from net.Conn) {
	to, err := new(net.Dialer).Dial("tcp", l.target)
	if err != nil {
		_ = from.Close()
		return
	}
	l.mu.Lock()
	l.open = append(l.open, from, to)
	l.mu.Unlock()
	stop := func() {
		_ = from.Close()
		_ = to.Close()
	}
	var group sync.WaitGroup
	var committing atomic.Bool
	group.Go(func() {
		defer stop()
		for buffer := make([]byte, 64<<10); ; {
			n, err := from.Read(buffer)
			if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit\x00")) { // the statement, not the isolation level
				switch {
				case l.armed.CompareAndSwap(armedBefore, fired):
					l.atCut()
					return
				case l.armed.CompareAndSwap(armedAfter, fired):
					committing.Store(true)
				}
			}
			if err2 := l.write(to, buffer[:n]); err != nil || err2 != nil {
				return
			}
		}
	})
	defer group.Wait()
	defer stop()
	for buffer := make([]byte, 64<<10); ; {
		n, err := to.Read(buffer)
		if committing.Load() {
			l.atCut()
			return // the answer is lost
		}
		if err2 := l.write(from, buffer[:n]); err != nil || err2 != nil {
			return
		}
	}
}

// Close ends all connections, and accepts no more.
func (l *Proxy) Close() {
	_ = l.listener.Close()
	l.Cut()
}

// Cut ends all connections.
func (l *Proxy) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// CutAtCommit ends the connection of the next commit, before the commit or its answer arrives.
func (l *Proxy) CutAtCommit(before bool) {
	if before {
		l.armed.Store(armedBefore)
		return
	}
	l.armed.Store(armedAfter)
}

// CloseAtCommit is CutAtCommit that closes the whole proxy at that moment; then it closes the channel that it returns.
func (l *Proxy) CloseAtCommit(before bool) (closed <-chan struct{}) {
	done := make(chan struct{})
	l.then.Store(func() {
		l.Close()
		close(done)
	})
	l.CutAtCommit(before)
	return done
}

// atCut does what else must happen at the cut.
func (l *Proxy) atCut() {
	if then, ok := l.then.Load().(func()); ok {
		then()
	}
}

// Stall lets nothing through until resume is called, as when the other machine is gone.
func (l *Proxy) Stall() (resume func()) {
	l.stall.Lock()
	return l.stall.Unlock
}

// write passes bytes on. While the proxy is stalled it waits.
func (l *Proxy) write(to net.Conn, data []byte) error {
	l.stall.RLock()
	defer l.stall.RUnlock()
	_, err := to.Write(data)
	return err
}

// WasCut reports whether the connection was ended at the commit.
func (l *Proxy) WasCut() bool { return l.armed.Load() == fired }
