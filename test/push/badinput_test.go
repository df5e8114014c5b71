package push_test

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
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// wantNothingMade fails the test if an app has anything that a push makes.
func wantNothingMade(t *testing.T, s *site.Site, app string) {
	t.Helper()
	s = s.In(t)
	testkit.Equal(t, "app versions", len(site.List[client.Group](s, "/apps/"+app+"/groups")), 0)
	testkit.Equal(t, "releases", len(site.List[client.Release](s, "/apps/"+app+"/releases")), 0)
	testkit.Equal(t, "objects", len(s.Stored(app)), 0)
	site.WantStatus(t, s, app, http.StatusNotFound, "Nothing is live yet")
}

func TestPushOfNothing(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	s.Attempt(r, "shop", "has neither spec files in specs/ nor an index.html")
	failed := s.Finished("shop", r.Head())
	if out, _ := s.Run(t.TempDir(), "run", "show", failed.ID); failed.URL != "" || strings.Contains(out, "http://shop--") {
		t.Errorf("the run has the address %q, at which nothing answers, and shows:\n%s", failed.URL, out)
	}
	// N-007: a commit without any file fails clearly, and nothing is created.
	wantNothingMade(t, s, "shop")
	r.Write("README.md", "read me", "docs/index.html", "not at the root", "specs/readme.txt", "not YAML")
	s.Attempt(r, "shop", "add one of them, or name the folder of the specs")
	// N-007: so does one that has files, but neither specs nor an index.html.
	wantNothingMade(t, s, "shop")
	r.Write("index.html", "at last")
	s.Pushed(r, "shop", "Works")
	site.WantServed(t, s, "shop", "/", "at last")

	var applied client.Applied
	gone := landfall.CommitSHA(strings.Repeat("12345678", 5))
	s.Call(http.MethodPost, "/apps/shop/applies", client.Apply{ID: "gone12345678", Commit: gone, Clean: true}, &applied)
	run := s.Final(applied.Run.ID)
	// N-006: a commit that is gone when it is fetched ends its run, which says what to do, and the next push works.
	testkit.Equal(t, "state", run.State, landfall.RunFailed)
	testkit.Contains(t, site.Told{run.Reason}, gone.Short(), "push again")
	r.Write("index.html", "next")
	s.Pushed(r, "shop", "Next")
	site.WantServed(t, s, "shop", "/", "next")
}

func TestPushOverALimit(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_MAX_FILES=5", "LANDFALL_MAX_FILE_BYTES=20000000", "LANDFALL_MAX_COMMIT_BYTES=30000000",
		"LANDFALL_MAX_PUSH=25000000")
	for _, test := range []struct {
		app   string
		files []string
		says  []string
	}{
		{"files", []string{"index.html", "", "1", "", "2", "", "3", "", "4", "", "5", ""},
			[]string{"the commit has 6 files", "the limit is 5", "LANDFALL_MAX_FILES"}},
		{
			"file", []string{"index.html", "", "large.bin", strings.Repeat("0123456789", 2_000_001)},
			[]string{`"large.bin" has 20000010 bytes`, "the limit is 20000000 bytes", "LANDFALL_MAX_FILE_BYTES"},
		},
		{
			"commit", []string{"index.html", "", "a", strings.Repeat("0123456789", 1_900_000), "b",
				strings.Repeat("9876543210", 1_900_000)},
			[]string{"38000000 bytes", "the limit is 30000000 bytes", "LANDFALL_MAX_COMMIT_BYTES"},
		},
		{
			"spec", []string{"specs/app.yaml", "# " + strings.Repeat("0123456789\n# ", 700_000), "specs/more.yaml",
				strings.Repeat("#", 700_000)},
			[]string{"spec files: 9800002 bytes; the limit is 8388608", "LANDFALL_MAX_SPEC_BYTES"},
		},
	} {
		t.Run(test.app, func(t *testing.T) {
			s := s.In(t)
			name := "limit-" + test.app
			r := s.Repository(s.App(name))
			r.Write(test.files...)
			s.Attempt(r, name, test.says...)
			// N-008: a commit over a limit fails with the limit, the figure and the setting's name.
			wantNothingMade(t, s, name)
		})
	}
	t.Run("push", func(t *testing.T) {
		s := s.In(t)
		r := s.Repository(s.App("limit-push"))
		r.Write("index.html", "")
		randomFile(t, filepath.Join(r.Dir, "random.bin"), 26_000_000)
		r.Commit("Too much")
		out, err := r.Try("push", "origin", "HEAD")
		if err == nil {
			t.Error("the push was not refused")
		}
		// N-008: so does a push over the limit of a push, which changes nothing.
		testkit.Contains(t, site.ToldBy(out), "LANDFALL_MAX_PUSH", "(25000000 bytes)", "Nothing was changed")
		testkit.Equal(t, "runs", len(site.List[client.Run](s, "/runs?app=limit-push")), 0)
		testkit.Equal(t, "references", r.Git("ls-remote", "origin"), "")
		r.Git("rm", "--quiet", "--force", "random.bin")
		r.Git("commit", "--quiet", "--amend", "--message", "Less")
		s.Released(r.Push("HEAD"), "limit-push")
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
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("site/index.html", "page", "hello/main.py", "code")
	const app, hello, env = "specs/app.yaml", "specs/hello.yaml", "specs/env.yaml"
	attempt := func(t *testing.T, files []string, parts ...string) client.Run {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(r.Dir, "specs")); err != nil {
			t.Fatal(err)
		}
		r.Write(app, site.AppSpec("shop"), env, site.EnvironmentSpec, hello, site.FunctionSpec("hello"))
		r.Write(files...)
		run := s.Attempt(r, "shop", parts...)
		wantNothingMade(t, s, "shop")
		return run
	}

	// N-009: YAML that does not parse is named by file and line, in the output of the push.
	attempt(t, []string{app, "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop\n"}, "specs/app.yaml:")
	// N-009: so are unknown fields, with the nearest known name.
	attempt(t, []string{app, strings.Replace(site.AppSpec("shop"), "static:", "statics:", 1)}, "specs/app.yaml:5",
		`"statics"`, "static")
	// N-009: duplicate keys.
	attempt(t, []string{app, site.AppSpec("shop", "config: {a: 1, a: 2}")}, "specs/app.yaml:7", "a")
	// N-009: and duplicate names, with both places.
	attempt(t, []string{"specs/more.yaml", site.FunctionSpec("hello")}, "specs/more.yaml:", "specs/hello.yaml:",
		"already defined")

	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("    a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for _, text := range []string{
		site.AppSpec("shop", "config:", "  "+bomb),
		site.AppSpec("shop", "config: "+strings.Repeat("{a: ", 20_000)+strings.Repeat("}", 20_000)),
		site.AppSpec("shop", "config: {a: ["+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+"]}"),
	} {
		run := attempt(t, []string{app, text}, "specs/app.yaml:")
		last := run.Steps[len(run.Steps)-1]
		// N-010: aliases by the million and nesting by the thousand are refused where they are read, at once.
		testkit.Equal(t, fmt.Sprintf("the step %s took %s, which is long", last.Step, last.Finished.Sub(last.Started)),
			last.Step == landfall.StepRead && last.Finished.Sub(last.Started) < 10*time.Second, true)
	}

	// N-011: a function that names no environment is refused before anything is created.
	attempt(t, []string{hello, strings.Replace(site.FunctionSpec("hello"), "  environment: {name: python}\n", "", 1)},
		"specs/hello.yaml:", "hello", "environment")
	// N-011: so is one whose package is not in the spec.
	attempt(t, []string{hello, strings.Replace(site.FunctionSpec("hello"), "{name: hello-pkg}\n    functionName",
		"{name: helo-pkg}\n    functionName", 1)}, "specs/hello.yaml:", `"helo-pkg"`)
	// N-011: and a trigger without its function.
	attempt(t, []string{"specs/route.yaml",
		"apiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: r}\nspec:\n  relativeurl: /r\n" +
			"  functionref: {type: name, name: nobody}\n"}, "specs/route.yaml:", `"nobody"`)

	// N-028: a cron expression that does not parse is refused, with file, line and character.
	attempt(t, []string{"specs/timer.yaml", "apiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: t}\nspec:\n" +
		"  functionref: {name: hello}\n  cron: 0 25 * * *\n"}, "specs/timer.yaml:6", "character 3", `"25"`)
	// N-028: so is one that is never due.
	attempt(t, []string{"specs/timer.yaml", "apiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: t}\nspec:\n" +
		"  functionref: {name: hello}\n  cron: 0 0 30 2 *\n"}, "specs/timer.yaml:6", "never due")

	// N-012: a src that matches nothing is an error that names its place.
	attempt(t, []string{app, strings.Replace(site.AppSpec("shop"), "src: site", "src: sites", 1)},
		"specs/app.yaml:6", `"sites"`)
	// N-012: so is an exclude.
	attempt(t, []string{app, strings.Replace(site.AppSpec("shop"), "path: /}", "path: /, exclude: [nothing]}", 1)},
		"specs/app.yaml:6", `"nothing"`)
	// N-012: and an archive none of whose globs matches.
	attempt(t, []string{hello, strings.Replace(site.FunctionSpec("hello"), "hello/*.py", "hello/*.js", 1)},
		"specs/hello.yaml:", "hello/*.js")
	// N-012: two static units with equal path are an error that names both places.
	attempt(t, []string{app, strings.Replace(site.AppSpec("shop"), "path: /}\n", "path: /}\n    - {src: hello, path: /}\n",
		1)}, "specs/app.yaml:6", "specs/app.yaml:7")

	r.Write(app, site.AppSpec("shop"))
	if err := os.RemoveAll(filepath.Join(r.Dir, "specs")); err != nil {
		t.Fatal(err)
	}
	r.Write(app, site.AppSpec("shop"), env, site.EnvironmentSpec, hello, site.FunctionSpec("hello"))
	s.Pushed(r, "shop", "Right at last")
	site.WantServed(t, s, "shop", "/", "page")

	other := s.Repository(s.App("other"))
	other.Write(app, site.AppSpec("other"), "site/index.html", "other", env, site.EnvironmentSpec, hello,
		site.FunctionSpec("hello"), "hello/main.py", "code")
	s.Attempt(other, "other", "specs/hello.yaml:", `belongs to the app "shop"`, "--namespace")
	// N-012: nor is anything made of a push that names another app's unit.
	testkit.Equal(t, "versions of the owner's function", len(site.List[client.Version](s, "/functions/hello/versions")), 1)
	testkit.Equal(t, "releases", len(site.List[client.Release](s, "/apps/other/releases")), 0)
}

func TestPushOfAnotherAppsUnit(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	files := []string{"site/index.html", "page", "specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml",
		site.FunctionSpec("hello"), "hello/main.py", "code"}
	r := s.Static("shop")
	r.Write(files...)
	s.Pushed(r, "shop", "The owner's")
	for app, spec := range map[string]string{
		"other": site.AppSpec("other"), "built": site.AppSpec("built",
			`build: {command: "echo a long build", outputs: [site/out.txt]}`),
	} {
		r := s.Repository(s.App(app))
		r.Write(files...)
		r.Write("specs/app.yaml", spec)
		says := []string{"specs/hello.yaml:10: package hello-pkg", `belongs to the app "shop"`, "--namespace"}
		run := s.Attempt(r, app, says...)
		// N-012: it is found before anything is built or stored for it.
		testkit.Equal(t, app+": the last step", run.Steps[len(run.Steps)-1].Step, landfall.StepPlan)
		wantNothingMade(t, s, app)

		id := "dryrun12" + app
		r.Git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
		err := s.Refused(http.MethodPost, "/apps/"+app+"/applies",
			client.Apply{ID: id, Commit: r.Head(), Base: r.Head(), Clean: true, DryRun: true})
		site.WantRefused(t, err, landfall.Invalid, says...)
	}
	var own client.App
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "apart", Namespace: "elsewhere"}, &own)
	r = s.Repository(own)
	r.Write(files...)
	r.Write("specs/app.yaml", site.AppSpec("apart"))
	s.Pushed(r, "apart", "In a namespace of its own")
}

// link makes a symbolic link.
func link(r *site.Repository, target, name string) {
	r.T.Helper()
	if err := os.Symlink(target, filepath.Join(r.Dir, name)); err != nil {
		r.T.Fatal(err)
	}
}

const lfsPointer = "version https://git-lfs.github.com/spec/v1\noid " +
	"sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

func TestPushOfLinksAndPointers(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	for i, target := range []string{
		"../../outside.txt", "../../../../../../../../etc/passwd", "/etc/passwd", "loop", "nothing", "../site",
		strings.Repeat("../site/", 30) + "index.html.",
	} {
		app := fmt.Sprintf("links-%d", i)
		r := s.Static(app)
		r.Write("site/index.html", "page")
		link(r, target, "site/loop")
		s.Attempt(r, app, `"site/loop"`, "symlink")
		// N-013: a link that leaves the tree, is absolute, or leads to itself, nothing or a folder is refused by name.
		wantNothingMade(t, s, app)
		r.Write("specs/app.yaml", strings.Replace(site.AppSpec(app), "path: /}", "path: /, exclude: [loop]}", 1))
		s.Pushed(r, app, "Without the link")
		// N-013: one that is not selected harms nobody, and its content is in no version.
		testkit.Equal(t, "status of a link that is not selected", s.Get(s.At(app, "/loop")).Status, http.StatusNotFound)
	}

	r := s.Repository(s.App("no-specs"))
	r.Write("index.html", "page")
	link(r, "/etc/passwd", "passwd")
	s.Attempt(r, "no-specs", `a folder without specs: "passwd" is a symlink`)

	r = s.Static("good-link")
	r.Write("site/index.html", "page", "shared/text.txt", "shared")
	link(r, "../shared/text.txt", "site/text.txt")
	s.Pushed(r, "good-link", "A link within the tree")
	site.WantServed(t, s, "good-link", "/text.txt", "shared")

	r = s.Static("submodule")
	r.Write("site/index.html", "page")
	r.Git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1234567890", 4)+",site/module")
	r.Git("add", "site/index.html", "site/robots.txt", "specs")
	r.Git("commit", "--quiet", "--message", "A submodule")
	site.WantFailed(t, s, "submodule", r, r.Push("HEAD"), `"site/module"`, "submodule")
	// N-013: a submodule is named.
	wantNothingMade(t, s, "submodule")

	r = s.Static("pointer")
	r.Write("site/index.html", "page", "site/video.mp4", lfsPointer)
	planned := s.Attempt(r, "pointer", "site/video.mp4", "Git LFS", "exclude it")
	// N-013: so is a pointer of Git LFS that a unit would serve, before anything is built or stored.
	testkit.Equal(t, "step", planned.Step, landfall.StepPlan)
	wantNothingMade(t, s, "pointer")
	testkit.Equal(t, "releases", len(site.List[client.Release](s, "/apps/pointer/releases")), 0)
	r.Git("mv", "site/video.mp4", "video.mp4")
	s.Pushed(r, "pointer", "Nobody serves it")
	site.WantServed(t, s, "pointer", "/", "page")
	r.Write("specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml", site.FunctionSpec("pointing"), "pointing/main.py",
		lfsPointer)
	planned = s.Attempt(r, "pointer", "pointing/main.py", "Git LFS")
	// N-013: and one in an archive; the release before stays.
	testkit.Equal(t, "step", planned.Step, landfall.StepRead)
	site.WantServed(t, s, "pointer", "/", "page")
}

func TestPushOfUnusualNames(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	names := []string{
		"with space.txt", " leading and trailing ", "größe/straße.html", "日本語.txt", "e\u0301.txt", "\u00e9.txt",
		"🙂.txt", "Twin.html", "twin.html", "TWIN.html", "-rf", "--help.txt", "%2e%2e", "%2e.txt", "%2F.txt", "100%.txt",
		"%zz", "a+b&c=d;e,f.txt", "question?.txt", "hash#tag.txt", "colon:name", "'quotes\"`.txt", "<script>.html",
		"$(id).txt", "*.txt", "[x].txt", "~tilde", "@{u}", "dir.with.dots/.hidden", "a/b/c/d/e/f/g.txt", "con.txt",
		"trailing.", "index.html~", strings.Repeat("n", 255), "..dots", "...", "\ufeffbom.txt", "semi;colon/index.html",
	}
	for i, name := range names {
		r.Write("site/"+name, fmt.Sprintf("file %d", i))
	}
	s.Numbered(r, "shop", 1)
	for i, name := range names {
		parts := strings.Split(name, "/")
		for j := range parts {
			parts[j] = url.PathEscape(parts[j])
		}
		p := s.Get(s.At("shop", "/"+strings.Join(parts, "/")))
		// N-014: a file name survives from the push to the address, byte for byte.
		testkit.Equal(t, fmt.Sprintf("%d %q", p.Status, name), p.Body, fmt.Sprintf("file %d", i))
	}

	for i, name := range []string{"new\nline.txt", "tab\tname", "back\\slash.txt", "delete\x7f", "escape\x1b[31m.txt",
		"invalid\xff.txt"} {
		app := fmt.Sprintf("names-%d", i)
		r := s.Static(app)
		r.Write("site/index.html", "page", "site/"+name, "odd")
		r.Commit("An odd name")
		out := r.Push("HEAD")
		run := s.Finished(app, r.Head())
		if run.State == landfall.RunSucceeded {
			// N-014: a name with a line break or another control character survives to its address as well,
			site.WantServed(t, s, app, "/"+url.PathEscape(name), "odd")
			continue
		}
		// N-014: or is refused by name, with nothing that a terminal would obey.
		site.WantFailed(t, s, app, r, out, "site/"+strings.Trim(strconv.QuoteToASCII(name), `"`))
		wantNothingMade(t, s, app)
	}
}

func TestPushOfALargeFile(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_MAX_FILE_BYTES=1000000000")
	r := s.Static("shop")
	const size = 200 << 20
	r.Git("config", "core.compression", "0") // what is random stays as large, and git's own time is not what is tested
	randomFile(t, filepath.Join(r.Dir, "site/large.bin"), size)
	r.Commit("200 MiB")
	start := time.Now()
	out := r.Push("HEAD")
	s.Released(out, "shop")
	t.Logf("200 MiB: pushed and released in %s, %d MiB of memory", time.Since(start), s.Peak())
	testkit.Contains(t, out, "2 of 2 files uploaded", strconv.Itoa(size+len("all")))
	// N-008: within the limits size costs no memory: files are streamed.
	testkit.Equal(t, fmt.Sprintf("the server took %d MiB, fewer than 512", s.Peak()), s.Peak() < 512, true)

	resp, err := (&http.Client{Transport: client.LocalTransport()}).Get(s.At("shop", "/large.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "bytes served", served, size)
	testkit.Equal(t, fmt.Sprintf("the server took %d MiB, fewer than 512, after serving", s.Peak()), s.Peak() < 512, true)
}

func TestPushOfManyFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Static("shop")
	const count = 10_000
	for i := range count {
		r.Write(fmt.Sprintf("site/%d/%d.txt", i/100, i), fmt.Sprint("file ", i))
	}
	r.Commit("10,000 files")
	start := time.Now()
	out := r.Push("HEAD")
	t.Logf("10,000 files: pushed and released in %s, %d MiB of memory", time.Since(start), s.Peak())
	testkit.Contains(t, out, fmt.Sprintf("%d of %d files uploaded", count+1, count+1))
	r.Write("site/42/4242.txt", "changed")
	r.Commit("One of them")
	start = time.Now()
	out = r.Push("HEAD")
	t.Logf("one of 10,000 files: pushed and released in %s, %d MiB of memory", time.Since(start), s.Peak())
	// N-008: the number of files costs what changed of them.
	testkit.Contains(t, out, fmt.Sprintf("1 of %d files uploaded", count+1))
	site.WantServed(t, s, "shop", "/42/4242.txt", "changed")
	site.WantServed(t, s, "shop", "/99/9999.txt", "file 9999")
	testkit.Equal(t, fmt.Sprintf("the server took %d MiB, fewer than 512", s.Peak()), s.Peak() < 512, true)
}
