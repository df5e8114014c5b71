package assets

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"landfall.dev/landfall"
)

// opSelect is the operation of this file's errors.
const opSelect landfall.Op = "assets.select"

// Select applies rules to files (a commit's tree overlaid with the output of its build, each path once). It returns the
// units, sorted by path, and warnings for the person who pushed. The order of rules and files does not matter.
//
// It is Invalid, with the rule's Where in the message, if a Src or an Exclude matches nothing, if no file is left, if
// two rules have the same Path, if a Path or a glob is malformed, or if a selected file is a symlink or a submodule.
func Select(rules []Rule, files []landfall.File) ([]Unit, []string, error) {
	byPath := func(a, b landfall.File) int { return cmp.Compare(a.Path, b.Path) }
	if !slices.IsSortedFunc(files, byPath) {
		files = slices.SortedFunc(slices.Values(files), byPath)
	}
	units := make([]Unit, 0, len(rules))
	where := map[string]string{}
	for _, rule := range rules {
		unit, err := selectUnit(rule, files)
		if err != nil {
			return nil, nil, err
		}
		if other, taken := where[unit.Rule.Path]; taken {
			return nil, nil, invalid(min(other, rule.Where)+" and "+max(other, rule.Where),
				"both serve the path %q; give one of them another path", unit.Rule.Path)
		}
		where[unit.Rule.Path] = rule.Where
		units = append(units, unit)
	}
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.Rule.Path, b.Rule.Path) })
	return units, missingFallbacks(units), nil
}

// missingFallbacks returns a warning for each fallback that no unit serves.
func missingFallbacks(units []Unit) []string {
	var warnings []string
	for _, unit := range units {
		fallback := unit.Rule.Fallback
		serves := func(u Unit) bool {
			_, found := slices.BinarySearchFunc(u.Entries, fallback, func(e Entry, p string) int {
				return cmp.Compare(e.Path, p)
			})
			return found
		}
		if fallback != "" && !slices.ContainsFunc(units, serves) {
			warnings = append(warnings, fmt.Sprintf("%s: no file is served at the fallback %q", unit.Rule.Where, fallback))
		}
	}
	return warnings
}

func selectUnit(rule Rule, files []landfall.File) (Unit, error) {
	target, err := cleanTarget(rule)
	if err != nil {
		return Unit{}, err
	}
	source, err := findSource(rule, files)
	if err != nil {
		return Unit{}, err
	}
	picked, err := exclude(rule, source)
	if err != nil {
		return Unit{}, err
	}
	unit := Unit{Rule: rule, Entries: make([]Entry, 0, len(picked))}
	unit.Rule.Path = target
	if rule.Fallback != "" && !strings.HasPrefix(rule.Fallback, "/") {
		unit.Rule.Fallback = path.Join(target, rule.Fallback)
	}
	for _, file := range picked {
		if err := checkFile(rule, file); err != nil {
			return Unit{}, err
		}
		unit.Entries = append(unit.Entries, Entry{Path: servedPath(rule.Path, target, source, file.Path), File: file})
	}
	slices.SortFunc(unit.Entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return unit, checkFolders(rule, unit.Entries)
}

// cleanTarget returns the rule's path without "//", "." and a slash at its end.
func cleanTarget(rule Rule) (string, error) {
	bad := !strings.HasPrefix(rule.Path, "/") || strings.Contains(rule.Path, "\x00") ||
		slices.Contains(strings.Split(rule.Path, "/"), "..")
	if bad {
		return "", invalid(rule.Where, `the path %q is not one: it begins with "/" and has no ".." in it`, rule.Path)
	}
	return path.Clean(rule.Path), nil
}

// servedPath returns the URL path of a file that the source found.
func servedPath(given, target string, from source, name string) string {
	if !from.single {
		return joinURL(target, below(from.folder, name))
	}
	if strings.HasSuffix(given, "/") {
		return joinURL(target, path.Base(name))
	}
	return target
}

// source is the file or files to which a Src leads.
type source struct {
	folder string // the files are served by their paths below it; "" is the root
	single bool   // Src is one file
	files  []landfall.File
}

// findSource returns the files to which rule.Src leads, among files, which are sorted.
func findSource(rule Rule, files []landfall.File) (source, error) {
	src := clean(rule.Src)
	if src == "." {
		return source{files: files}, nil
	}
	if i, found := search(files, src); found {
		return source{folder: folderOf(src), single: true, files: files[i : i+1]}, nil
	}
	if within := filesBelow(files, src); len(within) > 0 {
		return source{folder: src, files: within}, nil
	}
	if !isGlob(src) {
		return source{}, invalid(rule.Where, "src %q is no file or folder of the commit or of what its build made", rule.Src)
	}
	if err := checkGlob(src); err != nil {
		return source{}, invalid(rule.Where, "src %q: %s", rule.Src, err)
	}
	folder, _ := doublestar.SplitPattern(src)
	found := source{folder: clean(folder)}
	if found.folder == "." {
		found.folder = ""
	}
	for _, file := range filesBelow(files, found.folder) {
		if doublestar.MatchUnvalidated(src, file.Path) {
			found.files = append(found.files, file)
		}
	}
	if len(found.files) == 0 {
		return source{}, invalid(rule.Where, "src %q matches no file of the commit or of what its build made", rule.Src)
	}
	return found, nil
}

// search returns the index of the file name in files, or the index at which it would be.
func search(files []landfall.File, name string) (int, bool) {
	return slices.BinarySearchFunc(files, name, func(f landfall.File, p string) int { return cmp.Compare(f.Path, p) })
}

// filesBelow returns the files of a folder, which follow each other in files; "" is the root.
func filesBelow(files []landfall.File, folder string) []landfall.File {
	if folder == "" {
		return files
	}
	first, _ := search(files, folder+"/")
	last, _ := search(files, folder+"0") // "0" follows "/"
	return files[first:last]
}

// folderOf returns the folder of a file, "" for the root.
func folderOf(name string) string {
	if folder := path.Dir(name); folder != "." {
		return folder
	}
	return ""
}

// below returns the path of name relative to folder, in which it is.
func below(folder, name string) string {
	if folder == "" {
		return name
	}
	return name[len(folder)+1:]
}

// checkFile returns an error unless the selected file can be served.
func checkFile(rule Rule, file landfall.File) error {
	switch file.Mode {
	case landfall.Symlink:
		return invalid(rule.Where, "%q is a symlink that cannot be followed within the repository; replace or exclude it",
			file.Path)
	case landfall.Submodule:
		return invalid(rule.Where, "%q is a submodule that is not fetched (%s): commit its files, or exclude it",
			file.Path, file.Target)
	case landfall.Regular, landfall.Executable:
	}
	const maxPath = 4096 // the longest path that Linux can check out
	if len(file.Path) > maxPath {
		return invalid(rule.Where, "the path %q… is longer than %d bytes", file.Path[:maxName], maxPath)
	}
	if !fs.ValidPath(escape(file.Path)) {
		return invalid(rule.Where, "%q is no path of a file", file.Path)
	}
	if file.ContentID() == "" {
		return landfall.Errorf(opSelect, landfall.Internal, "%s: the content of %q is not known", rule.Where, file.Path)
	}
	return nil
}

// checkFolders returns an error if a path occurs twice, or as both a file and a folder. A tree cannot have that, but a
// tree overlaid with a build output can.
func checkFolders(rule Rule, entries []Entry) error {
	// With "/" before every other byte, the files of a folder come right after a file with the folder's name.
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return compareByFolder(a.Path, b.Path) })
	for i := 1; i < len(sorted); i++ {
		rest, within := strings.CutPrefix(sorted[i].Path, sorted[i-1].Path)
		switch {
		case within && rest == "":
			return invalid(rule.Where, "%q is there twice", sorted[i].File.Path)
		case within && rest[0] == '/':
			return invalid(rule.Where, "%q is a file, and the folder of %q", sorted[i-1].File.Path, sorted[i].File.Path)
		}
	}
	return nil
}

// compareByFolder compares paths as strings in which "/" comes before every other byte.
func compareByFolder(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			switch byte('/') {
			case a[i]:
				return -1
			case b[i]:
				return 1
			}
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// invalid returns an error about the rule at where.
func invalid(where, format string, args ...any) error {
	return &landfall.Error{Op: opSelect, Kind: landfall.Invalid, Message: where + ": " + fmt.Sprintf(format, args...)}
}
