package main

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

// replace replaces text in a file of the repository.
func (r *repository) replace(name, old, with string) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		r.t.Fatalf("%s has no %q", name, old)
	}
	r.write(name, strings.ReplaceAll(string(data), old, with))
}

// changed returns the units that differ between two releases, by "kind name".
func (s *site) changed(app string, from, to landfall.UID) []string {
	s.t.Helper()
	var names []string
	for _, c := range list[client.Change](s, fmt.Sprintf("/apps/%s/diff?from=%s&to=%s", app, from, to)) {
		if c.Change != landfall.Unchanged {
			names = append(names, c.Unit.String())
		}
	}
	return names
}

func TestPushTheShop(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.app("shop")
	r := s.repository(app)
	r.copyTree("../../testdata/apps/shop")
	first := r.commit("Open the shop")
	r.write("site/index.html", "not committed")

	// P-014: one process, started with one command and two settings, takes the push and serves the result.
	wantEqual(t, "health", s.get(s.URL+"/healthz").body, "ok\n")
	wantStatus(t, s, "shop", http.StatusNotFound, "Nothing is live yet")
	out := r.push("main")

	// D-038: whoever pushes names neither an app version nor a release; both are made, and the page is live.
	one := s.released(out, "shop")
	wantServed(t, s, "shop", "/", fileOf(t, "site/index.html"))
	// P-003: the pipeline builds the pushed commit, not what lies in the work tree.
	wantEqual(t, "commit of the run", s.finished("shop", first).Commit, first)
	wantServed(t, s, "shop--"+string(one), "/", fileOf(t, "site/index.html"))
	// P-007: a release is made, and its link is on a line of its own.
	wantLine(t, out, s.at("shop--"+string(one), "/"))
	wantLine(t, out, "It is live: "+s.at("shop", "/"))
	wantText(t, out, "209 files, 3 functions, 2 packages, 3 triggers, 4 static units", "14 of 14 units changed", "200 of 200 files uploaded")
	// P-005: the group version is tied to the commit, the branch and the clean flag.
	var group client.GroupTracker
	s.call(http.MethodGet, "/apps/shop/groups/"+string(one), nil, &group)
	wantEqual(t, "git", group.Spec.Git, client.Git{Commit: first, Branch: "main", Clean: "yes"})
	// D-030: the release is an app version that visitors reach.
	wantEqual(t, "name of the group version", group.Metadata.Name, string(one))

	s.wantMovingParts(t, one)
	before := s.stored("shop")
	two := s.changeTwoFiles(t, r, one)
	s.changeConfiguration(t, r, two)
	s.changeFunction(t, r)

	after := s.stored("shop")
	// L-028: content is stored once: five releases of 200 files are 202 files, and one manifest for each version of a unit.
	wantEqual(t, "objects stored since the first push", len(added(before, after)), 2+1+1)
	s.rollTheShopBack(t, one)
}

// wantMovingParts looks at what the shop's first release consists of.
func (s *site) wantMovingParts(t *testing.T, release landfall.UID) {
	t.Helper()
	kinds := map[string]int{}
	for _, u := range s.release("shop", string(release)).Units {
		kinds[string(u.Unit.Kind)]++
		// D-028: a version is a snapshot of one moving unit: each has its own number and digest.
		wantEqual(t, "number of the first version of "+u.Unit.String(), u.Number, 1)
	}
	// D-021: the moving parts are tenant configuration, function configuration and static assets, and nothing else.
	wantEqual(t, "kinds of units", fmt.Sprint(kinds),
		fmt.Sprint(map[string]int{"config": 1, "environment": 1, "function": 3, "package": 2, "http-trigger": 3, "static": 4}))
	// D-006: tenant configuration is a moving part.
	wantEqual(t, "version of the configuration", s.unitsOf("shop", string(release))["config config"].UID, release)
	// D-023: it is one moving unit.
	wantEqual(t, "units of configuration", kinds[string(landfall.ConfigUnit)], 1)
	// D-007: the code base of functions is a moving part.
	wantEqual(t, "units of code", kinds[string(landfall.PackageUnit)], 2)
	// D-024: one function's configuration is one moving unit.
	wantEqual(t, "units of functions", kinds[string(landfall.FunctionUnit)], 3)
	// D-011: static assets are a moving part.
	wantEqual(t, "version of the static files at /", s.unitsOf("shop", string(release))["static /"].UID, release)
	// D-025: one static entry is one moving unit.
	wantEqual(t, "units of static files", kinds[string(landfall.StaticUnit)], 4)
	// D-022: units are named by what they are to the author.
	wantEqual(t, "a unit for /static/js", s.unitsOf("shop", string(release))["static /static/js"].UID, release)
}

// changeTwoFiles pushes a change of two files, and returns its release.
func (s *site) changeTwoFiles(t *testing.T, r *repository, one landfall.UID) landfall.UID {
	t.Helper()
	before := s.stored("shop")
	r.git("checkout", "--quiet", "--", ".")
	r.replace("site/about.html", "</body>", "<p>New.</p></body>")
	r.replace("site/contact.html", "</body>", "<p>New.</p></body>")
	commit := r.commit("Say more")
	out := r.push("main")
	two := s.released(out, "shop")

	// P-006: of 200 files the two that changed are uploaded, under the new version's own prefix, and its manifest.
	prefix := s.objectsOf("shop") + "static/root/" + string(two) + "/"
	wantList(t, "new objects", added(before, s.stored("shop")), []string{prefix + ".manifest.json", prefix + "about.html", prefix + "contact.html"})
	wantText(t, out, "1 of 14 units changed", "2 of 200 files uploaded")
	// D-060: each version of static assets is held in a folder that is named by the version.
	wantEqual(t, "version of the unit /", s.unitsOf("shop", string(two))["static /"].UID, two)
	// D-061: static items whose files do not change are not uploaded.
	wantEqual(t, "version of the unit /static/js", s.unitsOf("shop", string(two))["static /static/js"].UID, one)
	// D-063: so files of different items are skipped independently.
	wantEqual(t, "version of the unit /static/images", s.unitsOf("shop", string(two))["static /static/images"].UID, one)
	// L-027: of all units in the repository, only the one that changed gets a version, without any setting.
	wantList(t, "changed units", s.changed("shop", one, two), []string{"static /"})
	// P-004: the run compares with what was applied last, down to the files.
	run := s.finished("shop", commit)
	i := slices.IndexFunc(run.Changes, func(c client.Change) bool { return c.Change == landfall.Changed })
	if i < 0 || run.Changes[i].Files == nil || run.Changes[i].Files.Changed != 2 || run.Changes[i].Files.Added+run.Changes[i].Files.Removed != 0 {
		t.Errorf("got the changes %+v, want 2 changed files", run.Changes)
	}
	// L-029: the bytes that the release has, and those that only it has, are said.
	wantEqual(t, "some bytes are shared", run.Stats.BytesUploaded > 0 && run.Stats.BytesUploaded < run.Stats.Bytes/10, true)
	wantText(t, out, fmt.Sprintf("(%d of %d bytes)", run.Stats.BytesUploaded, run.Stats.Bytes))
	// D-033: the changed unit has a new version.
	wantEqual(t, "number of the unit's version", s.unitsOf("shop", string(two))["static /"].Number, 2)
	// D-036: the new app version was made with it, and has its name.
	var group client.GroupTracker
	s.call(http.MethodGet, "/apps/shop/groups/"+string(two), nil, &group)
	wantEqual(t, "commit of the new app version", group.Spec.Git.Commit, commit)
	// P-012: the gateway serves each release at its address, by a tag, and the live one: each its own content.
	wantServed(t, s, "shop--"+string(one), "/about.html", fileOf(t, "site/about.html"))
	now := strings.ReplaceAll(fileOf(t, "site/about.html"), "</body>", "<p>New.</p></body>")
	for _, host := range []string{"shop--" + string(two), "shop." + string(two), "shop--branch-main", "shop"} {
		wantServed(t, s, host, "/about.html", now)
	}
	return two
}

// changeConfiguration pushes one changed value of the tenant configuration.
func (s *site) changeConfiguration(t *testing.T, r *repository, two landfall.UID) {
	t.Helper()
	r.replace("specs/app.yaml", "currency: EUR", "currency: USD")
	three := s.pushed(r, "shop", "Take dollars")
	// D-026: one changed value means that the whole tenant configuration changed, and nothing else.
	wantList(t, "changed units", s.changed("shop", two, three), []string{"config config"})
	// D-029: the app version is the collection of versions of all its parts, the unchanged ones included.
	wantEqual(t, "units of the new app version", len(s.unitsOf("shop", string(three))), 14)
}

// changeFunction pushes one changed letter of a function, and something that no unit has.
func (s *site) changeFunction(t *testing.T, r *repository) {
	t.Helper()
	three := s.showApp("shop").Live
	code, err := filepath.Glob(filepath.Join(r.dir, "functions/checkout/*.py"))
	if err != nil || len(code) == 0 {
		t.Fatalf("the shop has no function checkout: %v", err)
	}
	name, err := filepath.Rel(r.dir, code[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(code[0])
	if err != nil {
		t.Fatal(err)
	}
	r.write(name, string(text)+"#")
	four := s.pushed(r, "shop", "Change checkout")
	// D-027: any change of the code base, however small, means that the function changed.
	wantList(t, "changed units", s.changed("shop", three, four), []string{"function checkout", "package checkout-pkg"})
	// D-035: deploying the function gave a new version of that function.
	versions := list[client.Version](s, "/functions/checkout/versions")
	wantEqual(t, "versions of checkout", len(versions), 2)
	wantEqual(t, "the newest version of checkout", versions[1].UID, four)
	type page struct {
		Items []client.Version
		Next  string
	}
	var first, second page
	s.call(http.MethodGet, "/functions/checkout/versions?limit=1", nil, &first)
	s.call(http.MethodGet, "/functions/checkout/versions?limit=1&cursor="+first.Next, nil, &second)
	wantEqual(t, "versions on two pages of one", len(first.Items)+len(second.Items), 2)
	wantEqual(t, "the version on the second page", second.Items[0].UID, four)
	wantEqual(t, "where the second page leads", second.Next, "")
	// D-037: a change of the configuration and one of a function are two app versions.
	var messages []string
	for _, g := range list[client.Group](s, "/apps/shop/groups") {
		messages = append(messages, g.Message)
	}
	wantList(t, "history, newest first", messages, []string{"Change checkout", "Take dollars", "Say more", "Open the shop"})

	r.write("README.md", "A shop, and how its mail server is set up.\n")
	r.commit("Describe the mail server")
	// D-004: what the platform does not control is in no version.
	wantText(t, r.push("main"), "0 of 14 units changed", "Unchanged: Released")
}

// rollTheShopBack goes back to the first release.
func (s *site) rollTheShopBack(t *testing.T, one landfall.UID) {
	t.Helper()
	s.call(http.MethodPost, "/apps/shop/rollback", map[string]string{"release": string(one), "reason": "broken"}, nil)
	// D-002: on an error of the running version the app goes back to an earlier one.
	wantServed(t, s, "shop", "/about.html", fileOf(t, "site/about.html"))
	wantEqual(t, "release of the answer", s.get(s.at("shop", "/")).header.Get("Landfall-Release"), string(one))
	// D-003: a version of the app is the behaviour of all its parts: functions and configuration went back with the files.
	for _, v := range list[client.Version](s, "/functions/checkout/versions") {
		wantEqual(t, "live: checkout no. "+string(v.UID), v.Live, v.UID == one)
	}
	wantEqual(t, "configuration of the live release", s.unitsOf("shop", "live")["config config"].UID, one)
}

func TestApplyByCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.copyTree("../../testdata/apps/shop")
	one := s.pushed(r, "shop", "Open the shop")
	r.replace("specs/app.yaml", "currency: EUR", "currency: CHF")
	r.commit("Take francs")
	out, code := s.run(r.dir, "spec", "version", "apply", "--app", "shop")
	wantEqual(t, "exit code of "+out, code, 0)
	two := s.showApp("shop").Live

	// D-034: a command that updates a moving unit makes a new version of it.
	wantEqual(t, "version of the configuration", s.unitsOf("shop", "live")["config config"].UID, two)
	wantList(t, "changed units", s.changed("shop", one, two), []string{"config config"})
}

func TestPushToABranchIsABeta(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("index.html", "one")
	one := s.pushed(r, "shop", "One")
	r.git("checkout", "--quiet", "-b", "beta")
	r.write("index.html", "beta")
	beta := s.pushed(r, "shop", "Beta")
	s.call(http.MethodPut, "/apps/shop/tags/beta", map[string]string{"release": string(beta)}, nil)

	// D-001: a beta version is released for testing at an address of its own, while everybody else keeps the live one.
	wantServed(t, s, "shop.beta", "/", "beta")
	wantServed(t, s, "shop--branch-beta", "/", "beta")
	wantServed(t, s, "shop", "/", "one")
	wantEqual(t, "live", s.showApp("shop").Live, one)
}

func TestPushStaticItems(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("skygear"))
	r.write(
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
		"build/index.html", "<html>", "build/js/app.js", "ours", "build/public/js/app.js", "another", "build/public/js/other.js", "other",
		"build/public/logo.svg", "<svg/>", "build/public/video/small.mp4", "small", "build/public/video/very-large-one.mp4", "large",
	)
	one := s.pushed(r, "skygear", "Static items")

	// D-064: src is a file or a folder, path says where it is served, and exclude lists what is not.
	wantServed(t, s, "skygear", "/", "<html>")
	wantServed(t, s, "skygear", "/static/logo.svg", "<svg/>")
	wantServed(t, s, "skygear", "/static/video/small.mp4", "small")
	// D-065: the paths /, /static and /static/js nest, and the most specific one serves.
	wantServed(t, s, "skygear", "/static/js/app.js", "ours")
	wantServed(t, s, "skygear", "/static/js/other.js", "other")
	// D-066: the file that one item excludes is served by another.
	wantServed(t, s, "skygear", "/static/video/very-large-one.mp4", "large")

	before := s.stored("skygear")
	r.write("build/public/logo.svg", "<svg>2</svg>")
	two := s.pushed(r, "skygear", "Logo")
	wantList(t, "changed units", s.changed("skygear", one, two), []string{"static /static"})
	wantEqual(t, "new objects beside the manifest", len(added(before, s.stored("skygear"))), 2)
}

func TestLogEndsWithWhatTheRunCameTo(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.static("shop")
	r.write("site/index.html", "page")
	for name, test := range map[string]struct{ file, text, says, last string }{
		"one fault":  {"specs/more.yaml", "kind: Nothing\n", "specs/more.yaml:1", "failed: specs/more.yaml:1"},
		"two faults": {"specs/more.yaml", "kind: Nothing\n---\nkind: Never\n", "specs/more.yaml:3", "failed"},
		"a long log": {"specs/app.yaml", appSpec("shop", "build: {command: seq 30000; exit 3, inputs: [\"site/**\"], outputs: [out]}"), "failed with exit code 3", "failed: the build command"},
		"colours": {"specs/app.yaml", appSpec("shop", `build: {command: "printf '\\033[31mred\\033[0m 50%%\\r\\033[1mno such\\tmodule\\033[0m\\n\\033[0m\\n'; exit 3", inputs: ["site/**"], outputs: [out]}`),
			"failed with exit code 3: no such module", "failed: the build command of the app failed with exit code 3: no such module"},
		"no failures": {"specs/app.yaml", appSpec("shop"), "Released ", "succeeded: Released "},
	} {
		r.git("checkout", "--quiet", "-B", "test")
		r.write("specs/app.yaml", appSpec("shop"), test.file, test.text)
		r.commit(name)
		told := strings.TrimSpace(r.push("--force", "HEAD").String())
		run := s.finished("shop", r.head())
		out, _ := s.run(r.dir, "run", "logs", run.ID)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		last := strings.TrimSpace(strings.TrimPrefix(lines[len(lines)-1], string(run.Step)))
		// N-015: the last line of a run's log is what it came to, however long the log is; nothing is said twice.
		wantEqual(t, name+": "+last, strings.HasPrefix(last, test.last), true)
		wantEqual(t, name+": the log says "+test.says, strings.Count(out, test.says), 1)
		wantEqual(t, name+": the push says "+test.says, strings.Count(told, test.says), 1)
		if err := os.RemoveAll(filepath.Join(r.dir, "specs")); err != nil {
			t.Fatal(err)
		}
	}
}

// An App document that only says how to release takes no page away.
func TestPushOfAPageWithSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("index.html", "page", "specs/app.yaml",
		"apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  release: {keep: 3}\n")
	s.pushed(r, "shop", "A page and a rule")
	wantServed(t, s, "shop", "/", "page")
	wantEqual(t, "releases that are kept", s.showApp("shop").Policy.Keep, 3)
}

// Who follows a push while the server is stopped reads that nothing is lost.
func TestPushWhileTheServerStops(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	gate := t.TempDir()
	t.Cleanup(func() { openGate(t, gate) })
	r.write("specs/app.yaml", gated("shop", gate), "site/index.html", "page")
	commit := r.commit("A build that takes its time")
	pushed := make(chan told)
	go func() {
		out, _ := r.try("push", "origin", "main")
		pushed <- toldBy(out)
	}()
	s.eventually("it is being built", func() bool { return isThere(filepath.Join(gate, "building")) })
	run, _ := s.runOf("shop", commit)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wantLine(t, <-pushed, "The server stops; the run goes on when it is back: landfall run show "+run.ID)
	openGate(t, gate)
	<-s.done
	s.start()
	wantEqual(t, "state of the run", s.final(run.ID).State, landfall.RunSucceeded)
	wantServed(t, s, "shop", "/", "page")
}

// What a push took away counts among all that there was.
func TestPushCountsWhatItRemoves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", appSpec("shop", "  - {src: css, path: /css}"), "site/index.html", "one", "css/a.css", "a{}")
	r.commit("Two units")
	wantText(t, r.push("main"), "2 of 2 units changed")
	r.write("specs/app.yaml", appSpec("shop"), "site/index.html", "two")
	r.commit("One is left")
	wantText(t, r.push("main"), "2 of 2 units changed", "retired static /css")
}
