package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/runtime/gateway"
)

// person is a browser: it keeps cookies for the hosts that set them, and says what it is.
type person struct {
	t       *testing.T
	ports   func(host string) string // where a host answers
	cookies map[string]map[string]string
}

// person returns somebody who browses the site.
func (s *site) person(t *testing.T) *person {
	t.Helper()
	return &person{t: t, ports: func(string) string { return s.port }, cookies: map[string]map[string]string{}}
}

// ask sends one request, with headers given as pairs, and follows nothing.
func (p *person) ask(method, address, body string, headers ...string) page {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://127.0.0.1:"+p.ports(u.Hostname())+u.RequestURI(), strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Host = u.Host
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for name, value := range p.cookies[u.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	c := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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
		if p.cookies[u.Host] == nil {
			p.cookies[u.Host] = map[string]string{}
		}
		p.cookies[u.Host][cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(p.cookies[u.Host], cookie.Name)
		}
		if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Domain != "" || cookie.Path != "/" {
			p.t.Errorf("%s sets a cookie that others can get at: %s", address, cookie)
		}
	}
	return page{resp.StatusCode, string(answer), resp.Header}
}

// open goes to an address and wherever that leads, and returns the last answer and its address.
func (p *person) open(address string) (page, string) {
	p.t.Helper()
	for range 10 {
		answer := p.ask(http.MethodGet, address, "")
		to := answer.header.Get("Location")
		if answer.status < 300 || answer.status > 399 {
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
	return page{}, ""
}

// signIn fills in the form at which it is, and goes on.
func (p *person) signIn(at, token string) (page, string) {
	p.t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		p.t.Fatal(err)
	}
	origin := u.Scheme + "://" + u.Host
	form := url.Values{"token": {token}, "to": {u.Query().Get("to")}}
	answer := p.ask(http.MethodPost, origin+"/sign-in", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", origin)
	wantEqual(p.t, "status of the sign-in", answer.status, http.StatusSeeOther)
	return p.open(origin + answer.header.Get("Location"))
}

// guarded declares the shop with a page, a function for everybody and one for those alone who signed in. They tell what they got.
func (s *site) guarded(app string) *repository {
	s.t.Helper()
	var made client.App
	s.call(http.MethodPost, "/apps", client.NewApp{Name: app, Namespace: "of-" + app}, &made)
	r := s.repository(made)
	specs := strings.Replace(functionsSpec("python-env", "tell tell.main"), "name: tell}\nspec: {functionref", "name: open}\nspec: {functionref", 1) + `---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: closed}
spec: {functionref: {name: tell}, methods: [GET, POST], relativeurl: /api/closed, access: signed-in}
`
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec(app), "site/index.html", "page of "+app, "site/app.0123456789abcdef.js", "1",
		"tell/tell.py", `import json


def main(event):
    return json.loads(event["protocol"]) if isinstance(event["protocol"], str) else event["protocol"]
`)
	return r
}

// Who is not signed in is sent to sign in, and comes back to where they wanted to go; a function never sees by what they are known.
func TestSignedInRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.guarded("shop")
	s.pushed(r, "shop", "A function for those who signed in")
	address := s.at("shop", "/api/closed?x=1&y=%2F")

	p := s.person(t)
	first := p.ask(http.MethodGet, address, "")
	wantEqual(t, "status for who is not known", first.status, http.StatusSeeOther)
	wantEqual(t, "caching of the way to the sign-in", first.header.Get("Cache-Control"), "no-store")
	if to := first.header.Get("Location"); !strings.HasPrefix(to, s.URL+"/visit?") {
		t.Errorf("sent to %s, want the control host", to)
	}
	form, at := p.open(address)
	if !strings.Contains(form.body, `name="token"`) || !strings.Contains(form.header.Get("Content-Security-Policy"), "form-action 'self' http://shop.localhost:"+s.port) {
		t.Errorf("got %s with %v, want the form, which may lead to the release", form.body, form.header)
	}
	answer, at := p.signIn(at, s.Token)
	wantEqual(t, "where the sign-in leads", at, address)
	wantEqual(t, "status for who is signed in", answer.status, http.StatusOK)
	wantEqual(t, "caching", answer.header.Get("Cache-Control"), "private, no-cache")
	wantEqual(t, "varies", strings.Join(answer.header.Values("Vary"), ","), "Cookie,Authorization")
	var told struct{ Headers map[string][]string }
	if err := json.Unmarshal([]byte(answer.body), &told); err != nil {
		t.Fatalf("%s: %v", answer.body, err)
	}
	p.cookies["shop.localhost:"+s.port]["own"] = "mine"
	answer = p.ask(http.MethodGet, address, "")
	if strings.Contains(answer.body, "__Host-landfall") || !strings.Contains(answer.body, "own=mine") {
		t.Errorf("got %s, want the function's own cookie and none of the server's", answer.body)
	}
	for _, value := range p.cookies["shop.localhost:"+s.port] {
		if len(value) > 20 && strings.Contains(s.log.String(), value) {
			t.Errorf("the server's log has a cookie")
		}
	}

	// Others are told what to send.
	program := s.person(t)
	refused := program.ask(http.MethodGet, address, "", "Accept", "*/*")
	wantEqual(t, "status for a program", refused.status, http.StatusUnauthorized)
	wantEqual(t, "what a program is asked for", refused.header.Get("WWW-Authenticate"), "Bearer")
	wantEqual(t, "type of a program's answer", refused.header.Get("Content-Type"), "application/problem+json")
	for _, headers := range [][]string{{"Sec-Fetch-Dest", "iframe"}, {"Accept", "application/json"}} {
		wantEqual(t, "status with "+headers[1], program.ask(http.MethodGet, address, "", headers...).status, http.StatusUnauthorized)
	}
	wantEqual(t, "status of a POST", program.ask(http.MethodPost, address, "").status, http.StatusUnauthorized)
	wantEqual(t, "status with a wrong token", program.ask(http.MethodGet, address, "", "Accept", "*/*", "Authorization", "Bearer wrong").status, 401)
	held := program.ask(http.MethodGet, address, "", "Authorization", "Bearer "+s.Token)
	if held.status != http.StatusOK || strings.Contains(held.body, s.Token) {
		t.Errorf("with a token: got %d %s, want 200 without the token", held.status, held.body)
	}
	byName := program.ask(http.MethodGet, s.URL+"/r/of-shop/shop/closed", "")
	wantEqual(t, "status by name for who is not known", byName.status, http.StatusUnauthorized)

	// It ends where it began.
	s.stopsVisit(p, address)
}

// stopsVisit signs out at the control host, and wants the visit to be over.
func (s *site) stopsVisit(p *person, address string) {
	s.t.Helper()
	p.ask(http.MethodPost, s.URL+"/sign-out", "", "Origin", s.URL)
	_, at := p.open(address)
	if !strings.HasPrefix(at, s.URL+"/sign-in?") {
		s.t.Errorf("after the sign-out: at %s, want the sign-in", at)
	}
}

// In a real browser the whole way is gone with one form, and a page of the app can call the function.
func TestSignedInInABrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pushed(s.guarded("shop"), "shop", "A function for those who signed in")
	b := s.newTab(t, look{true, 1000, "light"})
	b.do("open the function", chromedp.Navigate(s.at("shop", "/api/closed")))
	b.fill("#token", s.Token)
	b.press("main form button")
	b.until("the function's answer", fmt.Sprintf(`location.host === "shop.localhost:%s" && document.body.innerText.includes("GET")`, s.port))
	wantEqual(t, "cookies that scripts see", value[string](b, `document.cookie`), "")
	b.do("open the app", chromedp.Navigate(s.at("shop", "/")))
	value[bool](b, `fetch("/api/closed", {method: "POST"}).then((r) => { document.title = r.status }), true`)
	b.until("what its page was answered", `document.title === "200"`)
}

// Releases that are not live are for those alone who signed in, when the app says so: pages, routes, and what there is not.
func TestSignedInPreviews(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.guarded("shop")
	one := s.pushed(r, "shop", "one")
	r.write("site/index.html", "new page")
	two := s.pushed(r, "shop", "two")
	old, now := "shop--"+string(one), "shop--"+string(two)
	wantServed(t, s, old, "/", "page of shop")

	said, code := s.run(r.dir, "app", "set", "shop", "--previews", "signed-in")
	wantEqual(t, "exit code of app set: "+said, code, 0)
	wantEqual(t, "previews", s.showApp("shop").Previews, "signed-in")
	program, p := s.person(t), s.person(t)
	for _, path := range []string{"/", "/api/tell", "/api/closed", "/nothing", "/app.0123456789abcdef.js", "/%ff"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			a := program.ask(method, s.at(old, path), "", "Accept", "*/*")
			wantEqual(t, method+" "+path+" for a stranger", a.status, http.StatusUnauthorized)
		}
	}
	wantEqual(t, "a trigger by name", program.ask(http.MethodPost, s.URL+"/r/of-shop/shop:"+string(one)+"/open", "").status, http.StatusUnauthorized)
	wantServed(t, s, "shop", "/", "new page")
	wantServed(t, s, now, "/", "new page") // it is live
	wantEqual(t, "a file with a token", program.ask(http.MethodGet, s.at(old, "/"), "", "Authorization", "Bearer "+s.Token).body, "page of shop")

	_, at := p.open(s.at(old, "/?a=b"))
	answer, at := p.signIn(at, s.Token)
	wantEqual(t, "where the sign-in leads", at, s.at(old, "/?a=b"))
	wantEqual(t, "the page", answer.body, "page of shop")
	script := p.ask(http.MethodGet, s.at(old, "/app.0123456789abcdef.js"), "")
	wantEqual(t, "caching of what else is kept for ever", script.header.Get("Cache-Control"), "private, no-cache")
	wantEqual(t, "who may embed it", script.header.Get("Cross-Origin-Resource-Policy"), "same-origin")
	wantEqual(t, "a public route with the app's own token", strings.Contains(
		p.ask(http.MethodGet, s.at(old, "/api/tell"), "", "Authorization", "Bearer of-the-app").body, "of-the-app"), true)
	wantEqual(t, "nothing", p.ask(http.MethodGet, s.at(old, "/nothing"), "").status, http.StatusNotFound)

	// Another host has another visit, and begins it without a word.
	said, code = s.run(r.dir, "release", "live", "shop", string(one))
	wantEqual(t, "exit code of release live: "+said, code, 0)
	answer, at = p.open(s.at(now, "/"))
	wantEqual(t, "where it is", at, s.at(now, "/"))
	wantEqual(t, "the other page", answer.body, "new page")

	s.call(http.MethodPut, "/apps/shop/previews", client.Previews{Previews: "public"}, nil)
	wantServed(t, s, now, "/", "new page")
	kind := s.refused(http.MethodPut, "/apps/shop/previews", map[string]string{"previews": "friends"})
	if !strings.Contains(kind.Message, "previews") {
		t.Errorf("got %v, want what is wrong", kind)
	}
}

// What somebody may not do who has a part of what lets others in.
func TestSignedInAdversaries(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, app := range []string{"shop", "zoo"} {
		r := s.guarded(app)
		s.pushed(r, app, "one")
	}
	shop, zoo := "shop.localhost:"+s.port, "zoo.localhost:"+s.port
	closed := "/api/closed"
	p := s.person(t)
	_, at := p.open("http://" + shop + closed)
	p.signIn(at, s.Token)
	visit := p.cookies[shop]["__Host-landfall-visit"]

	// code makes a code for a person who is signed in.
	code := func(of *person, host string) string {
		t.Helper()
		first := of.ask(http.MethodGet, "http://"+host+closed, "")
		second := of.ask(http.MethodGet, first.header.Get("Location"), "")
		u, err := url.Parse(second.header.Get("Location"))
		if err != nil || u.Host != host || u.Path != gateway.VisitPath {
			t.Fatalf("sent to %s, want %s of %s", u, gateway.VisitPath, host)
		}
		return u.Query().Get("code")
	}
	begins := func(of *person, host, code string) int {
		t.Helper()
		return of.ask(http.MethodGet, "http://"+host+gateway.VisitPath+"?code="+url.QueryEscape(code), "").status
	}
	delete(p.cookies[shop], "__Host-landfall-visit")
	good := code(p, shop)
	thief := s.person(t)
	wantEqual(t, "a code of another browser without a nonce", begins(thief, shop, good), http.StatusBadRequest)
	thief.ask(http.MethodGet, "http://"+shop+closed, "")
	wantEqual(t, "a code of another browser", begins(thief, shop, good), http.StatusBadRequest)
	p.cookies[zoo] = map[string]string{"__Host-landfall-nonce": p.cookies[shop]["__Host-landfall-nonce"]}
	wantEqual(t, "a code at another host", begins(p, zoo, good), http.StatusBadRequest)
	wantEqual(t, "a code that was changed", begins(p, shop, good+"A"), http.StatusBadRequest)
	wantEqual(t, "no code", begins(p, shop, ""), http.StatusBadRequest)
	wantEqual(t, "the session as a code", begins(p, shop, p.cookies["localhost:"+s.port]["__Host-landfall"]), http.StatusBadRequest)
	wantEqual(t, "the code", begins(p, shop, good), http.StatusSeeOther)
	wantEqual(t, "the code again", begins(p, shop, good), http.StatusBadRequest)

	// A cookie is good at its host.
	thief.cookies[zoo] = map[string]string{"__Host-landfall-visit": visit}
	wantEqual(t, "the cookie of one app at another", thief.ask(http.MethodGet, "http://"+zoo+closed, "", "Accept", "*/*").status, http.StatusUnauthorized)
	wantEqual(t, "the session at a release", func() int {
		thief.cookies[shop] = map[string]string{
			"__Host-landfall": p.cookies["localhost:"+s.port]["__Host-landfall"], "__Host-landfall-visit": p.cookies["localhost:"+s.port]["__Host-landfall"]}
		return thief.ask(http.MethodGet, "http://"+shop+closed, "", "Accept", "*/*").status
	}(), http.StatusUnauthorized)

	// Pages of other hosts cannot act with it.
	for _, headers := range [][]string{
		{"Origin", "http://" + zoo}, {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, {"Origin", "null"}, {},
	} {
		wantEqual(t, strings.Join(headers, " "), p.ask(http.MethodPost, "http://"+shop+closed, "", headers...).status, http.StatusForbidden)
	}
	wantEqual(t, "a page in a frame of another app", p.ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-Dest", "iframe").status, http.StatusForbidden)
	wantEqual(t, "a script in a page of another app", p.ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors",
		"Sec-Fetch-Dest", "script").status, http.StatusForbidden)
	wantEqual(t, "a link", p.ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-Dest", "document").status, http.StatusOK)
	wantEqual(t, "its own page", p.ask(http.MethodPost, "http://"+shop+closed, "", "Origin", "http://"+shop).status, http.StatusOK)

	// Nobody is sent anywhere but to a release.
	challenge := "&for=sha256%3A" + strings.Repeat("0", 64)
	for _, to := range []string{
		"https://example.com/", "//example.com/", "http://example.com:" + s.port + "/", "http://" + shop + "@example.com/", "http://x:y@" + shop + "/",
		"http://shop.localhost:1/", "https://" + shop + "/", "http://localhost:" + s.port + "/", "http://127.0.0.1:" + s.port + "/", "javascript:alert(1)",
		"http://shop.localhost.example.com/", "http://shop.localhost:" + s.port + "//example.com/", "http://a.b.c.localhost:" + s.port + "/", "/", "", "%zz",
	} {
		a := p.ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape(to)+challenge, "")
		if a.status != http.StatusBadRequest || a.header.Get("Location") != "" {
			t.Errorf("%s: got %d to %q, want 400", to, a.status, a.header.Get("Location"))
		}
	}
	wantEqual(t, "no challenge", p.ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape("http://"+shop+"/"), "").status, http.StatusBadRequest)
	wantEqual(t, "an app that there is not", p.ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape("http://bank.localhost:"+s.port+"/")+challenge, "").status,
		http.StatusForbidden)
}

// A gateway in a process of its own knows who signed in at the control host, and who signed out.
func TestSignedInAtAnotherProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	r := f.guarded("shop")
	f.pushed(r, "shop", "one")
	p := f.person(t)
	p.ports = func(host string) string { // what a proxy before them does
		if host == "localhost" {
			return f.port
		}
		return f.gateways[0].port
	}
	address := f.at("shop", "/api/closed")
	_, at := p.open(address)
	answer, at := p.signIn(at, f.Token)
	wantEqual(t, "where the sign-in leads", at, address)
	wantEqual(t, "status", answer.status, http.StatusOK)
	f.stopsVisit(p, address)
}
