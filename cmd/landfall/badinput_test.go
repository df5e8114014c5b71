package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// wantNothingMade fails the test if an app has anything that a push makes.
func wantNothingMade(t *testing.T, s *site, app string) {
	t.Helper()
	s = s.in(t)
	wantEqual(t, "app versions", len(list[client.Group](s, "/apps/"+app+"/groups")), 0)
	wantEqual(t, "releases", len(list[client.Release](s, "/apps/"+app+"/releases")), 0)
	wantEqual(t, "objects", len(s.stored(app)), 0)
	wantStatus(t, s, app, http.StatusNotFound, "Nothing is live yet")
}

// attempt pushes what an app cannot release, looks at what the person is told, and returns the run.
func (s *site) attempt(r *repository, app string, parts ...string) client.Run {
	s.t.Helper()
	r.commit("Cannot be released")
	wantFailed(s.t, s, app, r, r.push("HEAD"), parts...)
	return s.finished(app, r.head())
}

func TestPushOfNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	s.attempt(r, "shop", "has neither spec files in specs/ nor an index.html")
	failed := s.finished("shop", r.head())
	if out, _ := s.run(t.TempDir(), "run", "show", failed.ID); failed.URL != "" || strings.Contains(out, "http://shop--") {
		t.Errorf("the run has the address %q, at which nothing answers, and shows:\n%s", failed.URL, out)
	}
	// N-007: a commit without any file fails clearly, and nothing is created.
	wantNothingMade(t, s, "shop")
	r.write("README.md", "read me", "docs/index.html", "not at the root", "specs/readme.txt", "not YAML")
	s.attempt(r, "shop", "add one of them, or name the folder of the specs")
	// N-007: so does one that has files, but neither specs nor an index.html.
	wantNothingMade(t, s, "shop")
	r.write("index.html", "at last")
	s.pushed(r, "shop", "Works")
	wantServed(t, s, "shop", "/", "at last")

	var applied client.Applied
	gone := landfall.CommitSHA(strings.Repeat("12345678", 5))
	s.call(http.MethodPost, "/apps/shop/applies", client.Apply{ID: "gone12345678", Commit: gone, Clean: true}, &applied)
	run := s.final(applied.Run.ID)
	// N-006: a commit that is gone when it is fetched ends its run, which says what to do, and the next push works.
	wantEqual(t, "state", run.State, landfall.RunFailed)
	wantText(t, told{run.Reason}, gone.Short(), "push again")
	r.write("index.html", "next")
	s.pushed(r, "shop", "Next")
	wantServed(t, s, "shop", "/", "next")
}

func TestPushOverALimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_MAX_FILES=5", "LANDFALL_MAX_FILE_BYTES=20000000", "LANDFALL_MAX_COMMIT_BYTES=30000000", "LANDFALL_MAX_PUSH=25000000")
	for _, test := range []struct {
		app   string
		files []string
		says  []string
	}{
		{"files", []string{"index.html", "", "1", "", "2", "", "3", "", "4", "", "5", ""}, []string{"the commit has 6 files", "the limit is 5", "LANDFALL_MAX_FILES"}},
		{
			"file", []string{"index.html", "", "large.bin", strings.Repeat("0123456789", 2_000_001)},
			[]string{`"large.bin" has 20000010 bytes`, "the limit is 20000000 bytes", "LANDFALL_MAX_FILE_BYTES"},
		},
		{
			"commit", []string{"index.html", "", "a", strings.Repeat("0123456789", 1_900_000), "b", strings.Repeat("9876543210", 1_900_000)},
			[]string{"38000000 bytes", "the limit is 30000000 bytes", "LANDFALL_MAX_COMMIT_BYTES"},
		},
		{
			"spec", []string{"specs/app.yaml", "# " + strings.Repeat("0123456789\n# ", 700_000), "specs/more.yaml", strings.Repeat("#", 700_000)},
			[]string{"spec files: 9800002 bytes; the limit is 8388608", "LANDFALL_MAX_SPEC_BYTES"},
		},
	} {
		t.Run(test.app, func(t *testing.T) {
			s := s.in(t)
			name := "limit-" + test.app
			r := s.repository(s.app(name))
			r.write(test.files...)
			s.attempt(r, name, test.says...)
			// N-008: a commit over a limit fails with the limit, the figure and the setting's name.
			wantNothingMade(t, s, name)
		})
	}
	t.Run("push", func(t *testing.T) {
		s := s.in(t)
		r := s.repository(s.app("limit-push"))
		r.write("index.html", "")
		randomFile(t, filepath.Join(r.dir, "random.bin"), 26_000_000)
		r.commit("Too much")
		out, err := r.try("push", "origin", "HEAD")
		if err == nil {
			t.Error("the push was not refused")
		}
		// N-008: so does a push over the limit of a push, which changes nothing.
		wantText(t, toldBy(out), "LANDFALL_MAX_PUSH", "(25000000 bytes)", "Nothing was changed")
		wantEqual(t, "runs", len(list[client.Run](s, "/runs?app=limit-push")), 0)
		wantEqual(t, "references", r.git("ls-remote", "origin"), "")
		r.git("rm", "--quiet", "--force", "random.bin")
		r.git("commit", "--quiet", "--amend", "--message", "Less")
		s.released(r.push("HEAD"), "limit-push")
	})
}

// randomFile writes a file that nothing compresses.
func randomFile(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		t.Fatal(err)
	}
}

func TestPushOfBadSpecs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("site/index.html", "page", "hello/main.py", "code")
	const app, hello, env = "specs/app.yaml", "specs/hello.yaml", "specs/env.yaml"
	attempt := func(t *testing.T, files []string, parts ...string) client.Run {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(r.dir, "specs")); err != nil {
			t.Fatal(err)
		}
		r.write(app, appSpec("shop"), env, environmentSpec, hello, functionSpec("hello"))
		r.write(files...)
		run := s.attempt(r, "shop", parts...)
		wantNothingMade(t, s, "shop")
		return run
	}

	// N-009: YAML that does not parse is named by file and line, in the output of the push.
	attempt(t, []string{app, "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop\n"}, "specs/app.yaml:")
	// N-009: so are unknown fields, with the nearest known name.
	attempt(t, []string{app, strings.Replace(appSpec("shop"), "static:", "statics:", 1)}, "specs/app.yaml:5", `"statics"`, "static")
	// N-009: duplicate keys.
	attempt(t, []string{app, appSpec("shop", "config: {a: 1, a: 2}")}, "specs/app.yaml:7", "a")
	// N-009: and duplicate names, with both places.
	attempt(t, []string{"specs/more.yaml", functionSpec("hello")}, "specs/more.yaml:", "specs/hello.yaml:", "already defined")

	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("    a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for _, text := range []string{
		appSpec("shop", "config:", "  "+bomb),
		appSpec("shop", "config: "+strings.Repeat("{a: ", 20_000)+strings.Repeat("}", 20_000)),
		appSpec("shop", "config: {a: ["+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+"]}"),
	} {
		run := attempt(t, []string{app, text}, "specs/app.yaml:")
		last := run.Steps[len(run.Steps)-1]
		// N-010: aliases by the million and nesting by the thousand are refused where they are read, at once.
		wantEqual(t, fmt.Sprintf("the step %s took %s, which is long", last.Step, last.Finished.Sub(last.Started)),
			last.Step == landfall.StepRead && last.Finished.Sub(last.Started) < 10*time.Second, true)
	}

	// N-011: a function that names no environment is refused before anything is created.
	attempt(t, []string{hello, strings.Replace(functionSpec("hello"), "  environment: {name: python}\n", "", 1)}, "specs/hello.yaml:", "hello", "environment")
	// N-011: so is one whose package is not in the spec.
	attempt(t, []string{hello, strings.Replace(functionSpec("hello"), "{name: hello-pkg}\n    functionName", "{name: helo-pkg}\n    functionName", 1)},
		"specs/hello.yaml:", `"helo-pkg"`)
	// N-011: and a trigger without its function.
	attempt(t, []string{"specs/route.yaml", "apiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: r}\nspec:\n  relativeurl: /r\n" +
		"  functionref: {type: name, name: nobody}\n"}, "specs/route.yaml:", `"nobody"`)

	// N-028: a cron expression that does not parse is refused, with file, line and character.
	attempt(t, []string{"specs/timer.yaml", "apiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: t}\nspec:\n" +
		"  functionref: {name: hello}\n  cron: 0 25 * * *\n"}, "specs/timer.yaml:6", "character 3", `"25"`)
	// N-028: so is one that is never due.
	attempt(t, []string{"specs/timer.yaml", "apiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: t}\nspec:\n" +
		"  functionref: {name: hello}\n  cron: 0 0 30 2 *\n"}, "specs/timer.yaml:6", "never due")

	// N-012: a src that matches nothing is an error that names its place.
	attempt(t, []string{app, strings.Replace(appSpec("shop"), "src: site", "src: sites", 1)}, "specs/app.yaml:6", `"sites"`)
	// N-012: so is an exclude.
	attempt(t, []string{app, strings.Replace(appSpec("shop"), "path: /}", "path: /, exclude: [nothing]}", 1)}, "specs/app.yaml:6", `"nothing"`)
	// N-012: and an archive none of whose globs matches.
	attempt(t, []string{hello, strings.Replace(functionSpec("hello"), "hello/*.py", "hello/*.js", 1)}, "specs/hello.yaml:", "hello/*.js")
	// N-012: two static units with equal path are an error that names both places.
	attempt(t, []string{app, strings.Replace(appSpec("shop"), "path: /}\n", "path: /}\n    - {src: hello, path: /}\n", 1)}, "specs/app.yaml:6", "specs/app.yaml:7")

	r.write(app, appSpec("shop"))
	if err := os.RemoveAll(filepath.Join(r.dir, "specs")); err != nil {
		t.Fatal(err)
	}
	r.write(app, appSpec("shop"), env, environmentSpec, hello, functionSpec("hello"))
	s.pushed(r, "shop", "Right at last")
	wantServed(t, s, "shop", "/", "page")

	other := s.repository(s.app("other"))
	other.write(app, appSpec("other"), "site/index.html", "other", env, environmentSpec, hello, functionSpec("hello"), "hello/main.py", "code")
	s.attempt(other, "other", "specs/hello.yaml:", `belongs to the app "shop"`, "--namespace")
	// N-012: nor is anything made of a push that names another app's unit.
	wantEqual(t, "versions of the owner's function", len(list[client.Version](s, "/functions/hello/versions")), 1)
	wantEqual(t, "releases", len(list[client.Release](s, "/apps/other/releases")), 0)
}

func TestPushOfAnotherAppsUnit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files := []string{"site/index.html", "page", "specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "code"}
	r := s.static("shop")
	r.write(files...)
	s.pushed(r, "shop", "The owner's")
	for app, spec := range map[string]string{
		"other": appSpec("other"), "built": appSpec("built", `build: {command: "echo a long build", outputs: [site/out.txt]}`),
	} {
		r := s.repository(s.app(app))
		r.write(files...)
		r.write("specs/app.yaml", spec)
		says := []string{"specs/hello.yaml:10: package hello-pkg", `belongs to the app "shop"`, "--namespace"}
		run := s.attempt(r, app, says...)
		// N-012: it is found before anything is built or stored for it.
		wantEqual(t, app+": the last step", run.Steps[len(run.Steps)-1].Step, landfall.StepPlan)
		wantNothingMade(t, s, app)

		id := "dryrun12" + app
		r.git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
		err := s.refused(http.MethodPost, "/apps/"+app+"/applies", client.Apply{ID: id, Commit: r.head(), Base: r.head(), Clean: true, DryRun: true})
		wantRefused(t, err, landfall.Invalid, says...)
	}
	var own client.App
	s.call(http.MethodPost, "/apps", client.NewApp{Name: "apart", Namespace: "elsewhere"}, &own)
	r = s.repository(own)
	r.write(files...)
	r.write("specs/app.yaml", appSpec("apart"))
	s.pushed(r, "apart", "In a namespace of its own")
}

// link makes a symbolic link.
func (r *repository) link(target, name string) {
	r.t.Helper()
	if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

const lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

func TestPushOfLinksAndPointers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i, target := range []string{
		"../../outside.txt", "../../../../../../../../etc/passwd", "/etc/passwd", "loop", "nothing", "../site", strings.Repeat("../site/", 30) + "index.html.",
	} {
		app := fmt.Sprintf("links-%d", i)
		r := s.static(app)
		r.write("site/index.html", "page")
		r.link(target, "site/loop")
		s.attempt(r, app, `"site/loop"`, "symlink")
		// N-013: a link that leaves the tree, is absolute, or leads to itself, nothing or a folder is refused by name.
		wantNothingMade(t, s, app)
		r.write("specs/app.yaml", strings.Replace(appSpec(app), "path: /}", "path: /, exclude: [loop]}", 1))
		s.pushed(r, app, "Without the link")
		// N-013: one that is not selected harms nobody, and its content is in no version.
		wantEqual(t, "status of a link that is not selected", s.get(s.at(app, "/loop")).status, http.StatusNotFound)
	}

	r := s.repository(s.app("no-specs"))
	r.write("index.html", "page")
	r.link("/etc/passwd", "passwd")
	s.attempt(r, "no-specs", `a folder without specs: "passwd" is a symlink`)

	r = s.static("good-link")
	r.write("site/index.html", "page", "shared/text.txt", "shared")
	r.link("../shared/text.txt", "site/text.txt")
	s.pushed(r, "good-link", "A link within the tree")
	wantServed(t, s, "good-link", "/text.txt", "shared")

	r = s.static("submodule")
	r.write("site/index.html", "page")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1234567890", 4)+",site/module")
	r.git("add", "site/index.html", "site/robots.txt", "specs")
	r.git("commit", "--quiet", "--message", "A submodule")
	wantFailed(t, s, "submodule", r, r.push("HEAD"), `"site/module"`, "submodule")
	// N-013: a submodule is named.
	wantNothingMade(t, s, "submodule")

	r = s.static("pointer")
	r.write("site/index.html", "page", "site/video.mp4", lfsPointer)
	planned := s.attempt(r, "pointer", "site/video.mp4", "Git LFS", "exclude it")
	// N-013: so is a pointer of Git LFS that a unit would serve, before anything is built or stored.
	wantEqual(t, "step", planned.Step, landfall.StepPlan)
	wantNothingMade(t, s, "pointer")
	wantEqual(t, "releases", len(list[client.Release](s, "/apps/pointer/releases")), 0)
	r.git("mv", "site/video.mp4", "video.mp4")
	s.pushed(r, "pointer", "Nobody serves it")
	wantServed(t, s, "pointer", "/", "page")
	r.write("specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("pointing"), "pointing/main.py", lfsPointer)
	planned = s.attempt(r, "pointer", "pointing/main.py", "Git LFS")
	// N-013: and one in an archive; the release before stays.
	wantEqual(t, "step", planned.Step, landfall.StepRead)
	wantServed(t, s, "pointer", "/", "page")
}

func TestPushOfUnusualNames(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	names := []string{
		"with space.txt", " leading and trailing ", "größe/straße.html", "日本語.txt", "e\u0301.txt", "\u00e9.txt", "🙂.txt", "Twin.html", "twin.html", "TWIN.html",
		"-rf", "--help.txt", "%2e%2e", "%2e.txt", "%2F.txt", "100%.txt", "%zz", "a+b&c=d;e,f.txt", "question?.txt", "hash#tag.txt", "colon:name", "'quotes\"`.txt",
		"<script>.html", "$(id).txt", "*.txt", "[x].txt", "~tilde", "@{u}", "dir.with.dots/.hidden", "a/b/c/d/e/f/g.txt", "con.txt", "trailing.", "index.html~",
		strings.Repeat("n", 255), "..dots", "...", "\ufeffbom.txt", "semi;colon/index.html",
	}
	for i, name := range names {
		r.write("site/"+name, fmt.Sprintf("file %d", i))
	}
	s.numbered(r, "shop", 1)
	for i, name := range names {
		parts := strings.Split(name, "/")
		for j := range parts {
			parts[j] = url.PathEscape(parts[j])
		}
		p := s.get(s.at("shop", "/"+strings.Join(parts, "/")))
		// N-014: a file name survives from the push to the address, byte for byte.
		wantEqual(t, fmt.Sprintf("%d %q", p.status, name), p.body, fmt.Sprintf("file %d", i))
	}

	for i, name := range []string{"new\nline.txt", "tab\tname", "back\\slash.txt", "delete\x7f", "escape\x1b[31m.txt", "invalid\xff.txt"} {
		app := fmt.Sprintf("names-%d", i)
		r := s.static(app)
		r.write("site/index.html", "page", "site/"+name, "odd")
		r.commit("An odd name")
		out := r.push("HEAD")
		run := s.finished(app, r.head())
		if run.State == landfall.RunSucceeded {
			// N-014: a name with a line break or another control character survives to its address as well,
			wantServed(t, s, app, "/"+url.PathEscape(name), "odd")
			continue
		}
		// N-014: or is refused by name, with nothing that a terminal would obey.
		wantFailed(t, s, app, r, out, "site/"+strings.Trim(strconv.QuoteToASCII(name), `"`))
		wantNothingMade(t, s, app)
	}
}

// peak returns the most memory that the server has used so far, in MiB.
func (s *site) peak() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if figure, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(figure), "kB")))
			if err != nil {
				s.t.Fatal(err)
			}
			return kib >> 10
		}
	}
	s.t.Fatal("the kernel does not tell the server's memory")
	return 0
}

func TestPushOfALargeFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_MAX_FILE_BYTES=1000000000")
	r := s.static("shop")
	const size = 200 << 20
	randomFile(t, filepath.Join(r.dir, "site/large.bin"), size)
	r.commit("200 MiB")
	start := time.Now()
	out := r.push("HEAD")
	s.released(out, "shop")
	t.Logf("200 MiB: pushed and released in %s, %d MiB of memory", time.Since(start), s.peak())
	wantText(t, out, "2 of 2 files uploaded", strconv.Itoa(size+len("all")))
	// N-008: within the limits size costs no memory: files are streamed.
	wantEqual(t, fmt.Sprintf("the server took %d MiB, fewer than 512", s.peak()), s.peak() < 512, true)

	resp, err := (&http.Client{Transport: client.LocalTransport()}).Get(s.at("shop", "/large.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "bytes served", served, size)
	wantEqual(t, fmt.Sprintf("the server took %d MiB, fewer than 512, after serving", s.peak()), s.peak() < 512, true)
}

func TestPushOfManyFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.static("shop")
	const count = 10_000
	for i := range count {
		r.write(fmt.Sprintf("site/%d/%d.txt", i/100, i), fmt.Sprint("file ", i))
	}
	r.commit("10,000 files")
	start := time.Now()
	out := r.push("HEAD")
	t.Logf("10,000 files: pushed and released in %s, %d MiB of memory", time.Since(start), s.peak())
	wantText(t, out, fmt.Sprintf("%d of %d files uploaded", count+1, count+1))
	r.write("site/42/4242.txt", "changed")
	r.commit("One of them")
	start = time.Now()
	out = r.push("HEAD")
	t.Logf("one of 10,000 files: pushed and released in %s, %d MiB of memory", time.Since(start), s.peak())
	// N-008: the number of files costs what changed of them.
	wantText(t, out, fmt.Sprintf("1 of %d files uploaded", count+1))
	wantServed(t, s, "shop", "/42/4242.txt", "changed")
	wantServed(t, s, "shop", "/99/9999.txt", "file 9999")
	wantEqual(t, fmt.Sprintf("the server took %d MiB, fewer than 512", s.peak()), s.peak() < 512, true)
}
