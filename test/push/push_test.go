package push_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// fileOf reads a file of the shop sample.
func fileOf(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../testdata/apps/shop", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// changed returns the units that differ between two releases, by "kind name".
func changed(s *site.Site, app string, from, to landfall.UID) []string {
	s.T.Helper()
	var names []string
	for _, c := range site.List[client.Change](s, fmt.Sprintf("/apps/%s/diff?from=%s&to=%s", app, from, to)) {
		if c.Change != landfall.Unchanged {
			names = append(names, c.Unit.String())
		}
	}
	return names
}

func TestPushTheShop(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	app := s.App("shop")
	r := s.Repository(app)
	r.CopyTree("../../testdata/apps/shop")
	first := r.Commit("Open the shop")
	r.Write("site/index.html", "not committed")

	// P-014: one process, started with one command and two settings, takes the push and serves the result.
	testkit.Equal(t, "health", s.Get(s.URL+"/healthz").Body, "ok\n")
	site.WantStatus(t, s, "shop", http.StatusNotFound, "Nothing is live yet")
	out := r.Push("main")

	// D-038: whoever pushes names neither an app version nor a release; both are made, and the page is live.
	one := s.Released(out, "shop")
	site.WantServed(t, s, "shop", "/", fileOf(t, "site/index.html"))
	// P-003: the pipeline builds the pushed commit, not what lies in the work tree.
	testkit.Equal(t, "commit of the run", s.Finished("shop", first).Commit, first)
	site.WantServed(t, s, "shop--"+string(one), "/", fileOf(t, "site/index.html"))
	// P-007: a release is made, and its link is on a line of its own.
	site.WantLine(t, out, s.At("shop--"+string(one), "/"))
	site.WantLine(t, out, "It is live: "+s.At("shop", "/"))
	testkit.Contains(t, out, "209 files, 3 functions, 2 packages, 3 triggers, 4 static units", "14 of 14 units changed",
		"200 of 200 files uploaded")
	// P-005: the group version is tied to the commit, the branch and the clean flag.
	var group client.GroupTracker
	s.Call(http.MethodGet, "/apps/shop/groups/"+string(one), nil, &group)
	testkit.Equal(t, "git", group.Spec.Git, client.Git{Commit: first, Branch: "main", Clean: "yes"})
	// D-030: the release is an app version that visitors reach.
	testkit.Equal(t, "name of the group version", group.Metadata.Name, string(one))

	wantMovingParts(s, t, one)
	before := s.Stored("shop")
	two := changeTwoFiles(s, t, r, one)
	changeConfiguration(s, t, r, two)
	changeFunction(s, t, r)

	after := s.Stored("shop")
	// L-028: content is stored once: five releases of 200 files are 202 files, and one manifest for each version of a
	// unit.
	testkit.Equal(t, "objects stored since the first push", len(site.Added(before, after)), 2+1+1)
	rollTheShopBack(s, t, one)
}

// wantMovingParts looks at what the shop's first release consists of.
func wantMovingParts(s *site.Site, t *testing.T, release landfall.UID) {
	t.Helper()
	kinds := map[string]int{}
	for _, u := range s.Release("shop", string(release)).Units {
		kinds[string(u.Unit.Kind)]++
		// D-028: a version is a snapshot of one moving unit: each has its own number and digest.
		testkit.Equal(t, "number of the first version of "+u.Unit.String(), u.Number, 1)
	}
	// D-021: the moving parts are tenant configuration, function configuration and static assets, and nothing else.
	testkit.Equal(t, "kinds of units", fmt.Sprint(kinds),
		fmt.Sprint(map[string]int{"config": 1, "environment": 1, "function": 3, "package": 2, "http-trigger": 3,
			"static": 4}))
	// D-006: tenant configuration is a moving part.
	testkit.Equal(t, "version of the configuration", s.UnitsOf("shop", string(release))["config config"].UID, release)
	// D-023: it is one moving unit.
	testkit.Equal(t, "units of configuration", kinds[string(landfall.ConfigUnit)], 1)
	// D-007: the code base of functions is a moving part.
	testkit.Equal(t, "units of code", kinds[string(landfall.PackageUnit)], 2)
	// D-024: one function's configuration is one moving unit.
	testkit.Equal(t, "units of functions", kinds[string(landfall.FunctionUnit)], 3)
	// D-011: static assets are a moving part.
	testkit.Equal(t, "version of the static files at /", s.UnitsOf("shop", string(release))["static /"].UID, release)
	// D-025: one static entry is one moving unit.
	testkit.Equal(t, "units of static files", kinds[string(landfall.StaticUnit)], 4)
	// D-022: units are named by what they are to the author.
	testkit.Equal(t, "a unit for /static/js", s.UnitsOf("shop", string(release))["static /static/js"].UID, release)
}

// changeTwoFiles pushes a change of two files, and returns its release.
func changeTwoFiles(s *site.Site, t *testing.T, r *site.Repository, one landfall.UID) landfall.UID {
	t.Helper()
	before := s.Stored("shop")
	r.Git("checkout", "--quiet", "--", ".")
	r.Replace("site/about.html", "</body>", "<p>New.</p></body>")
	r.Replace("site/contact.html", "</body>", "<p>New.</p></body>")
	commit := r.Commit("Say more")
	out := r.Push("main")
	two := s.Released(out, "shop")

	// P-006: of 200 files the two that changed are uploaded, under the new version's own prefix, and its manifest.
	prefix := s.ObjectsOf("shop") + "static/root/" + string(two) + "/"
	testkit.EqualList(t, "new objects", site.Added(before, s.Stored("shop")),
		[]string{prefix + ".manifest.json", prefix + "about.html", prefix + "contact.html"})
	testkit.Contains(t, out, "1 of 14 units changed", "2 of 200 files uploaded")
	// D-060: each version of static assets is held in a folder that is named by the version.
	testkit.Equal(t, "version of the unit /", s.UnitsOf("shop", string(two))["static /"].UID, two)
	// D-061: static items whose files do not change are not uploaded.
	testkit.Equal(t, "version of the unit /static/js", s.UnitsOf("shop", string(two))["static /static/js"].UID, one)
	// D-063: so files of different items are skipped independently.
	testkit.Equal(t, "version of the unit /static/images",
		s.UnitsOf("shop", string(two))["static /static/images"].UID, one)
	// L-027: of all units in the repository, only the one that changed gets a version, without any setting.
	testkit.EqualList(t, "changed units", changed(s, "shop", one, two), []string{"static /"})
	// P-004: the run compares with what was applied last, down to the files.
	run := s.Finished("shop", commit)
	i := slices.IndexFunc(run.Changes, func(c client.Change) bool { return c.Change == landfall.Changed })
	if i < 0 || run.Changes[i].Files == nil || run.Changes[i].Files.Changed != 2 ||
		run.Changes[i].Files.Added+run.Changes[i].Files.Removed != 0 {
		t.Errorf("got the changes %+v, want 2 changed files", run.Changes)
	}
	// L-029: the bytes that the release has, and those that only it has, are said.
	testkit.Equal(t, "some bytes are shared",
		run.Stats.BytesUploaded > 0 && run.Stats.BytesUploaded < run.Stats.Bytes/10, true)
	testkit.Contains(t, out, fmt.Sprintf("(%d of %d bytes)", run.Stats.BytesUploaded, run.Stats.Bytes))
	// D-033: the changed unit has a new version.
	testkit.Equal(t, "number of the unit's version", s.UnitsOf("shop", string(two))["static /"].Number, 2)
	// D-036: the new app version was made with it, and has its name.
	var group client.GroupTracker
	s.Call(http.MethodGet, "/apps/shop/groups/"+string(two), nil, &group)
	testkit.Equal(t, "commit of the new app version", group.Spec.Git.Commit, commit)
	// P-012: the gateway serves each release at its address, by a tag, and the live one: each its own content.
	site.WantServed(t, s, "shop--"+string(one), "/about.html", fileOf(t, "site/about.html"))
	now := strings.ReplaceAll(fileOf(t, "site/about.html"), "</body>", "<p>New.</p></body>")
	for _, host := range []string{"shop--" + string(two), "shop." + string(two), "shop--branch-main", "shop"} {
		site.WantServed(t, s, host, "/about.html", now)
	}
	return two
}

// changeConfiguration pushes one changed value of the tenant configuration.
func changeConfiguration(s *site.Site, t *testing.T, r *site.Repository, two landfall.UID) {
	t.Helper()
	r.Replace("specs/app.yaml", "currency: EUR", "currency: USD")
	three := s.Pushed(r, "shop", "Take dollars")
	// D-026: one changed value means that the whole tenant configuration changed, and nothing else.
	testkit.EqualList(t, "changed units", changed(s, "shop", two, three), []string{"config config"})
	// D-029: the app version is the collection of versions of all its parts, the unchanged ones included.
	testkit.Equal(t, "units of the new app version", len(s.UnitsOf("shop", string(three))), 14)
}

// changeFunction pushes one changed letter of a function, and something that no unit has.
func changeFunction(s *site.Site, t *testing.T, r *site.Repository) {
	t.Helper()
	three := s.ShowApp("shop").Live
	code, err := filepath.Glob(filepath.Join(r.Dir, "functions/checkout/*.py"))
	if err != nil || len(code) == 0 {
		t.Fatalf("the shop has no function checkout: %v", err)
	}
	name, err := filepath.Rel(r.Dir, code[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(code[0])
	if err != nil {
		t.Fatal(err)
	}
	r.Write(name, string(text)+"#")
	four := s.Pushed(r, "shop", "Change checkout")
	// D-027: any change of the code base, however small, means that the function changed.
	testkit.EqualList(t, "changed units", changed(s, "shop", three, four),
		[]string{"function checkout", "package checkout-pkg"})
	// D-035: deploying the function gave a new version of that function.
	versions := site.List[client.Version](s, "/functions/checkout/versions")
	testkit.Equal(t, "versions of checkout", len(versions), 2)
	testkit.Equal(t, "the newest version of checkout", versions[1].UID, four)
	type page struct {
		Items []client.Version
		Next  string
	}
	var first, second page
	s.Call(http.MethodGet, "/functions/checkout/versions?limit=1", nil, &first)
	s.Call(http.MethodGet, "/functions/checkout/versions?limit=1&cursor="+first.Next, nil, &second)
	testkit.Equal(t, "versions on two pages of one", len(first.Items)+len(second.Items), 2)
	testkit.Equal(t, "the version on the second page", second.Items[0].UID, four)
	testkit.Equal(t, "where the second page leads", second.Next, "")
	// D-037: a change of the configuration and one of a function are two app versions.
	var messages []string
	for _, g := range site.List[client.Group](s, "/apps/shop/groups") {
		messages = append(messages, g.Message)
	}
	testkit.EqualList(t, "history, newest first", messages,
		[]string{"Change checkout", "Take dollars", "Say more", "Open the shop"})

	r.Write("README.md", "A shop, and how its mail server is set up.\n")
	r.Commit("Describe the mail server")
	// D-004: what the platform does not control is in no version.
	testkit.Contains(t, r.Push("main"), "0 of 14 units changed", "Unchanged: Released")
}

// rollTheShopBack goes back to the first release.
func rollTheShopBack(s *site.Site, t *testing.T, one landfall.UID) {
	t.Helper()
	s.Call(http.MethodPost, "/apps/shop/rollback", map[string]string{"release": string(one), "reason": "broken"}, nil)
	// D-002: on an error of the running version the app goes back to an earlier one.
	site.WantServed(t, s, "shop", "/about.html", fileOf(t, "site/about.html"))
	testkit.Equal(t, "release of the answer", s.Get(s.At("shop", "/")).Header.Get("Landfall-Release"), string(one))
	// D-003: a version of the app is the behaviour of all its parts: functions and configuration went back with the files.
	for _, v := range site.List[client.Version](s, "/functions/checkout/versions") {
		testkit.Equal(t, "live: checkout no. "+string(v.UID), v.Live, v.UID == one)
	}
	testkit.Equal(t, "configuration of the live release", s.UnitsOf("shop", "live")["config config"].UID, one)
}

func TestApplyByCommand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.CopyTree("../../testdata/apps/shop")
	one := s.Pushed(r, "shop", "Open the shop")
	r.Replace("specs/app.yaml", "currency: EUR", "currency: CHF")
	r.Commit("Take francs")
	out, code := s.Run(r.Dir, "spec", "version", "apply", "--app", "shop")
	testkit.Equal(t, "exit code of "+out, code, 0)
	two := s.ShowApp("shop").Live

	// D-034: a command that updates a moving unit makes a new version of it.
	testkit.Equal(t, "version of the configuration", s.UnitsOf("shop", "live")["config config"].UID, two)
	testkit.EqualList(t, "changed units", changed(s, "shop", one, two), []string{"config config"})
}

func TestPushToABranchIsABeta(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("index.html", "one")
	one := s.Pushed(r, "shop", "One")
	r.Git("checkout", "--quiet", "-b", "beta")
	r.Write("index.html", "beta")
	beta := s.Pushed(r, "shop", "Beta")
	s.Call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(beta)}, nil)

	// D-001: a beta version is released for testing at an address of its own, while everybody else keeps the live one.
	site.WantServed(t, s, "shop.beta", "/", "beta")
	site.WantServed(t, s, "shop--branch-beta", "/", "beta")
	site.WantServed(t, s, "shop", "/", "one")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, one)
}

func TestPushStaticItems(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("skygear"))
	r.Write(
		"specs/app.yaml", `apiVersion: landfall.dev/v1
kind: App
metadata: {name: skygear}
spec:
  static:
    - {src: build/index.html, path: /, fallback: index.html}
    - {src: build/js, path: /static/js}
    - {src: build/public, path: /static, exclude: [public/video/very-large-one.mp4]}
    - {src: build/public/video/very-large-one.mp4, path: /static/video/very-large-one.mp4}
`,
		"build/index.html", "<html>", "build/js/app.js", "ours", "build/public/js/app.js", "another",
		"build/public/js/other.js", "other", "build/public/logo.svg", "<svg/>", "build/public/video/small.mp4", "small",
		"build/public/video/very-large-one.mp4", "large",
	)
	one := s.Pushed(r, "skygear", "Static items")

	// D-064: src is a file or a folder, path says where it is served, and exclude lists what is not.
	site.WantServed(t, s, "skygear", "/", "<html>")
	site.WantServed(t, s, "skygear", "/static/logo.svg", "<svg/>")
	site.WantServed(t, s, "skygear", "/static/video/small.mp4", "small")
	// D-065: the paths /, /static and /static/js nest, and the most specific one serves.
	site.WantServed(t, s, "skygear", "/static/js/app.js", "ours")
	site.WantServed(t, s, "skygear", "/static/js/other.js", "other")
	// D-066: the file that one item excludes is served by another.
	site.WantServed(t, s, "skygear", "/static/video/very-large-one.mp4", "large")

	before := s.Stored("skygear")
	r.Write("build/public/logo.svg", "<svg>2</svg>")
	two := s.Pushed(r, "skygear", "Logo")
	testkit.EqualList(t, "changed units", changed(s, "skygear", one, two), []string{"static /static"})
	testkit.Equal(t, "new objects beside the manifest", len(site.Added(before, s.Stored("skygear"))), 2)
}

func TestLogEndsWithWhatTheRunCameTo(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Static("shop")
	r.Write("site/index.html", "page")
	for name, test := range map[string]struct{ file, text, says, last string }{
		"one fault":  {"specs/more.yaml", "kind: Nothing\n", "specs/more.yaml:1", "failed: specs/more.yaml:1"},
		"two faults": {"specs/more.yaml", "kind: Nothing\n---\nkind: Never\n", "specs/more.yaml:3", "failed"},
		"a long log": {"specs/app.yaml", site.AppSpec("shop", "build: {command: seq 30000; exit 3, inputs: [\"site/**\"], "+
			"outputs: [out]}"), "failed with exit code 3", "failed: the build command"},
		"colours": {"specs/app.yaml", site.AppSpec("shop",
			`build: {command: "printf '\\033[31mred\\033[0m 50%%\\r\\033[1mno such\\tmodule\\033[0m\\n\\033[0m\\n'; exit 3", inputs: ["site/**"], outputs: [out]}`),
			"failed with exit code 3: no such module",
			"failed: the build command of the app failed with exit code 3: no such module"},
		"no failures": {"specs/app.yaml", site.AppSpec("shop"), "Released ", "succeeded: Released "},
	} {
		r.Git("checkout", "--quiet", "-B", "test")
		r.Write("specs/app.yaml", site.AppSpec("shop"), test.file, test.text)
		r.Commit(name)
		told := strings.TrimSpace(r.Push("--force", "HEAD").String())
		run := s.Finished("shop", r.Head())
		out, _ := s.Run(r.Dir, "run", "logs", run.ID)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		last := strings.TrimSpace(strings.TrimPrefix(lines[len(lines)-1], string(run.Step)))
		// N-015: the last line of a run's log is what it came to, however long the log is; nothing is said twice.
		testkit.Equal(t, name+": "+last, strings.HasPrefix(last, test.last), true)
		testkit.Equal(t, name+": the log says "+test.says, strings.Count(out, test.says), 1)
		testkit.Equal(t, name+": the push says "+test.says, strings.Count(told, test.says), 1)
		if err := os.RemoveAll(filepath.Join(r.Dir, "specs")); err != nil {
			t.Fatal(err)
		}
	}
}

// An App document that only says how to release takes no page away.
func TestPushOfAPageWithSettings(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("index.html", "page", "specs/app.yaml",
		"apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  release: {keep: 3}\n")
	s.Pushed(r, "shop", "A page and a rule")
	site.WantServed(t, s, "shop", "/", "page")
	testkit.Equal(t, "releases that are kept", s.ShowApp("shop").Policy.Keep, 3)
}

// Who follows a push while the server is stopped reads that nothing is lost.
func TestPushWhileTheServerStops(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	gate := t.TempDir()
	t.Cleanup(func() { site.OpenGate(t, gate) })
	r.Write("specs/app.yaml", site.Gated("shop", gate), "site/index.html", "page")
	commit := r.Commit("A build that takes its time")
	pushed := make(chan site.Told)
	go func() {
		out, _ := r.Try("push", "origin", "main")
		pushed <- site.ToldBy(out)
	}()
	s.Eventually("it is being built", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	run, _ := s.RunOf("shop", commit)
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	site.WantLine(t, <-pushed, "The server stops; the run goes on when it is back: landfall run show "+run.ID)
	site.OpenGate(t, gate)
	<-s.Done
	s.Start()
	testkit.Equal(t, "state of the run", s.Final(run.ID).State, landfall.RunSucceeded)
	site.WantServed(t, s, "shop", "/", "page")
}

// What a push took away counts among all that there was.
func TestPushCountsWhatItRemoves(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop", "  - {src: css, path: /css}"), "site/index.html", "one",
		"css/a.css", "a{}")
	r.Commit("Two units")
	testkit.Contains(t, r.Push("main"), "2 of 2 units changed")
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "two")
	r.Commit("One is left")
	testkit.Contains(t, r.Push("main"), "2 of 2 units changed", "retired static /css")
}
