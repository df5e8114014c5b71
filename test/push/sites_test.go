package push_test

import (
	"cmp"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/test/site"
)

// maker makes sites of the sources in testdata/sites.
type maker struct {
	command []string // for node, in the folder of the sources
	output  string
}

func makers() map[string]maker {
	return map[string]maker{
		"vite":      {[]string{"node_modules/vite/bin/vite.js", "build"}, "dist"},
		"vitepress": {[]string{"node_modules/vitepress/bin/vitepress.js", "build", "docs"}, "docs/.vitepress/dist"},
		"astro":     {[]string{"node_modules/astro/astro.js", "build"}, "dist"},
		"sveltekit": {[]string{"node_modules/vite/bin/vite.js", "build"}, "build"},
	}
}

// Sites as they are made today are pushed twice, and every page changes between. Whoever has a page of the first open
// misses no file of it. LANDFALL_TEST_SITES names the makers, with spaces between.
func TestSites(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq(cmp.Or(os.Getenv("LANDFALL_TEST_SITES"), "vite")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t)
			r := s.Repository(s.App("shop"))
			r.Write("specs/app.yaml", site.AppSpec("shop"))
			first, second := makeSite(t, name, "first"), makeSite(t, name, "second")
			for _, files := range []map[string]string{first, second} {
				if err := os.RemoveAll(filepath.Join(r.Dir, "site")); err != nil {
					t.Fatal(err)
				}
				for path, content := range files {
					r.Write("site"+path, content)
				}
				s.Pushed(r, "shop", "An edition")
			}
			only := 0
			for path, content := range first {
				if now, ok := second[path]; ok {
					content = now
				} else {
					only++
				}
				p := s.Get(s.At("shop", path))
				// K-003: no file of the first is missing at the live address
				if p.Status != http.StatusOK || p.Body != content {
					t.Errorf("%s: got status %d and %.80q, want the file", path, p.Status, p.Body)
				}
			}
			if changed := len(first) / 4; only < changed || first["/index.html"] == second["/index.html"] {
				t.Errorf("%d of %d files are only in the first site, want %d and more", only, len(first), changed)
			}
			t.Logf("%d of %d files are only in the first site", only, len(first))
		})
	}
}

// makeSite lets a maker make an edition of its site, and returns the files by the paths at which they are served.
func makeSite(t *testing.T, name, edition string) map[string]string {
	t.Helper()
	dir, packages := t.TempDir(), filepath.Join("..", "..", "build", "sites", name)
	if _, err := os.Stat(filepath.Join(packages, ".installed")); err != nil {
		t.Fatalf("%v; type: make build/sites/%s/.installed", err, name)
	}
	installed, err := filepath.Abs(filepath.Join(packages, "node_modules"))
	if err == nil {
		err = os.Symlink(installed, filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	sources := &site.Repository{T: t, Dir: dir}
	for path, content := range textsBelow(t, filepath.Join("..", "..", "testdata", "sites", name)) {
		sources.Write(strings.ReplaceAll(path, "EDITION", edition), strings.ReplaceAll(content, "EDITION", edition))
	}
	if name == "astro" { // which makes small pictures of large ones
		picture, err := os.ReadFile(filepath.Join("..", "..", "docs", "app.png"))
		if err != nil {
			t.Fatal(err)
		}
		sources.Write("src/assets/photo.png", string(picture))
	}
	m := makers()[name]
	cmd := exec.CommandContext(t.Context(), "node", m.command...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "ASTRO_TELEMETRY_DISABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said)
	}
	return textsBelow(t, filepath.Join(dir, filepath.FromSlash(m.output)))
}

// textsBelow returns the files of a folder by their paths in it, which begin with a slash.
func textsBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[filepath.ToSlash(strings.TrimPrefix(path, dir))] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
