package web_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// field is the value of a hidden field of a page.
func field(a answer, name string) string {
	_, rest, _ := strings.Cut(a.body, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// A release page offers to go back to what is older than the live one only, and compares what differs.
func TestReleaseBesideLive(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	selected := func(a answer) (uids []string) {
		for _, option := range strings.Split(a.body, "<option ")[1:] {
			head, _, _ := strings.Cut(option, ">")
			if uid, ok := strings.CutSuffix(head, `" selected`); ok {
				uids = append(uids, strings.TrimPrefix(uid, `value="`))
			}
		}
		return uids
	}
	wantSelected := func(path, want string) {
		t.Helper()
		a := p.get(path)
		p.want(a, http.StatusOK)
		if got := strings.Join(selected(a), " to "); got != want {
			t.Errorf("%s compares %s, want %s", path, got, want)
		}
	}
	p.want(p.get("/apps/shop/releases/aaaaaaaa"), http.StatusOK, "Promote", "Roll back to it",
		"What differs from")
	wantSelected("/apps/shop/releases/aaaaaaaa", "bbbbbbbb to aaaaaaaa")
	wantSelected("/apps/shop/releases/bbbbbbbb", "aaaaaaaa to bbbbbbbb")
	wantSelected("/apps/shop/diff", "aaaaaaaa to bbbbbbbb")

	a := p.post("/apps/shop/rollback", url.Values{"live": {"bbbbbbbb"}, "release": {"aaaaaaaa"}})
	back := p.get(a.Header.Get("Location"))
	p.want(back, http.StatusOK, "Rolled back")
	if strings.Contains(back.body, "rolled back") {
		t.Error("that live was rolled back is said twice")
	}
	newer := p.get("/apps/shop/releases/bbbbbbbb")
	p.want(newer, http.StatusOK, "Promote")
	if strings.Contains(newer.body, "Roll back") {
		t.Error("a release that is newer than live is offered as one to go back to")
	}
}

// Each move is asked for on a page of its own, which says from where to where, and done by its form.
func TestMoves(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)

	confirm := p.get("/apps/shop/rollback")
	p.want(confirm, http.StatusOK, "Roll back", "Release bbbbbbbb", "Release aaaaaaaa", "held there")
	if live, _ := p.live(); live != "bbbbbbbb" {
		t.Fatalf("looking at the page moved live to %s", live)
	}
	a := p.post("/apps/shop/rollback", url.Values{"live": {field(confirm, "live")}, "release": {field(confirm, "release")},
		"reason": {"it broke"}})
	p.want(a, http.StatusSeeOther)
	p.want(p.get(a.Header.Get("Location")), http.StatusOK, "Live went back", "it broke", "Rolled back", "by admin", "held")
	if live, held := p.live(); live != "aaaaaaaa" || !held {
		t.Errorf("after the rollback: live is %s (held: %t)", live, held)
	}
	p.want(p.get("/apps/shop/rollback"), http.StatusConflict, "no earlier live release")

	p.want(p.get("/apps/shop/resume"), http.StatusOK, "Nothing moves now")
	p.want(p.post("/apps/shop/resume", nil), http.StatusSeeOther)
	p.want(p.get("/apps/shop/hold"), http.StatusOK, "stays where it is")
	p.want(p.post("/apps/shop/hold", nil), http.StatusSeeOther)
	if live, held := p.live(); live != "aaaaaaaa" || !held {
		t.Errorf("after holding: live is %s (held: %t)", live, held)
	}

	confirm = p.get("/apps/shop/promote?release=bbbbbbbb")
	p.want(p.post("/apps/shop/promote", url.Values{"live": {field(confirm, "live")},
		"release": {field(confirm, "release")}}), http.StatusSeeOther)
	if live, held := p.live(); live != "bbbbbbbb" || held {
		t.Errorf("after the promotion: live is %s (held: %t)", live, held)
	}
}

// The page of an app shows a canary of a release as it goes, and stops it.
func TestCanary(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	if a := p.get("/apps/shop"); strings.Contains(a.body, "Canary") {
		t.Errorf("got a canary although none was started:\n%s", a.body)
	}
	p.update(func(tx *store.Tx) error {
		app, err := tx.AppByName(t.Context(), "shop")
		if err != nil {
			return err
		}
		plan := landfall.ReleaseCanary{Release: "aaaaaaaa", Weight: 10, Step: 20, Interval: time.Hour, Threshold: 1}
		by := deploy.Mover{Actor: "ada", Reason: "a new checkout", At: p.clock()}
		if err := deploy.StartCanary(t.Context(), tx, app, plan, by); err != nil {
			return err
		}
		c, err := tx.RunningReleaseCanary(t.Context(), app.ID)
		if err != nil {
			return err
		}
		return tx.AddReleaseCanaryCounts(t.Context(), c.ID, "one", true, landfall.CanaryFigures{Requests: 300, Failures: 2})
	})
	p.want(p.get("/apps/shop"), http.StatusOK, `<progress max="100" value="10"`, "2 of 300", "a new checkout, by ada",
		"/apps/shop/promote?release=aaaaaaaa", "20% more every 1h0m0s")
	p.want(p.get("/apps/shop/stop-canary"), http.StatusOK, "All visitors get the live release again")
	a := p.post("/apps/shop/stop-canary", url.Values{"reason": {"too slow"}})
	p.want(a, http.StatusSeeOther)
	shown := p.get(a.Header.Get("Location"))
	p.want(shown, http.StatusOK, "The canary is over", "stopped", "too slow, by admin", "2 of 300")
	if strings.Contains(shown.body, "Stop the canary") {
		t.Error("a canary that is over can be stopped")
	}
	p.want(p.post("/apps/shop/stop-canary", nil), http.StatusNotFound, "no canary")
	p.pass(25 * time.Hour)
	p.signIn(adminToken)
	if a := p.get("/apps/shop"); strings.Contains(a.body, "Canary") {
		t.Error("a canary that ended more than a day ago is shown")
	}
}

// What was confirmed is the move from where live was: when somebody else moved it meanwhile, nothing is done.
func TestMoveThatCameTooLate(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	form := url.Values{"live": {"bbbbbbbb"}, "release": {"aaaaaaaa"}}
	p.want(p.post("/apps/shop/rollback", form), http.StatusSeeOther)
	p.want(p.post("/apps/shop/promote", url.Values{"live": {"bbbbbbbb"}, "release": {"bbbbbbbb"}}), http.StatusConflict,
		"moved live meanwhile", "aaaaaaaa")
	if live, held := p.live(); live != "aaaaaaaa" || !held {
		t.Errorf("live is %s (held: %t), want aaaaaaaa, held", live, held)
	}
}

// Who may only look sees no button, and a request by hand is refused.
func TestReadersMoveNothing(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(readerToken)
	a := p.get("/apps/shop")
	p.want(a, http.StatusOK, "Release bbbbbbbb")
	for _, button := range []string{"Promote", "Roll back", "Hold", "Import"} {
		if strings.Contains(a.body, button) {
			t.Errorf("a reader is offered %q", button)
		}
	}
	form := url.Values{"live": {"bbbbbbbb"}, "release": {"aaaaaaaa"}}
	for _, action := range []string{"promote", "rollback", "hold", "resume", "stop-canary"} {
		p.want(p.get("/apps/shop/"+action+"?release=aaaaaaaa"), http.StatusForbidden)
		p.want(p.post("/apps/shop/"+action, form), http.StatusForbidden, "scope")
	}
	p.want(p.get("/apps/shop/import"), http.StatusForbidden, "may look at shop, and not change it")
	p.want(p.upload("archive", "shop.tar", "text"), http.StatusForbidden, "may look at shop, and not change it")
	if live, held := p.live(); live != "bbbbbbbb" || held {
		t.Errorf("live is %s (held: %t)", live, held)
	}
	p.cookie = nil
	p.want(p.post("/apps/shop/rollback", form), http.StatusUnauthorized)
	p.want(p.upload("archive", "shop.tar", "text"), http.StatusSeeOther)
}

// upload sends a file as the form of the import does.
func (p *pages) upload(name, file, text string) answer {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part := testkit.Must(form.CreateFormFile(name, file))(p.t)
	_, err := io.WriteString(part, text)
	if err := errors.Join(err, form.Close()); err != nil {
		p.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, home+"/apps/shop/import", &body)
	r.Header = http.Header{"Content-Type": {form.FormDataContentType()}, "Origin": {home}, "Sec-Fetch-Site": {"same-origin"}}
	return p.ask(r)
}

// An import needs a file, and says so.
func TestImportWithoutAFile(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	p.want(p.get("/apps/shop"), http.StatusOK, `href="/apps/shop/import"`)
	p.want(p.get("/apps/shop/import"), http.StatusOK, `enctype="multipart/form-data"`, `type="file"`)
	p.want(p.upload("archive", "", ""), http.StatusBadRequest, "No file was chosen")
	p.want(p.post("/apps/shop/import", url.Values{"archive": {"shop.tar"}}), http.StatusBadRequest, "no form with a file")
	p.want(p.get("/apps/none/import"), http.StatusNotFound, "there is no app")
}

// What is not there is said so, with a way on.
func TestMissing(t *testing.T) {
	t.Parallel()
	p := newPages(t, home)
	p.shop()
	p.signIn(adminToken)
	for _, path := range []string{"/apps/none", "/apps/shop/releases/zzzzzzzz", "/runs/none",
		"/apps/shop/diff?from=none&to=live", "/none"} {
		p.want(p.get(path), http.StatusNotFound, "<h1>Not Found</h1>", `href="/"`)
	}
}
