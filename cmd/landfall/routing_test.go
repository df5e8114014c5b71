package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/store/storetest"
)

// A trigger may have more than its type says, which nobody looks at. The app answers, and so do the others.
func TestRoutesOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	odd, shop := s.repository(s.app("odd")), s.repository(s.app("shop"))
	specs := strings.Replace(functionsSpec("python-env", "hello hello.main"),
		"type: name, name: hello", `type: name, name: hello, functionweights: {"a/b/c:": 100}`, 1)
	odd.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("odd"), "site/index.html", "odd page", "hello/hello.py", "def main():\n    return 'odd'\n")
	s.pushed(odd, "odd", "A trigger with weights beside a name")
	wantEqual(t, "answer", s.get(s.at("odd", "/api/hello")).body, "odd")
	shop.write("specs/app.yaml", appSpec("shop"), "site/index.html", "page")
	s.pushed(shop, "shop", "A page")
	wantServed(t, s, "shop", "/", "page")
	s.stop()
	s.start()
	wantServed(t, s, "shop", "/", "page")
}

// Whatever is stored of a release's functions, only the routes that it concerns fail.
func TestUnreadableFunctions(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, engineOf(t, "sqlite+folder"))
	odd, shop := s.repository(s.app("odd")), s.repository(s.app("shop"))
	shop.write("specs/app.yaml", appSpec("shop"), "site/index.html", "page")
	s.pushed(shop, "shop", "A page")
	odd.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("odd", "config: {a: b}"),
		"site/index.html", "odd page", "hello/hello.py", "def main():\n    return 'odd'\n")
	s.pushed(odd, "odd", "A function")
	for _, c := range []struct {
		kind, column, broken string
		status               int
	}{
		{"http-trigger", "spec", `{"functionref": 7}`, http.StatusNotFound},
		{"function", "spec", `{"environment": 7}`, http.StatusBadGateway},
		{"function", "spec", `{"concurrency": -1}`, http.StatusBadGateway},
		{"function", "content", `{"package": {"resourceVersion": "x"}}`, http.StatusBadGateway},
		{"function", "content", `7`, http.StatusBadGateway},
		{"package", "content", `7`, http.StatusBadGateway},
		{"environment", "spec", `{"runtime": 7}`, http.StatusBadGateway},
		{"config", "spec", `[7]`, http.StatusBadGateway},
	} {
		was := s.replaced(c.kind, c.column, c.broken)
		wantServed(t, s, "shop", "/", "page")
		wantServed(t, s, "odd", "/", "odd page")
		wantEqual(t, "status with the "+c.column+" "+c.broken+" of the "+c.kind, s.get(s.at("odd", "/api/hello")).status, c.status)
		s.replaced(c.kind, c.column, was)
	}
	wantEqual(t, "answer", s.get(s.at("odd", "/api/hello")).body, "odd")
}

// An app of which a row cannot be read when the server starts is not served, and says so; the others are.
func TestStartWithAnAppThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, engineOf(t, "sqlite+folder"))
	odd := s.static("odd")
	odd.write("site/index.html", "odd page")
	s.pushed(odd, "odd", "A page")
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello main.main"), "hello/main.py", "def main():\n    return 'hello'\n")
	s.pushed(r, "shop", "A function")
	was := s.replaced("static", "content", "7")
	wantEqual(t, "another app", s.get(s.at("shop", "/api/hello")).body, "hello")
	broken := s.get(s.at("odd", "/"))
	wantEqual(t, "status of the app", broken.status, http.StatusServiceUnavailable)
	wantEqual(t, "when to come again", broken.header.Get("Retry-After"), "2")
	wantText(t, s.log, "an app cannot be read", `"app":"odd"`)
	fired := s.send("POST", s.URL+"/fire", eventFrom("/r/default/odd/any"), "Content-Type", oneEvent)
	wantEqual(t, "status of an event for it", fired.status, http.StatusServiceUnavailable)
	s.replaced("static", "content", was)
	wantServed(t, s, "odd", "/", "odd page")
}

// replaced replaces what is stored of the only version of a kind while the server is stopped, and returns what it was.
func (s *site) replaced(kind, column, by string) (was string) {
	s.t.Helper()
	s.stop()
	was = storetest.Replace(s.t, filepath.Join(s.data, "landfall.db"), kind, column, by)
	s.start()
	return was
}
