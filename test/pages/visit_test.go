package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/test/browser"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// guarded declares the shop with a page, a function for everybody and one for those alone who signed in. They tell what
// they got.
func guarded(s *site.Site, app string) *site.Repository {
	s.T.Helper()
	var made client.App
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: app, Namespace: "of-" + app}, &made)
	r := s.Repository(made)
	specs := strings.Replace(site.FunctionsSpec("python-env", "tell tell.main"), "name: tell}\nspec: {functionref",
		"name: open}\nspec: {functionref", 1) + `---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: closed}
spec: {functionref: {name: tell}, methods: [GET, POST], relativeurl: /api/closed, access: signed-in}
`
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec(app), "site/index.html", "page of "+app,
		"site/app.0123456789abcdef.js", "1", "tell/tell.py", `import json


def main(event):
    return json.loads(event["protocol"]) if isinstance(event["protocol"], str) else event["protocol"]
`)
	return r
}

// Who is not signed in is sent to sign in, and comes back to where they wanted to go; a function never sees by what
// they are known.
func TestSignedInRoute(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := guarded(s, "shop")
	s.Pushed(r, "shop", "A function for those who signed in")
	address := s.At("shop", "/api/closed?x=1&y=%2F")

	p := s.Person(t)
	first := p.Ask(http.MethodGet, address, "")
	testkit.Equal(t, "status for who is not known", first.Status, http.StatusSeeOther)
	testkit.Equal(t, "caching of the way to the sign-in", first.Header.Get("Cache-Control"), "no-store")
	if to := first.Header.Get("Location"); !strings.HasPrefix(to, s.URL+"/visit?") {
		t.Errorf("sent to %s, want the control host", to)
	}
	form, at := p.Open(address)
	if !strings.Contains(form.Body, `name="token"`) ||
		!strings.Contains(form.Header.Get("Content-Security-Policy"), "form-action 'self' http://shop.localhost:"+s.Port) {
		t.Errorf("got %s with %v, want the form, which may lead to the release", form.Body, form.Header)
	}
	answer, at := p.SignIn(at, s.Token)
	testkit.Equal(t, "where the sign-in leads", at, address)
	testkit.Equal(t, "status for who is signed in", answer.Status, http.StatusOK)
	testkit.Equal(t, "caching", answer.Header.Get("Cache-Control"), "private, no-cache")
	testkit.Equal(t, "varies", strings.Join(answer.Header.Values("Vary"), ","), "Cookie,Authorization")
	var told struct{ Headers map[string][]string }
	if err := json.Unmarshal([]byte(answer.Body), &told); err != nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	p.Cookies["shop.localhost:"+s.Port]["own"] = "mine"
	answer = p.Ask(http.MethodGet, address, "")
	if strings.Contains(answer.Body, "__Host-landfall") || !strings.Contains(answer.Body, "own=mine") {
		t.Errorf("got %s, want the function's own cookie and none of the server's", answer.Body)
	}
	for _, value := range p.Cookies["shop.localhost:"+s.Port] {
		if len(value) > 20 && strings.Contains(s.Log.String(), value) {
			t.Errorf("the server's log has a cookie")
		}
	}

	// Others are told what to send.
	program := s.Person(t)
	refused := program.Ask(http.MethodGet, address, "", "Accept", "*/*")
	testkit.Equal(t, "status for a program", refused.Status, http.StatusUnauthorized)
	testkit.Equal(t, "what a program is asked for", refused.Header.Get("WWW-Authenticate"), "Bearer")
	testkit.Equal(t, "type of a program's answer", refused.Header.Get("Content-Type"), "application/problem+json")
	for _, headers := range [][]string{{"Sec-Fetch-Dest", "iframe"}, {"Accept", "application/json"}} {
		testkit.Equal(t, "status with "+headers[1], program.Ask(http.MethodGet, address, "", headers...).Status,
			http.StatusUnauthorized)
	}
	testkit.Equal(t, "status of a POST", program.Ask(http.MethodPost, address, "").Status, http.StatusUnauthorized)
	testkit.Equal(t, "status with a wrong token",
		program.Ask(http.MethodGet, address, "", "Accept", "*/*", "Authorization", "Bearer wrong").Status, 401)
	held := program.Ask(http.MethodGet, address, "", "Authorization", "Bearer "+s.Token)
	if held.Status != http.StatusOK || strings.Contains(held.Body, s.Token) {
		t.Errorf("with a token: got %d %s, want 200 without the token", held.Status, held.Body)
	}
	byName := program.Ask(http.MethodGet, s.URL+"/r/of-shop/shop/closed", "")
	testkit.Equal(t, "status by name for who is not known", byName.Status, http.StatusUnauthorized)

	// It ends where it began.
	stopsVisit(s, p, address)
}

// stopsVisit signs out at the control host, and wants the visit to be over.
func stopsVisit(s *site.Site, p *site.Person, address string) {
	s.T.Helper()
	p.Ask(http.MethodPost, s.URL+"/sign-out", "", "Origin", s.URL)
	_, at := p.Open(address)
	if !strings.HasPrefix(at, s.URL+"/sign-in?") {
		s.T.Errorf("after the sign-out: at %s, want the sign-in", at)
	}
}

// In a real browser the whole way is gone with one form, and a page of the app can call the function.
func TestSignedInInABrowser(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	s.Pushed(guarded(s, "shop"), "shop", "A function for those who signed in")
	b := browser.NewTab(t, s, browser.Look{Script: true, Width: 1000, Scheme: "light"})
	b.Do("open the function", chromedp.Navigate(s.At("shop", "/api/closed")))
	b.Fill("#token", s.Token)
	b.Press("main form button")
	b.Until("the function's answer",
		fmt.Sprintf(`location.host === "shop.localhost:%s" && document.body.innerText.includes("GET")`, s.Port))
	testkit.Equal(t, "cookies that scripts see", browser.Value[string](b, `document.cookie`), "")
	b.Do("open the app", chromedp.Navigate(s.At("shop", "/")))
	browser.Value[bool](b, `fetch("/api/closed", {method: "POST"}).then((r) => { document.title = r.status }), true`)
	b.Until("what its page was answered", `document.title === "200"`)
}

// Releases that are not live are for those alone who signed in, when the app says so: pages, routes, and what there is
// not.
func TestSignedInPreviews(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := guarded(s, "shop")
	one := s.Pushed(r, "shop", "one")
	r.Write("site/index.html", "new page")
	two := s.Pushed(r, "shop", "two")
	old, now := "shop--"+string(one), "shop--"+string(two)
	site.WantServed(t, s, old, "/", "page of shop")

	said, code := s.Run(r.Dir, "app", "set", "shop", "--previews", "signed-in")
	testkit.Equal(t, "exit code of app set: "+said, code, 0)
	testkit.Equal(t, "previews", s.ShowApp("shop").Previews, "signed-in")
	program, p := s.Person(t), s.Person(t)
	for _, path := range []string{"/", "/api/tell", "/api/closed", "/nothing", "/app.0123456789abcdef.js", "/%ff"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			a := program.Ask(method, s.At(old, path), "", "Accept", "*/*")
			testkit.Equal(t, method+" "+path+" for a stranger", a.Status, http.StatusUnauthorized)
		}
	}
	testkit.Equal(t, "a trigger by name", program.Ask(http.MethodPost, s.URL+"/r/of-shop/shop:"+string(one)+"/open",
		"").Status, http.StatusUnauthorized)
	site.WantServed(t, s, "shop", "/", "new page")
	site.WantServed(t, s, now, "/", "new page") // it is live
	testkit.Equal(t, "a file with a token",
		program.Ask(http.MethodGet, s.At(old, "/"), "", "Authorization", "Bearer "+s.Token).Body, "page of shop")

	_, at := p.Open(s.At(old, "/?a=b"))
	answer, at := p.SignIn(at, s.Token)
	testkit.Equal(t, "where the sign-in leads", at, s.At(old, "/?a=b"))
	testkit.Equal(t, "the page", answer.Body, "page of shop")
	script := p.Ask(http.MethodGet, s.At(old, "/app.0123456789abcdef.js"), "")
	testkit.Equal(t, "caching of what else is kept for ever", script.Header.Get("Cache-Control"), "private, no-cache")
	testkit.Equal(t, "who may embed it", script.Header.Get("Cross-Origin-Resource-Policy"), "same-origin")
	testkit.Equal(t, "a public route with the app's own token", strings.Contains(
		p.Ask(http.MethodGet, s.At(old, "/api/tell"), "", "Authorization", "Bearer of-the-app").Body, "of-the-app"), true)
	testkit.Equal(t, "nothing", p.Ask(http.MethodGet, s.At(old, "/nothing"), "").Status, http.StatusNotFound)

	// Another host has another visit, and begins it without a word.
	said, code = s.Run(r.Dir, "release", "live", "shop", string(one))
	testkit.Equal(t, "exit code of release live: "+said, code, 0)
	answer, at = p.Open(s.At(now, "/"))
	testkit.Equal(t, "where it is", at, s.At(now, "/"))
	testkit.Equal(t, "the other page", answer.Body, "new page")

	s.Call(http.MethodPut, "/apps/shop/previews", client.Previews{Previews: "public"}, nil)
	site.WantServed(t, s, now, "/", "new page")
	kind := s.Refused(http.MethodPut, "/apps/shop/previews", map[string]string{"previews": "friends"})
	if !strings.Contains(kind.Message, "previews") {
		t.Errorf("got %v, want what is wrong", kind)
	}
}

// What somebody may not do who has a part of what lets others in.
func TestSignedInAdversaries(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	for _, app := range []string{"shop", "zoo"} {
		r := guarded(s, app)
		s.Pushed(r, app, "one")
	}
	shop, zoo := "shop.localhost:"+s.Port, "zoo.localhost:"+s.Port
	closed := "/api/closed"
	p := s.Person(t)
	_, at := p.Open("http://" + shop + closed)
	p.SignIn(at, s.Token)
	visit := p.Cookies[shop]["__Host-landfall-visit"]

	// code makes a code for a person who is signed in.
	code := func(of *site.Person, host string) string {
		t.Helper()
		first := of.Ask(http.MethodGet, "http://"+host+closed, "")
		second := of.Ask(http.MethodGet, first.Header.Get("Location"), "")
		u, err := url.Parse(second.Header.Get("Location"))
		if err != nil || u.Host != host || u.Path != access.PreviewPath {
			t.Fatalf("sent to %s, want %s of %s", u, access.PreviewPath, host)
		}
		return u.Query().Get("code")
	}
	begins := func(of *site.Person, host, code string) int {
		t.Helper()
		return of.Ask(http.MethodGet, "http://"+host+access.PreviewPath+"?code="+url.QueryEscape(code), "").Status
	}
	delete(p.Cookies[shop], "__Host-landfall-visit")
	good := code(p, shop)
	thief := s.Person(t)
	testkit.Equal(t, "a code of another browser without a nonce", begins(thief, shop, good), http.StatusBadRequest)
	thief.Ask(http.MethodGet, "http://"+shop+closed, "")
	testkit.Equal(t, "a code of another browser", begins(thief, shop, good), http.StatusBadRequest)
	p.Cookies[zoo] = map[string]string{"__Host-landfall-nonce": p.Cookies[shop]["__Host-landfall-nonce"]}
	testkit.Equal(t, "a code at another host", begins(p, zoo, good), http.StatusBadRequest)
	testkit.Equal(t, "a code that was changed", begins(p, shop, good+"A"), http.StatusBadRequest)
	testkit.Equal(t, "no code", begins(p, shop, ""), http.StatusBadRequest)
	testkit.Equal(t, "the session as a code", begins(p, shop, p.Cookies["localhost:"+s.Port]["__Host-landfall"]),
		http.StatusBadRequest)
	testkit.Equal(t, "the code", begins(p, shop, good), http.StatusSeeOther)
	testkit.Equal(t, "the code again", begins(p, shop, good), http.StatusBadRequest)

	// A cookie is good at its host.
	thief.Cookies[zoo] = map[string]string{"__Host-landfall-visit": visit}
	testkit.Equal(t, "the cookie of one app at another",
		thief.Ask(http.MethodGet, "http://"+zoo+closed, "", "Accept", "*/*").Status, http.StatusUnauthorized)
	testkit.Equal(t, "the session at a release", func() int {
		thief.Cookies[shop] = map[string]string{
			"__Host-landfall":       p.Cookies["localhost:"+s.Port]["__Host-landfall"],
			"__Host-landfall-visit": p.Cookies["localhost:"+s.Port]["__Host-landfall"]}
		return thief.Ask(http.MethodGet, "http://"+shop+closed, "", "Accept", "*/*").Status
	}(), http.StatusUnauthorized)

	// Pages of other hosts cannot act with it.
	for _, headers := range [][]string{
		{"Origin", "http://" + zoo}, {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest",
			"document"}, {"Origin", "null"}, {},
	} {
		testkit.Equal(t, strings.Join(headers, " "), p.Ask(http.MethodPost, "http://"+shop+closed, "", headers...).Status,
			http.StatusForbidden)
	}
	testkit.Equal(t, "a page in a frame of another app",
		p.Ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "iframe").Status, http.StatusForbidden)
	testkit.Equal(t, "a script in a page of another app",
		p.Ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors",
			"Sec-Fetch-Dest", "script").Status, http.StatusForbidden)
	testkit.Equal(t, "a link", p.Ask(http.MethodGet, "http://"+shop+closed, "", "Sec-Fetch-Site", "cross-site",
		"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document").Status, http.StatusOK)
	testkit.Equal(t, "its own page", p.Ask(http.MethodPost, "http://"+shop+closed, "", "Origin", "http://"+shop).Status,
		http.StatusOK)

	// Nobody is sent anywhere but to a release.
	challenge := "&for=sha256%3A" + strings.Repeat("0", 64)
	for _, to := range []string{
		"https://example.com/", "//example.com/", "http://example.com:" + s.Port + "/", "http://" + shop + "@example.com/",
		"http://x:y@" + shop + "/", "http://shop.localhost:1/", "https://" + shop + "/", "http://localhost:" + s.Port + "/",
		"http://127.0.0.1:" + s.Port + "/", "javascript:alert(1)", "http://shop.localhost.example.com/",
		"http://shop.localhost:" + s.Port + "//example.com/", "http://a.b.c.localhost:" + s.Port + "/", "/", "", "%zz",
	} {
		a := p.Ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape(to)+challenge, "")
		if a.Status != http.StatusBadRequest || a.Header.Get("Location") != "" {
			t.Errorf("%s: got %d to %q, want 400", to, a.Status, a.Header.Get("Location"))
		}
	}
	testkit.Equal(t, "no challenge", p.Ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape("http://"+shop+"/"),
		"").Status, http.StatusBadRequest)
	testkit.Equal(t, "an app that there is not",
		p.Ask(http.MethodGet, s.URL+"/visit?to="+url.QueryEscape("http://bank.localhost:"+s.Port+"/")+challenge, "").Status,
		http.StatusForbidden)
}

// A gateway in a process of its own knows who signed in at the control host, and who signed out.
func TestSignedInAtAnotherProcess(t *testing.T) {
	t.Parallel()
	f := forge.NewFleet(t, 1, 1)
	r := guarded(f.Site, "shop")
	f.Pushed(r, "shop", "one")
	p := f.Person(t)
	p.Ports = func(host string) string { // what a proxy before them does
		if host == "localhost" {
			return f.Port
		}
		return f.Gateways[0].Port
	}
	address := f.At("shop", "/api/closed")
	_, at := p.Open(address)
	answer, at := p.SignIn(at, f.Token)
	testkit.Equal(t, "where the sign-in leads", at, address)
	testkit.Equal(t, "status", answer.Status, http.StatusOK)
	stopsVisit(f.Site, p, address)
}
