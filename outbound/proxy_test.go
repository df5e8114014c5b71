package outbound_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"
	"landfall.dev/landfall/outbound/proxytest"
)

var errPrivate = errors.New("private")

// rules are those of a dialer that reaches public addresses, and the host internal.test.
func rules(host, _ string, addresses []netip.Addr) error {
	if host != "internal.test" && slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return !outbound.IsPublic(a)
	}) {
		return errPrivate
	}
	return nil
}

// known is a resolver of a machine that knows two names of its own network, and public.test.
func known(_ context.Context, host string) ([]netip.Addr, error) {
	switch host {
	case "internal.test", "private.test", "metadata.google.internal":
		return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
	case "localhost":
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	case "public.test":
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func parsed(t *testing.T, pairs ...string) *outbound.Proxy {
	t.Helper()
	p, err := outbound.ParseProxy(environment(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// way returns a transport that goes through a proxy. Where it does not, the test fails.
func way(t *testing.T, p *outbound.Proxy) *outbound.Transport {
	direct := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it is httptest's, for other names
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("%s was dialed around the proxy", address)
			return nil, errPrivate
		},
	}
	w := p.Transport(direct, known, rules)
	t.Cleanup(w.CloseIdleConnections)
	return w
}

func get(t *testing.T, transport http.RoundTripper, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s", answer.StatusCode, text), err
}

// Requests and tunnels reach hosts that only the proxy knows, with its password, and no connection goes around it.
func TestThroughTheProxy(t *testing.T) {
	t.Parallel()
	network := proxytest.New(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the host is given the proxy's password")
		}
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://private.test/", http.StatusFound)
			return
		}
		fmt.Fprint(w, "here is ", r.Host)
	})
	for _, address := range []string{"git.test:443", "git.test:80", "internal.test:80", "private.test:80",
		"public.test:443"} {
		network.Serve(t, address, handler)
	}
	p := parsed(t, "https_proxy", network.URL(), "HTTP_PROXY", network.URL())
	w := way(t, p)
	for address, want := range map[string]string{
		"https://git.test/":    "200 here is git.test",
		"http://git.test/":     "200 here is git.test",
		"http://internal.test": "200 here is internal.test",
		"https://public.test/": "200 here is public.test",
	} {
		if got, err := get(t, w, address); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", address, got, err, want)
		}
	}
	if _, err := get(t, w, "http://git.test/away"); !errors.Is(err, errPrivate) {
		t.Errorf("a redirect to a private address: %v", err)
	}
	conn, err := p.Tunnel(t.Context(), p.For("https", "git.test:443"), "git.test:443", known, rules)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // it is httptest's, for other names
	if err := secure.HandshakeContext(t.Context()); err != nil {
		t.Errorf("a tunnel: %v", err)
	}
	if asked := strings.Join(network.Asked(), "\n"); strings.Contains(asked, "private.test") ||
		!strings.Contains(asked, "CONNECT git.test:443") {
		t.Errorf("the proxy was asked for\n%s", asked)
	}
}

// However an address that is not public is written, the proxy does not hear of it.
func TestTheProxyIsNotAskedForPrivateAddresses(t *testing.T) {
	t.Parallel()
	network := proxytest.New(t)
	p := parsed(t, "HTTPS_PROXY", network.URL(), "HTTP_PROXY", network.URL())
	quiet := p.Transport(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errPrivate
	}}, known, rules)
	for _, host := range []string{
		"private.test", "metadata.google.internal", "10.0.0.1", "169.254.169.254", "168.63.129.16", "[fd00:ec2::254]",
		"[::ffff:10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1%25eth0]", "127.0.0.1",
		"localhost", "[::1]", "LocalHost.", "ip6-localhost", "localhost.localdomain", "x.localhost", "printer.local",
		"vault.corp.internal", "intranet", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0x0.0x0.0x1", "0x7f.1",
		"0177.0.0.1", "017700000001", "127.000.000.001", "0", "0x", "127.0.0.1.", "10.1", "169.254.43518", "169.254.0xa9fe",
		"0xA9FEA9FE.", "①②⑦.⓪.⓪.①", "１２７.０.０.１", "127。0。0。1", "１０.１", "a..b", ".a",
		"-", "a b", strings.Repeat("a.", 200) + "test",
	} {
		for _, scheme := range []string{"http", "https"} {
			if got, err := get(t, quiet, scheme+"://"+host+"/"); err == nil {
				t.Errorf("%s: got %q", host, got)
			}
		}
		by := p.For("https", "git.test:443")
		if conn, err := p.Tunnel(t.Context(), by, strings.ReplaceAll(host, "%25", "%")+":443", known, rules); err == nil {
			conn.Close()
			t.Errorf("%s: there is a tunnel", host)
		}
	}
	if asked := network.Asked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %v", asked)
	}
}

// What NO_PROXY lists, and what the server itself keeps from the proxy, is reached from here.
func TestAroundTheProxy(t *testing.T) {
	t.Parallel()
	p := parsed(t, "HTTPS_PROXY", "proxy.test:3128", "no_proxy",
		".corp.test, 10.0.0.0/8,one.test:8443").Except("api.test:8080")
	for address, through := range map[string]bool{
		"git.test:443": true, "git.corp.test:443": false, "10.1.2.3:443": false, "one.test:8443": false, "one.test:443": true,
		"api.test:8080": false, "api.test:443": true, "localhost:443": false, "127.0.0.1:443": false,
	} {
		if by := p.For("https", address); (by != nil) != through {
			t.Errorf("%s: by %v, want by a proxy: %v", address, by, through)
		}
		if by := p.For("http", address); by != nil {
			t.Errorf("http of %s: by %v, want by none: there is a proxy for https only", address, by)
		}
	}
	if none := parsed(t); none != nil || none.String() != "" || none.For("https", "git.test:443") != nil ||
		none.Except("x") != nil {
		t.Errorf("without variables there is %v", none)
	}
}

// A proxy that cannot be used is refused with a sentence, and no text shows a password.
func TestParseProxy(t *testing.T) {
	t.Parallel()
	const password = "pr0xyPassw0rd"
	for value, shown := range map[string]string{
		"proxy.test:3128": "http://proxy.test:3128 for https",
		"http://me:" + password + "@proxy.test:3128/":     "http://proxy.test:3128 for https",
		"https://me:" + password + "@proxy.test":          "https://proxy.test for https",
		"socks5://me:" + password + "@[2001:db8::1]:1080": "socks5://[2001:db8::1]:1080 for https",
		"\tsocks5h://proxy.test:1080\n":                   "socks5h://proxy.test:1080 for https",
	} {
		p := parsed(t, "HTTPS_PROXY", value)
		if p.String() != shown || strings.Contains(fmt.Sprintf("%v %+v %#v %s", p, p, p, p.Except("x")), password) {
			t.Errorf("%s is shown as %q, %#v; want %q", value, p, p, shown)
		}
	}
	for _, value := range []string{
		"ftp://me:" + password + "@proxy.test", "socks4://proxy.test:1080", "http://", "http://me:" + password + "@",
		"http://proxy.test/path", "http://proxy.test:x", "http://me:" + password + "#@proxy.test", "http://proxy.test?x",
		"://proxy.test",
	} {
		_, err := outbound.ParseProxy(environment("https_proxy", value))
		text := landfall.MessageOf(err)
		if landfall.KindOf(err) != landfall.Invalid || !strings.HasPrefix(text, "https_proxy names no proxy") ||
			strings.Contains(fmt.Sprint(err, text), password) {
			t.Errorf("%s: %v, %s", value, err, text)
		}
	}
}

// A proxy that refuses, or is not there, is an error that says so, without a password.
func TestTheProxyRefuses(t *testing.T) {
	t.Parallel()
	network := proxytest.New(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for value, want := range map[string]string{
		strings.Replace(network.URL(), proxytest.Password, "an0ther-Passw0rd",
			1): "the proxy of this installation answers 407 for git.test:PORT: the administrator can set",
		network.URL(): "the proxy of this installation answers 502 for git.test:PORT",
		strings.Replace(gone.URL, "http://", "http://me:an0ther-Passw0rd@",
			1): "the proxy of this installation cannot be reached",
	} {
		p := parsed(t, "HTTPS_PROXY", value, "HTTP_PROXY", value)
		_, secure := get(t, way(t, p), "https://git.test/")
		_, tunnel := p.Tunnel(t.Context(), p.For("https", "git.test:443"), "git.test:443", known, rules)
		all := map[string]error{"443": secure, "443 by a tunnel": tunnel}
		if value != network.URL() { // which is an answer like any other
			_, all["80"] = get(t, way(t, p), "http://git.test/")
		}
		for port, err := range all {
			text := landfall.MessageOf(err)
			if landfall.KindOf(err) != landfall.Unavailable ||
				!strings.HasPrefix(text, strings.Replace(want, "PORT", strings.TrimSuffix(port, " by a tunnel"), 1)) ||
				strings.Contains(fmt.Sprint(err), "an0ther") {
				t.Errorf("%s: the error is %v, want %q", port, err, want)
			}
		}
	}
}

// A proxy that is spoken to by TLS must be the one that its certificate names.
func TestSecureProxy(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	p := parsed(t, "HTTPS_PROXY", server.URL)
	conn, err := p.Tunnel(t.Context(), p.For("https", "git.test:443"), "git.test:443", known, rules)
	if err == nil {
		conn.Close()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("the tunnel's error is %v, want one about the certificate", err)
	}
	if got, err := get(t, way(t, p), "https://git.test/"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("by a transport that trusts it: got %q, %v; want its answer", got, err)
	}
}

// A SOCKS proxy is given names, not addresses, and a password.
func TestSocks(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heard := make(chan string, 2)
	go func() {
		for range 2 {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			heard <- answerSocks(conn)
		}
	}()
	p := parsed(t, "HTTPS_PROXY", "socks5://me:pw@"+listener.Addr().String(), "HTTP_PROXY",
		"socks5h://me:pw@"+listener.Addr().String())
	conn, err := p.Tunnel(t.Context(), p.For("https", "git.test:443"), "git.test:443", known, rules)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(text), "hello") {
		t.Errorf("the tunnel gives %q, %v", text, err)
	}
	if got, err := get(t, way(t, p), "http://git.test/"); err != nil || got != "200 hello" {
		t.Errorf("a request: %q, %v", got, err)
	}
	for range 2 {
		if got := <-heard; got != "\x02me\x02pw git.test" {
			t.Errorf("the proxy heard %q", got)
		}
	}
}

// answerSocks takes one connection of version 5 with a password, answers as a server, and returns user, password and
// host.
func answerSocks(conn net.Conn) string {
	defer conn.Close()
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(conn, b)
		return b
	}
	methods := read(2)
	read(int(methods[1]))
	_, _ = conn.Write([]byte{5, 2}) // a password, please
	user := read(1 + 1 + 2 + 1 + 2)
	_, _ = conn.Write([]byte{1, 0})
	head := read(5)
	host := read(int(head[4]))
	port := read(2)
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	if port[1] == 80 { // by a tunnel to 443 nobody asks anything here
		_, _ = http.ReadRequest(bufio.NewReader(conn))
	}
	_, _ = conn.Write([]byte("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	return string(user[1:]) + " " + string(host)
}
