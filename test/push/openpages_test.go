package push_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// wantNoFile fails the test unless the live address of the shop has nothing at path.
func wantNoFile(t *testing.T, s *site.Site, why, path string) {
	t.Helper()
	testkit.Equal(t, why+": status of "+path, s.Get(s.At("shop", path)).Status, http.StatusNotFound)
}

// Somebody has a page open while two pushes come and one of them is gone back from. The page goes on working, until its
// release expires.
func TestOpenPagesOutliveAPush(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page 1", "site/js/about.js", "script 1",
		"site/theme.css", "style 1", "site/old.html", "old page", "site/keys.txt", "no file of a page",
		"site/js/about.js.map", "{}")
	one := s.Pushed(r, "shop", "One")
	r.Git("checkout", "--quiet", "-b", "feature")
	r.Write("site/js/preview.js", "never live")
	s.Pushed(r, "shop", "Preview")
	r.Git("checkout", "--quiet", "main")
	r.Git("rm", "--quiet", "-r", "site/js", "site/theme.css", "site/old.html", "site/keys.txt")
	r.Write("site/index.html", "page 2", "site/js/home.js", "script 2")
	two := s.Pushed(r, "shop", "Two")

	// K-003: an open page loads what its release had and the live one has not, whatever its name
	site.WantServed(t, s, "shop", "/js/about.js", "script 1")
	site.WantServed(t, s, "shop", "/theme.css", "style 1")
	p := s.Get(s.At("shop", "/js/about.js"))
	testkit.Equal(t, "release of the script", p.Header.Get("Landfall-Release"), string(one))
	testkit.Equal(t, "caching of a name without a hash", p.Header.Get("Cache-Control"),
		"public, max-age=0, must-revalidate")
	site.WantServed(t, s, "shop", "/js/home.js", "script 2")
	site.WantServed(t, s, "shop", "/", "page 2")
	for _, path := range []string{"/old.html", "/old", "/keys.txt", "/js/about.js.map", "/js/preview.js"} {
		// K-003: no page, no source map, nothing that was never live
		wantNoFile(t, s, "what is no file of an open page", path)
	}

	// A release that was gone back from was live, too.
	said, code := s.Run(r.Dir, "release", "rollback", "shop")
	testkit.Equal(t, "exit code of release rollback: "+said, code, 0)
	site.WantServed(t, s, "shop", "/js/about.js", "script 1")
	site.WantServed(t, s, "shop", "/js/home.js", "script 2")
	testkit.Equal(t, "release of the newer script", s.Get(s.At("shop", "/js/home.js")).Header.Get("Landfall-Release"),
		string(two))

	said, code = s.Run(r.Dir, "release", "untag", "shop", "branch-main")
	testkit.Equal(t, "exit code of release untag: "+said, code, 0)
	// K-003: ended by expiry, at once
	said, code = s.Run(r.Dir, "release", "expire", "shop", string(two))
	testkit.Equal(t, "exit code of release expire: "+said, code, 0)
	wantNoFile(t, s, "after the expiry", "/js/home.js")
	site.WantServed(t, s, "shop", "/js/about.js", "script 1")
	testkit.Equal(t, "made accessible again", reach(s, "shop", string(two)), two)
	site.WantServed(t, s, "shop", "/js/home.js", "script 2")
}

// How long old files stay is said by the app, or by a commit of the production branch, which goes before.
func TestKeepFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	set := func(age string) (string, int) { return s.Run(r.Dir, "app", "set", "shop", "--keep-files", age) }
	shown := func() landfall.Age { return s.ShowApp("shop").KeepFiles }
	testkit.Equal(t, "without a word", shown(), "24h")

	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page 1", "site/one.js", "script 1")
	s.Pushed(r, "shop", "One")
	r.Git("rm", "--quiet", "site/one.js")
	r.Write("site/index.html", "page 2")
	s.Pushed(r, "shop", "Two")
	site.WantServed(t, s, "shop", "/one.js", "script 1")
	said, code := set("0")
	testkit.Equal(t, "exit code of app set: "+said, code, 0)
	testkit.Contains(t, site.Told{said}, "keep files:", "0")
	wantNoFile(t, s, "with 0", "/one.js")
	_, _ = set("7d")
	site.WantServed(t, s, "shop", "/one.js", "script 1")
	for _, wrong := range []string{"a day", "-1h", "24"} {
		said, code := set(wrong)
		testkit.Equal(t, "exit code of a wrong time: "+said, code, 2)
		testkit.Contains(t, site.Told{said}, wrong, "24h")
	}
	testkit.Equal(t, "after wrong times", shown(), "7d")

	// A branch cannot say it; production can, until a commit says nothing.
	r.Git("checkout", "--quiet", "-b", "feature")
	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {keep_files: 0}"))
	s.Pushed(r, "shop", "A branch")
	site.WantServed(t, s, "shop", "/one.js", "script 1")
	r.Git("checkout", "--quiet", "main")
	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {keep_files: 0}"))
	s.Pushed(r, "shop", "Three")
	testkit.Equal(t, "as production says", shown(), "0")
	wantNoFile(t, s, "with 0 in the spec", "/one.js")
	said, _ = set("30d")
	testkit.Contains(t, site.Told{said}, "release.keep_files in the spec of shop is 0 and goes before; 30d holds once")
	testkit.Equal(t, "as production still says", shown(), "0")
	r.Write("specs/app.yaml", site.AppSpec("shop"))
	s.Pushed(r, "shop", "Four")
	testkit.Equal(t, "as the app says again", shown(), "30d")
	site.WantServed(t, s, "shop", "/one.js", "script 1")

	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {keep_files: for ever}"))
	r.Commit("Wrong")
	if lines := r.Push("HEAD").String(); !strings.Contains(lines,
		`release.keep_files is "for ever"; it must be a length of time such as 24h or 7d, or 0 for never`) {
		t.Errorf("got %s, want what is wrong with the time", lines)
	}
}
