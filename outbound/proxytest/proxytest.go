// Package proxytest is a company's network on loopback: a forward proxy with a password, and hosts that can only be
// reached through it.
package proxytest

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// These are the credentials of the proxy's user. No other text contains the password.
const (
	User     = "landfall"
	Password = "Pr0xy-Passw0rd-0f-The-C0mpany"
)

// source is the address from which the proxy connects. Nothing else connects from there.
const source = "127.0.0.2"

// Network has a proxy. Its hosts have names that no resolver knows.
type Network struct {
	server *httptest.Server

	mu    sync.Mutex
	hosts map[string]string // HOST:PORT to where it is
	asked []string
}

// New returns a network. It ends with the test.
func New(t testing.TB) *Network {
	t.Helper()
	n := &Network{hosts: map[string]string{}}
	n.server = httptest.NewServer(n)
	t.Cleanup(n.server.Close)
	return n
}

// URL is the proxy's address, with its password.
func (n *Network) URL() string {
	return (&url.URL{Scheme: "http", User: url.UserPassword(User, Password),
		Host: n.server.Listener.Addr().String()}).String()
}

// Serve starts a server that the proxy reaches as HOST:PORT. The test fails when anybody connects to it in another way.
func (n *Network) Serve(t testing.TB, address string, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients may leave
	server.Listener = guarded{server.Listener, t, address}
	if strings.HasSuffix(address, ":443") {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[address] = server.Listener.Addr().String()
	return server
}

// Asked returns the requests to the proxy: a method, and HOST:PORT.
func (n *Network) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// ServeHTTP implements http.Handler: CONNECT, and requests with an absolute address.
func (n *Network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(User+":"+Password))
	if r.Header.Get("Proxy-Authorization") != want {
		w.Header().Set("Proxy-Authenticate", `Basic realm="company"`)
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
		return
	}
	address := r.Host
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "80")
	}
	n.mu.Lock()
	n.asked = append(n.asked, r.Method+" "+address)
	at, known := n.hosts[strings.ToLower(address)]
	n.mu.Unlock()
	if !known {
		http.Error(w, "no such host", http.StatusBadGateway)
		return
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))}
	if r.Method != http.MethodConnect {
		r.Header.Del("Proxy-Authorization")
		r.RequestURI = ""
		transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true}
		host := r.Host
		r.URL.Host, r.Host = at, host
		answer, err := transport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // either side may leave
		return
	}
	far, err := dialer.DialContext(r.Context(), "tcp", at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	fmt.Fprint(near, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(far, buffered)
		far.Close()
	}()
	_, _ = io.Copy(near, far)
}

// guarded is a listener to which only the proxy may connect.
type guarded struct {
	net.Listener
	t       testing.TB
	address string
}

// Accept implements net.Listener.
func (g guarded) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); host != source {
		g.t.Errorf("%s was connected to from %s, around the proxy", g.address, host)
	}
	return conn, nil
}
