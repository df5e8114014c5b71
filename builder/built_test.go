package builder_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

// builtFiles are files that a build made: "a/b", or "a/b -> target".
func builtFiles(lines ...string) []landfall.File {
	var files []landfall.File
	for _, line := range lines {
		name, target, link := strings.Cut(line, " -> ")
		f := landfall.File{Path: name, Digest: landfall.DigestOf([]byte(line)), Size: int64(len(line))}
		if link {
			f.Mode, f.Target = landfall.Symlink, target
		}
		files = append(files, f)
	}
	return files
}

// An archive keeps the links to what it has. A link to another file of the build is that file; to anything else it is
// refused.
func TestSelectArchiveLinks(t *testing.T) {
	t.Parallel()
	files := builtFiles("fn/index.js", "fn/node_modules/.bin/tool -> ../tool/cli.js", "fn/node_modules/tool/cli.js",
		"fn/shared.js -> ../lib/shared.js", "lib/shared.js", "fn/none -> nowhere")
	choose := func(files []landfall.File, include ...string) (map[string]landfall.File, error) {
		selected, _, err := builder.SelectArchive(builder.ArchiveSpec{Name: "fn", Include: include}, files)
		got := map[string]landfall.File{}
		for _, f := range selected {
			got[f.Path] = f.File
		}
		return got, err
	}
	got, err := choose(files, "fn/**")
	if err != nil || got["node_modules/.bin/tool"].Target != "../tool/cli.js" || got["shared.js"] != files[4] ||
		got["none"].Target != "nowhere" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = choose(files, "fn/shared.js"); err != nil || got["shared.js"] != files[4] {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = choose(files, "**"); err != nil || got["fn/shared.js"].Target != "../lib/shared.js" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, link := range []string{"fn/lib -> ../lib", "fn/etc -> /etc"} {
		_, err := choose(append(builtFiles(link), files...), "fn/**")
		// K-001: a link that leaves a package is refused by name
		name, target, _ := strings.Cut(link, " -> ")
		wantError(t, err, landfall.Invalid, name, target, "not in the archive")
	}
}
