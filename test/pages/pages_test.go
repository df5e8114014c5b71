package pages_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/browser"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// museum is a site that has something to show on every page, and the addresses of these.
func museum(t *testing.T) (s *site.Site, pages map[string]string) {
	t.Helper()
	s = site.New(t)
	shop := s.App("shop")
	s.App("empty")
	r := s.Repository(shop)
	r.CopyTree("../../testdata/apps/shop")
	first := s.Pushed(r, "shop", "Open the shop")
	r.Write("site/index.html", "<h1>Winter</h1>")
	second := s.Pushed(r, "shop", "Winter comes")
	r.Checkout("feature/lamps")
	r.Write("site/lamps.html", "<h1>Lamps</h1>")
	s.Pushed(r, "shop",
		"A page for lamps that has a long title, since people write long titles, and no two of them write the same")
	r.Checkout("main")
	r.Write("specs/app.yaml", "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  statics: []\n")
	broken := r.Commit("A word too many")
	r.Push("HEAD")
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(first)}, nil)
	s.Call(http.MethodPost, "/apps/shop/rollback", map[string]string{"reason": "the checkout was broken"}, nil)
	towels := s.Repository(s.App("towels"))
	towels.Write("specs/app.yaml", site.AppSpec("towels", `build: {command: "sh build.sh", outputs: [site]}`),
		"site/index.html", "<h1>Towels</h1>", "build.sh",
		"printf '\\033[1m> towels@1.0.0 build\\033[0m\\n\\033[36minfo\\033[0m 12 pages\\n\\033[33mwarn\\033[0m an image "+
			"without a size\\n"+
			"\\033[31merror\\033[0m src/cart.js:14 total is not defined\\n'; exit 1")
	torn := towels.Commit("Weave them")
	towels.Push("HEAD")
	good, ok := s.RunOf("shop", landfall.CommitSHA(r.Git("rev-parse", "HEAD~1")))
	if !ok {
		t.Fatal("there is no run of the second push")
	}
	return s, map[string]string{
		"apps": "/", "app": "/apps/shop", "app-empty": "/apps/empty", "release": "/apps/shop/releases/" + string(second),
		"diff":  "/apps/shop/diff?from=" + string(first) + "&to=" + string(second),
		"state": "/apps/shop/state?at=" + string(second),
		"run":   "/runs/" + good.ID, "run-failed": "/runs/" + s.Finished("shop", broken).ID,
		"run-build": "/runs/" + s.Finished("towels", torn).ID,
		"import":    "/apps/shop/import",
		"promote":   "/apps/shop/promote?release=" + string(second),
		"rollback":  "/apps/shop/rollback?release=" + string(second), "resume": "/apps/shop/resume",
		"missing": "/nothing/of/the/kind",
	}
}

// Every page, with and without JavaScript, narrow and wide, light and dark: nothing is said in the console, nothing
// scrolls sideways, every control has a name. The pictures are in build/pages.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	s, pages := museum(t)
	for _, l := range browser.Looks() {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := browser.NewTab(t, s, l)
			b.Open("/sign-in")
			b.WantUsable("sign-in")
			b.Picture("sign-in-" + l.String())
			b.SignIn(s.Token)
			testkit.Equal(t, "where one is after signing in", b.Path(), "/")
			b.Refuses(pages["missing"])
			for name, path := range pages {
				b.Open(path)
				if l.Script && browser.Value[bool](b, `"follow" in document.body.dataset`) {
					b.Until("the page follows", `!document.querySelector(".following").hidden`)
				}
				b.WantUsable(name)
				b.Picture(name + "-" + l.String())
			}
		})
	}
}

// What people do, they can do with and without JavaScript: from a link to a run over the sign-in to the run, and from
// an app over what a rollback changes to the rollback.
func TestPagesAreForUse(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one, two := s.Numbered(r, "shop", 1), s.Numbered(r, "shop", 2)
	run := s.Finished("shop", r.Head())
	for _, script := range []bool{true, false} {
		t.Run(browser.Look{Script: script}.String(), func(t *testing.T) {
			s := s.In(t)
			b := browser.NewTab(t, s, browser.Look{Script: script, Width: 1000, Scheme: "light"})
			b.Open("/runs/" + run.ID)
			testkit.Equal(t, "where who is signed out is sent", b.Path(), "/sign-in?to=%2Fruns%2F"+run.ID)
			b.Refuses("/sign-in")
			b.Fill("#token", "not a token")
			b.Press("main form button")
			wantReads(t, b, "This token is not known.")
			b.Fill("#token", s.Token)
			b.Press("main form button")
			testkit.Equal(t, "where one is after signing in", b.Path(), "/runs/"+run.ID)
			wantReads(t, b, "succeeded", "Released "+string(two), r.Head().Short())

			b.Open("/apps/shop")
			b.Press(`a[href="/apps/shop/rollback"]`)
			wantReads(t, b, "Roll back", string(two), string(one), "/index.html")
			b.Fill("#reason", "the colours were wrong")
			b.Press("main form button")
			wantReads(t, b, "Live went back", "Rolled back by admin", "the colours were wrong")
			site.WantServed(t, s, "shop", "/", "page 1")
			testkit.Equal(t, "held", s.ShowApp("shop").Held, true)

			b.Press(`a[href="/apps/shop/promote?release=` + string(two) + `"]`)
			b.Press("main form button")
			wantReads(t, b, "The release is live now.")
			site.WantServed(t, s, "shop", "/", "page 2")
			b.Press(`a[href="/apps/shop/hold"]`)
			b.Press("main form button")
			wantReads(t, b, "Live is held where it is.")
			testkit.Equal(t, "held", s.ShowApp("shop").Held, true)
			b.Press(`a[href="/apps/shop/resume"]`)
			b.Press("main form button")
			testkit.Equal(t, "held", s.ShowApp("shop").Held, false)

			b.Press(".who button")
			testkit.Equal(t, "where one is after signing out", b.Path(), "/sign-in")
			b.Open("/apps/shop")
			testkit.Equal(t, "where who is signed out is sent", b.Path(), "/sign-in?to=%2Fapps%2Fshop")
			testkit.Equal(t, "the console", b.Heard(), "")
		})
	}
}

// A release's page has its archive, which is what the command writes.
func TestExportOfPages(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	page := s.URL + "/apps/shop/releases/" + string(s.Numbered(s.Static("shop"), "shop", 1))
	testkit.Contains(t, site.Told{s.ReadAs(page).Body}, `href="`+strings.TrimPrefix(page, s.URL)+`/export" download`)
	archive := s.ReadAs(page + "/export")
	testkit.Equal(t, "type", archive.Header.Get("Content-Type"), "application/x-tar")
	file := filepath.Join(t.TempDir(), "shop.tar")
	s.Landfall("release", "export", "shop", "live", file)
	testkit.Equal(t, "the archive", archive.Body == string(testkit.Must(os.ReadFile(file))(t)), true)
	testkit.Contains(t, site.Told{s.Get(page + "/export").Body}, "Sign in")
	testkit.Equal(t, "of no release", s.ReadAs(page+"x/export").Status, http.StatusNotFound)
}

// A release is imported by a form, and what is no archive is refused with a sentence, and changes nothing.
func TestImportOfPages(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	s.Numbered(r, "shop", 1)
	s.App("store")
	folder := t.TempDir()
	archive, damaged := filepath.Join(folder, "shop.tar"), filepath.Join(folder, "damaged.tar")
	s.Landfall("release", "export", "shop", "live", archive)
	if err := os.WriteFile(damaged, testkit.Must(os.ReadFile(archive))(t)[:2000], 0o600); err != nil {
		t.Fatal(err)
	}

	b := browser.NewTab(t, s, browser.Look{Script: false, Width: 1000, Scheme: "light"})
	b.SignIn(s.Token)
	b.Open("/apps/store")
	b.Press(`a[href="/apps/store/import"]`)
	b.WantUsable("import")
	b.Refuses("/apps/store/import")
	b.Choose("#archive", damaged)
	b.Press("main form button")
	wantReads(t, b, "Bad Request", "the archive ")
	testkit.Equal(t, "what is live", s.ShowApp("store").Live, "")

	b.Open("/apps/store/import")
	b.Choose("#archive", archive)
	b.Press("main form button")
	wantReads(t, b, "was imported", "It was made of shop, and answers at its own address")
	b.Press("main a.primary")
	wantReads(t, b, "Release ", "Promote")
	testkit.Equal(t, "what is live", s.ShowApp("store").Live, "")

	b.Open("/apps/store/import")
	b.Do("tick", chromedp.Click("input[name=live]"))
	b.Choose("#archive", archive)
	b.Press("main form button")
	wantReads(t, b, "was imported", "is live now")
	site.WantServed(t, s, "store", "/", "page 1")
}

// With JavaScript, pages that are open show what happens, without being loaded again.
func TestPagesFollowWhatHappens(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("lamps")
	open := h.Hold()
	t.Cleanup(open)
	commit, push := h.Release("one")
	w.Hears(push)

	b := browser.NewTab(t, w.Site, browser.Look{Script: true, Width: 1000, Scheme: "light"})
	b.SignIn(w.Token)
	b.Until("the apps are followed", `!document.querySelector(".following").hidden`)
	wantReads(t, b, "nothing live")
	open()
	run := w.Finished("lamps", commit)
	b.Until("the apps show the release", reads(string(run.Release)))

	next := h.Hold()
	t.Cleanup(next)
	_, push = h.Release("two")
	page := strings.TrimPrefix(w.Hears(push).Runs[0], w.URL)
	b.Open(page)
	b.Until("the run is followed", `!document.querySelector(".following").hidden && `+reads("running"))
	next()
	b.Until("the run is over", reads("succeeded")+` && document.querySelector(".following").hidden`)
	wantReads(t, b, "Released ", "1 of 1 unit changed", "commit", "upload")
	testkit.Equal(t, "the console", b.Heard(), "")
}

// What a repository says is text, in every browser and on every page: nothing of it runs, loads, or hides.
func TestHostileRepositoryInABrowser(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror=alert(1)><script>alert(2)</script>`
	s := site.New(t)
	app := s.App("shop")
	r := s.Repository(app)
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "one",
		"site/"+strings.ReplaceAll(evil, "/", "-")+".html", "two")
	r.Commit("One")
	r.Checkout(`<svg/onload=alert(3)>"'{{1}}`)
	r.Push("HEAD:refs/heads/main")
	r.Write("build.sh", "printf '\\033[31m"+evil+"\\033[0m \\342\\200\\256evil\\n'",
		"site/"+strings.ReplaceAll(evil, "/", "-")+".html", "three", "specs/app.yaml",
		site.AppSpec("shop", `build: {command: "sh build.sh", outputs: [site]}`))
	r.Commit(evil)
	r.Push("HEAD")
	run := s.Finished("shop", r.Head())
	testkit.Equal(t, "state of the run", run.State, landfall.RunSucceeded)

	b := browser.NewTab(t, s, browser.Look{Script: true, Width: 1000, Scheme: "light"})
	b.SignIn(s.Token)
	for _, path := range []string{
		"/", "/apps/shop", "/apps/shop/releases/" + string(run.Release),
		"/apps/shop/diff?from=live&to=" + string(run.Release), "/apps/shop/state?at=" + string(run.Release),
		"/apps/shop/promote?release=" + string(run.Release),
		"/runs/" + run.ID,
	} {
		b.Open(path)
		// N-042: markup and control characters of a branch, a message, a path and a log are inert on pages
		testkit.Equal(t, "what "+path+" has of theirs", browser.Value[int](b,
			`document.querySelectorAll("img, script:not([src^='/static/']), [onerror], [onload]").length`), 0)
		if text := b.Text(); strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("%s has control characters: %q", path, text)
		}
		b.WantUsable(path)
	}
	wantReads(t, b, evil, `\u202eevil`, "<-script>.html", `<svg/onload=alert(3)>"'{{1}}`)
	testkit.Equal(t, "the colour of the log",
		browser.Value[string](b, `document.querySelector(".log .fg1").textContent`), evil)
}

// A token that may only look can look, and change nothing.
func TestPagesOfAReader(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one, two := s.Numbered(r, "shop", 1), s.Numbered(r, "shop", 2)
	var reader client.MadeToken
	s.Call(http.MethodPost, "/tokens", client.NewToken{Name: "reader", Scope: landfall.ScopeRead}, &reader)

	b := browser.NewTab(t, s, browser.Look{Script: false, Width: 1000, Scheme: "light"})
	b.SignIn(reader.Text)
	b.Open("/apps/shop")
	wantReads(t, b, string(two))
	testkit.Equal(t, "buttons", browser.Value[int](b, `document.querySelectorAll("main a.button, main button").length`), 0)
	b.Press(`a[href="/apps/shop/state"]`)
	b.Fill("input[name=at]", string(one))
	b.Press("main form button")
	wantReads(t, b, "What was in force of shop", string(one), "In force since")
	b.Open("/apps/shop/rollback")
	wantReads(t, b, "Your token may look at shop, and not change it.")
	site.WantServed(t, s, "shop", "/", "page 2")
}

// The pages are the control host's alone: releases have none, and get no session.
func TestPagesAreOfTheControlHost(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	s.Numbered(s.Static("shop"), "shop", 1)
	for _, path := range []string{"/sign-in", "/apps/shop", "/runs/1"} {
		p := s.Get(s.At("shop", path))
		if p.Status != http.StatusNotFound || p.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s of a release: got %d with %v, want 404", path, p.Status, p.Header)
		}
	}
}

// reads is an expression: the page says text.
func reads(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// wantReads fails the test unless a person reads every part on the page.
func wantReads(t *testing.T, b *browser.Tab, parts ...string) {
	t.Helper()
	text := b.Text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: got no %q in:\n%s", b.Path(), part, text)
		}
	}
}
