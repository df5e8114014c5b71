package sandbox

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Proxy is the only way of a confined command to a network: an HTTP proxy that reaches public addresses at the ports 80
// and 443, and the allowed hosts.
type Proxy struct {
	AllowedHosts []string // HOST (at every port) or HOST:PORT that may be private

	// Log is told of every host that is asked for, from several goroutines, and never after the command has ended. nil: nobody.
	Log func(host string, allowed bool)
}

const dialTimeout = 20 * time.Second

// ServeHTTP implements http.Handler: CONNECT, and requests with an absolute address.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		http.Error(w, "this is a proxy for what runs in the sandbox", http.StatusBadRequest)
		return
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, address) },
		DisableKeepAlives: true, DisableCompression: true,
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range []string{"Proxy-Connection", "Proxy-Authorization", "Connection", "Upgrade"} {
		out.Header.Del(name)
	}
	resp, err := transport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // either side may leave
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	server, err := p.dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
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

// splice copies both ways until both ends are done.
func splice(a, b net.Conn) {
	done := make(chan struct{})
	half := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either side may leave
		if w, ok := to.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
		done <- struct{}{}
	}
	go half(a, b)
	go half(b, a)
	<-done
	<-done
}

// dial resolves an address, checks it, and connects to what was checked.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address", address)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	exception := slices.ContainsFunc(p.AllowedHosts, func(allowed string) bool {
		return strings.EqualFold(allowed, host) || strings.EqualFold(allowed, net.JoinHostPort(host, port))
	})
	conn, err := p.dialChecked(ctx, host, port, exception)
	if p.Log != nil {
		p.Log(host, err == nil)
	}
	return conn, err
}

func (p *Proxy) dialChecked(ctx context.Context, host, port string, exception bool) (net.Conn, error) {
	if !exception && port != "80" && port != "443" {
		return nil, fmt.Errorf("the sandbox reaches the ports 80 and 443 only, not %s", port)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addresses) == 0 {
		return nil, fmt.Errorf("the name %q cannot be resolved", host)
	}
	for _, address := range addresses {
		if !exception && !isPublic(address) {
			return nil, fmt.Errorf("%s is a private address; the sandbox reaches it only if LANDFALL_ALLOWED_HOSTS lists it", host)
		}
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
