package main

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// wantNoFile fails the test unless the live address of the shop has nothing at path.
func wantNoFile(t *testing.T, s *site, why, path string) {
	t.Helper()
	wantEqual(t, why+": status of "+path, s.get(s.at("shop", path)).status, http.StatusNotFound)
}

// Somebody has a page open while two pushes come and one of them is gone back from. The page goes on working, until its release expires.
func TestOpenPagesOutliveAPush(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", appSpec("shop"), "site/index.html", "page 1", "site/js/about.js", "script 1", "site/theme.css", "style 1",
		"site/old.html", "old page", "site/keys.txt", "no file of a page", "site/js/about.js.map", "{}")
	one := s.pushed(r, "shop", "One")
	r.git("checkout", "--quiet", "-b", "feature")
	r.write("site/js/preview.js", "never live")
	s.pushed(r, "shop", "Preview")
	r.git("checkout", "--quiet", "main")
	r.git("rm", "--quiet", "-r", "site/js", "site/theme.css", "site/old.html", "site/keys.txt")
	r.write("site/index.html", "page 2", "site/js/home.js", "script 2")
	two := s.pushed(r, "shop", "Two")

	// K-003: an open page loads what its release had and the live one has not, whatever its name
	wantServed(t, s, "shop", "/js/about.js", "script 1")
	wantServed(t, s, "shop", "/theme.css", "style 1")
	p := s.get(s.at("shop", "/js/about.js"))
	wantEqual(t, "release of the script", p.header.Get("Landfall-Release"), string(one))
	wantEqual(t, "caching of a name without a hash", p.header.Get("Cache-Control"), "public, max-age=0, must-revalidate")
	wantServed(t, s, "shop", "/js/home.js", "script 2")
	wantServed(t, s, "shop", "/", "page 2")
	for _, path := range []string{"/old.html", "/old", "/keys.txt", "/js/about.js.map", "/js/preview.js"} {
		// K-003: no page, no source map, nothing that was never live
		wantNoFile(t, s, "what is no file of an open page", path)
	}

	// A release that was gone back from was live, too.
	said, code := s.run(r.dir, "release", "rollback", "shop")
	wantEqual(t, "exit code of release rollback: "+said, code, 0)
	wantServed(t, s, "shop", "/js/about.js", "script 1")
	wantServed(t, s, "shop", "/js/home.js", "script 2")
	wantEqual(t, "release of the newer script", s.get(s.at("shop", "/js/home.js")).header.Get("Landfall-Release"), string(two))

	said, code = s.run(r.dir, "release", "untag", "shop", "branch-main")
	wantEqual(t, "exit code of release untag: "+said, code, 0)
	// K-003: ended by expiry, at once
	said, code = s.run(r.dir, "release", "expire", "shop", string(two))
	wantEqual(t, "exit code of release expire: "+said, code, 0)
	wantNoFile(t, s, "after the expiry", "/js/home.js")
	wantServed(t, s, "shop", "/js/about.js", "script 1")
	wantEqual(t, "made accessible again", s.reach("shop", string(two)), two)
	wantServed(t, s, "shop", "/js/home.js", "script 2")
}

// How long old files stay is said by the app, or by a commit of the production branch, which goes before.
func TestKeepFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	set := func(age string) (string, int) { return s.run(r.dir, "app", "set", "shop", "--keep-files", age) }
	shown := func() landfall.Age { return s.showApp("shop").KeepFiles }
	wantEqual(t, "without a word", shown(), "24h")

	r.write("specs/app.yaml", appSpec("shop"), "site/index.html", "page 1", "site/one.js", "script 1")
	s.pushed(r, "shop", "One")
	r.git("rm", "--quiet", "site/one.js")
	r.write("site/index.html", "page 2")
	s.pushed(r, "shop", "Two")
	wantServed(t, s, "shop", "/one.js", "script 1")
	said, code := set("0")
	wantEqual(t, "exit code of app set: "+said, code, 0)
	wantText(t, told{said}, "keep files:", "0")
	wantNoFile(t, s, "with 0", "/one.js")
	_, _ = set("7d")
	wantServed(t, s, "shop", "/one.js", "script 1")
	for _, wrong := range []string{"a day", "-1h", "24"} {
		said, code := set(wrong)
		wantEqual(t, "exit code of a wrong time: "+said, code, 2)
		wantText(t, told{said}, wrong, "24h")
	}
	wantEqual(t, "after wrong times", shown(), "7d")

	// A branch cannot say it; production can, until a commit says nothing.
	r.git("checkout", "--quiet", "-b", "feature")
	r.write("specs/app.yaml", appSpec("shop", "release: {keep_files: 0}"))
	s.pushed(r, "shop", "A branch")
	wantServed(t, s, "shop", "/one.js", "script 1")
	r.git("checkout", "--quiet", "main")
	r.write("specs/app.yaml", appSpec("shop", "release: {keep_files: 0}"))
	s.pushed(r, "shop", "Three")
	wantEqual(t, "as production says", shown(), "0")
	wantNoFile(t, s, "with 0 in the spec", "/one.js")
	_, _ = set("30d")
	wantEqual(t, "as production still says", shown(), "0")
	r.write("specs/app.yaml", appSpec("shop"))
	s.pushed(r, "shop", "Four")
	wantEqual(t, "as the app says again", shown(), "30d")
	wantServed(t, s, "shop", "/one.js", "script 1")

	r.write("specs/app.yaml", appSpec("shop", "release: {keep_files: for ever}"))
	r.commit("Wrong")
	if lines := r.push("HEAD").String(); !strings.Contains(lines, `release.keep_files is "for ever"; it must be a length of time such as 24h or 7d, or 0 for never`) {
		t.Errorf("got %s, want what is wrong with the time", lines)
	}
}
