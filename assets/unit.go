package assets

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Rule is one entry of "static:" in an App document. Paths of files are relative to the app's folder.
type Rule struct {
	// Src is a file, a folder ("" and "." are the whole tree) or a glob. A file or folder with exactly this name comes
	// first, so names with brackets work. Otherwise the glob matches files, "*" within one name and "**" across
	// folders.
	Src string
	// Path is where the files are served, decoded and absolute. A file is served at exactly Path, or under its own name
	// below it if Path ends in "/". The files of a folder are served by their paths below the folder, those of a glob
	// by their paths below the folder before its first wildcard.
	Path string
	// Fallback is the file that answers for pages that do not exist: absolute, or relative to Path; empty: none.
	Fallback string
	// Exclude lists files, folders and globs, each relative to the root, to the folder of Src, or to that folder's
	// parent. A file is excluded if an entry matches it, or one of its folders, in any of these ways.
	Exclude []string
	// Implicit marks the rule of an app without specs: it leaves out names that begin with "." (except .well-known),
	// node_modules and the folder specs.
	Implicit bool
	// Where is the position of the rule, for errors: "specs/app.yaml:12".
	Where string
}

// Unit is a static unit of a commit: a rule and what it selects.
type Unit struct {
	Rule    Rule    // Path is cleaned, Fallback absolute or empty
	Entries []Entry // sorted by Path; at least one
}

// Entry is one file of a unit.
type Entry struct {
	Path string // decoded and absolute: /static/js/app.js
	File landfall.File
}

// ID names the unit: its path is its name.
func (u Unit) ID() landfall.UnitID {
	return landfall.UnitID{Kind: landfall.StaticUnit, Name: u.Rule.Path}
}

// Spec returns the unit's rules as canonical JSON, for its digest. It does not say where the files come from: the same
// files at the same addresses are the same unit.
func (u Unit) Spec() json.RawMessage {
	exclude := slices.Clone(u.Rule.Exclude)
	for i, pattern := range exclude {
		exclude[i] = clean(pattern)
	}
	slices.Sort(exclude)
	return canonical(landfall.StaticSpec{Exclude: slices.Compact(exclude), Fallback: u.Rule.Fallback, Path: u.Rule.Path})
}

// Content returns the unit's files as canonical JSON, for its digest: pairs of path and content id, sorted by path. In
// the paths, "%", "\", control characters and invalid UTF-8 are "%" and two hexadecimal digits.
func (u Unit) Content() json.RawMessage {
	pairs := make([][2]string, len(u.Entries))
	for i, entry := range u.Entries {
		pairs[i] = [2]string{escape(entry.Path), entry.File.ContentID()}
	}
	return canonical(pairs)
}

// Content returns what Unit.Content returned for the files of the manifest.
func (m *Manifest) Content() json.RawMessage {
	pairs := make([][2]string, len(m.files))
	for i := range m.files {
		file := landfall.File{Blob: m.files[i].Blob, Digest: m.files[i].Digest}
		pairs[i] = [2]string{escape(m.files[i].Path), file.ContentID()}
	}
	return canonical(pairs)
}

// canonical returns the JSON of v, which has only strings, so encoding cannot fail.
func canonical(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// clean returns a path or glob of a spec in the form of a tree's paths: without "./" and without slashes at its ends;
// the root is ".".
func clean(name string) string { return path.Clean(strings.TrimLeft(name, "/")) }
