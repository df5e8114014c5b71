package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
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
	towels := s.repository(s.app("towels"))
	towels.write("specs/app.yaml", appSpec("towels", `build: {command: "sh build.sh", outputs: [site]}`), "site/index.html", "<h1>Towels</h1>", "build.sh",
		"printf '\\033[1m> towels@1.0.0 build\\033[0m\\n\\033[36minfo\\033[0m 12 pages\\n\\033[33mwarn\\033[0m an image without a size\\n"+
			"\\033[31merror\\033[0m src/cart.js:14 total is not defined\\n'; exit 1")
	torn := towels.commit("Weave them")
	towels.push("HEAD")
	good, ok := s.runOf("shop", landfall.CommitSHA(r.git("rev-parse", "HEAD~1")))
	if !ok {
		t.Fatal("there is no run of the second push")
	}
	return s, map[string]string{
		"apps": "/", "app": "/apps/shop", "app-empty": "/apps/empty", "release": "/apps/shop/releases/" + string(second),
		"diff": "/apps/shop/diff?from=" + string(first) + "&to=" + string(second),
		"run":  "/runs/" + good.ID, "run-failed": "/runs/" + s.finished("shop", broken).ID, "run-build": "/runs/" + s.finished("towels", torn).ID,
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
			b.refuses(pages["missing"])
			for name, path := range pages {
				b.open(path)
				if l.script && value[bool](b, `"follow" in document.body.dataset`) {
					b.until("the page follows", `!document.querySelector(".following").hidden`)
				}
				b.wantUsable(name)
				b.picture(name + "-" + l.String())
			}
		})
	}
}

// What people do, they can do with and without JavaScript: from a link to a run over the sign-in to the run, and from an app
// over what a rollback changes to the rollback.
func TestPagesAreForUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one, two := s.numbered(r, "shop", 1), s.numbered(r, "shop", 2)
	run := s.finished("shop", r.head())
	for _, script := range []bool{true, false} {
		t.Run(look{script: script}.String(), func(t *testing.T) {
			s := s.in(t)
			b := s.newTab(t, look{script, 1000, "light"})
			b.open("/runs/" + run.ID)
			wantEqual(t, "where who is signed out is sent", b.path(), "/sign-in?to=%2Fruns%2F"+run.ID)
			b.refuses("/sign-in")
			b.fill("#token", "not a token")
			b.press("main form button")
			wantReads(t, b, "This token is not known.")
			b.fill("#token", s.Token)
			b.press("main form button")
			wantEqual(t, "where one is after signing in", b.path(), "/runs/"+run.ID)
			wantReads(t, b, "succeeded", "Released "+string(two), r.head().Short())

			b.open("/apps/shop")
			b.press(`a[href="/apps/shop/rollback"]`)
			wantReads(t, b, "Roll back", string(two), string(one), "/index.html")
			b.fill("#reason", "the colours were wrong")
			b.press("main form button")
			wantReads(t, b, "Live went back", "Rolled back by admin", "the colours were wrong")
			wantServed(t, s, "shop", "/", "page 1")
			wantEqual(t, "held", s.showApp("shop").Held, true)

			b.press(`a[href="/apps/shop/promote?release=` + string(two) + `"]`)
			b.press("main form button")
			wantReads(t, b, "The release is live now.")
			wantServed(t, s, "shop", "/", "page 2")
			b.press(`a[href="/apps/shop/hold"]`)
			b.press("main form button")
			wantReads(t, b, "Live is held where it is.")
			wantEqual(t, "held", s.showApp("shop").Held, true)
			b.press(`a[href="/apps/shop/resume"]`)
			b.press("main form button")
			wantEqual(t, "held", s.showApp("shop").Held, false)

			b.press(".who button")
			wantEqual(t, "where one is after signing out", b.path(), "/sign-in")
			b.open("/apps/shop")
			wantEqual(t, "where who is signed out is sent", b.path(), "/sign-in?to=%2Fapps%2Fshop")
			wantEqual(t, "the console", b.heard(), "")
		})
	}
}

// With JavaScript, pages that are open show what happens, without being loaded again.
func TestPagesFollowWhatHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("lamps")
	open := h.hold()
	t.Cleanup(open)
	commit, push := h.release("one")
	w.hears(push)

	b := w.newTab(t, look{true, 1000, "light"})
	b.signIn(w.Token)
	b.until("the apps are followed", `!document.querySelector(".following").hidden`)
	wantReads(t, b, "nothing live")
	open()
	run := w.finished("lamps", commit)
	b.until("the apps show the release", reads(string(run.Release)))

	next := h.hold()
	t.Cleanup(next)
	_, push = h.release("two")
	page := strings.TrimPrefix(w.hears(push).Runs[0], w.URL)
	b.open(page)
	b.until("the run is followed", `!document.querySelector(".following").hidden && `+reads("running"))
	next()
	b.until("the run is over", reads("succeeded")+` && document.querySelector(".following").hidden`)
	wantReads(t, b, "Released ", "1 of 1 unit changed", "commit", "upload")
	wantEqual(t, "the console", b.heard(), "")
}

// What a repository says is text, in every browser and on every page: nothing of it runs, loads, or hides.
func TestHostileRepositoryInABrowser(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror=alert(1)><script>alert(2)</script>`
	s := newSite(t)
	app := s.app("shop")
	r := s.repository(app)
	r.write("specs/app.yaml", appSpec("shop"), "site/index.html", "one", "site/"+strings.ReplaceAll(evil, "/", "-")+".html", "two")
	r.commit("One")
	r.checkout(`<svg/onload=alert(3)>"'{{1}}`)
	r.push("HEAD:refs/heads/main")
	r.write("build.sh", "printf '\\033[31m"+evil+"\\033[0m \\342\\200\\256evil\\n'", "site/"+strings.ReplaceAll(evil, "/", "-")+".html", "three",
		"specs/app.yaml", appSpec("shop", `build: {command: "sh build.sh", outputs: [site]}`))
	r.commit(evil)
	r.push("HEAD")
	run := s.finished("shop", r.head())
	wantEqual(t, "state of the run", run.State, landfall.RunSucceeded)

	b := s.newTab(t, look{true, 1000, "light"})
	b.signIn(s.Token)
	for _, path := range []string{
		"/", "/apps/shop", "/apps/shop/releases/" + string(run.Release), "/apps/shop/diff?from=live&to=" + string(run.Release),
		"/apps/shop/promote?release=" + string(run.Release), "/runs/" + run.ID,
	} {
		b.open(path)
		// N-042: markup and control characters of a branch, a message, a path and a log are inert on pages
		wantEqual(t, "what "+path+" has of theirs", value[int](b, `document.querySelectorAll("img, script:not([src^='/static/']), [onerror], [onload]").length`), 0)
		if text := b.text(); strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("%s has control characters: %q", path, text)
		}
		b.wantUsable(path)
	}
	wantReads(t, b, evil, `\u202eevil`, "<-script>.html", `<svg/onload=alert(3)>"'{{1}}`)
	wantEqual(t, "the colour of the log", value[string](b, `document.querySelector(".log .fg1").textContent`), evil)
}

// A token that may only look can look, and change nothing.
func TestPagesOfAReader(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	s.stop()
	db, err := s.openState()
	if err != nil {
		t.Fatal(err)
	}
	const reader = "a token that may look and not touch, and is long"
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		return tx.PutToken(t.Context(), store.Token{Hash: landfall.DigestOf([]byte(reader)), Name: "reader", Scope: store.ScopeRead})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s.start()

	b := s.newTab(t, look{false, 1000, "light"})
	b.signIn(reader)
	b.open("/apps/shop")
	wantReads(t, b, string(two))
	wantEqual(t, "buttons", value[int](b, `document.querySelectorAll("main a.button, main button").length`), 0)
	b.open("/apps/shop/rollback")
	wantReads(t, b, "Your token may look at shop, and not change it.")
	wantServed(t, s, "shop", "/", "page 2")
}

// The pages are the control host's alone: releases have none, and get no session.
func TestPagesAreOfTheControlHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.numbered(s.static("shop"), "shop", 1)
	for _, path := range []string{"/sign-in", "/apps/shop", "/runs/1"} {
		p := s.get(s.at("shop", path))
		if p.status != http.StatusNotFound || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%s of a release: got %d with %v, want 404", path, p.status, p.header)
		}
	}
}

// reads is an expression: the page says text.
func reads(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// wantReads fails the test unless a person reads every part on the page.
func wantReads(t *testing.T, b *tab, parts ...string) {
	t.Helper()
	text := b.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: got no %q in:\n%s", b.path(), part, text)
		}
	}
}
