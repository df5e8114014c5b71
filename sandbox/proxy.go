package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"
)

// Proxy is the only connection of a confined command to a network: an HTTP proxy that reaches public addresses at the
// ports 80 and 443, and the allowed hosts.
type Proxy struct {
	AllowedHosts []string // HOST (every port) or HOST:PORT, which may be private

	// Upstream is the proxy of this machine's network; nil: hosts are reached directly.
	Upstream *outbound.Proxy

	// Refuse says why no host is reached at all; empty: hosts are.
	Refuse string

	// Log is called for every host that was asked for, with the reason when it was not reached. It is called from
	// several goroutines, and never after the command has ended. It may be nil.
	Log func(host string, failure error)

	// Count is called with the bytes sent to and received from hosts, like Log. It may be nil.
	Count func(sent, received int)
}

const (
	dialTimeout = 20 * time.Second
	idleTimeout = 5 * time.Minute // for a connection without traffic in either direction
)

// ServeHTTP implements http.Handler: CONNECT, and requests with an absolute address.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Refuse != "" {
		p.log(r.Host, errors.New(p.Refuse))
		http.Error(w, p.Refuse, http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	if r.Method == http.MethodTrace { // a proxy behind this one would answer with its own password
		http.Error(w, "TRACE does not leave the sandbox", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		http.Error(w, "this is a proxy for what runs in the sandbox", http.StatusBadRequest)
		return
	}
	transport := p.Upstream.Transport(&http.Transport{
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, address) },
		DisableKeepAlives: true, DisableCompression: true,
	}, lookup, p.check)
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range []string{"Proxy-Connection", "Proxy-Authorization", "Connection", "Upgrade", "Max-Forwards"} {
		out.Header.Del(name)
	}
	resp, err := transport.RoundTrip(out)
	p.log(r.URL.Hostname(), err)
	if err != nil {
		http.Error(w, reason(err), http.StatusForbidden)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // either side may leave
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	server, err := p.open(r.Context(), r.Host)
	p.log(r.Host, err)
	if err != nil {
		http.Error(w, reason(err), http.StatusForbidden)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be a tunnel", http.StatusInternalServerError)
		return
	}
	defer client.Close()
	stop := context.AfterFunc(r.Context(), func() {
		client.Close()
		server.Close()
	})
	defer stop()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	if early, _ := buffered.Peek(buffered.Reader.Buffered()); len(early) > 0 {
		if _, err := server.Write(early); err != nil {
			return
		}
	}
	splice(client, server)
}

// splice copies both ways until both ends are done, or one of them fails.
func splice(a, b net.Conn) {
	done := make(chan struct{})
	half := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if w, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
			_ = w.CloseWrite() // it may have left
		} else {
			a.Close()
			b.Close()
		}
		done <- struct{}{}
	}
	go half(a, b)
	go half(b, a)
	<-done
	<-done
}

// log reports whether a host was reached, by its name or HOST:PORT.
func (p *Proxy) log(host string, failure error) {
	if p.Log == nil {
		return
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	p.Log(outbound.CanonicalHost(host), failure)
}

// open connects to HOST:PORT, through the upstream proxy if there is one for it.
func (p *Proxy) open(ctx context.Context, address string) (net.Conn, error) {
	upstream := p.Upstream.For("https", address)
	if upstream == nil {
		return p.dial(ctx, address)
	}
	conn, err := p.Upstream.Tunnel(ctx, upstream, address, lookup, p.check)
	if err != nil {
		return nil, err
	}
	return &outward{conn, p.Count}, nil
}

// dial resolves an address, checks it, and connects to the checked address.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address", address)
	}
	conn, err := p.dialChecked(ctx, outbound.CanonicalHost(host), port)
	if err != nil {
		return nil, err
	}
	return &outward{conn, p.Count}, nil
}

// outward is a connection to a host. It ends when there is no traffic for long.
type outward struct {
	net.Conn
	count func(sent, received int)
}

// Read implements net.Conn.
func (c *outward) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	c.add(0, n)
	return n, err
}

// Write implements net.Conn.
func (c *outward) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.add(n, 0)
	return n, err
}

// CloseWrite tells the host that nothing more will be sent.
func (c *outward) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}

func (c *outward) add(sent, received int) {
	if c.count != nil {
		c.count(sent, received)
	}
}

func (p *Proxy) dialChecked(ctx context.Context, host, port string) (net.Conn, error) {
	if err := p.check(host, port, nil); err != nil { // its addresses need not be looked up
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses, err := lookup(ctx, host)
	if err != nil || len(addresses) == 0 {
		return nil, fmt.Errorf("the name %q cannot be resolved", host)
	}
	if err := p.check(host, port, addresses); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	var last error
	for _, address := range addresses {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// refusedHost is the error for a host that the rules do not allow, with what LANDFALL_ALLOWED_HOSTS would have to list.
func refusedHost(why, allow string) error {
	return fmt.Errorf("%s; the sandbox reaches it only if LANDFALL_ALLOWED_HOSTS lists %s", why, allow)
}

// NotReached returns the line for people about a host that a command could not reach.
func NotReached(host string, failure error) string {
	return landfall.Printable(fmt.Sprintf("%s was not reached: %s", host, reason(failure)))
}

// reason returns for people why a host was not reached.
func reason(failure error) string {
	if landfall.KindOf(failure) != landfall.Internal {
		return landfall.MessageOf(failure)
	}
	return failure.Error()
}

// check fails when the port is not 80 or 443, or one of a host's addresses is not public, or belongs to this machine,
// whose servers may trust connections from here. Exceptions may be anything.
func (p *Proxy) check(host, port string, addresses []netip.Addr) error {
	if outbound.Allows(p.AllowedHosts, host, port) {
		return nil
	}
	host = outbound.CanonicalHost(host)
	if port != "80" && port != "443" {
		return refusedHost(fmt.Sprintf("the sandbox reaches the ports 80 and 443 only, not %s of %s", port, host),
			net.JoinHostPort(host, port))
	}
	if len(addresses) == 0 {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("the server does not know its own addresses: %w", err)
	}
	for _, address := range addresses {
		if outbound.IsPrivate(address) {
			return refusedHost(host+" is a private address", host)
		}
		if slices.ContainsFunc(own, func(a net.Addr) bool { return isAt(a, address) }) {
			return refusedHost(host+" is an address of this server", host)
		}
	}
	return nil
}

// isAt reports whether the address of a network interface is the given address.
func isAt(a net.Addr, address netip.Addr) bool {
	network, ok := a.(*net.IPNet)
	if !ok {
		return false
	}
	ip, ok := netip.AddrFromSlice(network.IP)
	return ok && ip.Unmap() == address.Unmap().WithZone("")
}
