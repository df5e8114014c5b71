package assets_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/test/testkit"
)

// skygear is the tree of the seed's example.
var skygear = tree{
	"README.md":        "read me",
	"build/index.html": "<html>",
	"build/js/app.js":  "app", "build/js/vendor/lib.js": "lib",
	"build/public/logo.png": "logo", "build/public/video/small.mp4": "small",
	"build/public/video/very-large-one.mp4": "large",
}

// skygearRules is the seed's example, as it is written there.
func skygearRules() []assets.Rule {
	return []assets.Rule{
		{Src: "build/index.html", Path: "/", Where: "specs/app.yaml:4"},
		{Src: "build/js", Path: "/static/js", Where: "specs/app.yaml:7"},
		{Src: "build/public", Exclude: []string{"public/video/very-large-one.mp4"}, Path: "/static",
			Where: "specs/app.yaml:10"},
		{Src: "build/public/video/very-large-one.mp4", Path: "/static/public/video/very-large-one.mp4",
			Where: "specs/app.yaml:15"},
	}
}

func TestSelectSeedExample(t *testing.T) {
	t.Parallel()
	units := skygear.sel(t, skygearRules()...)
	got := map[string][]string{}
	for _, unit := range units {
		got[unit.Rule.Path] = paths(unit)
	}

	// D-011: static assets are a moving part: each entry becomes a unit of kind static.
	for _, unit := range units {
		if unit.ID() != (landfall.UnitID{Kind: landfall.StaticUnit, Name: unit.Rule.Path}) {
			t.Errorf("got unit %v, want the static unit %s", unit.ID(), unit.Rule.Path)
		}
	}
	// D-025: one static asset configuration is one moving unit.
	if len(units) != 4 || len(got) != 4 {
		t.Errorf("got %d units, want 4", len(units))
	}
	// D-064: src is a file or a folder, path is where it is served, exclude is a list.
	testkit.EqualList(t, "the file at /", got["/"], []string{"/index.html"})
	testkit.EqualList(t, "the folder at /static/js", got["/static/js"],
		[]string{"/static/js/app.js", "/static/js/vendor/lib.js"})
	// D-065: the paths /, /static and /static/js nest, and each unit has its own files only.
	testkit.EqualList(t, "the folder at /static", got["/static"], []string{"/static/logo.png", "/static/video/small.mp4"})
	// D-066: the excluded very large file is served by an item of its own.
	testkit.EqualList(t, "the large file", got["/static/public/video/very-large-one.mp4"],
		[]string{"/static/public/video/very-large-one.mp4"})

	// One small file changes, within one item.
	changed := skygear.with(tree{"build/js/app.js": "app 2"}).sel(t, skygearRules()...)
	differs := map[string]bool{}
	for i := range units {
		differs[units[i].Rule.Path] = string(units[i].Content()) != string(changed[i].Content())
	}
	// D-022: the item is a logical unit, which changes as a whole.
	if !differs["/static/js"] {
		t.Error("the item of the changed file is the same, want it changed")
	}
	// D-063: files in different items are skipped when they do not change.
	if differs["/"] || differs["/static"] || differs["/static/public/video/very-large-one.mp4"] {
		t.Errorf("got changes %v, want only /static/js", differs)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	site := tree{
		"index.html": "1", "docs/a.html": "2", "docs/b.txt": "3", "docs/deep/c.html": "4", "docs/deep/deep/d.html": "5",
		"docs.html": "6", "docs/docs/e.html": "7", "pages/[id].html": "8", "pages/i.html": "9", ".env": "10",
		".well-known/acme": "11", "specs/app.yaml": "12", "node_modules/x/i.js": "13", "web/node_modules/y.js": "14",
		"web/.git/z": "15", "web/specs/kept.txt": "16", "specs.html": "17",
	}
	for _, test := range []struct {
		name string
		rule assets.Rule
		want []string
	}{
		{"a file at a path that ends in / keeps its name", assets.Rule{Src: "docs/a.html", Path: "/x/"},
			[]string{"/x/a.html"}},
		{"a file at any other path is served there", assets.Rule{Src: "docs/a.html", Path: "/x"}, []string{"/x"}},
		{"src and path are cleaned", assets.Rule{Src: "./docs//deep/deep/", Path: "//x/./y//"}, []string{"/x/y/d.html"}},
		{"a folder's sibling of like name is not in it", assets.Rule{Src: "docs/deep", Path: "/"},
			[]string{"/c.html", "/deep/d.html"}},
		{"a star stays within one name", assets.Rule{Src: "docs/*.html", Path: "/d"}, []string{"/d/a.html"}},
		{
			"two stars cross folders, and paths begin below the first wildcard", assets.Rule{Src: "docs/**/*.html", Path: "/"},
			[]string{"/a.html", "/deep/c.html", "/deep/deep/d.html", "/docs/e.html"},
		},
		{"a wildcard in front starts at the root", assets.Rule{Src: "{index,docs}.html", Path: "/"},
			[]string{"/docs.html", "/index.html"}},
		{"a name with brackets means itself first", assets.Rule{Src: "pages/[id].html", Path: "/p/"},
			[]string{"/p/[id].html"}},
		{"exclude from the root", assets.Rule{Src: "docs/deep", Path: "/", Exclude: []string{"docs/deep/deep"}},
			[]string{"/c.html"}},
		{"exclude from src", assets.Rule{Src: "docs/deep", Path: "/", Exclude: []string{"./deep/d.html"}},
			[]string{"/c.html"}},
		{"exclude from src's parent", assets.Rule{Src: "docs/deep", Path: "/", Exclude: []string{"deep/deep/d.html"}},
			[]string{"/c.html"}},
		{
			"exclude by glob, of files and of folders",
			assets.Rule{Src: "docs", Path: "/", Exclude: []string{"**/*.txt", "dee*"}}, []string{"/a.html", "/docs/e.html"},
		},
		{"exclude a name with brackets", assets.Rule{Src: "pages", Path: "/", Exclude: []string{"[id].html"}}, []string{}},
		{"exclude from a glob", assets.Rule{Src: "docs/**", Path: "/", Exclude: []string{"deep", "docs/docs"}},
			[]string{"/a.html", "/b.txt"}},
		{
			"without specs, private names are left out", assets.Rule{Src: ".", Path: "/", Implicit: true},
			[]string{
				"/.well-known/acme", "/docs.html", "/docs/a.html", "/docs/b.txt", "/docs/deep/c.html", "/docs/deep/deep/d.html",
				"/docs/docs/e.html", "/index.html", "/pages/[id].html", "/pages/i.html", "/specs.html", "/web/specs/kept.txt",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			units, _, err := assets.Select([]assets.Rule{test.rule}, site.files())
			if len(test.want) == 0 {
				wantInvalid(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			testkit.EqualList(t, "paths", paths(units[0]), test.want)
		})
	}
}

func TestSelectRefuses(t *testing.T) {
	t.Parallel()
	site := tree{"a/x.html": "1", "a/y.html": "2", "ab/z": "3"}
	one := func(rule assets.Rule) []assets.Rule {
		rule.Where = "specs/app.yaml:12"
		return []assets.Rule{rule}
	}
	refused := func(t *testing.T, rules []assets.Rule, files []landfall.File, parts ...string) {
		t.Helper()
		units, _, err := assets.Select(rules, files)
		wantInvalid(t, err, parts...)
		if units != nil {
			t.Errorf("got %d units, want none", len(units))
		}
	}
	const where = "specs/app.yaml:12"

	// N-012: a src that matches nothing is an error that names it and its place, be it a path, a part of a name or a
	// glob.
	for _, src := range []string{"build", "a/x", "a/x.html/y", "b*", "a/*.css", "../a", "a/../..", "[",
		"{" + strings.Repeat("a,", 50) + "}"} {
		refused(t, one(assets.Rule{Src: src, Path: "/"}), site.files(), where, fmt.Sprintf("src %q", src))
	}
	// N-012: an exclude that matches nothing is an error that names it and its place, also beside one that matches.
	for _, exclude := range []string{"z", "ab/z", "a/x", "x.htm", "*.css", "../a/x.html", "b", "[",
		strings.Repeat("{x", 3)} {
		refused(t, one(assets.Rule{Src: "a", Path: "/", Exclude: []string{"y.html", exclude}}), site.files(), where,
			fmt.Sprintf("exclude %q", exclude))
	}
	// N-012: two entries with equal path are an error that names both places, in whatever order and way they are
	// written.
	for _, other := range []string{"/x", "/x/", "//x", "/./x/"} {
		rules := []assets.Rule{{Src: "a", Path: "/x", Where: "specs/a.yaml:3"},
			{Src: "ab", Path: other, Where: "specs/b.yaml:7"}}
		refused(t, rules, site.files(), `"/x"`, "specs/a.yaml:3 and specs/b.yaml:7")
		slices.Reverse(rules)
		refused(t, rules, site.files(), `"/x"`, "specs/a.yaml:3 and specs/b.yaml:7")
	}

	refused(t, one(assets.Rule{Src: "a", Path: "/", Exclude: []string{"a"}}), site.files(), where, "not excluded")
	// N-020: a path with .. is refused before anything is stored.
	for _, target := range []string{"", "x", "/../x", "/a/..", "/a/../../x", "/a\x00"} {
		refused(t, one(assets.Rule{Src: "a", Path: target}), site.files(), where, fmt.Sprintf("%q", target))
	}
	// N-020: nor does a file get in whose name leaves its folder.
	for _, name := range []string{"a/../../x", "a//x", "a/./x", "a/"} {
		refused(t, one(assets.Rule{Src: "a", Path: "/"}), []landfall.File{{Path: name, Blob: "1"}}, where)
	}
	for word, mode := range map[string]landfall.FileMode{"symlink": landfall.Symlink, "submodule": landfall.Submodule} {
		files := append(site.files(), landfall.File{Path: "a/link", Mode: mode, Blob: "1", Target: "the reason"})
		refused(t, one(assets.Rule{Src: "a", Path: "/"}), files, where, word, `"a/link"`)
		if _, _, err := assets.Select(one(assets.Rule{Src: "a", Path: "/", Exclude: []string{"link"}}), files); err != nil {
			t.Errorf("an excluded %s: got %v, want no error", word, err)
		}
	}
	// N-014: a path that nothing could check out is refused by name.
	refused(t, one(assets.Rule{Src: "a", Path: "/"}),
		[]landfall.File{{Path: "a/" + strings.Repeat("x/", 3000) + "y", Blob: "1"}}, where, "a/x/x/")
	both := append(site.files(), landfall.File{Path: "a/x.html.map", Blob: "1"},
		landfall.File{Path: "a/x.html/below", Blob: "1"})
	refused(t, one(assets.Rule{Src: "a", Path: "/"}), both, where, "x.html")
	refused(t, one(assets.Rule{Src: "a", Path: "/"}), append(site.files(), site.files()...), where, "twice")
	if _, _, err := assets.Select(one(assets.Rule{Src: "a", Path: "/"}),
		[]landfall.File{{Path: "a/x"}}); landfall.KindOf(err) != landfall.Internal || err == nil {
		t.Errorf("a file without content id: got %v, want Internal", err)
	}
}

func TestFallback(t *testing.T) {
	t.Parallel()
	site := tree{"index.html": "1", "app/index.html": "2"}
	rules := []assets.Rule{
		{Src: "index.html", Path: "/", Fallback: "index.html", Where: "a:1"},
		{Src: "app", Path: "/app", Fallback: "/index.html", Where: "a:2"},
		{Src: "app/index.html", Path: "/more/", Fallback: "start.html", Where: "a:3"},
	}
	units, warnings, err := assets.Select(rules, site.files())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, unit := range units {
		got = append(got, unit.Rule.Fallback)
	}
	testkit.EqualList(t, "fallbacks", got, []string{"/index.html", "/index.html", "/more/start.html"})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "a:3") || !strings.Contains(warnings[0], "/more/start.html") {
		t.Errorf("got warnings %q, want one that names a:3 and /more/start.html", warnings)
	}
}

// The digest of a unit is made of its Spec and Content: what they say is what counts as a change.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	units := skygear.sel(t, skygearRules()...)

	t.Run("the order of files, rules and excludes does not matter", func(t *testing.T) {
		t.Parallel()
		random := rand.New(rand.NewPCG(1, 1))
		for range 20 {
			files, rules := skygear.files(), skygearRules()
			rules[2].Exclude = []string{"logo.png", "public/video/very-large-one.mp4"}
			want, _, err := assets.Select(rules, files)
			if err != nil {
				t.Fatal(err)
			}
			rules[2].Exclude = []string{"public//video/very-large-one.mp4", "./logo.png"}
			random.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
			random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
			got, _, err := assets.Select(rules, files)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if string(got[i].Spec()) != string(want[i].Spec()) || string(got[i].Content()) != string(want[i].Content()) {
					t.Errorf("got %s %s, want %s %s", got[i].Spec(), got[i].Content(), want[i].Spec(), want[i].Content())
				}
			}
		}
	})

	t.Run("the form is fixed", func(t *testing.T) {
		t.Parallel()
		if got, want := string(units[1].Spec()),
			`{"exclude":["public/video/very-large-one.mp4"],"path":"/static"}`; got != want {
			t.Errorf("spec: got %s, want %s", got, want)
		}
		odd := tree{"a\n%\xff": "built: x"}
		want := `[["/a%0A%25%FF","` + string(landfall.DigestOf([]byte("built: x"))) + `"]]`
		if got := string(odd.sel(t, assets.Rule{Path: "/"})[0].Content()); got != want {
			t.Errorf("content: got %s, want %s", got, want)
		}
	})

	t.Run("path, fallback and exclude count, the name of src does not", func(t *testing.T) {
		t.Parallel()
		site := tree{"a/x": "1", "b/x": "1", "b/y": "2"}
		spec := func(rule assets.Rule) string {
			unit := site.sel(t, rule)[0]
			return string(unit.Spec()) + string(unit.Content())
		}
		base := spec(assets.Rule{Src: "a", Path: "/"})
		for name, other := range map[string]assets.Rule{
			"path": {Src: "a", Path: "/p"}, "fallback": {Src: "a", Path: "/", Fallback: "x"},
			"exclude": {Src: "b", Path: "/", Exclude: []string{"y"}}, "content": {Src: "b", Path: "/"},
		} {
			if spec(other) == base {
				t.Errorf("another %s is the same unit, want another", name)
			}
		}
		if got := spec(assets.Rule{Src: "a/x", Path: "/"}); got != base {
			t.Errorf("the same file by another src: got %s, want %s", got, base)
		}
	})

	// D-061: if the files of an item do not change, it is the same unit version, so that its upload is skipped.
	again := skygear.sel(t, skygearRules()...)
	for i := range units {
		if string(units[i].Content()) != string(again[i].Content()) || string(units[i].Spec()) != string(again[i].Spec()) {
			t.Errorf("%s differs from itself", units[i].Rule.Path)
		}
	}
}
