package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// checkout makes a branch, or goes to it.
func (r *repository) checkout(branch string) {
	r.t.Helper()
	if _, err := r.try("rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
		r.git("checkout", "--quiet", "-b", branch)
		return
	}
	r.git("checkout", "--quiet", branch)
}

// clone makes another work tree of the same remote.
func (r *repository) clone() *repository {
	r.t.Helper()
	c := &repository{r.t, r.t.TempDir()}
	c.git("clone", "--quiet", r.git("remote", "get-url", "origin"), ".")
	return c
}

// runsOf returns the runs of a commit.
func (s *site) runsOf(app string, commit landfall.CommitSHA) []client.Run {
	s.t.Helper()
	return slices.DeleteFunc(list[client.Run](s, "/runs?limit=1000&app="+app), func(r client.Run) bool { return r.Commit != commit })
}

func TestBranchThatLooksLikeAnOption(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	s.numbered(r, "shop", 1)
	for i, branch := range []string{"--upload-pack=touch", "team/-fix", "-"} {
		page := fmt.Sprint("branch ", i)
		r.write("site/index.html", page)
		r.commit("On " + branch)
		uid := s.released(r.push("HEAD:"+landfall.BranchPrefix+branch), "shop")
		// N-014: a branch whose name git allows gets its release and its tag's address, whatever it looks like.
		tag := "branch-" + landfall.Slug(branch, 56)
		wantEqual(t, "tag of "+branch, s.tagged("shop")[tag], uid)
		wantServed(t, s, landfall.JoinedLabel("shop", tag), "/", page)
	}
	wantServed(t, s, "shop", "/", "page 1")
}

func TestBranchesShareWhatIsTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	r.checkout("left")
	left := s.numbered(r, "shop", 2)
	r.git("checkout", "--quiet", "-b", "right", "main")
	before := s.stored("shop")
	r.write("site/index.html", "page 2")
	right := s.pushed(r, "shop", "The same on another branch")
	// B-029: equal content on two branches is the same version: there is no second one, and nothing is stored again.
	wantEqual(t, "commits, and so releases, differ", left != right, true)
	wantEqual(t, "version on the second branch", s.unitsOf("shop", string(right))["static /"], s.unitsOf("shop", string(left))["static /"])
	wantList(t, "new objects", added(before, s.stored("shop")), []string{})

	r.commit("Nothing new")
	out := r.push("HEAD:refs/heads/x", "HEAD:refs/heads/y")
	both := s.released(out, "shop")
	// L-004: one commit that arrives on two branches at once has one run, and both branches have its release.
	wantEqual(t, "runs", len(s.runsOf("shop", r.head())), 1)
	wantEqual(t, "branch x", s.tagged("shop")["branch-x"], both)
	wantEqual(t, "branch y", s.tagged("shop")["branch-y"], both)
	wantEqual(t, "times that the run is told", strings.Count(out.String(), s.at("shop--"+string(both), "/")), 1)

	r.push("HEAD:refs/heads/z")
	wantEqual(t, "runs after a third branch came", len(s.runsOf("shop", r.head())), 1)
	wantEqual(t, "branch z", s.tagged("shop")["branch-z"], both)
	wantEqual(t, "live", s.showApp("shop").Live, one)
	// L-013: every branch is built and has an address of its own.
	for branch, page := range map[string]string{"left": "page 2", "right": "page 2", "x": "page 2", "main": "page 1"} {
		wantServed(t, s, "shop--branch-"+branch, "/", page)
	}
}

func TestRevertGoesBackToTheOldVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	before := s.stored("shop")
	r.git("revert", "--no-edit", "HEAD")
	three := s.released(r.push("HEAD"), "shop")

	wantServed(t, s, "shop", "/", "page 1")
	// B-029: a version never changes: going back to its content goes back to it, by its number and its id.
	wantEqual(t, "version after the revert", s.unitsOf("shop", string(three))["static /"], s.unitsOf("shop", string(one))["static /"])
	wantList(t, "new objects", added(before, s.stored("shop")), []string{})
	wantEqual(t, "live", s.showApp("shop").Live, three)
	next := s.numbered(r, "shop", 3)
	wantEqual(t, "number of the next version", s.unitsOf("shop", string(next))["static /"].Number, s.unitsOf("shop", string(two))["static /"].Number+1)
}

func TestMergeOfWhatWasPreviewedMakesNoVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.write("specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "one")
	s.numbered(r, "shop", 1)
	r.checkout("feature")
	r.write("hello/main.py", "two")
	preview := s.numbered(r, "shop", 2)
	before := s.stored("shop")
	r.checkout("main")
	r.git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
	merged := s.released(r.push("HEAD"), "shop")

	// B-001: the merge brings no new version of anything: production has exactly what was looked at.
	wantEqual(t, "units", fmt.Sprint(s.unitsOf("shop", string(merged))), fmt.Sprint(s.unitsOf("shop", string(preview))))
	wantList(t, "new objects", added(before, s.stored("shop")), []string{})
	versions := list[client.Version](s, "/functions/hello/versions")
	wantEqual(t, "versions of hello", len(versions), 2)
	wantEqual(t, "the preview's version is latest and live", versions[1].Latest && versions[1].Live && versions[1].UID == preview, true)
	wantServed(t, s, "shop", "/", "page 2")
}

func TestForcePush(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	r.git("reset", "--quiet", "--hard", "HEAD~1")
	r.write("site/index.html", "page 2, again")
	r.commit("Page 2, rewritten")
	three := s.released(r.push("--force", "HEAD"), "shop")
	// L-001: a rewritten branch moves to its new head, and the release of the old head stays.
	wantServed(t, s, "shop", "/", "page 2, again")
	wantServed(t, s, "shop--"+string(two), "/", "page 2")
	wantEqual(t, "branch tag", s.tagged("shop")["branch-main"], three)

	r.git("reset", "--quiet", "--hard", "HEAD~1")
	wantText(t, r.push("--force", "HEAD"), s.at("shop--"+string(one), "/"))
	wantServed(t, s, "shop", "/", "page 1")
	wantEqual(t, "branch tag after a reset", s.tagged("shop")["branch-main"], one)
	wantEqual(t, "runs of the first commit", len(s.runsOf("shop", r.head())), 1)
}

func TestDeletedBranch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	s.numbered(r, "shop", 1)
	r.checkout("feature")
	two := s.numbered(r, "shop", 2)
	three := s.numbered(r, "shop", 3)
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(two)}, nil)
	r.push(":feature")
	// L-030: deleting the branch expires its releases at once, except those that a tag holds.
	wantStatus(t, s, "shop--"+string(three), http.StatusGone, "expired")
	wantServed(t, s, "shop--"+string(two), "/", "page 2")
	wantStatus(t, s, "shop--branch-feature", http.StatusNotFound, "No such release")
	wantServed(t, s, "shop", "/", "page 1")

	again := s.released(r.push("HEAD"), "shop")
	wantEqual(t, "release of the branch that came back", again, three)
	wantServed(t, s, "shop--branch-feature", "/", "page 3")
	r.write("site/index.html", "page 4")
	s.pushed(r, "shop", "Four")
	wantServed(t, s, "shop--branch-feature", "/", "page 4")
}

func TestGitTags(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	one := s.numbered(r, "shop", 1)
	two := s.numbered(r, "shop", 2)
	r.git("tag", "--annotate", "--message", "First", "v1.0.0", "HEAD~1")
	r.push("v1.0.0")
	host := landfall.JoinedLabel("shop", "v1.0.0")
	// D-054: an annotated tag that is pushed names the release of its commit, under the tag's slug.
	wantEqual(t, "tag", s.tagged("shop")["v1.0.0"], one)
	wantServed(t, s, host, "/", "page 1")
	// What git says is not overruled by hand, and by git alone it is moved.
	wantRefused(t, s.refused(http.MethodPut, "/apps/shop/tags/v1.0.0", map[string]string{"release": string(two)}), landfall.Conflict, "follows the git tag")
	wantServed(t, s, host, "/", "page 1")
	r.git("tag", "--force", "v1.0.0", "HEAD")
	r.push("--force", "v1.0.0")
	// D-055: the tag moves, and its address stays.
	wantEqual(t, "moved tag", s.tagged("shop")["v1.0.0"], two)
	wantServed(t, s, host, "/", "page 2")
	r.push(":v1.0.0")
	wantEqual(t, "deleted tag", s.tagged("shop")["v1.0.0"], "")
	wantStatus(t, s, host, http.StatusNotFound, "No such release")

	r.git("checkout", "--quiet", "--detach")
	r.write("site/index.html", "page 3")
	r.commit("On no branch")
	r.git("tag", "v3")
	three := s.released(r.push("v3"), "shop")
	wantServed(t, s, "shop.v3", "/", "page 3")
	wantEqual(t, "live", s.showApp("shop").Live, two)
	wantEqual(t, "line of a commit that no branch has", s.release("shop", string(three)).Line, landfall.Preview)
	var reasons []string
	for _, m := range list[client.Move](s, "/apps/shop/moves?pointer="+url.QueryEscape("tag v1.0.0")) {
		reasons = append(reasons, fmt.Sprintf("%s → %s", m.From, m.To))
	}
	wantList(t, "moves of the tag", reasons, []string{fmt.Sprintf("%s → ", two), fmt.Sprintf("%s → %s", one, two), fmt.Sprintf(" → %s", one)})
}

func TestProductionBranch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.checkout("stem")
	one := s.numbered(r, "shop", 1)
	wantEqual(t, "the first branch pushed is production", s.showApp("shop").Branch, "stem")
	wantEqual(t, "live", s.showApp("shop").Live, one)

	r.checkout("feature")
	r.write("specs/app.yaml", appSpec("shop", "release: {production: feature, live: auto, keep: 2}"))
	s.numbered(r, "shop", 2)
	s.numbered(r, "shop", 3)
	// L-001: no branch makes itself live: what it says about releasing counts only once production says it.
	wantEqual(t, "live", s.showApp("shop").Live, one)
	wantEqual(t, "production", s.showApp("shop").Branch, "stem")
	wantEqual(t, "policy", s.showApp("shop").Policy.Keep, 0)
	// D-051: the latest release is one of production.
	wantEqual(t, "latest", s.release("shop", "latest").ID, one)

	r.checkout("stem")
	r.write("specs/app.yaml", appSpec("shop", "release: {production: trunk}"))
	four := s.numbered(r, "shop", 4)
	wantEqual(t, "production after it was renamed", s.showApp("shop").Branch, "trunk")
	wantEqual(t, "live", s.showApp("shop").Live, four)
	five := s.numbered(r, "shop", 5)
	wantEqual(t, "live after a push of what was production", s.showApp("shop").Live, four)
	wantServed(t, s, "shop--"+string(five), "/", "page 5")
	r.checkout("trunk")
	six := s.numbered(r, "shop", 6)
	wantEqual(t, "live after a push of the new production branch", s.showApp("shop").Live, six)
	wantEqual(t, "latest", s.release("shop", "latest").ID, six)
}

func TestPreviewShowsItsOwnCommit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "config: {colour: red}")
	one := s.numbered(r, "shop", 1)
	r.checkout("feature/Blue")
	tag := "branch-" + landfall.Slug("feature/Blue", 63-len("branch-"))
	for n := 2; n <= 4; n++ {
		uid := s.numbered(r, "shop", n)
		// L-014: after each push the preview's address answers with the new release, and says so.
		p := s.get(s.at(landfall.JoinedLabel("shop", tag), "/"))
		wantEqual(t, "page", p.body, fmt.Sprintf("page %d", n))
		wantEqual(t, "release of the answer", p.header.Get("Landfall-Release"), string(uid))
	}
	r.git("mv", "site", "pages")
	r.write("specs/app.yaml", strings.ReplaceAll(appSpec("shop", "config: {colour: blue}"), "src: site", "src: pages"))
	five := s.pushed(r, "shop", "Move the pages")
	// L-015: specs are read from the commit that is built, not from production's.
	wantServed(t, s, "shop--"+string(five), "/", "page 4")
	wantList(t, "changed units", s.changed("shop", one, five), []string{"config config", "static /"})
	wantServed(t, s, "shop", "/", "page 1")
}

func TestPushesThatAreSkipped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var app client.App
	s.call(http.MethodPost, "/apps", client.NewApp{Name: "shop", Folder: "web/shop"}, &app)
	r := s.repository(app)
	r.write("web/shop/specs/app.yaml", appSpec("shop", `release: {branches: ["release/*"], skip_paths: ["**/*.md"]}`), "web/shop/site/index.html", "page 1",
		"index.html", "another app's")
	one := s.pushed(r, "shop", "One")
	r.write("web/shop/README.md", "words", "index.html", "changed")
	skipped := r.commit("Words")
	out := r.push("HEAD")
	// L-011: a push that gets no release is told so, and why.
	wantText(t, out, "skipped: only paths of release.skip_paths changed")
	wantEqual(t, "state", s.finished("shop", skipped).State, landfall.RunSkipped)
	wantEqual(t, "live", s.showApp("shop").Live, one)
	r.write("web/shop/site/index.html", "page 2")
	r.commit("Two")
	wantText(t, r.push("HEAD:refs/heads/other"), "skipped: the branch other gets no releases (release.branches)")
	wantText(t, r.push("HEAD:refs/heads/release/2"), "Released")
	wantServed(t, s, landfall.JoinedLabel("shop", "branch-"+landfall.Slug("release/2", 63-len("branch-"))), "/", "page 2")
	wantText(t, r.push("HEAD"), "It is live")
	wantServed(t, s, "shop", "/", "page 2")
}

func TestUnitsThatLeaveTheSpec(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.write("specs/env.yaml", environmentSpec, "specs/bar.yaml", functionSpec("bar"), "bar/main.py", "bar",
		"specs/foo.yaml", functionSpec("foo"), "foo/main.py", "foo 1")
	one := s.numbered(r, "shop", 1)
	r.write("foo/main.py", "foo 2")
	two := s.numbered(r, "shop", 2)
	r.checkout("keeps")
	r.git("checkout", "--quiet", "-b", "drops")
	r.git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	s.numbered(r, "shop", 3)
	var tracker client.Tracker
	s.call(http.MethodGet, "/functions/foo/tracker", nil, &tracker)
	// B-030: a branch that drops a unit retires nothing: production's versions of it are listed as before.
	wantList(t, "tracker of foo", tracker.Spec.Versions, []landfall.UID{one, two})

	r.checkout("main")
	r.git("merge", "--quiet", "drops")
	wantText(t, r.push("main"), "retired function foo", "retired package foo-pkg")
	wantRefused(t, s.refused(http.MethodGet, "/functions/foo/tracker", nil), landfall.NotFound, "left the spec")
	wantRefused(t, s.refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)
	for _, u := range list[client.Unit](s, "/functions") {
		wantEqual(t, "functions in the list", u.Name, "bar")
	}
	wantServed(t, s, "shop--"+string(one), "/", "page 1")
	var held client.Version
	s.call(http.MethodGet, "/functions/foo/versions/"+string(one), nil, &held)
	// L-031: what an accessible release refers to stays, and answers by its id.
	wantEqual(t, "a version that a release holds", held.UID, one)

	r.checkout("keeps")
	s.numbered(r, "shop", 4)
	wantRefused(t, s.refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)
	r.checkout("main")
	r.write("specs/foo.yaml", functionSpec("foo"), "foo/main.py", "foo 3")
	five := s.numbered(r, "shop", 5)
	s.call(http.MethodGet, "/functions/foo/versions/latest", nil, &held)
	wantEqual(t, "number of the unit that came back", held.Number, 3)
	wantEqual(t, "its version", held.UID, five)
}

func TestUnitsThatOnlyABranchKeeps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	r.write("specs/env.yaml", environmentSpec, "specs/foo.yaml", functionSpec("foo"), "foo/main.py", "foo 1")
	one := s.numbered(r, "shop", 1)
	r.checkout("keeps")
	r.checkout("main")
	r.git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	r.commit("Without foo")
	wantText(t, r.push("main"), "retired function foo", "retired package foo-pkg")

	// pushes lets the branch, and then production, be pushed, and returns what the latter was told.
	pushes := func(n int) string {
		r.checkout("keeps")
		preview := s.numbered(r, "shop", 2*n)
		wantEqual(t, "the branch has foo", s.unitsOf("shop", string(preview))["function foo"].Number, int64(n))
		r.checkout("main")
		r.write("site/index.html", fmt.Sprint("page ", 2*n+1))
		r.commit("Still without foo")
		return r.push("main").String()
	}
	out := pushes(1)
	// What production dropped is said once, whatever a branch still has.
	wantEqual(t, "production is told again: "+out, strings.Contains(out, "retired"), false)
	var held client.Version
	s.call(http.MethodGet, "/functions/foo/versions/"+string(one), nil, &held)
	wantEqual(t, "what the branch's release holds", held.UID, one)
	wantEqual(t, "functions in the list", len(list[client.Unit](s, "/functions")), 0)

	r.checkout("keeps")
	r.write("foo/main.py", "foo 2")
	out = pushes(2)
	// Nor is a version retired that production never had.
	wantEqual(t, "production is told again: "+out, strings.Contains(out, "retired"), false)
	versions := list[client.Version](s, "/functions/foo/versions")
	wantEqual(t, "versions in the tracker, which are the branch's own", len(versions), 1)
	wantRefused(t, s.refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)

	r.git("merge", "--quiet", "--strategy", "ours", "keeps")
	r.git("checkout", "--quiet", "keeps", "--", "specs", "foo")
	s.numbered(r, "shop", 6)
	s.call(http.MethodGet, "/functions/foo/versions/latest", nil, &held)
	wantEqual(t, "number of the function that came back with the branch", held.Number, 2)
	r.git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	r.commit("Without foo again")
	wantText(t, r.push("main"), "retired function foo")
}

func TestHistoryOfAFunction(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop", "release: {keep: 2}")
	r.write("specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"))
	var uids []landfall.UID
	var commits []landfall.CommitSHA
	var times []string
	for n := 1; n <= 4; n++ {
		r.write("hello/main.py", fmt.Sprint("code ", n))
		uids = append(uids, s.numbered(r, "shop", n))
		commits = append(commits, r.head())
		times = append(times, clock())
	}
	versions := list[client.Version](s, "/functions/hello/versions")
	// B-001: all versions of the code that was deployed are kept with their commits, also those of expired releases.
	wantEqual(t, "versions", len(versions), 4)
	// B-030: the versions of the function are listed in their order, and those of its package.
	packages := list[client.Version](s, "/packages/hello-pkg/versions")
	wantEqual(t, "versions of the package", len(packages), 4)
	for i, v := range versions {
		wantEqual(t, "version "+string(v.UID), v.UID, uids[i])
		wantEqual(t, "commit of version "+string(v.UID), v.Commit, commits[i])
		wantEqual(t, "version of the package", packages[i].UID, uids[i])
		// B-029: every update made a new version, and the older ones are what they were.
		wantEqual(t, "number of version "+string(v.UID), v.Number, int64(i+1))
		wantEqual(t, "package of version "+string(v.UID), strings.Contains(string(v.Spec), "hello-pkg-"+string(uids[i])), true)
	}
	for i := range uids {
		for _, at := range []string{times[i], string(commits[i]), string(commits[i])[:8]} {
			var state client.State
			s.call(http.MethodGet, "/apps/shop/state?at="+url.QueryEscape(at), nil, &state)
			// B-005: what was in force at any time or commit is told exactly.
			wantEqual(t, "state at "+at, state.Metadata.Name, string(uids[i]))
			wantEqual(t, "hello at "+at, fmt.Sprint(state.Spec.Objects[0]), fmt.Sprintf("{function hello %s}", uids[i]))
		}
	}
	wantRefused(t, s.refused(http.MethodGet, "/apps/shop/state?at=2001-01-01T00:00:00Z", nil), landfall.NotFound, "nothing was applied")
}

func TestNewerPushWins(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	gate := t.TempDir()
	r := s.static("shop")
	s.numbered(r, "shop", 1)
	r.write("specs/app.yaml", gated("shop", gate))
	older := r.commit("A build that takes its time")
	slow := r.clone()
	slow.git("fetch", "--quiet", r.dir, "main:slow")
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = slow.try("push", "origin", "slow:main") })
	s.eventually("the older push is being built", func() bool { return isThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { openGate(t, gate) })
	r.write("specs/app.yaml", appSpec("shop"))
	newer := s.numbered(r, "shop", 2)
	run := s.finished("shop", older)
	openGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the older push: %v\n%s", err, out)
	}

	// P-009: the second push to the branch supersedes the first, which is told so.
	wantText(t, toldBy(out), "Superseded by "+r.head().Short())
	wantEqual(t, "state of the older run", run.State, landfall.RunSuperseded)
	// L-001: the older push, which takes longer, never overtakes the newer one.
	wantEqual(t, "live", s.showApp("shop").Live, newer)
	// L-002: the branch's head decides, in the order of its pushes.
	wantEqual(t, "branch tag", s.tagged("shop")["branch-main"], newer)
	// L-003: nor does the first build, which was slow, replace what the second one serves.
	wantServed(t, s, "shop", "/", "page 2")
	wantEqual(t, "release of the superseded run", run.Release, "")
	wantStatus(t, s, "shop--"+string(older), http.StatusNotFound, "No such release")
}

// pusher pushes to one branch of one app.
type pusher struct {
	*repository
	app, branch string
	name        string
}

// want is what a commit's release must serve, by commit.
type want struct {
	sync.Mutex
	pages map[landfall.CommitSHA]string
}

func TestManyPushesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const apps, pushes = 8, 6
	wanted := want{pages: map[landfall.CommitSHA]string{}}
	var pushers []pusher
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		r := s.static(name, "release: {keep: 1000}")
		r.write("specs/env.yaml", environmentSpec, "specs/f.yaml", functionSpec("f-"+name), "f-"+name+"/main.py", "code 0")
		r.write("site/index.html", "first")
		s.pushed(r, name, "First")
		wanted.pages[r.head()] = "first"
		for _, branch := range []string{"main", "left", "right"} {
			pushers = append(pushers, pusher{r.clone(), name, branch, branch})
		}
		pushers = append(pushers, pusher{r.clone(), name, "right", "rival"}) // two that rewrite the same branch
	}
	var all sync.WaitGroup
	for _, p := range pushers {
		all.Go(func() { p.pushMany(&wanted, pushes) })
	}
	all.Wait()
	for i := range apps {
		s.wantConsistent(t, fmt.Sprintf("app-%d", i), pushers[4*i].repository, wanted.pages)
	}
	wantEqual(t, "pushes", len(wanted.pages), apps*(1+4*pushes))
}

// pushMany pushes commits, whose function is one of three.
func (p pusher) pushMany(wanted *want, pushes int) {
	p.checkout(p.branch)
	for n := range pushes {
		page := fmt.Sprintf("%s %s %d", p.app, p.name, n)
		p.write("site/index.html", page, "f-"+p.app+"/main.py", fmt.Sprint("code ", n%3))
		p.git("add", "--all")
		p.git("commit", "--quiet", "--message", page)
		wanted.Lock()
		wanted.pages[p.head()] = page
		wanted.Unlock()
		if out, err := p.try("push", "--force", "origin", "HEAD:refs/heads/"+p.branch); err != nil && !strings.Contains(out, "failed to update ref") &&
			!strings.Contains(out, "cannot lock ref") {
			p.t.Errorf("push of %s: %v\n%s", page, err, out)
		}
	}
}

// wantConsistent looks at what many pushes at once came to.
func (s *site) wantConsistent(t *testing.T, app string, r *repository, pages map[landfall.CommitSHA]string) {
	t.Helper()
	for _, run := range list[client.Run](s, "/runs?limit=1000&app="+app) {
		run = s.final(run.ID)
		// B-054: pushes from many branches at once all come to an end, and none of them fails.
		wantEqual(t, "state of "+run.Commit.Short()+": "+run.Reason, run.State == landfall.RunSucceeded || run.State == landfall.RunSuperseded, true)
	}
	tags := s.tagged(app)
	for line := range strings.Lines(r.git("ls-remote", "--heads", "origin")) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		branch := strings.TrimPrefix(ref, landfall.BranchPrefix)
		// L-002: each branch ends at its last push.
		wantEqual(t, app+": head of "+branch, s.release(app, string(tags["branch-"+branch])).Commit, landfall.CommitSHA(sha))
		if branch == "main" {
			// L-001: live is the last push of production.
			wantEqual(t, app+": live", s.release(app, "live").Commit, landfall.CommitSHA(sha))
		}
	}
	numbers, digests := map[string]landfall.Digest{}, map[string]string{}
	for _, release := range list[client.Release](s, "/apps/"+app+"/releases") {
		// L-004: runs at the same time do not mix: each release serves what its own commit has.
		wantServed(t, s, app+"--"+string(release.ID), "/", pages[release.Commit])
		for name, u := range s.unitsOf(app, string(release.ID)) {
			number := fmt.Sprint(name, " ", u.Number)
			if other, ok := numbers[number]; ok && other != u.Digest {
				t.Errorf("%s: the number %s was given twice", app, number)
			}
			if other, ok := digests[name+string(u.Digest)]; ok && other != number {
				t.Errorf("%s: %s and %s are versions of the same content", app, number, other)
			}
			numbers[number], digests[name+string(u.Digest)] = u.Digest, number
		}
	}
	versions := list[client.Version](s, "/functions/f-"+app+"/versions")
	wantEqual(t, app+": versions of a function with three contents", len(versions), 3)
	for i, v := range versions {
		wantEqual(t, app+": numbers ascend without a gap", v.Number, int64(i+1))
	}
}
