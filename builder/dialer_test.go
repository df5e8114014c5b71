package builder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

// inner are addresses of the installation's own network, as an attacker may write them.
func inner() []string {
	return []string{
		"127.0.0.1", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1",
		"172.31.255.255", "192.168.0.1", "192.168.255.255", "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255",
		"100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1",
		"::", "::1", "0:0:0:0:0:0:0:1", "::127.0.0.1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:0:127.0.0.1",
		"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::ffff:10.0.0.1", "0:0:0:0:0:ffff:127.0.0.1", "64:ff9b::7f00:1",
		"64:ff9b::169.254.169.254", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1", "fc00::1",
		"fd00:ec2::254", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
	}
}

func TestDialerRefusesTheOwnNetwork(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	d := &builder.Dialer{}
	for _, address := range inner() {
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(address, "80"))
		if err == nil {
			_ = conn.Close()
			hits.Add(1)
		}
		wantError(t, err, landfall.Forbidden, "LANDFALL_ALLOWED_HOSTS")
		// The same address, behind a name.
		a, parseErr := netip.ParseAddr(address)
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		behind := &builder.Dialer{Lookup: resolve(a)}
		_, err = behind.DialContext(t.Context(), "tcp", "public.example:443")
		wantError(t, err, landfall.Forbidden, "public.example")
		mixed := &builder.Dialer{Lookup: resolve(netip.MustParseAddr("93.184.216.34"), a)}
		_, err = mixed.DialContext(t.Context(), "tcp", "public.example:443")
		wantError(t, err, landfall.Forbidden)
	}
	// S13: none of them is dialed, by itself or behind a name
	if got := hits.Load(); got != 0 {
		t.Errorf("%d connections into the own network", got)
	}
}

func resolve(addresses ...netip.Addr) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) ([]netip.Addr, error) { return addresses, nil }
}

func TestDialerLetsThePublicThrough(t *testing.T) {
	t.Parallel()
	// Nothing may leave this machine: the context has ended, so that only the check of the address can be seen.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{"93.184.216.34", "140.82.121.4", "2606:2800:220:1::1", "100.63.255.255", "172.32.0.1",
		"192.0.1.1"} {
		_, err := (&builder.Dialer{}).DialContext(ended, "tcp", net.JoinHostPort(address, "443"))
		if err == nil || landfall.Is(err, landfall.Forbidden) {
			t.Errorf("%s: got %v, want the network's error", address, err)
		}
	}
}

func TestDialerChecksWhatItDials(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var asked atomic.Int64
	rebinding := func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	d := &builder.Dialer{Lookup: rebinding}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.DialContext(ended, "tcp", "rebind.example:"+port); landfall.Is(err, landfall.Forbidden) {
		t.Errorf("the public answer was refused: %v", err)
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the name was resolved %d times for one connection, want once", got)
	}
	_, err = d.DialContext(t.Context(), "tcp", "rebind.example:"+port)
	wantError(t, err, landfall.Forbidden)
	if _, err := (&builder.Dialer{Lookup: resolve()}).DialContext(t.Context(), "tcp", "nobody.example:1"); err == nil {
		t.Error("a name without addresses was dialed")
	}

	for name, allowed := range map[string]string{"host": "Rebind.Example.", "host and port": "rebind.example:" + port} {
		d := &builder.Dialer{AllowedHosts: []string{allowed}, Lookup: resolve(netip.MustParseAddr("127.0.0.1"))}
		conn, err := d.DialContext(t.Context(), "tcp", "rebind.example:"+port)
		if err != nil {
			t.Errorf("allowed by %s: %v", name, err)
			continue
		}
		_ = conn.Close()
	}
	other := &builder.Dialer{AllowedHosts: []string{"rebind.example:1", "example"},
		Lookup: resolve(netip.MustParseAddr("127.0.0.1"))}
	_, err = other.DialContext(t.Context(), "tcp", "rebind.example:"+port)
	wantError(t, err, landfall.Forbidden)
}

// Every redirect is a new connection through the same check.
func TestTransportChecksRedirects(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	front := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusFound))
	defer front.Close()
	u, err := url.Parse(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := (&builder.Dialer{AllowedHosts: []string{u.Host}}).Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	res, err := client.Get(front.URL)
	if err == nil {
		_ = res.Body.Close()
	}
	wantError(t, err, landfall.Forbidden)
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	d := &builder.Dialer{AllowedHosts: []string{"git.internal", "127.0.0.1:3000"}}
	for _, good := range []string{
		"https://github.com/acme/shop.git", "HTTPS://GitHub.com/acme/shop", "https://git.example:8443/a%20b/c.git",
		"http://git.internal/x.git", "https://git.internal/x", "http://127.0.0.1:3000/x.git",
		"https://[2606:2800:220:1::1]/x", "https://xn--bcher-kva.example/x.git",
	} {
		if err := d.CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                               "empty",
		"--upload-pack=touch /tmp/x":     `"-"`,
		"-oProxyCommand=x":               `"-"`,
		"https://user:pw@github.com/a":   "--repo-token-file",
		"https://token@github.com/a":     "--repo-token-file",
		"git@github.com:acme/shop.git":   "for ssh",
		"ssh://git@github.com/acme/shop": "for ssh",
		"http://github.com/a":            "https://",
		"file:///etc":                    "https://",
		"/srv/git/x":                     "https://",
		"../x":                           "https://",
		"git://github.com/a":             "https://",
		"ext::sh -c touch":               "space",
		"ext::x":                         "cannot be read",
		"https:github.com":               "cannot be read",
		"ftp://x/y":                      "https://",
		"fd::17":                         "cannot be read",
		"https://":                       "no host",
		"https:///x":                     "no host",
		"https://-x/y":                   "no host",
		"https://github.com/a\nb":        "control",
		"https://github.com/a\x00":       "control",
		"https://github.com/a b":         "space",
		"https://github.com\\@evil/x":    "backslash",
		"https://github.com/a?service=x": `"?"`,
		"https://github.com/a?":          `"?"`,
		"https://github.com/a#b":         `"#"`,
		"https://github.com/" + strings.Repeat("a", 3000): "longer",
		"http://127.0.0.1:3001/x":                         "https://",
	} {
		wantError(t, d.CheckURL(bad), landfall.Invalid, want)
	}
	for _, address := range inner() {
		host := address
		if strings.Contains(address, ":") {
			host = "[" + strings.ReplaceAll(address, "%", "%25") + "]"
		}
		wantError(t, (&builder.Dialer{}).CheckURL("https://"+host+"/x.git"), landfall.Forbidden)
	}
}

// Ways to write an address that only some resolvers understand: nothing of them may end in a connection.
func TestEncodingsOfAddressesAreNotDialed(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer victim.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(victim.URL, "http://"))
	// A resolver that understands every one of them, as inet_aton(3) does.
	d := &builder.Dialer{Lookup: resolve(netip.MustParseAddr("127.0.0.1"))}
	transport := d.Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, host := range []string{
		"localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "x.localhost", "127.1", "127.0.1", "2130706433",
		"0x7f000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "017700000001", "0177.1", "00000177.0.0.1", "127.0.0.1.",
		"127.000.000.001", "0", "0.0", "0x0", "127.0.0.1.nip.io", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]",
		"[::]", "127.0.0.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "metadata.google.internal",
		"metadata", "[fd00:ec2::254]", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::ffff:7f00:1]", "instance-data",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+port, nil)
		if err != nil {
			continue // such an address is refused before
		}
		res, err := client.Do(request)
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("%s was answered", host)
		}
	}
	// S13: however the address is written
	if got := hits.Load(); got != 0 {
		t.Errorf("%d connections arrived", got)
	}
}

func TestSecretHidesItself(t *testing.T) {
	t.Parallel()
	const plain = "hunter2"
	r := builder.Remote{URL: "https://example.com/x", Credential: builder.Credential{Password: plain}}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(r), fmt.Sprintf("%v %+v %#v %s %q %x", r, r, r, r.Password, r.Password, r.Password), string(encoded),
		errors.New("x " + r.Password.String()).Error(), r.Password.LogValue().String(), r.Password.GoString(),
	} {
		if strings.Contains(text, plain) || strings.Contains(text, fmt.Sprintf("%x", plain)) {
			t.Errorf("the secret shows in %q", text)
		}
	}
	if r.Password.Reveal() != plain {
		t.Error("Reveal does not reveal")
	}
}
