package push_test

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
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// clone makes another work tree of the same remote.
func clone(r *site.Repository) *site.Repository {
	r.T.Helper()
	c := &site.Repository{T: r.T, Dir: r.T.TempDir()}
	c.Git("clone", "--quiet", r.Git("remote", "get-url", "origin"), ".")
	return c
}

// runsOf returns the runs of a commit.
func runsOf(s *site.Site, app string, commit landfall.CommitSHA) []client.Run {
	s.T.Helper()
	return slices.DeleteFunc(site.List[client.Run](s, "/runs?limit=1000&app="+app), func(r client.Run) bool {
		return r.Commit != commit
	})
}

func TestBranchThatLooksLikeAnOption(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	s.Numbered(r, "shop", 1)
	for i, branch := range []string{"--upload-pack=touch", "team/-fix", "-"} {
		page := fmt.Sprint("branch ", i)
		r.Write("site/index.html", page)
		r.Commit("On " + branch)
		uid := s.Released(r.Push("HEAD:"+landfall.BranchPrefix+branch), "shop")
		// N-014: a branch whose name git allows gets its release and its tag's address, whatever it looks like.
		tag := "branch-" + landfall.Slug(branch, 56)
		testkit.Equal(t, "tag of "+branch, s.Tagged("shop")[tag], uid)
		site.WantServed(t, s, landfall.JoinedLabel("shop", tag), "/", page)
	}
	site.WantServed(t, s, "shop", "/", "page 1")
}

func TestBranchesShareWhatIsTheSame(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	r.Checkout("left")
	left := s.Numbered(r, "shop", 2)
	r.Git("checkout", "--quiet", "-b", "right", "main")
	before := s.Stored("shop")
	r.Write("site/index.html", "page 2")
	right := s.Pushed(r, "shop", "The same on another branch")
	// B-029: equal content on two branches is the same version: there is no second one, and nothing is stored again.
	testkit.Equal(t, "commits, and so releases, differ", left != right, true)
	testkit.Equal(t, "version on the second branch", s.UnitsOf("shop", string(right))["static /"],
		s.UnitsOf("shop", string(left))["static /"])
	testkit.EqualList(t, "new objects", site.Added(before, s.Stored("shop")), []string{})

	r.Commit("Nothing new")
	out := r.Push("HEAD:refs/heads/x", "HEAD:refs/heads/y")
	both := s.Released(out, "shop")
	// L-004: one commit that arrives on two branches at once has one run, and both branches have its release.
	testkit.Equal(t, "runs", len(runsOf(s, "shop", r.Head())), 1)
	testkit.Equal(t, "branch x", s.Tagged("shop")["branch-x"], both)
	testkit.Equal(t, "branch y", s.Tagged("shop")["branch-y"], both)
	testkit.Equal(t, "times that the run is told", strings.Count(out.String(), s.At("shop--"+string(both), "/")), 1)

	r.Push("HEAD:refs/heads/z")
	testkit.Equal(t, "runs after a third branch came", len(runsOf(s, "shop", r.Head())), 1)
	testkit.Equal(t, "branch z", s.Tagged("shop")["branch-z"], both)
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)
	// L-013: every branch is built and has an address of its own.
	for branch, page := range map[string]string{"left": "page 2", "right": "page 2", "x": "page 2", "main": "page 1"} {
		site.WantServed(t, s, "shop--branch-"+branch, "/", page)
	}
}

func TestRevertGoesBackToTheOldVersion(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	before := s.Stored("shop")
	r.Git("revert", "--no-edit", "HEAD")
	three := s.Released(r.Push("HEAD"), "shop")

	site.WantServed(t, s, "shop", "/", "page 1")
	// B-029: a version never changes: going back to its content goes back to it, by its number and its id.
	testkit.Equal(t, "version after the revert", s.UnitsOf("shop", string(three))["static /"],
		s.UnitsOf("shop", string(one))["static /"])
	testkit.EqualList(t, "new objects", site.Added(before, s.Stored("shop")), []string{})
	testkit.Equal(t, "live", s.ShowApp("shop").Live, three)
	next := s.Numbered(r, "shop", 3)
	testkit.Equal(t, "number of the next version", s.UnitsOf("shop", string(next))["static /"].Number,
		s.UnitsOf("shop", string(two))["static /"].Number+1)
}

func TestMergeOfWhatWasPreviewedMakesNoVersion(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml", site.FunctionSpec("hello"), "hello/main.py", "one")
	s.Numbered(r, "shop", 1)
	r.Checkout("feature")
	r.Write("hello/main.py", "two")
	preview := s.Numbered(r, "shop", 2)
	before := s.Stored("shop")
	r.Checkout("main")
	r.Git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
	merged := s.Released(r.Push("HEAD"), "shop")

	// B-001: the merge brings no new version of anything: production has exactly what was looked at.
	testkit.Equal(t, "units", fmt.Sprint(s.UnitsOf("shop", string(merged))),
		fmt.Sprint(s.UnitsOf("shop", string(preview))))
	testkit.EqualList(t, "new objects", site.Added(before, s.Stored("shop")), []string{})
	versions := site.List[client.Version](s, "/functions/hello/versions")
	testkit.Equal(t, "versions of hello", len(versions), 2)
	testkit.Equal(t, "the preview's version is latest and live",
		versions[1].Latest && versions[1].Live && versions[1].UID == preview, true)
	site.WantServed(t, s, "shop", "/", "page 2")
}

func TestForcePush(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	r.Git("reset", "--quiet", "--hard", "HEAD~1")
	r.Write("site/index.html", "page 2, again")
	r.Commit("Page 2, rewritten")
	three := s.Released(r.Push("--force", "HEAD"), "shop")
	// L-001: a rewritten branch moves to its new head, and the release of the old head stays.
	site.WantServed(t, s, "shop", "/", "page 2, again")
	site.WantServed(t, s, "shop--"+string(two), "/", "page 2")
	testkit.Equal(t, "branch tag", s.Tagged("shop")["branch-main"], three)

	r.Git("reset", "--quiet", "--hard", "HEAD~1")
	testkit.Contains(t, r.Push("--force", "HEAD"), s.At("shop--"+string(one), "/"))
	site.WantServed(t, s, "shop", "/", "page 1")
	testkit.Equal(t, "branch tag after a reset", s.Tagged("shop")["branch-main"], one)
	testkit.Equal(t, "runs of the first commit", len(runsOf(s, "shop", r.Head())), 1)
}

func TestDeletedBranch(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	s.Numbered(r, "shop", 1)
	r.Checkout("feature")
	two := s.Numbered(r, "shop", 2)
	three := s.Numbered(r, "shop", 3)
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(two)}, nil)
	r.Push(":feature")
	// L-030: deleting the branch expires its releases at once, except those that a tag holds.
	site.WantStatus(t, s, "shop--"+string(three), http.StatusGone, "expired")
	site.WantServed(t, s, "shop--"+string(two), "/", "page 2")
	site.WantStatus(t, s, "shop--branch-feature", http.StatusNotFound, "No such release")
	site.WantServed(t, s, "shop", "/", "page 1")

	again := s.Released(r.Push("HEAD"), "shop")
	testkit.Equal(t, "release of the branch that came back", again, three)
	site.WantServed(t, s, "shop--branch-feature", "/", "page 3")
	r.Write("site/index.html", "page 4")
	s.Pushed(r, "shop", "Four")
	site.WantServed(t, s, "shop--branch-feature", "/", "page 4")
}

func TestGitTags(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	one := s.Numbered(r, "shop", 1)
	two := s.Numbered(r, "shop", 2)
	r.Git("tag", "--annotate", "--message", "First", "v1.0.0", "HEAD~1")
	r.Push("v1.0.0")
	host := landfall.JoinedLabel("shop", "v1.0.0")
	// D-054: an annotated tag that is pushed names the release of its commit, under the tag's slug.
	testkit.Equal(t, "tag", s.Tagged("shop")["v1.0.0"], one)
	site.WantServed(t, s, host, "/", "page 1")
	// What git says is not overruled by hand, and by git alone it is moved.
	site.WantRefused(t, s.Refused(http.MethodPut, "/apps/shop/tags/v1.0.0", map[string]string{"release": string(two)}),
		landfall.Conflict, "follows the git tag")
	site.WantServed(t, s, host, "/", "page 1")
	r.Git("tag", "--force", "v1.0.0", "HEAD")
	r.Push("--force", "v1.0.0")
	// D-055: the tag moves, and its address stays.
	testkit.Equal(t, "moved tag", s.Tagged("shop")["v1.0.0"], two)
	site.WantServed(t, s, host, "/", "page 2")
	r.Push(":v1.0.0")
	testkit.Equal(t, "deleted tag", s.Tagged("shop")["v1.0.0"], "")
	site.WantStatus(t, s, host, http.StatusNotFound, "No such release")

	r.Git("checkout", "--quiet", "--detach")
	r.Write("site/index.html", "page 3")
	r.Commit("On no branch")
	r.Git("tag", "v3")
	three := s.Released(r.Push("v3"), "shop")
	site.WantServed(t, s, "shop.v3", "/", "page 3")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, two)
	testkit.Equal(t, "line of a commit that no branch has", s.Release("shop", string(three)).Line, landfall.Preview)
	var reasons []string
	for _, m := range site.List[client.Move](s, "/apps/shop/moves?pointer="+url.QueryEscape("tag v1.0.0")) {
		reasons = append(reasons, fmt.Sprintf("%s → %s", m.From, m.To))
	}
	testkit.EqualList(t, "moves of the tag", reasons,
		[]string{fmt.Sprintf("%s → ", two), fmt.Sprintf("%s → %s", one, two), fmt.Sprintf(" → %s", one)})
}

func TestProductionBranch(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Checkout("stem")
	one := s.Numbered(r, "shop", 1)
	testkit.Equal(t, "the first branch pushed is production", s.ShowApp("shop").Branch, "stem")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)

	r.Checkout("feature")
	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {production: feature, live: auto, keep: 2}"))
	s.Numbered(r, "shop", 2)
	s.Numbered(r, "shop", 3)
	// L-001: no branch makes itself live: what it says about releasing counts only once production says it.
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)
	testkit.Equal(t, "production", s.ShowApp("shop").Branch, "stem")
	testkit.Equal(t, "policy", s.ShowApp("shop").Policy.Keep, 0)
	// D-051: the latest release is one of production.
	testkit.Equal(t, "latest", s.Release("shop", "latest").ID, one)

	r.Checkout("stem")
	r.Write("specs/app.yaml", site.AppSpec("shop", "release: {production: trunk}"))
	four := s.Numbered(r, "shop", 4)
	testkit.Equal(t, "production after it was renamed", s.ShowApp("shop").Branch, "trunk")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, four)
	five := s.Numbered(r, "shop", 5)
	testkit.Equal(t, "live after a push of what was production", s.ShowApp("shop").Live, four)
	site.WantServed(t, s, "shop--"+string(five), "/", "page 5")
	r.Checkout("trunk")
	six := s.Numbered(r, "shop", 6)
	testkit.Equal(t, "live after a push of the new production branch", s.ShowApp("shop").Live, six)
	testkit.Equal(t, "latest", s.Release("shop", "latest").ID, six)
}

func TestPreviewShowsItsOwnCommit(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "config: {colour: red}")
	one := s.Numbered(r, "shop", 1)
	r.Checkout("feature/Blue")
	tag := "branch-" + landfall.Slug("feature/Blue", 63-len("branch-"))
	for n := 2; n <= 4; n++ {
		uid := s.Numbered(r, "shop", n)
		// L-014: after each push the preview's address answers with the new release, and says so.
		p := s.Get(s.At(landfall.JoinedLabel("shop", tag), "/"))
		testkit.Equal(t, "page", p.Body, fmt.Sprintf("page %d", n))
		testkit.Equal(t, "release of the answer", p.Header.Get("Landfall-Release"), string(uid))
	}
	r.Git("mv", "site", "pages")
	r.Write("specs/app.yaml", strings.ReplaceAll(site.AppSpec("shop", "config: {colour: blue}"), "src: site",
		"src: pages"))
	five := s.Pushed(r, "shop", "Move the pages")
	// L-015: specs are read from the commit that is built, not from production's.
	site.WantServed(t, s, "shop--"+string(five), "/", "page 4")
	testkit.EqualList(t, "changed units", changed(s, "shop", one, five), []string{"config config", "static /"})
	site.WantServed(t, s, "shop", "/", "page 1")
}

func TestPushesThatAreSkipped(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	var app client.App
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "shop", Folder: "web/shop"}, &app)
	r := s.Repository(app)
	r.Write("web/shop/specs/app.yaml", site.AppSpec("shop", `release: {branches: ["release/*"], skip_paths: ["**/*.md"]}`),
		"web/shop/site/index.html", "page 1", "index.html", "another app's")
	one := s.Pushed(r, "shop", "One")
	r.Write("web/shop/README.md", "words", "index.html", "changed")
	skipped := r.Commit("Words")
	out := r.Push("HEAD")
	// L-011: a push that gets no release is told so, and why.
	testkit.Contains(t, out, "skipped: only paths of release.skip_paths changed")
	testkit.Equal(t, "state", s.Finished("shop", skipped).State, landfall.RunSkipped)
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)
	r.Write("web/shop/site/index.html", "page 2")
	r.Commit("Two")
	testkit.Contains(t, r.Push("HEAD:refs/heads/other"), "skipped: the branch other gets no releases (release.branches)")
	testkit.Contains(t, r.Push("HEAD:refs/heads/release/2"), "Released")
	site.WantServed(t, s, landfall.JoinedLabel("shop", "branch-"+landfall.Slug("release/2", 63-len("branch-"))),
		"/", "page 2")
	testkit.Contains(t, r.Push("HEAD"), "It is live")
	site.WantServed(t, s, "shop", "/", "page 2")

	r.Write("web/shop/site/index.html", "page 3")
	unwanted := r.Commit("Three [skip landfall]")
	// L-009: so is a commit that wants no release, and how it gets one all the same
	testkit.Contains(t, r.Push("HEAD"), "skipped: the commit's message has [skip landfall] (landfall run retry --rebuild")
	site.WantServed(t, s, "shop", "/", "page 2")
	testkit.Contains(t, site.Told{s.Landfall("run", "retry", s.Finished("shop", unwanted).ID, "--rebuild")}, "Released")
	site.WantServed(t, s, "shop", "/", "page 3")
}

func TestUnitsThatLeaveTheSpec(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/bar.yaml", site.FunctionSpec("bar"), "bar/main.py", "bar",
		"specs/foo.yaml", site.FunctionSpec("foo"), "foo/main.py", "foo_1")
	one := s.Numbered(r, "shop", 1)
	r.Write("foo/main.py", "foo_2")
	two := s.Numbered(r, "shop", 2)
	r.Checkout("keeps")
	r.Git("checkout", "--quiet", "-b", "drops")
	r.Git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	s.Numbered(r, "shop", 3)
	var tracker client.Tracker
	s.Call(http.MethodGet, "/functions/foo/tracker", nil, &tracker)
	// B-030: a branch that drops a unit retires nothing: production's versions of it are listed as before.
	testkit.EqualList(t, "tracker of foo", tracker.Spec.Versions, []landfall.UID{one, two})

	r.Checkout("main")
	r.Git("merge", "--quiet", "drops")
	testkit.Contains(t, r.Push("main"), "retired function foo", "retired package foo-pkg")
	site.WantRefused(t, s.Refused(http.MethodGet, "/functions/foo/tracker", nil), landfall.NotFound, "left the spec")
	site.WantRefused(t, s.Refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)
	for _, u := range site.List[client.Unit](s, "/functions") {
		testkit.Equal(t, "functions in the list", u.Name, "bar")
	}
	site.WantServed(t, s, "shop--"+string(one), "/", "page 1")
	var held client.Version
	s.Call(http.MethodGet, "/functions/foo/versions/"+string(one), nil, &held)
	// L-031: what an accessible release refers to stays, and answers by its id.
	testkit.Equal(t, "a version that a release holds", held.UID, one)

	r.Checkout("keeps")
	s.Numbered(r, "shop", 4)
	site.WantRefused(t, s.Refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)
	r.Checkout("main")
	r.Write("specs/foo.yaml", site.FunctionSpec("foo"), "foo/main.py", "foo_3")
	five := s.Numbered(r, "shop", 5)
	s.Call(http.MethodGet, "/functions/foo/versions/latest", nil, &held)
	testkit.Equal(t, "number of the unit that came back", held.Number, 3)
	testkit.Equal(t, "its version", held.UID, five)
}

func TestUnitsThatOnlyABranchKeeps(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/foo.yaml", site.FunctionSpec("foo"), "foo/main.py", "foo_1")
	one := s.Numbered(r, "shop", 1)
	r.Checkout("keeps")
	r.Checkout("main")
	r.Git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	r.Commit("Without foo")
	testkit.Contains(t, r.Push("main"), "retired function foo", "retired package foo-pkg")

	// pushes lets the branch, and then production, be pushed, and returns what the latter was told.
	pushes := func(n int) string {
		r.Checkout("keeps")
		preview := s.Numbered(r, "shop", 2*n)
		testkit.Equal(t, "the branch has foo", s.UnitsOf("shop", string(preview))["function foo"].Number, int64(n))
		r.Checkout("main")
		r.Write("site/index.html", fmt.Sprint("page ", 2*n+1))
		r.Commit("Still without foo")
		return r.Push("main").String()
	}
	out := pushes(1)
	// What production dropped is said once, whatever a branch still has.
	testkit.Equal(t, "production is told again: "+out, strings.Contains(out, "retired"), false)
	var held client.Version
	s.Call(http.MethodGet, "/functions/foo/versions/"+string(one), nil, &held)
	testkit.Equal(t, "what the branch's release holds", held.UID, one)
	testkit.Equal(t, "functions in the list", len(site.List[client.Unit](s, "/functions")), 0)

	r.Checkout("keeps")
	r.Write("foo/main.py", "foo_2")
	out = pushes(2)
	// Nor is a version retired that production never had.
	testkit.Equal(t, "production is told again: "+out, strings.Contains(out, "retired"), false)
	versions := site.List[client.Version](s, "/functions/foo/versions")
	testkit.Equal(t, "versions in the tracker, which are the branch's own", len(versions), 1)
	site.WantRefused(t, s.Refused(http.MethodGet, "/functions/foo/versions/latest", nil), landfall.NotFound)

	r.Git("merge", "--quiet", "--strategy", "ours", "keeps")
	r.Git("checkout", "--quiet", "keeps", "--", "specs", "foo")
	s.Numbered(r, "shop", 6)
	s.Call(http.MethodGet, "/functions/foo/versions/latest", nil, &held)
	testkit.Equal(t, "number of the function that came back with the branch", held.Number, 2)
	r.Git("rm", "--quiet", "-r", "specs/foo.yaml", "foo")
	r.Commit("Without foo again")
	testkit.Contains(t, r.Push("main"), "retired function foo")
}

func TestHistoryOfAFunction(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop", "release: {keep: 2}")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml", site.FunctionSpec("hello"))
	var uids []landfall.UID
	var commits []landfall.CommitSHA
	var times []string
	for n := 1; n <= 4; n++ {
		r.Write("hello/main.py", fmt.Sprint("code_", n))
		uids = append(uids, s.Numbered(r, "shop", n))
		commits = append(commits, r.Head())
		times = append(times, site.Clock())
	}
	versions := site.List[client.Version](s, "/functions/hello/versions")
	// B-001: all versions of the code that was deployed are kept with their commits, also those of expired releases.
	testkit.Equal(t, "versions", len(versions), 4)
	// B-030: the versions of the function are listed in their order, and those of its package.
	packages := site.List[client.Version](s, "/packages/hello-pkg/versions")
	testkit.Equal(t, "versions of the package", len(packages), 4)
	for i, v := range versions {
		testkit.Equal(t, "version "+string(v.UID), v.UID, uids[i])
		testkit.Equal(t, "commit of version "+string(v.UID), v.Commit, commits[i])
		testkit.Equal(t, "version of the package", packages[i].UID, uids[i])
		// B-029: every update made a new version, and the older ones are what they were.
		testkit.Equal(t, "number of version "+string(v.UID), v.Number, int64(i+1))
		testkit.Equal(t, "package of version "+string(v.UID),
			strings.Contains(string(v.Spec), "hello-pkg-"+string(uids[i])), true)
	}
	for i := range uids {
		for _, at := range []string{times[i], string(commits[i]), string(commits[i])[:8]} {
			var state client.State
			s.Call(http.MethodGet, "/apps/shop/state?at="+url.QueryEscape(at), nil, &state)
			// B-005: what was in force at any time or commit is told exactly.
			testkit.Equal(t, "state at "+at, state.Metadata.Name, string(uids[i]))
			testkit.Equal(t, "hello at "+at, fmt.Sprint(state.Spec.Objects[0]), fmt.Sprintf("{function hello %s}", uids[i]))
		}
	}
	site.WantRefused(t, s.Refused(http.MethodGet, "/apps/shop/state?at=2001-01-01T00:00:00Z", nil), landfall.NotFound,
		"nothing was applied")
}

func TestNewerPushWins(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	gate := t.TempDir()
	r := s.Static("shop")
	s.Numbered(r, "shop", 1)
	r.Write("specs/app.yaml", site.Gated("shop", gate))
	older := r.Commit("A build that takes its time")
	slow := clone(r)
	slow.Git("fetch", "--quiet", r.Dir, "main:slow")
	var out string
	var err error
	var waiting sync.WaitGroup
	waiting.Go(func() { out, err = slow.Try("push", "origin", "slow:main") })
	s.Eventually("the older push is being built", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { site.OpenGate(t, gate) })
	r.Write("specs/app.yaml", site.AppSpec("shop"))
	newer := s.Numbered(r, "shop", 2)
	run := s.Finished("shop", older)
	site.OpenGate(t, gate)
	waiting.Wait()
	if err != nil {
		t.Fatalf("the older push: %v\n%s", err, out)
	}

	// P-009: the second push to the branch supersedes the first, which is told so.
	testkit.Contains(t, site.ToldBy(out), "Superseded by "+r.Head().Short())
	testkit.Equal(t, "state of the older run", run.State, landfall.RunSuperseded)
	// L-001: the older push, which takes longer, never overtakes the newer one.
	testkit.Equal(t, "live", s.ShowApp("shop").Live, newer)
	// L-002: the branch's head decides, in the order of its pushes.
	testkit.Equal(t, "branch tag", s.Tagged("shop")["branch-main"], newer)
	// L-003: nor does the first build, which was slow, replace what the second one serves.
	site.WantServed(t, s, "shop", "/", "page 2")
	testkit.Equal(t, "release of the superseded run", run.Release, "")
	site.WantStatus(t, s, "shop--"+string(older), http.StatusNotFound, "No such release")
}

// pusher pushes to one branch of one app.
type pusher struct {
	*site.Repository
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
	s := site.New(t)
	const apps, pushes = 8, 6
	wanted := want{pages: map[landfall.CommitSHA]string{}}
	var pushers []pusher
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		r := s.Static(name, "release: {keep: 1000}")
		r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/f.yaml", site.FunctionSpec("f-"+name),
			"f-"+name+"/main.py", "code_0")
		r.Write("site/index.html", "first")
		s.Pushed(r, name, "First")
		wanted.pages[r.Head()] = "first"
		for _, branch := range []string{"main", "left", "right"} {
			pushers = append(pushers, pusher{clone(r), name, branch, branch})
		}
		pushers = append(pushers, pusher{clone(r), name, "right", "rival"}) // two that rewrite the same branch
	}
	var all sync.WaitGroup
	for _, p := range pushers {
		all.Go(func() { p.pushMany(&wanted, pushes) })
	}
	all.Wait()
	for i := range apps {
		wantConsistent(s, t, fmt.Sprintf("app-%d", i), pushers[4*i].Repository, wanted.pages)
	}
	testkit.Equal(t, "pushes", len(wanted.pages), apps*(1+4*pushes))
}

// pushMany pushes commits, whose function is one of three.
func (p pusher) pushMany(wanted *want, pushes int) {
	p.Checkout(p.branch)
	for n := range pushes {
		page := fmt.Sprintf("%s %s %d", p.app, p.name, n)
		p.Write("site/index.html", page, "f-"+p.app+"/main.py", fmt.Sprint("code_", n%3))
		p.Git("add", "--all")
		p.Git("commit", "--quiet", "--message", page)
		wanted.Lock()
		wanted.pages[p.Head()] = page
		wanted.Unlock()
		if out, err := p.Try("push", "--force", "origin", "HEAD:refs/heads/"+p.branch); err != nil &&
			!strings.Contains(out, "failed to update ref") &&
			!strings.Contains(out, "cannot lock ref") {
			p.T.Errorf("push of %s: %v\n%s", page, err, out)
		}
	}
}

// wantConsistent looks at what many pushes at once came to.
func wantConsistent(s *site.Site, t *testing.T, app string, r *site.Repository, pages map[landfall.CommitSHA]string) {
	t.Helper()
	for _, run := range site.List[client.Run](s, "/runs?limit=1000&app="+app) {
		run = s.Final(run.ID)
		// B-054: pushes from many branches at once all come to an end, and none of them fails.
		testkit.Equal(t, "state of "+run.Commit.Short()+": "+run.Reason,
			run.State == landfall.RunSucceeded || run.State == landfall.RunSuperseded, true)
	}
	tags := s.Tagged(app)
	for line := range strings.Lines(r.Git("ls-remote", "--heads", "origin")) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		branch := strings.TrimPrefix(ref, landfall.BranchPrefix)
		// L-002: each branch ends at its last push.
		testkit.Equal(t, app+": head of "+branch, s.Release(app, string(tags["branch-"+branch])).Commit,
			landfall.CommitSHA(sha))
		if branch == "main" {
			// L-001: live is the last push of production.
			testkit.Equal(t, app+": live", s.Release(app, "live").Commit, landfall.CommitSHA(sha))
		}
	}
	numbers, digests := map[string]landfall.Digest{}, map[string]string{}
	for _, release := range site.List[client.Release](s, "/apps/"+app+"/releases") {
		// L-004: runs at the same time do not mix: each release serves what its own commit has.
		site.WantServed(t, s, app+"--"+string(release.ID), "/", pages[release.Commit])
		for name, u := range s.UnitsOf(app, string(release.ID)) {
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
	versions := site.List[client.Version](s, "/functions/f-"+app+"/versions")
	testkit.Equal(t, app+": versions of a function with three contents", len(versions), 3)
	for i, v := range versions {
		testkit.Equal(t, app+": numbers ascend without a gap", v.Number, int64(i+1))
	}
}
