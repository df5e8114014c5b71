package push_test

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
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

func TestReleaseAddresses(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	first := r.Head()
	two := s.Numbered(r, "shop", 2)

	// D-044: every release has an id of its own.
	testkit.Equal(t, "ids differ", one != two && landfall.IsUID(string(one)) && landfall.IsUID(string(two)), true)
	// D-045: APP.DOMAIN reaches the app.
	site.WantServed(t, s, "shop", "/", "page 2")
	// D-046: APP.RELEASE.DOMAIN reaches one release; so does APP--RELEASE.DOMAIN, and a commit stands for its release.
	for _, selector := range []string{string(one), string(first), string(first)[:7], string(first)[:12]} {
		site.WantServed(t, s, "shop."+selector, "/", "page 1")
		site.WantServed(t, s, "shop--"+selector, "/", "page 1")
	}
	// D-047: a release id that is none is an error of the gateway.
	site.WantStatus(t, s, "shop.aaaaaaaa", http.StatusNotFound, "No such release",
		"The live release is at the app's own address")
	site.WantStatus(t, s, "shop--nonsense", http.StatusNotFound, "No such release")
	// P-013: so is an app that is none.
	site.WantStatus(t, s, "shap", http.StatusNotFound, "No such app")

	specialReleases(s, t, r, one, two)
}

// specialReleases looks at live, latest and tags.
func specialReleases(s *site.Site, t *testing.T, r *site.Repository, one, two landfall.UID) {
	t.Helper()
	// D-051: the latest release is the newest one.
	site.WantServed(t, s, "shop--latest", "/", "page 2")
	// D-052: unless live was set to another release, latest is live.
	testkit.Equal(t, "live, and latest", s.ShowApp("shop").Live, two)
	testkit.Equal(t, "latest", s.Release("shop", "latest").ID, two)
	s.Call(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(one)}, nil)
	// D-050: the live release is what answers without any release id.
	site.WantServed(t, s, "shop", "/", "page 1")
	site.WantServed(t, s, "shop--latest", "/", "page 2")
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(one)}, nil)
	// D-049: there are three special kinds: live, latest, and what a tag names.
	testkit.EqualList(t, "tags of the first release", s.Release("shop", string(one)).Tags, []string{"live", "beta"})
	testkit.Equal(t, "latest is the second", s.Release("shop", string(two)).Latest, true)
	// D-054: a tag has an address.
	site.WantServed(t, s, "shop.beta", "/", "page 1")
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(two)}, nil)
	// D-055: the tag's address stays the same when the tag moves.
	site.WantServed(t, s, "shop.beta", "/", "page 2")

	tag := "Sommer 2026/Größe"
	s.Call(http.MethodPut, "/apps/shop/tags/"+url.PathEscape(tag), map[string]string{"release": string(one)}, nil)
	site.WantServed(t, s, "shop."+landfall.ReleaseLabel(tag), "/", "page 1")
	site.WantServed(t, s, landfall.JoinedLabel("shop", tag), "/", "page 1")
	long := strings.Repeat("very-", 18) + "long"
	s.Call(http.MethodPut, "/apps/shop/tags/"+long, map[string]string{"release": string(one)}, nil)
	site.WantServed(t, s, landfall.JoinedLabel("shop", long), "/", "page 1")

	r.Commit("The address is known before the build")
	id := "known1234567"
	r.Git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var applied client.Applied
	s.Call(http.MethodPost, "/apps/shop/applies",
		client.Apply{ID: id, Commit: r.Head(), Base: r.Head(), Branch: "main", Clean: true}, &applied)
	run := s.Final(applied.Run.ID)
	// L-036: the run tells its release's address when it is accepted, and that is where the release comes to be.
	testkit.Equal(t, "release", run.Release, applied.Run.UID)
	testkit.Equal(t, "the address that was promised answers", s.Get(applied.Run.URL).Status, http.StatusOK)
}

func TestRunIsOverWhenItsReleaseAnswers(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	const pushes = 20
	for n := range pushes {
		page := fmt.Sprintf("page %d", n)
		_, push := h.Release(page)
		id := strings.TrimPrefix(w.Hears(push).Runs[0], w.RunPage(""))
		var run client.Run
		for !run.State.Final() {
			w.Call(http.MethodGet, "/runs/"+id, nil, &run)
		}
		// P-007: who follows the run's end at once finds the release, at its own address and live.
		site.WantServed(t, w.Site, "shop--"+string(run.Release), "/", page)
		site.WantServed(t, w.Site, "shop", "/", page)
	}
}

func TestReleasesExpire(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 3}")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	three := s.Numbered(r, "shop", 3)
	testkit.EqualList(t, "accessible", s.Accessible("shop"), []landfall.UID{three, two, one})
	r.Git("tag", "keep-me", "HEAD~1")
	r.Push("keep-me")
	four := s.Numbered(r, "shop", 4)
	// D-032: with a limit of 3, the fourth release expires the oldest one.
	testkit.EqualList(t, "accessible", s.Accessible("shop"), []landfall.UID{four, three, two})
	// D-048: an expired release is an error of the gateway.
	site.WantStatus(t, s, "shop."+string(one), http.StatusGone)
	// P-013: which says that it is expired, not that it never was.
	site.WantStatus(t, s, "shop."+string(one), http.StatusGone, "This release has expired",
		"can make this one accessible again")
	site.WantStatus(t, s, "shop--"+string(one), http.StatusGone, "This release has expired")
	five := s.Numbered(r, "shop", 5)
	six := s.Numbered(r, "shop", 6)
	// D-031: the number of accessible releases is limited, and stays so.
	testkit.EqualList(t, "accessible", s.Accessible("shop"), []landfall.UID{six, five, two})
	// D-053: a tagged release does not expire.
	site.WantServed(t, s, "shop.keep-me", "/", "page 2")

	s.Call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, nil)
	s.Numbered(r, "shop", 7)
	eight := s.Numbered(r, "shop", 8)
	// D-056: live is a special kind of tag: the release marked live does not expire.
	site.WantServed(t, s, "shop", "/", "page 5")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, five)
	// A release that was just made is accessible, however many others are held.
	site.WantServed(t, s, "shop--"+string(eight), "/", "page 8")

	r.Git("checkout", "--quiet", "-b", "feature")
	for n := range 3 {
		s.Numbered(r, "shop", 20+n)
	}
	// Other branches are counted by themselves.
	site.WantServed(t, s, "shop--"+string(eight), "/", "page 8")
	site.WantServed(t, s, "shop--branch-feature", "/", "page 22")

	again := reach(s, "shop", string(one))
	testkit.Equal(t, "release made accessible again", again, one)
	site.WantServed(t, s, "shop--"+string(one), "/", "page 1")
	testkit.Equal(t, "history keeps every app version", len(site.List[client.Group](s, "/apps/shop/groups")), 11)
}

// reach makes an app version accessible, and waits for it.
func reach(s *site.Site, app, version string) landfall.UID {
	s.T.Helper()
	var reached client.Reached
	s.Call(http.MethodPost, "/apps/"+app+"/releases", map[string]string{"version": version}, &reached)
	if reached.Release != nil {
		return reached.Release.ID
	}
	run := s.Final(reached.Run.ID)
	if run.State != landfall.RunSucceeded {
		s.T.Fatalf("got the state %s: %s", run.State, run.Reason)
	}
	return run.Release
}

func TestReleaseIsNotExpiredByItsOwnPush(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 2, live: manual}")
	for n := range 3 {
		uid := s.Numbered(r, "shop", n)
		s.Call(http.MethodPut, fmt.Sprintf("/apps/shop/tags/v%d", n), map[string]string{"release": string(uid)}, nil)
	}
	uid := s.Numbered(r, "shop", 3)
	// D-030: the release of a push can be reached, though tags hold more releases than are kept.
	site.WantServed(t, s, "shop--"+string(uid), "/", "page 3")
}

func TestReleasesOfEqualContentCountAsOne(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 2}")
	one := s.Numbered(r, "shop", 1)
	var same []landfall.UID
	for n := range 4 {
		r.Write("notes.txt", fmt.Sprint(n))
		same = append(same, s.Numbered(r, "shop", 2))
	}
	// D-031: releases with the same content count as one, as young as the newest of them.
	site.WantServed(t, s, "shop--"+string(one), "/", "page 1")
	site.WantServed(t, s, "shop--"+string(same[0]), "/", "page 2")
	s.Numbered(r, "shop", 3)
	s.Numbered(r, "shop", 4)
	for _, uid := range same {
		site.WantStatus(t, s, "shop--"+string(uid), http.StatusGone, "expired")
	}
}

func TestCollectionDeletesWhatNothingReaches(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 2}")
	r.Write("site/shared.txt", "shared by all")
	var uids []landfall.UID
	for n := 1; n <= 3; n++ {
		uids = append(uids, s.Numbered(r, "shop", n))
	}
	folder := s.ObjectsOf("shop")
	prefix := func(uid landfall.UID) string { return folder + "static/root/" + string(uid) + "/" }
	s.Call(http.MethodPut, "/apps/shop/tags/held", map[string]string{"release": string(uids[1])}, nil)
	for n := 4; n <= 6; n++ {
		uids = append(uids, s.Numbered(r, "shop", n))
	}
	gone := func(uid landfall.UID) func() bool {
		return func() bool {
			return !slices.ContainsFunc(s.Stored("shop"), func(key string) bool { return strings.HasPrefix(key, prefix(uid)) })
		}
	}
	s.Eventually("the objects of the expired releases are deleted", func() bool {
		return gone(uids[2])() && gone(uids[3])()
	})

	// L-031: what an accessible release refers to stays, though it lies in the folder of a release that expired.
	for _, n := range []int{2, 5, 6} {
		site.WantServed(t, s, "shop--"+string(uids[n-1]), "/", fmt.Sprintf("page %d", n))
		site.WantServed(t, s, "shop--"+string(uids[n-1]), "/shared.txt", "shared by all")
	}
	site.WantServed(t, s, "shop--held", "/", "page 2")
	testkit.Equal(t, "the folder with the shared file is there", gone(uids[0])(), false)

	wantCollectedAgain(s, t, r, uids, gone)
}

// wantCollectedAgain reaches a release whose objects are gone, and lets it go.
func wantCollectedAgain(s *site.Site, t *testing.T, r *site.Repository, uids []landfall.UID,
	gone func(landfall.UID) func() bool) {
	t.Helper()
	before := s.UnitsOf("shop", string(uids[5]))["static /"]
	testkit.Equal(t, "release made accessible again", reach(s, "shop", string(uids[2])), uids[2])
	site.WantServed(t, s, "shop--"+string(uids[2]), "/", "page 3")
	site.WantServed(t, s, "shop--"+string(uids[2]), "/shared.txt", "shared by all")
	testkit.Equal(t, "number of the version", s.UnitsOf("shop", string(uids[2]))["static /"].Number, 3)
	s.Call(http.MethodDelete, "/apps/shop/releases/"+string(uids[2]), nil, nil)
	site.WantStatus(t, s, "shop--"+string(uids[2]), http.StatusGone, "expired")
	s.Eventually("the objects of the release expired by hand are deleted", gone(uids[2]))
	s.Call(http.MethodDelete, "/apps/shop/tags/held", nil, nil)
	seven := s.Numbered(r, "shop", 7)
	site.WantServed(t, s, "shop--"+string(seven), "/shared.txt", "shared by all")
	s.Eventually("the objects of the release that the tag held are deleted", gone(uids[1]))
	testkit.Equal(t, "version of the last release", s.UnitsOf("shop", string(uids[5]))["static /"], before)
}

func TestHashedAssetsOutliveTheirRelease(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", strings.Replace(site.AppSpec("shop"), "path: /}", "path: /, fallback: index.html}", 1),
		"site/index.html", "page 1", "site/js/app.3f2a1b4c.js", "script 1", "site/js/plain.js", "plain")
	one := s.Pushed(r, "shop", "One")
	r.Git("rm", "--quiet", "-r", "site/js")
	r.Write("site/index.html", "page 2", "site/js/app.9d8e7f6a.js", "script 2")
	two := s.Pushed(r, "shop", "Two")

	// L-033: a page that was loaded before the push still gets its script, from the release that had it.
	site.WantServed(t, s, "shop", "/js/app.3f2a1b4c.js", "script 1")
	testkit.Equal(t, "release of the old script",
		s.Get(s.At("shop", "/js/app.3f2a1b4c.js")).Header.Get("Landfall-Release"), string(one))
	site.WantServed(t, s, "shop", "/js/app.9d8e7f6a.js", "script 2")
	site.WantServed(t, s, "shop", "/some/page", "page 2")
	site.WantServed(t, s, "shop", "/js/plain.js", "plain")
	for host, path := range map[string]string{"shop": "/js/never.js", "shop--" + string(two): "/js/app.3f2a1b4c.js"} {
		p := s.Get(s.At(host, path))
		testkit.Equal(t, "a missing asset of "+host+" is no page",
			p.Status == http.StatusNotFound && !strings.Contains(p.Body, "page 2"), true)
	}
}

func TestApplyWithoutRelease(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 2}")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	var without []landfall.UID
	var steps []client.Run
	for n := 3; n <= 5; n++ {
		r.Write("site/index.html", fmt.Sprintf("page %d", n))
		r.Commit(fmt.Sprintf("Page %d", n))
		run := s.Applied(r, "shop", "", true)
		testkit.Equal(t, "state", run.State, landfall.RunSucceeded)
		testkit.Equal(t, "release", run.Release, "")
		without = append(without, run.UID)
		steps = append(steps, run)
	}

	// D-040: the versions were made without a release, by the same operation.
	testkit.Equal(t, "app versions", len(site.List[client.Group](s, "/apps/shop/groups")), 5)
	// D-041: such an app version cannot be reached.
	for _, uid := range without {
		site.WantStatus(t, s, "shop--"+string(uid), http.StatusNotFound, "No such release")
	}
	site.WantServed(t, s, "shop", "/", "page 2")
	// D-043: nor does it use up the number of accessible releases.
	testkit.EqualList(t, "accessible", s.Accessible("shop"), []landfall.UID{two, one})
	// D-042: it skips what only visitors need: no file is uploaded.
	for _, run := range steps {
		testkit.Equal(t, "files uploaded", run.Stats.FilesUploaded, 0)
	}
	testkit.Equal(t, "files in the store", len(s.Stored("shop")), 2+1+1+1)

	testkit.Equal(t, "release made accessible", reach(s, "shop", string(without[1])), without[1])
	site.WantServed(t, s, "shop--"+string(without[1]), "/", "page 4")
	testkit.Equal(t, "live is where it was", s.ShowApp("shop").Live, two)

	r.Git("push", "--quiet", "origin", "HEAD:main")
	three := s.Finished("shop", r.Head()).Release
	// A push of the same commit does release it.
	site.WantServed(t, s, "shop--"+string(three), "/", "page 5")
	site.WantServed(t, s, "shop", "/", "page 5")
}

func TestPushOfACommitThatIsAppliedWithoutRelease(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	gate := t.TempDir()
	r := s.Static("shop")
	s.Numbered(r, "shop", 1)
	r.Write("site/index.html", "page 2", "specs/app.yaml", site.Gated("shop", gate))
	commit := r.Commit("Two")
	id := "slow12345678"
	r.Git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var applied client.Applied
	s.Call(http.MethodPost, "/apps/shop/applies",
		client.Apply{ID: id, Commit: commit, Base: commit, Clean: true, NoRelease: true}, &applied)
	s.Eventually("the apply is building", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { site.OpenGate(t, gate) })
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = r.Try("push", "origin", "main") })
	s.Eventually("the push has joined", func() bool {
		var run client.Run
		s.Call(http.MethodGet, "/runs/"+applied.Run.ID, nil, &run)
		return len(run.References) == 2
	})
	site.OpenGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the push: %v\n%s", err, out)
	}
	// D-041: only what nobody wants released cannot be reached: the push releases what is applied without a release
	// beside it.
	testkit.Equal(t, "release", s.Released(site.ToldBy(out), "shop"), applied.Run.UID)
	site.WantServed(t, s, "shop", "/", "page 2")
	testkit.Equal(t, "runs", len(runsOf(s, "shop", commit)), 1)
}

func TestRollbackHoldsLive(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	three := s.Numbered(r, "shop", 3)
	var app client.App
	s.Call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, &app)
	testkit.Equal(t, "live after a rollback to the release before", app.Live, two)
	site.WantServed(t, s, "shop", "/", "page 2")
	s.Call(http.MethodPost, "/apps/shop/rollback",
		map[string]string{"release": string(one), "reason": "page 2 is no better"}, &app)
	// L-032: going back takes one id.
	site.WantServed(t, s, "shop", "/", "page 1")
	testkit.Equal(t, "held", app.Held, true)
	site.WantServed(t, s, "shop--"+string(three), "/", "page 3")

	r.Write("site/index.html", "page 4")
	r.Commit("Page 4")
	out := r.Push("HEAD")
	four := s.Released(out, "shop")
	// L-035: while live is held, a push makes its release, says that live did not move, and asks nothing.
	testkit.Contains(t, out, "live is held at "+string(one))
	site.WantServed(t, s, "shop", "/", "page 1")
	site.WantServed(t, s, "shop--"+string(four), "/", "page 4")
	r.Git("checkout", "--quiet", "-b", "same")
	testkit.Contains(t, r.Push("HEAD:refs/heads/again"), s.At("shop--"+string(four), "/"))
	testkit.Contains(t, r.Push("--force", "HEAD~1:main"), "live is held at "+string(one),
		s.At("shop--"+string(three), "/"))
	site.WantServed(t, s, "shop", "/", "page 1")
	r.Push("--force", "HEAD:main")

	s.Call(http.MethodPut, "/apps/shop/hold", map[string]bool{"held": false}, &app)
	testkit.Equal(t, "live after it was resumed", app.Live, one)
	r.Git("checkout", "--quiet", "main")
	five := s.Numbered(r, "shop", 5)
	site.WantServed(t, s, "shop", "/", "page 5")
	s.Call(http.MethodPost, "/apps/shop/rollback", map[string]string{}, nil)
	s.Call(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(four)}, &app)
	testkit.Equal(t, "held after a promotion", app.Held, false)
	s.Numbered(r, "shop", 6)
	site.WantServed(t, s, "shop", "/", "page 6")

	wantMoves(s, t, []landfall.UID{one, two, three, two, one, five, one, four})
}

func TestRollbackFollowsTheHistoryOfLive(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 3}")
	one := s.Numbered(r, "shop", 1)
	s.Numbered(r, "shop", 2)
	three := s.Numbered(r, "shop", 3)
	landfallRelease := func(args ...string) {
		t.Helper()
		if out, code := s.Run(t.TempDir(), append([]string{"release"}, args...)...); code != 0 {
			t.Errorf("release %v got the exit code %d:\n%s", args, code, out)
		}
	}
	landfallRelease("live", "shop", string(one))
	s.Call(http.MethodPut, "/apps/shop/hold", map[string]bool{"held": true}, nil)
	for n := 4; n <= 6; n++ {
		s.Numbered(r, "shop", n)
	}
	// What was live before the promotion is kept for a rollback, though it is the oldest but one.
	site.WantServed(t, s, "shop--"+string(three), "/", "page 3")
	for _, page := range []string{"page 3", "page 1"} {
		landfallRelease("rollback", "shop")
		// Each rollback goes back to what visitors saw before, however it became live.
		site.WantServed(t, s, "shop", "/", page)
	}
	moves := site.List[client.Move](s, "/apps/shop/moves?pointer=live")
	testkit.Equal(t, "the history tells a rollback from a promotion",
		fmt.Sprint(moves[0].Back, moves[1].Back, moves[2].Back, moves[3].Back), "true true false false")
}

// wantMoves looks at the history of live, from the first move on.
func wantMoves(s *site.Site, t *testing.T, to []landfall.UID) {
	t.Helper()
	moves := site.List[client.Move](s, "/apps/shop/moves?pointer=live")
	slices.Reverse(moves)
	var from landfall.UID
	for i, uid := range to {
		m := moves[i]
		if m.From != from || m.To != uid || m.Actor != "admin" || m.Reason == "" || m.At.IsZero() {
			t.Errorf("move %d: got %+v, want a move from %q to %s, with who, when and why", i, m, from, uid)
		}
		from = uid
	}
	testkit.Equal(t, "reason of the second rollback", moves[4].Reason, "page 2 is no better")
}

func TestTagsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	for _, tag := range []string{"live", "latest", "all", "branch-main", "branch-", "pr-1", "deadbeef",
		strings.Repeat("a", 40), string(one)} {
		err := s.Refused(http.MethodPut, "/apps/shop/tags/"+tag, map[string]string{"release": string(one)})
		// D-056: live is a tag that only releasing moves; other reserved names are refused with the reason.
		site.WantRefused(t, err, landfall.Invalid, "cannot be a tag")
		if tag == "branch-" { // git, too, has other rules
			continue
		}
		r.Git("tag", tag)
		out := r.Push("refs/tags/" + tag)
		testkit.Contains(t, out, `"`+tag+`" cannot be a tag`)
		testkit.Equal(t, "a pushed tag "+tag+" names nothing",
			s.Tagged("shop")[tag] == "" || tag == "live" || tag == "branch-main", true)
	}
	site.WantServed(t, s, "shop", "/", "page 1")
	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop/tags/live", nil), landfall.Conflict,
		"live cannot be removed")
	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop/releases/live", nil), landfall.Conflict, "is live")
	site.WantRefused(t, s.Refused(http.MethodPut, "/apps/shop/tags/ok", map[string]string{"release": "nothing"}),
		landfall.NotFound, `"nothing"`)
}

func TestLiveByHand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {live: manual}")
	r.Write("site/index.html", "page 1")
	r.Commit("One")
	out := r.Push("HEAD")
	one := s.Released(out, "shop")
	// D-050: what is live without a release id is a decision of its own: here the push only makes the release.
	site.WantStatus(t, s, "shop", http.StatusNotFound, "Nothing is live yet")
	testkit.Contains(t, out, "live moves by hand only")
	site.WantServed(t, s, "shop--latest", "/", "page 1")
	s.Call(http.MethodPost, "/apps/shop/live", map[string]string{"release": "latest"}, nil)
	site.WantServed(t, s, "shop", "/", "page 1")
	s.Numbered(r, "shop", 2)
	site.WantServed(t, s, "shop", "/", "page 1")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)
}

func TestReleaseRulesThatAreDeleted(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop",
		`release: {production: trunk, live: manual, keep: 2, branches: ["release/*"], skip_paths: ["*.md"]}`)
	s.Numbered(r, "shop", 1)
	r.Checkout("release/next")
	r.Write("specs/app.yaml", site.AppSpec("shop"))
	s.Numbered(r, "shop", 2)
	// L-001: a branch that does not name the rules ends nothing: only production can.
	testkit.Equal(t, "live moves by hand", s.ShowApp("shop").Policy.Live, landfall.LiveManual)

	r.Checkout("trunk")
	three := s.Numbered(r, "shop", 3)
	// The commit of production that no longer names them is the first that they do not rule.
	site.WantServed(t, s, "shop", "/", "page 3")
	testkit.Equal(t, "rules", fmt.Sprint(s.ShowApp("shop").Policy), fmt.Sprint(landfall.ReleasePolicy{}))
	testkit.Equal(t, "production is where it was moved to", s.ShowApp("shop").Branch, "trunk")
	r.Write("README.md", "words")
	four := s.Pushed(r, "shop", "Words")
	five := s.Numbered(r, "shop", 5)
	testkit.EqualList(t, "accessible releases of production", s.Accessible("shop")[:3], []landfall.UID{five, four, three})
	s.Released(r.Push("HEAD:refs/heads/other"), "shop") // branches are not limited any more

	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {live: manual}"))
	s.Numbered(r, "shop", 6)
	site.WantServed(t, s, "shop", "/", "page 5")
	r.Push("--force", "HEAD~1:trunk")
	testkit.Contains(t, r.Push("--force", "HEAD:trunk"), "live moves by hand only")
	r.Push("--force", "HEAD~1:trunk")
	// A branch that goes back to a commit without rules has none either.
	testkit.Equal(t, "rules", fmt.Sprint(s.ShowApp("shop").Policy), fmt.Sprint(landfall.ReleasePolicy{}))
}

func TestDeletedApp(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop", nil), landfall.Conflict, "--force")
	s.Call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	// P-013: every address of a deleted app answers that it is gone.
	for _, host := range []string{"shop", "shop--" + string(one), "shop." + string(one), "shop--latest",
		"shop--branch-main", "shop--other"} {
		site.WantStatus(t, s, host, http.StatusGone, "This app was deleted", "stays reserved")
	}
	site.WantRefused(t, s.Refused(http.MethodPost, "/apps", client.NewApp{Name: "shop"}), landfall.Conflict,
		"stay reserved")
	r.Commit("After the end")
	out, err := r.Try("push", "origin", "HEAD")
	if err == nil || !strings.Contains(out, "deleted") {
		t.Errorf("got a push to a deleted app %v:\n%s\nwant a refusal that says so", err, out)
	}
}

func TestHistoryOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	r.Write("site/index.html", "page 2")
	r.Commit("deploy functions")
	two := s.Applied(r, "shop", "", true).UID
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(one)}, nil)
	out, code := s.Run(t.TempDir(), "app", "history", "shop")
	testkit.Equal(t, "exit code", code, 0)
	lines := strings.Split(strings.TrimSpace(out), "\n")

	// D-057: the command lists the app versions, and says which of them are releases.
	testkit.Equal(t, "the version without a release: "+lines[2],
		strings.Contains(lines[2], string(two)) && !strings.Contains(lines[2], "Release"), true)
	// D-059: name of the app, then id, time, message and what the release is called, the newest first.
	testkit.EqualList(t, "head", lines[:2], []string{"App name: shop", "App versions:"})
	for _, part := range []string{string(one), "Page 1", "| Release " + string(one), "latest", "live", "beta"} {
		if !strings.Contains(lines[3], part) {
			t.Errorf("got the line %q, want %q in it", lines[3], part)
		}
	}
	// D-058: the command is also called list-version and list-history.
	for _, name := range []string{"list-version", "list-history"} {
		same, _ := s.Run(t.TempDir(), "app", name, "shop")
		testkit.Equal(t, "output of "+name, same, out)
	}
}

// raw sends a request as it stands, and returns the status and the body.
func raw(s *site.Site, host, target string) (status int, body string) {
	s.T.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		s.T.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host); err != nil {
		s.T.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		s.T.Fatal(err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if _, err := fmt.Sscanf(head, "HTTP/1.1 %d", &status); err != nil {
		s.T.Fatalf("got no answer to %q %q: %q", host, target, head)
	}
	return status, body
}

func TestHostsNeverReachAnotherApp(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	for _, name := range []string{"shop", "shop-2"} {
		r := s.Repository(s.App(name))
		r.Write("index.html", "this is "+name)
		s.Pushed(r, name, "One")
	}
	long := strings.Repeat("a", 10_000)
	for host, want := range map[string]string{
		"SHOP.LOCALHOST": "this is shop", "shop.localhost.": "this is shop", "Shop.localhost:1": "this is shop",
		"shop-2.localhost.:65535": "this is shop-2", "127.0.0.1": "", "[::1]:80": "", "[::ffff:127.0.0.1]": "",
		"localhost": "", "localhost.": "", "shop%2elocalhost": "", "%73hop.localhost": "", "shop": "",
		"shop.localhost.evil.example": "", "evilshop.localhost": "", "a.b.shop.localhost": "",
		"shop.localhost@shop-2.localhost": "", "-shop.localhost": "", "shop..localhost": "", ".localhost": "",
		"shop.localhost:99999": "", "shop_.localhost": "", "xn--shop.localhost": "", "shop--shop-2.localhost": "",
		"shop.shop-2.localhost": "", long + ".localhost": "", long: "", "shop.localhost:80:80": "", "sh\u00f6p.localhost": "",
		"\u017fhop.localhost": "",
	} {
		status, body := raw(s, host, "/")
		if want != "" {
			// N-019: upper case, a final dot and any port mean the same host.
			testkit.Equal(t, fmt.Sprintf("%.60q (%d)", host, status), body, want)
			continue
		}
		// N-019: everything else is no app's: an IP address is the control host's, an unknown or broken name nobody's.
		testkit.Equal(t, fmt.Sprintf("%.60q answers %d with a page of an app", host, status),
			strings.Contains(body, "this is"), false)
		signIn := status == http.StatusSeeOther &&
			slices.Contains([]string{"127.0.0.1", "[::1]:80", "[::ffff:127.0.0.1]", "localhost", "localhost."}, host)
		testkit.Equal(t, fmt.Sprintf("%.60q is refused (%d)", host, status), signIn || (status >= 400 && status < 500), true)
	}
}

func TestPathsNeverLeaveTheRelease(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Write("secret.txt", "outside of the site", "site/folder/page.txt", "page")
	one := s.Numbered(r, "shop", 1)
	token, err := os.ReadFile(filepath.Join(s.Data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"/../secret.txt", "/folder/../../secret.txt", "/%2e%2e/secret.txt", "/%2E%2E/secret.txt", "/.%2e/secret.txt",
		"/folder/%2e%2e/page.txt", "/..%2fsecret.txt", "/%2e%2e%2fsecret.txt", `/..\secret.txt`, "/..%5csecret.txt", "/%00",
		"/index.html%00.txt", "/./index.html", "/folder/./page.txt", "/../../../../../../token",
		"/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/token", "//../token", "/folder//../../secret.txt",
		"/" + string(one) + "/../../.manifest.json", "/.manifest.json", "http://shop-2.localhost/../secret.txt",
		"/%c0%ae%c0%ae/secret.txt", "/..;/secret.txt", "/%252e%252e/secret.txt", "/folder/..", "/..",
		"/" + strings.Repeat("../", 500) + "etc/passwd", "/etc/passwd",
	} {
		status, body := raw(s, "shop.localhost", target)
		for _, secret := range []string{"outside of the site", strings.TrimSpace(string(token)), "root:", `"sha256`} {
			// N-020: no path leads to what is not of the release.
			testkit.Equal(t, fmt.Sprintf("%.60q answers %d with %q", target, status, secret),
				strings.Contains(body, secret), false)
		}
		testkit.Equal(t, fmt.Sprintf("%.60q is refused (%d)", target, status), status >= 400 && status < 500, true)
	}
	for target, location := range map[string]string{"//folder/page.txt": "/folder/page.txt",
		"/folder//page.txt": "/folder/page.txt", "//evil.example/": "/evil.example/"} {
		status, _ := raw(s, "shop.localhost", target)
		// N-020: runs of slashes lead to the one path that they mean, of the same host.
		testkit.Equal(t, target+" leads to "+location,
			status == http.StatusPermanentRedirect || status == http.StatusNotFound, true)
	}
	site.WantServed(t, s, "shop", "/folder/page.txt", "page")
}

// A version that is made reachable again is no newer for it.
func TestReleaseCreateMakesNothingLatest(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	s.Call(http.MethodDelete, "/apps/shop/releases/"+string(one), nil, nil)
	s.Call(http.MethodPost, "/apps/shop/releases", map[string]string{"version": string(one)}, nil)
	site.WantServed(t, s, "shop--"+string(one), "/", "page 1")
	testkit.Equal(t, "latest", s.Release("shop", "latest").ID, two)
	site.WantServed(t, s, "shop--latest", "/", "page 2")
}
