package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"landfall.dev/landfall"
)

// Proxy is the proxy through which requests leave the machine. A nil Proxy stands for none. It is safe for concurrent
// use.
type Proxy struct {
	config httpproxy.Config
	choose func(*url.URL) (*url.URL, error)
	shown  string
}

// ParseProxy reads the usual variables for proxies: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in capitals first, then in
// small letters. Without any it returns nil. Invalid, without showing the value, for a proxy that cannot be used.
func ParseProxy(getenv func(string) string) (*Proxy, error) {
	var config httpproxy.Config
	var shown []string
	for variable, to := range map[string]*string{"HTTPS_PROXY": &config.HTTPSProxy, "HTTP_PROXY": &config.HTTPProxy} {
		name, value := valueOf(getenv, variable)
		if value == "" {
			continue
		}
		u, err := parse(name, value)
		if err != nil {
			return nil, err
		}
		*to = u.String()
		text := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		shown = append(shown, fmt.Sprintf("%s for %s", text, strings.ToLower(strings.TrimSuffix(variable, "_PROXY"))))
	}
	var p *Proxy
	if len(shown) > 0 {
		_, config.NoProxy = valueOf(getenv, "NO_PROXY")
		slices.Sort(shown)
		p = &Proxy{config: config, choose: config.ProxyFunc(), shown: strings.Join(shown, ", ")}
	}
	return p, nil
}

// valueOf returns the value of a variable, and the name under which it was found.
func valueOf(getenv func(string) string, variable string) (name, value string) {
	for _, name := range []string{variable, strings.ToLower(variable)} {
		if value := strings.TrimSpace(getenv(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// parse reads the address of a proxy, which may hold a password.
func parse(variable, value string) (*url.URL, error) {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
		portOf(u) == "" {
		return nil, &landfall.Error{Op: "outbound.ParseProxy", Kind: landfall.Invalid, Message: variable +
			" names no proxy that can be used; right would be http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT, " +
			"with USER:PASSWORD@ before " +
			"the host if it asks for them"}
	}
	u.Path = ""
	return u, nil
}

// portOf returns the port of a proxy; empty for a scheme that no proxy has.
func portOf(u *url.URL) string {
	usual, known := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	if known && u.Port() != "" {
		return u.Port()
	}
	return usual
}

// String returns the proxies for people, without their passwords.
func (p *Proxy) String() string {
	if p == nil {
		return ""
	}
	return p.shown
}

// Format hides the passwords from every verb.
func (p *Proxy) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// Except returns a proxy that is not used for these hosts either: HOST or HOST:PORT.
func (p *Proxy) Except(hosts ...string) *Proxy {
	if p == nil {
		return nil
	}
	with := &Proxy{config: p.config, shown: p.shown}
	with.config.NoProxy = strings.Join(append(hosts, p.config.NoProxy), ",")
	with.choose = with.config.ProxyFunc()
	return with
}

// For returns the address of the proxy for a scheme and HOST:PORT; nil when there is none for it.
func (p *Proxy) For(scheme, address string) *url.URL {
	if p == nil {
		return nil
	}
	u, err := p.choose(&url.URL{Scheme: scheme, Host: address})
	if err != nil { // ParseProxy has checked it
		return nil
	}
	return u
}

// Check decides whether a host may be reached, by the addresses that it has here: none when its name is not known here.
type Check func(host, port string, addresses []netip.Addr) error

// Transport sends requests through the proxy. Requests without a proxy use another transport, which checks hosts by
// itself.
type Transport struct {
	direct  *http.Transport
	proxied *http.Transport // nil: there is no proxy
	proxy   *Proxy
	lookup  Lookup
	check   Check
}

// Transport returns the transport of a proxy, or of none. direct must not use the environment. Requests to a proxy get
// the same settings.
func (p *Proxy) Transport(direct *http.Transport, lookup Lookup, check Check) *Transport {
	t := &Transport{direct: direct, proxy: p, lookup: lookup, check: check}
	if p == nil {
		return t
	}
	t.proxied = direct.Clone()
	t.proxied.DialContext = dial // it connects to proxies only
	t.proxied.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, asked *http.Request,
		answer *http.Response) error {
		if answer.StatusCode != http.StatusOK {
			return proxyError(asked.Host, answer.StatusCode)
		}
		return nil
	}
	t.proxied.Proxy = func(r *http.Request) (*url.URL, error) {
		if u := p.For(r.URL.Scheme, hostPort(r.URL)); u != nil {
			return u, nil
		}
		return nil, errors.New("there is no proxy for it") // never without a proxy, because nobody would check the address
	}
	return t
}

const proxyTimeout = 20 * time.Second

// dial connects to a proxy.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: proxyTimeout}).DialContext(ctx, network, address)
	if err != nil && ctx.Err() == nil {
		err = landfall.Wrapf("outbound.dial", landfall.Unavailable, err, "the proxy of this installation cannot be reached")
	}
	return conn, err
}

// proxyError is the error when a proxy does not connect to HOST:PORT.
func proxyError(address string, status int) error {
	message := fmt.Sprintf("the proxy of this installation answers %d for %s", status, address)
	if status == http.StatusProxyAuthRequired {
		message += ": the administrator can set its user and password (HTTPS_PROXY, HTTP_PROXY)"
	}
	return &landfall.Error{Op: "outbound.connect", Kind: landfall.Unavailable, Message: message}
}

// RoundTrip implements http.RoundTripper. It returns the error of the check for a host that may not be reached.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	address := hostPort(r.URL)
	if t.proxy.For(r.URL.Scheme, address) == nil {
		return t.direct.RoundTrip(r)
	}
	if err := checkHost(r.Context(), address, t.lookup, t.check); err != nil {
		return nil, err
	}
	answer, err := t.proxied.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusProxyAuthRequired { // the answer to a request without a tunnel
		answer.Body.Close()
		return nil, proxyError(address, answer.StatusCode)
	}
	return answer, err
}

// CloseIdleConnections closes the connections that wait for a request.
func (t *Transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	if t.proxied != nil {
		t.proxied.CloseIdleConnections()
	}
}

func checkHost(ctx context.Context, address string, lookup Lookup, check Check) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	known, err := addresses(ctx, host, lookup)
	if err != nil {
		return err
	}
	return check(host, port, known)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Tunnel checks HOST:PORT and connects to it through a proxy that For returned.
func (p *Proxy) Tunnel(ctx context.Context, by *url.URL, address string, lookup Lookup, check Check) (net.Conn, error) {
	if err := checkHost(ctx, address, lookup, check); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	at := net.JoinHostPort(by.Hostname(), portOf(by))
	if strings.HasPrefix(by.Scheme, "socks5") {
		return socks(ctx, by, at, address)
	}
	conn, err := dial(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	if by.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: by.Hostname(), MinVersion: tls.VersionTLS12})
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	tunnel, err := connect(conn, by.User, address)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return tunnel, nil
}

func socks(ctx context.Context, by *url.URL, at, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if by.User != nil {
		auth = &proxy.Auth{User: by.User.Username()}
		auth.Password, _ = by.User.Password()
	}
	dialer, err := proxy.SOCKS5("tcp", at, auth, nil)
	if err != nil {
		return nil, err
	}
	dialing, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("a SOCKS proxy cannot be asked with a limit of time")
	}
	return dialing.DialContext(ctx, "tcp", address)
}

// connect asks an HTTP proxy for a tunnel.
func connect(conn net.Conn, user *url.Userinfo, address string) (net.Conn, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("the proxy does not listen: %w", err)
	}
	const most = 64 << 10 // of an answer
	answers := bufio.NewReader(io.LimitReader(conn, most))
	answer, err := http.ReadResponse(answers, request) //nolint:bodyclose // its body is the tunnel
	if err != nil {
		return nil, fmt.Errorf("the proxy gives no answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, proxyError(address, answer.StatusCode)
	}
	early, err := answers.Peek(answers.Buffered())
	return &tunnel{Conn: conn, early: early}, err
}

// tunnel is a connection through a proxy, with the bytes that were read together with the proxy's answer.
type tunnel struct {
	net.Conn
	early []byte
}

// Read implements net.Conn.
func (t *tunnel) Read(b []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(b, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	return t.Conn.Read(b)
}

// CloseWrite tells the other side that nothing more will be sent.
func (t *tunnel) CloseWrite() error {
	if w, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return t.Close()
}
