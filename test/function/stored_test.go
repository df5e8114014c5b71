package function_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A trigger may have more than its type says, which nobody looks at. The app answers, and so do the others.
func TestRoutesOfOthers(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	odd, shop := s.Repository(s.App("odd")), s.Repository(s.App("shop"))
	specs := strings.Replace(site.FunctionsSpec("python-env", "hello hello.main"),
		"type: name, name: hello", `type: name, name: hello, functionweights: {"a/b/c:": 100}`, 1)
	odd.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("odd"), "site/index.html", "odd page",
		"hello/hello.py", "def main():\n    return 'odd'\n")
	s.Pushed(odd, "odd", "A trigger with weights beside a name")
	testkit.Equal(t, "answer", s.Get(s.At("odd", "/api/hello")).Body, "odd")
	shop.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	s.Pushed(shop, "shop", "A page")
	site.WantServed(t, s, "shop", "/", "page")
	s.Stop()
	s.Start()
	site.WantServed(t, s, "shop", "/", "page")
}

// Whatever is stored of a release's functions, only the routes that it concerns fail.
func TestUnreadableFunctions(t *testing.T) {
	t.Parallel()
	s := site.NewOn(t, site.EngineOf(t, "sqlite+folder"))
	odd, shop := s.Repository(s.App("odd")), s.Repository(s.App("shop"))
	shop.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	s.Pushed(shop, "shop", "A page")
	odd.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("odd", "config: {a: b}"),
		"site/index.html", "odd page", "hello/hello.py", "def main():\n    return 'odd'\n")
	s.Pushed(odd, "odd", "A function")
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
		was := replaced(s, c.kind, c.column, c.broken)
		site.WantServed(t, s, "shop", "/", "page")
		site.WantServed(t, s, "odd", "/", "odd page")
		testkit.Equal(t, "status with the "+c.column+" "+c.broken+" of the "+c.kind,
			s.Get(s.At("odd", "/api/hello")).Status, c.status)
		replaced(s, c.kind, c.column, was)
	}
	testkit.Equal(t, "answer", s.Get(s.At("odd", "/api/hello")).Body, "odd")
}

// An app of which a row cannot be read when the server starts is not served, and says so; the others are.
func TestStartWithAnAppThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := site.NewOn(t, site.EngineOf(t, "sqlite+folder"))
	odd := s.Static("odd")
	odd.Write("site/index.html", "odd page")
	s.Pushed(odd, "odd", "A page")
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello main.main"), "hello/main.py",
		"def main():\n    return 'hello'\n")
	s.Pushed(r, "shop", "A function")
	was := replaced(s, "static", "content", "7")
	testkit.Equal(t, "another app", s.Get(s.At("shop", "/api/hello")).Body, "hello")
	broken := s.Get(s.At("odd", "/"))
	testkit.Equal(t, "status of the app", broken.Status, http.StatusServiceUnavailable)
	testkit.Equal(t, "when to come again", broken.Header.Get("Retry-After"), "2")
	testkit.Contains(t, s.Log, "an app cannot be read", `"app":"odd"`)
	fired := s.Send("POST", s.URL+"/fire", site.EventFrom("/r/default/odd/any"), "Content-Type", site.OneEvent)
	testkit.Equal(t, "status of an event for it", fired.Status, http.StatusServiceUnavailable)
	replaced(s, "static", "content", was)
	site.WantServed(t, s, "odd", "/", "odd page")
}

// replaced replaces what is stored of the only version of a kind while the server is stopped, and returns what it was.
func replaced(s *site.Site, kind, column, by string) (was string) {
	s.T.Helper()
	s.Stop()
	was = storetest.Replace(s.T, filepath.Join(s.Data, "landfall.db"), kind, column, by)
	s.Start()
	return was
}
