package site

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/testkit"
)

// Post posts with the site's token.
func (s *Site) Post(address, contentType, body string, header ...string) Page {
	s.T.Helper()
	return s.Send(http.MethodPost, address, body, append([]string{"Content-Type", contentType}, header...)...)
}

// Page is what a visitor gets.
type Page struct {
	Status int
	Body   string
	Header http.Header
}

// Get asks for an address as a browser does: names below localhost are this machine.
func (s *Site) Get(address string) Page {
	s.T.Helper()
	p, err := TryGet(address)
	if err != nil {
		s.T.Fatal(err)
	}
	return p
}

// TryGet gets an address of a server that may end meanwhile.
func TryGet(address string) (Page, error) {
	c := http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}
	defer c.CloseIdleConnections()
	resp, err := c.Get(address)
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return Page{resp.StatusCode, string(body), resp.Header}, err
}

// At returns the address of a path at a host below the domain: at("shop", "/x") is the live release's.
func (s *Site) At(host, path string) string {
	return "http://" + host + ".localhost:" + s.Port + path
}

// Visitor has a connection of its own, which takes a fraction of what a client for every purpose does: they leave the
// processors to the server.
type Visitor struct {
	net.Conn
	Cookie  string // the last that it was given
	answers *bufio.Reader
	host    string
}

// Visitor brings one to an app.
func (s *Site) Visitor(app string) *Visitor {
	s.T.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.T.Context(), "tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = conn.Close() })
	return &Visitor{Conn: conn, answers: bufio.NewReader(conn), host: app + ".localhost:" + s.Port}
}

// Ask gets a path, with header lines.
func (v *Visitor) Ask(path string, lines ...string) (status int, release, body string) {
	if err := v.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		return 0, "", err.Error()
	}
	if v.Cookie != "" {
		lines = append(lines, "Cookie: "+v.Cookie)
	}
	head := strings.Join(append([]string{"GET " + path + " HTTP/1.1", "Host: " + v.host}, lines...), "\r\n")
	if _, err := io.WriteString(v, head+"\r\n\r\n"); err != nil {
		return 0, "", err.Error()
	}
	resp, err := http.ReadResponse(v.answers, nil)
	if err != nil {
		return 0, "", err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err.Error()
	}
	for _, cookie := range resp.Cookies() {
		v.Cookie = cookie.Name + "=" + cookie.Value
	}
	return resp.StatusCode, resp.Header.Get("Landfall-Release"), strings.TrimSpace(string(data))
}

// Send sends a request with headers given as pairs. Its token is the site's, unless a header says another one.
func (s *Site) Send(method, address, body string, headers ...string) Page {
	s.T.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c := http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return Page{resp.StatusCode, string(answer), resp.Header}
}

// Person is a browser: it keeps cookies for the hosts that set them, and says what it is.
type Person struct {
	t       testing.TB
	Ports   func(host string) string // where a host answers
	Cookies map[string]map[string]string
}

// Person returns somebody who browses the site.
func (s *Site) Person(t testing.TB) *Person {
	t.Helper()
	return &Person{t: t, Ports: func(string) string { return s.Port }, Cookies: map[string]map[string]string{}}
}

// Ask sends one request, with headers given as pairs, and follows nothing.
func (p *Person) Ask(method, address, body string, headers ...string) Page {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://127.0.0.1:"+p.Ports(u.Hostname())+u.RequestURI(),
		strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Host = u.Host
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for name, value := range p.Cookies[u.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	c := http.Client{Timeout: testkit.Patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := c.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, cookie := range resp.Cookies() {
		if p.Cookies[u.Host] == nil {
			p.Cookies[u.Host] = map[string]string{}
		}
		p.Cookies[u.Host][cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(p.Cookies[u.Host], cookie.Name)
		}
		if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Domain != "" ||
			cookie.Path != "/" {
			p.t.Errorf("%s sets a cookie that others can get at: %s", address, cookie)
		}
	}
	return Page{resp.StatusCode, string(answer), resp.Header}
}

// Open goes to an address and wherever that leads, and returns the last answer and its address.
func (p *Person) Open(address string) (Page, string) {
	p.t.Helper()
	for range 10 {
		answer := p.Ask(http.MethodGet, address, "")
		to := answer.Header.Get("Location")
		if answer.Status < 300 || answer.Status > 399 {
			return answer, address
		}
		u, err := url.Parse(address)
		if err == nil {
			u, err = u.Parse(to)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		address = u.String()
	}
	p.t.Fatalf("%s is where it ends up again and again", address)
	return Page{}, ""
}

// SignIn fills in the form at which it is, and goes on.
func (p *Person) SignIn(at, token string) (Page, string) {
	p.t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		p.t.Fatal(err)
	}
	origin := u.Scheme + "://" + u.Host
	form := url.Values{"token": {token}, "to": {u.Query().Get("to")}}
	answer := p.Ask(http.MethodPost, origin+"/sign-in", form.Encode(), "Content-Type", "application/x-www-form-urlencoded",
		"Origin", origin)
	testkit.Equal(p.t, "status of the sign-in", answer.Status, http.StatusSeeOther)
	return p.Open(origin + answer.Header.Get("Location"))
}

// ReadAs gets an address with the administrator's token.
func (s *Site) ReadAs(address string) Page {
	s.T.Helper()
	return s.Send(http.MethodGet, address, "")
}
