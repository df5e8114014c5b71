// Package tree follows symbolic links in a list of files that are not on a disk yet.
package tree

import (
	"maps"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Tree is a set of files with symbolic links that a build made, whose targets are known. It remembers where links lead,
// so it is for one goroutine.
type Tree struct {
	files    map[string]landfall.File
	folders  map[string]bool
	links    []string // sorted
	resolved map[string]place
}

// place is the place to which a path leads.
type place struct {
	at    string // empty for the root of the tree
	links int    // links on the way; when there are too many, the other fields do not count
	out   bool   // it is outside the tree
}

// maxLinks is how many links may follow each other, as in Linux.
const maxLinks = 40

// MaxDepth is how deeply the folders of a file may be nested: as deeply as a sandbox allows.
const MaxDepth = 300

// TooDeep reports whether a file is in more than MaxDepth folders.
func TooDeep(name string) bool { return strings.Count(name, "/") > MaxDepth }

// Of returns the tree of files, each with its path.
func Of(files []landfall.File) *Tree {
	t := &Tree{files: make(map[string]landfall.File, len(files)), folders: map[string]bool{".": true},
		resolved: map[string]place{}}
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

// Has reports whether there is a file, or a folder with files, at a path.
func (t *Tree) Has(name string) bool {
	_, file := t.files[name]
	return file || t.folders[name]
}

// File returns the file at a path.
func (t *Tree) File(name string) (landfall.File, bool) {
	f, ok := t.files[name]
	return f, ok
}

// Follow returns the path to which a link leads, through other links and folders, as the system would find it. There
// may be no file at that path. A link that leads to itself, or through too many links, leads to its own path. inside is
// false for a link that leaves the tree.
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

// walk follows a way from a place.
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

// resolve returns the place to which a link leads; the link's folder is no link.
func (t *Tree) resolve(link landfall.File) place {
	p, known := t.resolved[link.Path]
	if !known {
		t.resolved[link.Path] = place{links: maxLinks + 1} // a link that leads through itself never ends
		p = place{at: parent(link.Path), links: 1, out: strings.HasPrefix(link.Target, "/")}
		if !p.out {
			p = t.walk(p, link.Target)
		}
		t.resolved[link.Path] = p
	}
	return p
}

// parent returns the folder of a path; empty for the root of the tree.
func parent(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// Expand returns the files, sorted by path, with each link replaced by its target: a file, or all files of a folder. A
// link stays a link when it leads to nothing or to one of its own parents, and when there would be more than limit
// files and links.
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

// expand returns the files at the path at, to which f leads through depth links to folders.
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
	first, _ := slices.BinarySearchFunc(e.sorted, to+"/", func(f landfall.File, p string) int {
		return strings.Compare(f.Path, p)
	})
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

// IsBelow reports whether a path is a folder, or is below it.
func IsBelow(folder, name string) bool {
	folder = path.Clean(folder)
	return name == folder || strings.HasPrefix(name, folder+"/")
}
