package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/test/testkit"
)

// hostCase is a Host header and what it must lead to.
type hostCase struct {
	host string
	want hostname.Host
}

func hosts() []hostCase {
	live := hostname.Host{Kind: hostname.Release, App: "shop"}
	dotted := hostname.Host{Kind: hostname.Release, App: "shop", Selector: "aaaaaaa2"}
	joined := hostname.Host{Kind: hostname.Release, App: "shop", Selector: "aaaaaaa2", Joined: true}
	control, unknown := hostname.Host{Kind: hostname.Control}, hostname.Host{}
	app := func(name string) hostname.Host { return hostname.Host{Kind: hostname.Release, App: name} }
	return []hostCase{
		{"shop.releases.test", live},
		{"SHOP.Releases.TEST", live},
		{"shop.releases.test.", live},
		{"shop.releases.test:80", live},
		{"shop.releases.test:8080", live},
		{"shop.releases.test.:8080", live},
		{"shop.releases.test:", live},
		{"sHoP.rElEaSeS.tEsT.:65535", live},
		{"shop.aaaaaaa2.releases.test", dotted},
		{"SHOP.AAAAAAA2.RELEASES.TEST", dotted},
		{"shop.aaaaaaa2.releases.test.", dotted},
		{"shop.aaaaaaa2.releases.test:1", dotted},
		{"shop--aaaaaaa2.releases.test", joined},
		{"Shop--Aaaaaaa2.releases.test.:443", joined},
		{"shop--aaaaaaa2.releases.test:0", joined},
		{"blog.releases.test", app("blog")},
		{"unknown.releases.test", app("unknown")},
		{"shopx.releases.test", app("shopx")},
		{"xshop.releases.test", app("xshop")},

		{"releases.test", control},
		{"RELEASES.TEST", control},
		{"releases.test.", control},
		{"releases.test:8080", control},
		{"releases.test.:8080", control},
		{"panel.releases.test", control},
		{"Panel.releases.test:99", control},
		{"127.0.0.1", control},
		{"127.0.0.1:8080", control},
		{"127.0.0.1.", control},
		{"192.168.1.20:80", control},
		{"[::1]", control},
		{"[::1]:8080", control},
		{"[0:0:0:0:0:0:0:1]", control},
		{"[2001:DB8::1]:443", control},
		{"[::ffff:127.0.0.1]", control},

		{"", unknown},
		{".", unknown},
		{"..", unknown},
		{":", unknown},
		{":8080", unknown},
		{"test", unknown},
		{"localhost", unknown},
		{"example.com", unknown},
		{"shop", unknown},
		{"shopreleases.test", unknown},
		{"shop.releases.test.example.com", unknown},
		{"shop.releases.testx", unknown},
		{"shop.xreleases.test", unknown},
		{".releases.test", unknown},
		{"shop..releases.test", unknown},
		{"shop.releases.test..", unknown},
		{"shop.aaaaaaa2.x.releases.test", unknown},
		{"a.b.c.d.releases.test", unknown},
		{"shop--aaaaaaa2.x.releases.test", unknown},
		{"shop.releases.test:80:80", unknown},
		{"shop.releases.test:-1", unknown},
		{"shop.releases.test:+80", unknown},
		{"shop.releases.test:65536", unknown},
		{"shop.releases.test:8o", unknown},
		{"user@shop.releases.test", unknown},
		{"shop.releases.test/path", unknown},
		{"shop.releases.test?x", unknown},
		{"shop.releases.test#x", unknown},
		{"shop.releases.test,blog.releases.test", unknown},
		{"shop.releases.test blog.releases.test", unknown},
		{"http://shop.releases.test", unknown},
		{"//shop.releases.test", unknown},
		{`shop\.releases.test`, unknown},
		{"shop%2ereleases.test", unknown},
		{"%73hop.releases.test", unknown},
		{"shop%00.releases.test", unknown},
		{"shop\x00.releases.test", unknown},
		{"shop\t.releases.test", unknown},
		{"*.releases.test", unknown},
		{"_shop.releases.test", unknown},
		{"-shop.releases.test", unknown},
		{"shop-.releases.test", unknown},
		{"shöp.releases.test", unknown},
		{"ѕhop.releases.test", unknown}, // a Cyrillic s
		{"shop．releases.test", unknown}, // a full-width dot
		{"shop。releases.test", unknown}, // an ideographic dot
		{"ＳＨＯＰ.releases.test", unknown},
		{"\u212Ahop.releases.test", unknown}, // the sign of Kelvin, whose lower case is k
		{"xn--shp-5qa.releases.test", unknown},
		{"XN--shp-5qa.releases.test", unknown},
		{"shop.xn--aaaaaaa2.releases.test", unknown},
		{"127.0.0.1:", control},
		{"127.1", unknown},
		{"0177.0.0.1", unknown},
		{"0x7f000001", unknown},
		{"2130706433", unknown},
		{"127.0.0.1.5", unknown},
		{"127.0.0.256", unknown},
		{"::1", unknown},
		{"[::1", unknown},
		{"[::1]x", unknown},
		{"[::1]:x", unknown},
		{"[fe80::1%25eth0]", unknown},
		{"[fe80::1%eth0]", unknown},
		{"[127.0.0.1]", unknown},
		{"[]", unknown},
		{"[shop.releases.test]", unknown},
		{strings.Repeat("a", 63) + ".releases.test", app(strings.Repeat("a", 63))},
		{strings.Repeat("a", 64) + ".releases.test", unknown},
		{strings.Repeat("a.", 130) + "releases.test", unknown},
		{strings.Repeat("a", 10_000), unknown},
		{strings.Repeat("a", 10_000) + ".releases.test", unknown},
		{"shop.releases.test" + strings.Repeat(".", 10_000), unknown},
		{"shop.releases.test:" + strings.Repeat("0", 10_000), unknown},
	}
}

// hostSite has two apps, whose pages name them.
func hostSite(t testing.TB) *site {
	t.Helper()
	content := newStore()
	var apps []registry.App
	for i, name := range []string{"shop", "blog"} {
		id := landfall.UID([]string{"aaaaaaa2", "bbbbbbb2"}[i])
		apps = append(apps, registry.App{
			ID: name, Name: name, Live: id, Latest: id,
			Releases: []registry.Release{content.release(id, files{"/index.html": "page of " + name})},
		})
	}
	return newSite(t, content, func(c *gateway.Config) { c.Domain, c.Control = hostsDomain, hostsControl }, apps...)
}

// The names of hostSite.
const hostsDomain, hostsControl = "Releases.Test.", "panel.releases.test:8080"

// names returns the hosts of hostSite.
func names(t testing.TB) hostname.Hosts {
	t.Helper()
	return testkit.Must(hostname.New(hostsDomain, hostsControl))(t)
}

// Every host is classified by one rule, and over the wire reaches the app that it names or none.
func TestHosts(t *testing.T) {
	t.Parallel()
	s, named := hostSite(t), names(t)
	for i, c := range hosts() {
		t.Run(fmt.Sprintf("%d %.40q", i, c.host), func(t *testing.T) {
			t.Parallel()
			if got := named.Classify(c.host); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			status, release, body := s.raw(t, "GET / HTTP/1.1\r\nHost: "+c.host+"\r\nConnection: close\r\n\r\n")
			var want landfall.UID
			wantStatus := http.StatusNotFound
			switch c.want.App {
			case "shop":
				want, wantStatus = "aaaaaaa2", http.StatusOK
			case "blog":
				want, wantStatus = "bbbbbbb2", http.StatusOK
			}
			// N-019: a host with capitals, dots, ports, escapes, an unknown name or 10,000 characters reaches its own app or
			// none
			if release != string(want) || (status != wantStatus && status != http.StatusBadRequest) {
				t.Errorf("got status %d from release %q, want %d from %q", status, release, wantStatus, want)
			}
			if want != "" && body != "page of "+c.want.App {
				t.Errorf("got body %q, want the page of %s", body, c.want.App)
			}
			if want == "" && len(c.host) > 5 && strings.Contains(strings.ToLower(body), strings.ToLower(c.host)) {
				t.Errorf("got the host back in the page %q, want no word of it", body)
			}
		})
	}
}

// A request with an absolute address is one for the host in that address, whatever the Host header says.
func TestAbsoluteTarget(t *testing.T) {
	t.Parallel()
	s := hostSite(t)
	_, release, _ := s.raw(t,
		"GET http://shop.releases.test/ HTTP/1.1\r\nHost: blog.releases.test\r\nConnection: close\r\n\r\n")
	if release != "aaaaaaa2" {
		t.Errorf("got release %q, want shop's: its host stands in the request line", release)
	}
	status, release, _ := s.raw(t,
		"GET / HTTP/1.1\r\nHost: blog.releases.test\r\nHost: shop.releases.test\r\nConnection: close\r\n\r\n")
	if status != http.StatusBadRequest || release != "" {
		t.Errorf("got status %d and release %q for two hosts, want 400 and none", status, release)
	}
	for _, name := range []string{"X-Forwarded-Host", "Forwarded", "X-Original-URL", "X-Rewrite-URL", "X-Host"} {
		answer := s.get(t, "shop.releases.test", "/", name, "blog.releases.test")
		answer.want(t, http.StatusOK, "aaaaaaa2", "page of shop")
	}
}

// raw sends request as it is and returns the answer's status, release and body.
func (s *site) raw(t testing.TB, request string) (status int, release, body string) {
	t.Helper()
	answer, text := s.rawResponse(t, request)
	return answer.StatusCode, answer.Header.Get(page.ReleaseHeader), text
}

func (s *site) rawResponse(t testing.TB, request string) (*http.Response, string) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("write: %v", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("read body: %v", err)
	}
	return answer, string(data)
}

// Whatever the host is, its canonical form is canonical, case and port do not matter, and it names at most two labels.
func FuzzHost(f *testing.F) {
	for _, c := range hosts() {
		f.Add(c.host)
	}
	named := names(f)
	f.Fuzz(func(t *testing.T, host string) {
		name, ok := hostname.Canonical(host)
		got := named.Classify(host)
		if !ok {
			if name != "" || got.Kind != hostname.Unknown {
				t.Fatalf("got %q and %+v for a host that is refused", name, got)
			}
			return
		}
		if again, ok := hostname.Canonical(name); !ok || again != name {
			t.Fatalf("got %q, %v for the canonical %q", again, ok, name)
		}
		for _, twin := range []string{strings.ToUpper(name), name + ":8080"} {
			if same := named.Classify(twin); same != got {
				t.Fatalf("got %+v for %q, want %+v as for %q", same, twin, got, host)
			}
		}
		if got.Kind == hostname.Release && (got.App == "" || strings.ContainsAny(got.App+got.Selector, "./\\%:@[] ")) {
			t.Fatalf("got %+v for %q", got, host)
		}
	})
}
