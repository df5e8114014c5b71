package main

import (
	"net/http"
	"testing"

	"landfall.dev/landfall"
)

// museum is a site that has something to show on every page, and the addresses of these.
func museum(t *testing.T) (s *site, pages map[string]string) {
	t.Helper()
	s = newSite(t)
	shop := s.app("shop")
	s.app("empty")
	r := s.repository(shop)
	r.copyTree("../../testdata/apps/shop")
	first := s.pushed(r, "shop", "Open the shop")
	r.write("site/index.html", "<h1>Winter</h1>")
	second := s.pushed(r, "shop", "Winter comes")
	r.checkout("feature/lamps")
	r.write("site/lamps.html", "<h1>Lamps</h1>")
	s.pushed(r, "shop", "A page for lamps that has a long title, since people write long titles, and no two of them write the same")
	r.checkout("main")
	r.write("specs/app.yaml", "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  statics: []\n")
	broken := r.commit("A word too many")
	r.push("HEAD")
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(first)}, nil)
	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{"reason": "the checkout was broken"}, nil)
	good, ok := s.runOf("shop", landfall.CommitSHA(r.git("rev-parse", "HEAD~1")))
	if !ok {
		t.Fatal("there is no run of the second push")
	}
	return s, map[string]string{
		"apps": "/", "app": "/apps/shop", "app-empty": "/apps/empty", "release": "/apps/shop/releases/" + string(second),
		"diff": "/apps/shop/diff?from=" + string(first) + "&to=" + string(second),
		"run":  "/runs/" + good.ID, "run-failed": "/runs/" + s.finished("shop", broken).ID,
		"promote": "/apps/shop/promote?release=" + string(second), "rollback": "/apps/shop/rollback?release=" + string(second), "resume": "/apps/shop/resume",
		"missing": "/nothing/of/the/kind",
	}
}

// Every page, with and without JavaScript, narrow and wide, light and dark: nothing is said in the console, nothing scrolls
// sideways, every control has a name. The pictures are in build/pages.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	s, pages := museum(t)
	for _, l := range looks() {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := s.newTab(t, l)
			b.open("/sign-in")
			b.wantUsable("sign-in")
			b.picture("sign-in-" + l.String())
			b.signIn(s.Token)
			wantEqual(t, "where one is after signing in", b.path(), "/")
			for name, path := range pages {
				b.open(path)
				if l.script && value[bool](b, `"follow" in document.body.dataset`) {
					b.until("the page follows", `!document.querySelector(".following").hidden`)
				}
				if name == "missing" {
					b.heard() // Chromium says that it is 404
				}
				b.wantUsable(name)
				b.picture(name + "-" + l.String())
			}
		})
	}
}
