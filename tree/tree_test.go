package tree_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/tree"
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

func pathsOf(files []landfall.File) (paths []string) {
	for _, f := range files {
		name := f.Path
		if f.IsBuiltLink() {
			name += " -> " + f.Target
		}
		paths = append(paths, name)
	}
	return paths
}

// A link leads where the system would find something by it.
func TestFollow(t *testing.T) {
	t.Parallel()
	files := tree.Of(builtFiles("a/file", ".x/y/file", "to-file -> a/file", "to-folder -> ./a/", "a/up -> ..",
		"chain -> to-folder/up/to-file", "b/hidden -> ../.x/y/../y/file", "out -> ..", "a/out -> ../../a", "abs -> /a/file",
		"self -> self", "ring -> gnir", "gnir -> ring", "none -> nowhere/at/../all", "by-out -> out/a/file", "dot -> ."))
	for link, want := range map[string]string{
		"to-file": "a/file", "to-folder": "a", "a/up": ".", "chain": "a/file", "b/hidden": ".x/y/file",
		"to-folder/up/to-folder/file": "a/file", "dot": ".", "self": "self", "ring": "ring", "none": "nowhere/all",
		"out": "", "a/out": "", "abs": "", "by-out": "", // which lead out of the tree
	} {
		to, inside := files.Follow(link)
		if to != want || inside != (want != "") {
			t.Errorf("%s leads to %q, %t; want %q", link, to, inside, want)
		}
	}
}

// What is served has files in the place of links, and takes its time whatever links there are.
func TestExpand(t *testing.T) {
	t.Parallel()
	const limit = 1000
	got := pathsOf(tree.Of(builtFiles("v1/a", "v1/deep/b", "v1/other -> deep", "latest -> v1", "one -> latest/deep/b",
		"none -> nowhere", "v1/up -> ..")).Expand(limit))
	want := []string{"latest/a", "latest/deep/b", "latest/other/b", "latest/up -> ..", "none -> nowhere", "one", "v1/a",
		"v1/deep/b", "v1/other/b", "v1/up -> .."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// A folder with too many files stays a link.
	bomb := []string{"f0/x"}
	for i := range 40 {
		bomb = append(bomb, fmt.Sprintf("f%d/a -> ../f%d", i+1, i), fmt.Sprintf("f%d/b -> ../f%d", i+1, i))
	}
	if got := tree.Of(builtFiles(bomb...)).Expand(limit); len(got) > limit+len(bomb) {
		t.Errorf("got %d files", len(got))
	}
}

// Many links, long ways and long chains of links are followed in a patience: each link once.
func TestFollowManyLinks(t *testing.T) {
	t.Parallel()
	const many = 20_000
	deep := strings.Repeat("d/", tree.MaxDepth) + "file"
	lines := []string{deep, "chain0 -> " + deep, "endless0 -> endless500"}
	for i := range many {
		lines = append(lines, fmt.Sprintf("to%d -> chain38", i))
	}
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("around%d -> %s%s", i, strings.Repeat("d/d/../../", 100), deep),
			fmt.Sprintf("endless%d -> %sendless%d", i+1, strings.Repeat("d/../", 100), i))
	}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("chain%d -> %schain%d", i+1, strings.Repeat("x/../", 500), i))
	}
	files := tree.Of(builtFiles(lines...))
	for _, link := range files.Links() {
		to, inside := files.Follow(link)
		want := deep
		if strings.HasPrefix(link, "endless") || link == "chain40" { // which is one too many
			want = link
		}
		if !inside || to != want {
			t.Fatalf("%s leads to %q, %t", link, to, inside)
		}
	}
}
