package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// numbered writes a page that says n, and pushes it.
func (s *site) numbered(r *repository, app string, n int) landfall.UID {
	s.t.Helper()
	r.write("site/index.html", fmt.Sprintf("page %d", n))
	return s.pushed(r, app, fmt.Sprintf("Page %d", n))
}

// static makes an app with the folder site at /, and more in its spec.
func (s *site) static(app string, more ...string) *repository {
	s.t.Helper()
	r := s.repository(s.app(app))
	r.write("specs/app.yaml", appSpec(app, more...), "site/robots.txt", "all")
	return r
}

func TestReleaseAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	first := r.head()
	two := s.numbered(r, "shop", 2)

	// D-044: every release has an id of its own.
	wantEqual(t, "ids differ", one != two && landfall.IsUID(string(one)) && landfall.IsUID(string(two)), true)
	// D-045: APP.DOMAIN reaches the app.
	wantServed(t, s, "shop", "/", "page 2")
	// D-046: APP.RELEASE.DOMAIN reaches one release; so does APP--RELEASE.DOMAIN, and a commit stands for its release.
	for _, selector := range []string{string(one), string(first), string(first)[:7], string(first)[:12]} {
		wantServed(t, s, "shop."+selector, "/", "page 1")
		wantServed(t, s, "shop--"+selector, "/", "page 1")
	}
	// D-047: a release id that is none is an error of the gateway.
	wantStatus(t, s, "shop.aaaaaaaa", http.StatusNotFound, "No such release", "The live release is at the app's own address")
	wantStatus(t, s, "shop--nonsense", http.StatusNotFound, "No such release")
	// P-013: so is an app that is none.
	wantStatus(t, s, "shap", http.StatusNotFound, "No such app")

	s.specialReleases(t, r, one, two)
}

// specialReleases looks at live, latest and tags.
func (s *site) specialReleases(t *testing.T, r *repository, one, two landfall.UID) {
	t.Helper()
	// D-051: the latest release is the newest one.
	wantServed(t, s, "shop--latest", "/", "page 2")
	// D-052: unless live was set to another release, latest is live.
	wantEqual(t, "live, and latest", s.showApp("shop").Live, two)
	wantEqual(t, "latest", s.release("shop", "latest").ID, two)
	s.call(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(one)}, nil)
	// D-050: the live release is what answers without any release id.
	wantServed(t, s, "shop", "/", "page 1")
	wantServed(t, s, "shop--latest", "/", "page 2")
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(one)}, nil)
	// D-049: there are three special kinds: live, latest, and what a tag names.
	wantList(t, "tags of the first release", s.release("shop", string(one)).Tags, []string{"live", "beta"})
	wantEqual(t, "latest is the second", s.release("shop", string(two)).Latest, true)
	// D-054: a tag has an address.
	wantServed(t, s, "shop.beta", "/", "page 1")
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(two)}, nil)
	// D-055: the tag's address stays the same when the tag moves.
	wantServed(t, s, "shop.beta", "/", "page 2")

	tag := "Sommer 2026/Größe"
	s.call(http.MethodPut, "/apps/shop/tags/"+url.PathEscape(tag), map[string]string{"release": string(one)}, nil)
	wantServed(t, s, "shop."+landfall.ReleaseLabel(tag), "/", "page 1")
	wantServed(t, s, landfall.JoinedLabel("shop", tag), "/", "page 1")
	long := strings.Repeat("very-", 18) + "long"
	s.call(http.MethodPut, "/apps/shop/tags/"+long, map[string]string{"release": string(one)}, nil)
	wantServed(t, s, landfall.JoinedLabel("shop", long), "/", "page 1")

	r.commit("The address is known before the build")
	id := "known1234567"
	r.git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var applied client.Applied
	s.call(http.MethodPost, "/apps/shop/applies", client.Apply{ID: id, Commit: r.head(), Base: r.head(), Branch: "main", Clean: true}, &applied)
	run := s.final(applied.Run.ID)
	// L-036: the run tells its release's address when it is accepted, and that is where the release comes to be.
	wantEqual(t, "release", run.Release, applied.Run.UID)
	wantEqual(t, "the address that was promised answers", s.get(applied.Run.URL).status, http.StatusOK)
}

func TestRunIsOverWhenItsReleaseAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("shop")
	const pushes = 20
	for n := range pushes {
		page := fmt.Sprintf("page %d", n)
		_, push := h.release(page)
		id := strings.TrimPrefix(w.hears(push).Runs[0], w.runPage(""))
		var run client.Run
		for !run.State.Final() {
			w.call(http.MethodGet, "/runs/"+id, nil, &run)
		}
		// P-007: who follows the run's end at once finds the release, at its own address and live.
		wantServed(t, w.site, "shop--"+string(run.Release), "/", page)
		wantServed(t, w.site, "shop", "/", page)
	}
}

func TestReleasesExpire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 3}")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	three := s.numbered(r, "shop", 3)
	wantList(t, "accessible", s.accessible("shop"), []landfall.UID{three, two, one})
	r.git("tag", "keep-me", "HEAD~1")
	r.push("keep-me")
	four := s.numbered(r, "shop", 4)
	// D-032: with a limit of 3, the fourth release expires the oldest one.
	wantList(t, "accessible", s.accessible("shop"), []landfall.UID{four, three, two})
	// D-048: an expired release is an error of the gateway.
	wantStatus(t, s, "shop."+string(one), http.StatusGone)
	// P-013: which says that it is expired, not that it never was.
	wantStatus(t, s, "shop."+string(one), http.StatusGone, "This release has expired", "can make this one accessible again")
	wantStatus(t, s, "shop--"+string(one), http.StatusGone, "This release has expired")
	five := s.numbered(r, "shop", 5)
	six := s.numbered(r, "shop", 6)
	// D-031: the number of accessible releases is limited, and stays so.
	wantList(t, "accessible", s.accessible("shop"), []landfall.UID{six, five, two})
	// D-053: a tagged release does not expire.
	wantServed(t, s, "shop.keep-me", "/", "page 2")

	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, nil)
	s.numbered(r, "shop", 7)
	eight := s.numbered(r, "shop", 8)
	// D-056: live is a special kind of tag: the release marked live does not expire.
	wantServed(t, s, "shop", "/", "page 5")
	wantEqual(t, "live", s.showApp("shop").Live, five)
	// A release that was just made is accessible, however many others are held.
	wantServed(t, s, "shop--"+string(eight), "/", "page 8")

	r.git("checkout", "--quiet", "-b", "feature")
	for n := range 3 {
		s.numbered(r, "shop", 20+n)
	}
	// Other branches are counted by themselves.
	wantServed(t, s, "shop--"+string(eight), "/", "page 8")
	wantServed(t, s, "shop--branch-feature", "/", "page 22")

	again := s.reach("shop", string(one))
	wantEqual(t, "release made accessible again", again, one)
	wantServed(t, s, "shop--"+string(one), "/", "page 1")
	wantEqual(t, "history keeps every app version", len(list[client.Group](s, "/apps/shop/groups")), 11)
}

// reach makes an app version accessible, and waits for it.
func (s *site) reach(app, version string) landfall.UID {
	s.t.Helper()
	var reached client.Reached
	s.call(http.MethodPost, "/apps/"+app+"/releases", map[string]string{"version": version}, &reached)
	if reached.Release != nil {
		return reached.Release.ID
	}
	run := s.final(reached.Run.ID)
	if run.State != landfall.RunSucceeded {
		s.t.Fatalf("got the state %s: %s", run.State, run.Reason)
	}
	return run.Release
}

func TestReleaseIsNotExpiredByItsOwnPush(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 2, live: manual}")
	for n := range 3 {
		uid := s.numbered(r, "shop", n)
		s.call(http.MethodPut, fmt.Sprintf("/apps/shop/tags/v%d", n), map[string]string{"release": string(uid)}, nil)
	}
	uid := s.numbered(r, "shop", 3)
	// D-030: the release of a push can be reached, though tags hold more releases than are kept.
	wantServed(t, s, "shop--"+string(uid), "/", "page 3")
}

func TestReleasesOfEqualContentCountAsOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 2}")
	one := s.numbered(r, "shop", 1)
	var same []landfall.UID
	for n := range 4 {
		r.write("notes.txt", fmt.Sprint(n))
		same = append(same, s.numbered(r, "shop", 2))
	}
	// D-031: releases with the same content count as one, as young as the newest of them.
	wantServed(t, s, "shop--"+string(one), "/", "page 1")
	wantServed(t, s, "shop--"+string(same[0]), "/", "page 2")
	s.numbered(r, "shop", 3)
	s.numbered(r, "shop", 4)
	for _, uid := range same {
		wantStatus(t, s, "shop--"+string(uid), http.StatusGone, "expired")
	}
}

func TestCollectionDeletesWhatNothingReaches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 2}")
	r.write("site/shared.txt", "shared by all")
	var uids []landfall.UID
	for n := 1; n <= 3; n++ {
		uids = append(uids, s.numbered(r, "shop", n))
	}
	folder := s.objectsOf("shop")
	prefix := func(uid landfall.UID) string { return folder + "static/root/" + string(uid) + "/" }
	s.call(http.MethodPut, "/apps/shop/tags/held", map[string]string{"release": string(uids[1])}, nil)
	for n := 4; n <= 6; n++ {
		uids = append(uids, s.numbered(r, "shop", n))
	}
	gone := func(uid landfall.UID) func() bool {
		return func() bool {
			return !slices.ContainsFunc(s.stored("shop"), func(key string) bool { return strings.HasPrefix(key, prefix(uid)) })
		}
	}
	s.eventually("the objects of the expired releases are deleted", func() bool { return gone(uids[2])() && gone(uids[3])() })

	// L-031: what an accessible release refers to stays, though it lies in the folder of a release that expired.
	for _, n := range []int{2, 5, 6} {
		wantServed(t, s, "shop--"+string(uids[n-1]), "/", fmt.Sprintf("page %d", n))
		wantServed(t, s, "shop--"+string(uids[n-1]), "/shared.txt", "shared by all")
	}
	wantServed(t, s, "shop--held", "/", "page 2")
	wantEqual(t, "the folder with the shared file is there", gone(uids[0])(), false)

	s.wantCollectedAgain(t, r, uids, gone)
}

// wantCollectedAgain reaches a release whose objects are gone, and lets it go.
func (s *site) wantCollectedAgain(t *testing.T, r *repository, uids []landfall.UID, gone func(landfall.UID) func() bool) {
	t.Helper()
	before := s.unitsOf("shop", string(uids[5]))["static /"]
	wantEqual(t, "release made accessible again", s.reach("shop", string(uids[2])), uids[2])
	wantServed(t, s, "shop--"+string(uids[2]), "/", "page 3")
	wantServed(t, s, "shop--"+string(uids[2]), "/shared.txt", "shared by all")
	wantEqual(t, "number of the version", s.unitsOf("shop", string(uids[2]))["static /"].Number, 3)
	s.call(http.MethodDelete, "/apps/shop/releases/"+string(uids[2]), nil, nil)
	wantStatus(t, s, "shop--"+string(uids[2]), http.StatusGone, "expired")
	s.eventually("the objects of the release expired by hand are deleted", gone(uids[2]))
	s.call(http.MethodDelete, "/apps/shop/tags/held", nil, nil)
	seven := s.numbered(r, "shop", 7)
	wantServed(t, s, "shop--"+string(seven), "/shared.txt", "shared by all")
	s.eventually("the objects of the release that the tag held are deleted", gone(uids[1]))
	wantEqual(t, "version of the last release", s.unitsOf("shop", string(uids[5]))["static /"], before)
}

func TestHashedAssetsOutliveTheirRelease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", strings.Replace(appSpec("shop"), "path: /}", "path: /, fallback: index.html}", 1),
		"site/index.html", "page 1", "site/js/app.3f2a1b4c.js", "script 1", "site/js/plain.js", "plain")
	one := s.pushed(r, "shop", "One")
	r.git("rm", "--quiet", "-r", "site/js")
	r.write("site/index.html", "page 2", "site/js/app.9d8e7f6a.js", "script 2")
	two := s.pushed(r, "shop", "Two")

	// L-033: a page that was loaded before the push still gets its script, from the release that had it.
	wantServed(t, s, "shop", "/js/app.3f2a1b4c.js", "script 1")
	wantEqual(t, "release of the old script", s.get(s.at("shop", "/js/app.3f2a1b4c.js")).header.Get("Landfall-Release"), string(one))
	wantServed(t, s, "shop", "/js/app.9d8e7f6a.js", "script 2")
	wantServed(t, s, "shop", "/some/page", "page 2")
	wantServed(t, s, "shop", "/js/plain.js", "plain")
	for host, path := range map[string]string{"shop": "/js/never.js", "shop--" + string(two): "/js/app.3f2a1b4c.js"} {
		p := s.get(s.at(host, path))
		wantEqual(t, "a missing asset of "+host+" is no page", p.status == http.StatusNotFound && !strings.Contains(p.body, "page 2"), true)
	}
}

func TestApplyWithoutRelease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 2}")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	var without []landfall.UID
	var steps []client.Run
	for n := 3; n <= 5; n++ {
		r.write("site/index.html", fmt.Sprintf("page %d", n))
		r.commit(fmt.Sprintf("Page %d", n))
		run := s.applied(r, "shop", "", true)
		wantEqual(t, "state", run.State, landfall.RunSucceeded)
		wantEqual(t, "release", run.Release, "")
		without = append(without, run.UID)
		steps = append(steps, run)
	}

	// D-040: the versions were made without a release, by the same operation.
	wantEqual(t, "app versions", len(list[client.Group](s, "/apps/shop/groups")), 5)
	// D-041: such an app version cannot be reached.
	for _, uid := range without {
		wantStatus(t, s, "shop--"+string(uid), http.StatusNotFound, "No such release")
	}
	wantServed(t, s, "shop", "/", "page 2")
	// D-043: nor does it use up the number of accessible releases.
	wantList(t, "accessible", s.accessible("shop"), []landfall.UID{two, one})
	// D-042: it skips what only visitors need: no file is uploaded.
	for _, run := range steps {
		wantEqual(t, "files uploaded", run.Stats.FilesUploaded, 0)
	}
	wantEqual(t, "files in the store", len(s.stored("shop")), 2+1+1+1)

	wantEqual(t, "release made accessible", s.reach("shop", string(without[1])), without[1])
	wantServed(t, s, "shop--"+string(without[1]), "/", "page 4")
	wantEqual(t, "live is where it was", s.showApp("shop").Live, two)

	r.git("push", "--quiet", "origin", "HEAD:main")
	three := s.finished("shop", r.head()).Release
	// A push of the same commit does release it.
	wantServed(t, s, "shop--"+string(three), "/", "page 5")
	wantServed(t, s, "shop", "/", "page 5")
}

func TestPushOfACommitThatIsAppliedWithoutRelease(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	gate := t.TempDir()
	r := s.static("shop")
	s.numbered(r, "shop", 1)
	r.write("site/index.html", "page 2", "specs/app.yaml", gated("shop", gate))
	commit := r.commit("Two")
	id := "slow12345678"
	r.git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var applied client.Applied
	s.call(http.MethodPost, "/apps/shop/applies", client.Apply{ID: id, Commit: commit, Base: commit, Clean: true, NoRelease: true}, &applied)
	s.eventually("the apply is building", func() bool { return isThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { openGate(t, gate) })
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = r.try("push", "origin", "main") })
	s.eventually("the push has joined", func() bool {
		var run client.Run
		s.call(http.MethodGet, "/runs/"+applied.Run.ID, nil, &run)
		return len(run.References) == 2
	})
	openGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the push: %v\n%s", err, out)
	}
	// D-041: only what nobody wants released cannot be reached: the push releases what is applied without a release beside it.
	wantEqual(t, "release", s.released(toldBy(out), "shop"), applied.Run.UID)
	wantServed(t, s, "shop", "/", "page 2")
	wantEqual(t, "runs", len(s.runsOf("shop", commit)), 1)
}

// gated is an App document whose build says in the folder gate that it is there, and goes on when "open" lies there.
func gated(app, gate string) string {
	return appSpec(app, fmt.Sprintf(
		`build: {command: "touch %[1]s/building; while ! [ -e %[1]s/open ]; do sleep 0.1; done; echo built > site/out.txt", outputs: [site/out.txt]}`, gate))
}

// openGate lets the builds of a gated App document go on.
func openGate(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestRollbackHoldsLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	three := s.numbered(r, "shop", 3)
	var app client.App
	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, &app)
	wantEqual(t, "live after a rollback to the release before", app.Live, two)
	wantServed(t, s, "shop", "/", "page 2")
	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{"release": string(one), "reason": "page 2 is no better"}, &app)
	// L-032: going back takes one id.
	wantServed(t, s, "shop", "/", "page 1")
	wantEqual(t, "held", app.Held, true)
	wantServed(t, s, "shop--"+string(three), "/", "page 3")

	r.write("site/index.html", "page 4")
	r.commit("Page 4")
	out := r.push("HEAD")
	four := s.released(out, "shop")
	// L-035: while live is held, a push makes its release, says that live did not move, and asks nothing.
	wantText(t, out, "live is held at "+string(one))
	wantServed(t, s, "shop", "/", "page 1")
	wantServed(t, s, "shop--"+string(four), "/", "page 4")
	r.git("checkout", "--quiet", "-b", "same")
	wantText(t, r.push("HEAD:refs/heads/again"), s.at("shop--"+string(four), "/"))
	wantText(t, r.push("--force", "HEAD~1:main"), "live is held at "+string(one), s.at("shop--"+string(three), "/"))
	wantServed(t, s, "shop", "/", "page 1")
	r.push("--force", "HEAD:main")

	s.call(http.MethodPut, "/apps/shop/hold", map[string]bool{"held": false}, &app)
	wantEqual(t, "live after it was resumed", app.Live, one)
	r.git("checkout", "--quiet", "main")
	five := s.numbered(r, "shop", 5)
	wantServed(t, s, "shop", "/", "page 5")
	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, nil)
	s.call(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(four)}, &app)
	wantEqual(t, "held after a promotion", app.Held, false)
	s.numbered(r, "shop", 6)
	wantServed(t, s, "shop", "/", "page 6")

	s.wantMoves(t, []landfall.UID{one, two, three, two, one, five, one, four})
}

func TestRollbackFollowsTheHistoryOfLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 3}")
	one := s.numbered(r, "shop", 1)
	s.numbered(r, "shop", 2)
	three := s.numbered(r, "shop", 3)
	landfallRelease := func(args ...string) {
		t.Helper()
		if out, code := s.run(t.TempDir(), append([]string{"release"}, args...)...); code != 0 {
			t.Errorf("release %v got the exit code %d:\n%s", args, code, out)
		}
	}
	landfallRelease("live", "shop", string(one))
	s.call(http.MethodPut, "/apps/shop/hold", map[string]bool{"held": true}, nil)
	for n := 4; n <= 6; n++ {
		s.numbered(r, "shop", n)
	}
	// What was live before the promotion is kept for a rollback, though it is the oldest but one.
	wantServed(t, s, "shop--"+string(three), "/", "page 3")
	for _, page := range []string{"page 3", "page 1"} {
		landfallRelease("rollback", "shop")
		// Each rollback goes back to what visitors saw before, however it became live.
		wantServed(t, s, "shop", "/", page)
	}
	moves := list[client.Move](s, "/apps/shop/moves?pointer=live")
	wantEqual(t, "the history tells a rollback from a promotion", fmt.Sprint(moves[0].Back, moves[1].Back, moves[2].Back, moves[3].Back), "true true false false")
}

// wantMoves looks at the history of live, from the first move on.
func (s *site) wantMoves(t *testing.T, to []landfall.UID) {
	t.Helper()
	moves := list[client.Move](s, "/apps/shop/moves?pointer=live")
	slices.Reverse(moves)
	var from landfall.UID
	for i, uid := range to {
		m := moves[i]
		if m.From != from || m.To != uid || m.Actor != "admin" || m.Reason == "" || m.At.IsZero() {
			t.Errorf("move %d: got %+v, want a move from %q to %s, with who, when and why", i, m, from, uid)
		}
		from = uid
	}
	wantEqual(t, "reason of the second rollback", moves[4].Reason, "page 2 is no better")
}

func TestTagsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	for _, tag := range []string{"live", "latest", "all", "branch-main", "branch-", "pr-1", "deadbeef", strings.Repeat("a", 40), string(one)} {
		err := s.refused(http.MethodPut, "/apps/shop/tags/"+tag, map[string]string{"release": string(one)})
		// D-056: live is a tag that only releasing moves; other reserved names are refused with the reason.
		wantRefused(t, err, landfall.Invalid, "cannot be a tag")
		if tag == "branch-" { // git, too, has other rules
			continue
		}
		r.git("tag", tag)
		out := r.push("refs/tags/" + tag)
		wantText(t, out, `"`+tag+`" cannot be a tag`)
		wantEqual(t, "a pushed tag "+tag+" names nothing", s.tagged("shop")[tag] == "" || tag == "live" || tag == "branch-main", true)
	}
	wantServed(t, s, "shop", "/", "page 1")
	wantRefused(t, s.refused(http.MethodDelete, "/apps/shop/tags/live", nil), landfall.Conflict, "live cannot be removed")
	wantRefused(t, s.refused(http.MethodDelete, "/apps/shop/releases/live", nil), landfall.Conflict, "is live")
	wantRefused(t, s.refused(http.MethodPut, "/apps/shop/tags/ok", map[string]string{"release": "nothing"}), landfall.NotFound, `"nothing"`)
}

func TestLiveByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {live: manual}")
	r.write("site/index.html", "page 1")
	r.commit("One")
	out := r.push("HEAD")
	one := s.released(out, "shop")
	// D-050: what is live without a release id is a decision of its own: here the push only makes the release.
	wantStatus(t, s, "shop", http.StatusNotFound, "Nothing is live yet")
	wantText(t, out, "live moves by hand only")
	wantServed(t, s, "shop--latest", "/", "page 1")
	s.call(http.MethodPost, "/apps/shop/live", map[string]string{"release": "latest"}, nil)
	wantServed(t, s, "shop", "/", "page 1")
	s.numbered(r, "shop", 2)
	wantServed(t, s, "shop", "/", "page 1")
	wantEqual(t, "live", s.showApp("shop").Live, one)
}

func TestReleaseRulesThatAreDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", `release: {production: trunk, live: manual, keep: 2, branches: ["release/*"], skip_paths: ["*.md"]}`)
	s.numbered(r, "shop", 1)
	r.checkout("release/next")
	r.write("specs/app.yaml", appSpec("shop"))
	s.numbered(r, "shop", 2)
	// L-001: a branch that does not name the rules ends nothing: only production can.
	wantEqual(t, "live moves by hand", s.showApp("shop").Policy.Live, landfall.LiveManual)

	r.checkout("trunk")
	three := s.numbered(r, "shop", 3)
	// The commit of production that no longer names them is the first that they do not rule.
	wantServed(t, s, "shop", "/", "page 3")
	wantEqual(t, "rules", fmt.Sprint(s.showApp("shop").Policy), fmt.Sprint(landfall.ReleasePolicy{}))
	wantEqual(t, "production is where it was moved to", s.showApp("shop").Branch, "trunk")
	r.write("README.md", "words")
	four := s.pushed(r, "shop", "Words")
	five := s.numbered(r, "shop", 5)
	wantList(t, "accessible releases of production", s.accessible("shop")[:3], []landfall.UID{five, four, three})
	s.released(r.push("HEAD:refs/heads/other"), "shop") // branches are not limited any more

	r.write("specs/app.yaml", appSpec("shop", "release: {live: manual}"))
	s.numbered(r, "shop", 6)
	wantServed(t, s, "shop", "/", "page 5")
	r.push("--force", "HEAD~1:trunk")
	wantText(t, r.push("--force", "HEAD:trunk"), "live moves by hand only")
	r.push("--force", "HEAD~1:trunk")
	// A branch that goes back to a commit without rules has none either.
	wantEqual(t, "rules", fmt.Sprint(s.showApp("shop").Policy), fmt.Sprint(landfall.ReleasePolicy{}))
}

func TestDeletedApp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	wantRefused(t, s.refused(http.MethodDelete, "/apps/shop", nil), landfall.Conflict, "--force")
	s.call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	// P-013: every address of a deleted app answers that it is gone.
	for _, host := range []string{"shop", "shop--" + string(one), "shop." + string(one), "shop--latest", "shop--branch-main", "shop--other"} {
		wantStatus(t, s, host, http.StatusGone, "This app was deleted", "stays reserved")
	}
	wantRefused(t, s.refused(http.MethodPost, "/apps", client.NewApp{Name: "shop"}), landfall.Conflict, "stay reserved")
	r.commit("After the end")
	out, err := r.try("push", "origin", "HEAD")
	if err == nil || !strings.Contains(out, "deleted") {
		t.Errorf("got a push to a deleted app %v:\n%s\nwant a refusal that says so", err, out)
	}
}

func TestHistoryOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	r.write("site/index.html", "page 2")
	r.commit("deploy functions")
	two := s.applied(r, "shop", "", true).UID
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(one)}, nil)
	out, code := s.run(t.TempDir(), "app", "history", "shop")
	wantEqual(t, "exit code", code, 0)
	lines := strings.Split(strings.TrimSpace(out), "\n")

	// D-057: the command lists the app versions, and says which of them are releases.
	wantEqual(t, "the version without a release: "+lines[2], strings.Contains(lines[2], string(two)) && !strings.Contains(lines[2], "Release"), true)
	// D-059: name of the app, then id, time, message and what the release is called, the newest first.
	wantList(t, "head", lines[:2], []string{"App name: shop", "App versions:"})
	for _, part := range []string{string(one), "Page 1", "| Release " + string(one), "latest", "live", "beta"} {
		if !strings.Contains(lines[3], part) {
			t.Errorf("got the line %q, want %q in it", lines[3], part)
		}
	}
	// D-058: the command is also called list-version and list-history.
	for _, name := range []string{"list-version", "list-history"} {
		same, _ := s.run(t.TempDir(), "app", name, "shop")
		wantEqual(t, "output of "+name, same, out)
	}
}

// raw sends a request as it stands, and returns the status and the body.
func (s *site) raw(host, target string) (status int, body string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host); err != nil {
		s.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if _, err := fmt.Sscanf(head, "HTTP/1.1 %d", &status); err != nil {
		s.t.Fatalf("got no answer to %q %q: %q", host, target, head)
	}
	return status, body
}

func TestHostsNeverReachAnotherApp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"shop", "shop-2"} {
		r := s.repository(s.app(name))
		r.write("index.html", "this is "+name)
		s.pushed(r, name, "One")
	}
	long := strings.Repeat("a", 10_000)
	for host, want := range map[string]string{
		"SHOP.LOCALHOST": "this is shop", "shop.localhost.": "this is shop", "Shop.localhost:1": "this is shop", "shop-2.localhost.:65535": "this is shop-2",
		"127.0.0.1": "", "[::1]:80": "", "[::ffff:127.0.0.1]": "", "localhost": "", "localhost.": "", "shop%2elocalhost": "", "%73hop.localhost": "",
		"shop": "", "shop.localhost.evil.example": "", "evilshop.localhost": "", "a.b.shop.localhost": "", "shop.localhost@shop-2.localhost": "",
		"-shop.localhost": "", "shop..localhost": "", ".localhost": "", "shop.localhost:99999": "", "shop_.localhost": "", "xn--shop.localhost": "",
		"shop--shop-2.localhost": "", "shop.shop-2.localhost": "", long + ".localhost": "", long: "", "shop.localhost:80:80": "", "sh\u00f6p.localhost": "",
		"\u017fhop.localhost": "",
	} {
		status, body := s.raw(host, "/")
		if want != "" {
			// N-019: upper case, a final dot and any port mean the same host.
			wantEqual(t, fmt.Sprintf("%.60q (%d)", host, status), body, want)
			continue
		}
		// N-019: everything else is no app's: an IP address is the control host's, an unknown or broken name nobody's.
		wantEqual(t, fmt.Sprintf("%.60q answers %d with a page of an app", host, status), strings.Contains(body, "this is"), false)
		signIn := status == http.StatusSeeOther && slices.Contains([]string{"127.0.0.1", "[::1]:80", "[::ffff:127.0.0.1]", "localhost", "localhost."}, host)
		wantEqual(t, fmt.Sprintf("%.60q is refused (%d)", host, status), signIn || (status >= 400 && status < 500), true)
	}
}

func TestPathsNeverLeaveTheRelease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.write("secret.txt", "outside of the site", "site/folder/page.txt", "page")
	one := s.numbered(r, "shop", 1)
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"/../secret.txt", "/folder/../../secret.txt", "/%2e%2e/secret.txt", "/%2E%2E/secret.txt", "/.%2e/secret.txt", "/folder/%2e%2e/page.txt",
		"/..%2fsecret.txt", "/%2e%2e%2fsecret.txt", `/..\secret.txt`, "/..%5csecret.txt", "/%00", "/index.html%00.txt", "/./index.html", "/folder/./page.txt",
		"/../../../../../../token", "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/token", "//../token", "/folder//../../secret.txt",
		"/" + string(one) + "/../../.manifest.json", "/.manifest.json", "http://shop-2.localhost/../secret.txt", "/%c0%ae%c0%ae/secret.txt", "/..;/secret.txt",
		"/%252e%252e/secret.txt", "/folder/..", "/..", "/" + strings.Repeat("../", 500) + "etc/passwd", "/etc/passwd",
	} {
		status, body := s.raw("shop.localhost", target)
		for _, secret := range []string{"outside of the site", strings.TrimSpace(string(token)), "root:", `"sha256`} {
			// N-020: no path leads to what is not of the release.
			wantEqual(t, fmt.Sprintf("%.60q answers %d with %q", target, status, secret), strings.Contains(body, secret), false)
		}
		wantEqual(t, fmt.Sprintf("%.60q is refused (%d)", target, status), status >= 400 && status < 500, true)
	}
	for target, location := range map[string]string{"//folder/page.txt": "/folder/page.txt", "/folder//page.txt": "/folder/page.txt", "//evil.example/": "/evil.example/"} {
		status, _ := s.raw("shop.localhost", target)
		// N-020: runs of slashes lead to the one path that they mean, of the same host.
		wantEqual(t, target+" leads to "+location, status == http.StatusPermanentRedirect || status == http.StatusNotFound, true)
	}
	wantServed(t, s, "shop", "/folder/page.txt", "page")
}

// A version that is made reachable again is no newer for it.
func TestReleaseCreateMakesNothingLatest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	s.call(http.MethodDelete, "/apps/shop/releases/"+string(one), nil, nil)
	s.call(http.MethodPost, "/apps/shop/releases", map[string]string{"version": string(one)}, nil)
	wantServed(t, s, "shop--"+string(one), "/", "page 1")
	wantEqual(t, "latest", s.release("shop", "latest").ID, two)
	wantServed(t, s, "shop--latest", "/", "page 2")
}
