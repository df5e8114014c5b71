package sandbox_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"
	"landfall.dev/landfall/outbound/proxytest"
	"landfall.dev/landfall/sandbox"
)

// probeDial connects, and prints what it reads.
func probeDial(network, address string) int {
	const soon = 5 * time.Second
	conn, err := (&net.Dialer{Timeout: soon}).DialContext(context.Background(), network, address)
	if err == nil && network == "udp" { // connecting sends nothing
		_, err = conn.Write([]byte("hello"))
	}
	if err != nil {
		answer("failed", err)
		return 1
	}
	if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
		return 1
	}
	data, _ := io.ReadAll(conn)
	fmt.Printf("connected: %s\n", data)
	return 0
}

// probeGet fetches an address through the proxy of the environment, and prints status and body.
func probeGet(address string) int {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return 2
	}
	transport := &http.Transport{
		Proxy:           http.ProxyURL(proxy), // also for loopback addresses, which the environment's rules leave out
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	resp, err := (&http.Client{Transport: transport}).Get(address)
	if err != nil {
		answer("failed", err)
		return 1
	}
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, strings.TrimSpace(string(body)), err)
	return 0
}

// probeTunnel opens a tunnel through the proxy, says so, and keeps it until the other side ends it.
func probeTunnel(address string) int {
	conn, err := net.Dial("tcp", "127.0.0.1:3128")
	if err != nil {
		answer("failed", err)
		return 1
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\nearly", address, address)
	_, err = io.Copy(os.Stdout, conn)
	answer("tunnel", err)
	return 0
}

// host returns the HOST:PORT of a server.
func host(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// log records what the proxy says.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(host string, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%s %v", host, failure == nil))
}

func (l *log) has(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.lines, line)
}

// The proxy is the one way out: it reaches what is allowed, as a tunnel and by request, and says which hosts were asked
// for.
func TestProxyReaches(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "served %s for %s", r.URL.Path, r.Host)
	})
	plain, secure, other := httptest.NewServer(handler), httptest.NewTLSServer(handler), httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	t.Cleanup(other.Close)
	s := confined(t)
	var asked log
	proxy := &sandbox.Proxy{AllowedHosts: []string{host(t, plain), "LocalHost"}, Log: asked.add}
	local := strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)
	out := show(t, s, sandbox.Command{Proxy: proxy,
		Shell: fmt.Sprintf(
			`p="%s probe get"; $p %s/a; $p %s/b; $p %s/c; $p http://127.0.0.1:1/d; echo $HTTP_PROXY $http_proxy $HTTPS_PROXY $https_proxy`,
			sandbox.InitAt, plain.URL, local, other.URL)})
	for _, want := range []string{
		"200 served /a for " + host(t, plain), "200 served /b for " + strings.TrimPrefix(local, "https://"),
		"403 the sandbox reaches the ports 80 and 443 only",
		strings.Repeat("http://127.0.0.1:3128 ", 3) + "http://127.0.0.1:3128",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "served /c") {
		t.Errorf("a server that is not allowed was reached:\n%s", out)
	}
	for _, want := range []string{"127.0.0.1 true", "localhost true", "127.0.0.1 false"} {
		if !asked.has(want) {
			t.Errorf("the log lacks %q: %v", want, asked.lines)
		}
	}
}

// encodings are ways to write addresses that are not for builds.
func encodings() []string {
	return []string{
		"127.0.0.1", "127.0.0.1.", "127.0.0.2", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001",
		"0x7f.0x0.0x0.0x1", "0x7f.1", "0177.0.0.1", "0177.1", "017700000001", "00000177.0.0.1", "127.000.000.001",
		"127.0.0.1%00", "127%2e0%2e0%2e1", "127。0。0。1", "１２７.０.０.１", "①②⑦.⓪.⓪.①", "localhost",
		"LOCALHOST", "localhost.", "LocalHost.", "localhost.localdomain", "ip6-localhost", "[::1]", "[0:0:0:0:0:0:0:1]",
		"[0000::0001]", "[::1%25lo]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]",
		"[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::]", "0",
		"0.0.0.0", "0.0", "00000000000", "0x0", "0.0.0.1", "255.255.255.255", "224.0.0.1", "240.0.0.1", "[ff02::1]",
		"169.254.169.254", "169.254.169.254.", "169.16689662", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe",
		"0251.0376.0251.0376", "0xA9.254.43518", "169.254.0xa9fe", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
		"[::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1]", "[fe80::a9fe:a9fe%25eth0]",
		"[fd00:ec2::254]", "[fec0::1]", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "10.0.0.1",
		"10.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.257", "100.64.0.1", "198.18.0.1", "[fc00::1]",
		"[::ffff:10.0.0.1]", "[2001:db8::1]", "[3fff::1]", "user@127.0.0.1", "127.0.0.1#", "127.0.0.1?", "127.0.0.1/",
		"example.com@127.0.0.1", "",
	}
}

// However an address that is not public is written, the proxy does not reach it, neither as a tunnel nor by request.
func TestProxyRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(&sandbox.Proxy{AllowedHosts: []string{"internal.example", "127.0.0.1:1"}})
	t.Cleanup(proxy.Close)
	for _, name := range encodings() {
		for form, line := range map[string]string{"CONNECT": "CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s\r\n\r\n",
			"GET":     "GET http://%s/latest/meta-data/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
			"port 80": "GET http://%s:80/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n"} {
			t.Run(form+" "+name, func(t *testing.T) {
				t.Parallel()
				if status, body := ask(t, proxy, fmt.Sprintf(line, name)); status != http.StatusForbidden &&
					status != http.StatusBadRequest {
					t.Errorf("the proxy answered %d %q, want 403 or 400", status, body)
				} else if strings.Contains(body, "connection refused") || strings.Contains(body, "timeout") {
					t.Errorf("the proxy tried: %q", body)
				}
			})
		}
	}
}

// ask writes raw lines to the proxy, and returns the status and body of its answer.
func ask(t *testing.T, proxy *httptest.Server, lines string) (int, string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host(t, proxy))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, lines); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	const enough = 1000
	body, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
	return resp.StatusCode, string(body)
}

// Only the ports of the web are open, at hosts that are not allowed by name; and the proxy is nothing but a proxy.
func TestProxyRefusesPorts(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, secret) }))
	t.Cleanup(backend.Close)
	proxy := httptest.NewServer(&sandbox.Proxy{AllowedHosts: []string{"127.0.0.1:1"}})
	t.Cleanup(proxy.Close)
	_, port, err := net.SplitHostPort(host(t, backend))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		lines  string
		status int
		want   string
	}{
		"a tunnel to mail": {"CONNECT 1.1.1.1:25 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden,
			"ports 80 and 443 only"},
		"a tunnel to ssh": {"CONNECT 1.1.1.1:22 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden,
			"ports 80 and 443 only"},
		"a named port": {"CONNECT 1.1.1.1:smtp HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest, "Bad Request"},
		"no port":      {"CONNECT 1.1.1.1 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden, "is no address"},
		"a request to a port": {"GET http://1.1.1.1:8080/ HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden,
			"ports 80 and 443 only"},
		"the host at its port": {"GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden,
			"ports 80 and 443 only"},
		"another port of a host": {"CONNECT 127.0.0.1:" + port + " HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden,
			"ports 80 and 443 only"},
		"no proxy request": {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", http.StatusBadRequest,
			"a proxy for what runs in the sandbox"},
		"another scheme": {"GET ftp://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest,
			"a proxy for what runs in the sandbox"},
		"https without a tunnel": {"GET https://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest,
			"a proxy for what runs in the sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, body := ask(t, proxy, test.lines); status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("got %d %q, want %d and %q", status, body, test.status, test.want)
			}
		})
	}
}

// Behind a company's proxy, a command reaches the world through it, and nothing that it could not reach otherwise; it
// is never shown the company's password.
func TestProxyBehindAProxy(t *testing.T) {
	t.Parallel()
	network := proxytest.New(t)
	network.Serve(t, "registry.test:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "served %s %q", r.URL.Path, r.Header["Proxy-Authorization"])
	}))
	network.Serve(t, "registry.test:443", http.NotFoundHandler())
	upstream, err := outbound.ParseProxy(func(name string) string {
		return map[string]string{"HTTPS_PROXY": network.URL(), "HTTP_PROXY": network.URL()}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	var asked log
	proxy := httptest.NewServer(&sandbox.Proxy{Upstream: upstream, Log: asked.add})
	t.Cleanup(proxy.Close)
	for lines, want := range map[string]string{
		"GET http://registry.test/a HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Basic eDp4\r\n\r\n": "200 served /a []",
		"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n\r\n":                                 "200 ",
		"CONNECT registry.test:22 HTTP/1.1\r\nHost: registry.test:22\r\n\r\n":                                   "403 the sandbox reaches the ports 80 and 443 only",
		"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n":                                       "403 the proxy of this installation answers 502 for other.test:443",
		"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n":                                             "403 localhost is a private address",
	} {
		var status int
		var body string
		if strings.HasPrefix(want, "200 ") && strings.HasPrefix(lines, "CONNECT") {
			status = tunnelled(t, proxy, lines)
		} else {
			status, body = ask(t, proxy, lines)
		}
		if got := fmt.Sprint(status, " ", body); !strings.HasPrefix(got, want) || strings.Contains(got, proxytest.Password) {
			t.Errorf("%q: got %q, want %q", lines, got, want)
		}
	}
	for _, name := range encodings() {
		if status, body := ask(t, proxy, fmt.Sprintf("CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s\r\n\r\n",
			name)); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%s: the proxy answered %d %q, want 403 or 400", name, status, body)
		}
	}
	want := []string{"CONNECT other.test:443", "CONNECT registry.test:443", "GET registry.test:80"}
	heard := network.Asked()
	slices.Sort(heard)
	if !slices.Equal(heard, want) {
		t.Errorf("the company's proxy was asked for %v, want %v", heard, want)
	}
}

// tunnelled asks the proxy for a tunnel, and returns the status of its answer, which has no end.
func tunnelled(t *testing.T, proxy *httptest.Server, lines string) int {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host(t, proxy))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, lines); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// The proxy ends with the command: its tunnels, its listener, and its log.
func TestProxyEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	s := confined(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	closed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			closed <- err
			return
		}
		defer conn.Close()
		early := make([]byte, len("early"))
		if _, err := io.ReadFull(conn, early); err != nil || string(early) != "early" {
			closed <- fmt.Errorf("read %q: %w", early, err)
			return
		}
		cancel() // the tunnel is there, in both directions
		_, err = io.Copy(io.Discard, conn)
		closed <- err
	}()
	address := listener.Addr().String()
	_, err = s.Run(ctx, sandbox.Command{
		Dir: t.TempDir(), Shell: sandbox.InitAt + " probe tunnel " + address + "; sleep 600",
		Proxy: &sandbox.Proxy{AllowedHosts: []string{address}},
	})
	if got := landfall.KindOf(err); got != landfall.Canceled {
		t.Errorf("Run: %v, want Canceled", err)
	}
	select {
	case err := <-closed:
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the tunnel: %v", err)
		}
	case <-time.After(patience):
		t.Error("the tunnel is still open after Run")
	}
}
