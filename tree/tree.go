// Package tree follows symbolic links among files that are listed, and lie nowhere yet.
package tree

import (
	"maps"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Tree is a set of files in which symbolic links are followed: those that a build made, whose targets are known. It remembers where they
// lead, so it is for one goroutine.
type Tree struct {
	files    map[string]landfall.File
	folders  map[string]bool
	links    []string // sorted
	resolved map[string]place
}

// place is where a path leads.
type place struct {
	at    string // empty for the tree itself
	links int    // on the way; after too many of them nothing else counts
	out   bool   // it left the tree
}

// maxLinks is how many links may lead to each other, as in Linux.
const maxLinks = 40

// MaxDepth is how many folders a file may lie in, one within another: as many as a sandbox allows.
const MaxDepth = 300

// TooDeep reports whether a file lies in more than MaxDepth folders.
func TooDeep(name string) bool { return strings.Count(name, "/") > MaxDepth }

// Of returns the tree of files, each with its path.
func Of(files []landfall.File) *Tree {
	t := &Tree{files: make(map[string]landfall.File, len(files)), folders: map[string]bool{".": true}, resolved: map[string]place{}}
	for _, f := range files {
		t.files[f.Path] = f
		for folder := path.Dir(f.Path); !t.folders[folder]; folder = path.Dir(folder) {
			t.folders[folder] = true
		}
		if f.IsBuiltLink() {
			t.links = append(t.links, f.Path)
		}
	}
	slices.Sort(t.links)
	return t
}

// Links returns the paths of the links.
func (t *Tree) Links() []string { return t.links }

// Has reports whether a file, or a folder with files, lies at a path.
func (t *Tree) Has(name string) bool {
	_, file := t.files[name]
	return file || t.folders[name]
}

// File returns the file that lies at a path.
func (t *Tree) File(name string) (landfall.File, bool) {
	f, ok := t.files[name]
	return f, ok
}

// Follow returns the path that a link leads to, through other links and folders, as the system would find it. What lies there may be
// nothing. A link that leads to itself, or through too many links, is what it leads to. inside is false for one that leaves the tree.
func (t *Tree) Follow(link string) (to string, inside bool) {
	switch p := t.walk(place{}, link); {
	case p.links > maxLinks:
		return link, true
	case p.out:
		return "", false
	case p.at == "":
		return ".", true
	default:
		return p.at, true
	}
}

// walk goes a way from a place.
func (t *Tree) walk(p place, way string) place {
	for part := range strings.SplitSeq(way, "/") {
		switch part {
		case "", ".":
		case "..":
			p.out = p.at == ""
			p.at = parent(p.at)
		default:
			if p.at != "" {
				part = p.at + "/" + part
			}
			p.at = part
			if f := t.files[part]; f.IsBuiltLink() {
				to := t.resolve(f)
				p = place{to.at, p.links + to.links, to.out}
			}
		}
		if p.out || p.links > maxLinks {
			break
		}
	}
	return p
}

// resolve returns where a link leads, whose folder is no link.
func (t *Tree) resolve(link landfall.File) place {
	p, known := t.resolved[link.Path]
	if !known {
		t.resolved[link.Path] = place{links: maxLinks + 1} // a link that leads through itself leads there for ever
		p = place{at: parent(link.Path), links: 1, out: strings.HasPrefix(link.Target, "/")}
		if !p.out {
			p = t.walk(p, link.Target)
		}
		t.resolved[link.Path] = p
	}
	return p
}

// parent returns the folder of a path; empty for the tree itself.
func parent(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// Expand returns the files, sorted by their paths, with what links lead to in the place of the links: a file, or all files of a folder. A
// link stays one when it leads to nothing or to a folder that it lies in, and when there would be more than so many files and links.
func (t *Tree) Expand(limit int) []landfall.File {
	byPath := func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) }
	e := &expansion{tree: t, sorted: slices.SortedFunc(maps.Values(t.files), byPath), left: limit}
	if len(t.links) == 0 {
		return e.sorted
	}
	var all []landfall.File
	for _, f := range e.sorted {
		found, ok := e.expand(f, f.Path, 0)
		if !ok {
			found = []landfall.File{f}
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, byPath)
	return all
}

// expansion is the work of Expand.
type expansion struct {
	tree   *Tree
	sorted []landfall.File
	left   int // files and links that may still be looked at
}

// expand returns what a file is at a path that leads to it through so many links to folders.
func (e *expansion) expand(f landfall.File, at string, depth int) (found []landfall.File, ok bool) {
	e.left--
	switch {
	case e.left < 0 || depth > maxLinks:
		return nil, false
	case !f.IsBuiltLink():
		f.Path = at
		return []landfall.File{f}, true
	}
	to, inside := e.tree.Follow(f.Path)
	if target, isFile := e.tree.files[to]; isFile {
		target.Path = at
		return []landfall.File{target}, true
	}
	if !inside || !e.tree.folders[to] || to == "." || IsBelow(to, f.Path) {
		f.Path = at
		return []landfall.File{f}, true
	}
	first, _ := slices.BinarySearchFunc(e.sorted, to+"/", func(f landfall.File, p string) int { return strings.Compare(f.Path, p) })
	for _, below := range e.sorted[first:] {
		if !IsBelow(to, below.Path) {
			break
		}
		more, ok := e.expand(below, at+below.Path[len(to):], depth+1)
		if !ok {
			return nil, false
		}
		found = append(found, more...)
	}
	return found, true
}

// IsBelow reports whether a path is a folder's, or lies below it.
func IsBelow(folder, name string) bool {
	folder = path.Clean(folder)
	return name == folder || strings.HasPrefix(name, folder+"/")
}
