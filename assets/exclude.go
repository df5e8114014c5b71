package assets

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"landfall.dev/landfall"
)

// exclude returns the files of source that no exclusion of the rule matches. Each exclusion must match a file.
func exclude(rule Rule, from source) ([]landfall.File, error) {
	exclusions := make([]exclusion, len(rule.Exclude))
	for i, pattern := range rule.Exclude {
		exclusions[i] = newExclusion(pattern, from.folder)
		if exclusions[i].glob {
			if err := checkGlob(exclusions[i].pattern); err != nil {
				return nil, invalid(rule.Where, "exclude %q: %s", pattern, err)
			}
		}
	}
	picked := make([]landfall.File, 0, len(from.files))
	for _, file := range from.files {
		excluded := rule.Implicit && implicitlyExcluded(file.Path)
		for i := range exclusions {
			if exclusions[i].matches(file.Path) {
				exclusions[i].used, excluded = true, true
			}
		}
		if !excluded {
			picked = append(picked, file)
		}
	}
	for i, x := range exclusions {
		if !x.used {
			return nil, invalid(rule.Where,
				"exclude %q matches nothing in src %q; it is a path or a glob from the root, from src, or from src's parent",
				rule.Exclude[i], rule.Src)
		}
	}
	if len(picked) == 0 {
		return nil, invalid(rule.Where, "src %q has no file that is not excluded", rule.Src)
	}
	return picked, nil
}

// exclusion is one entry of Rule.Exclude.
type exclusion struct {
	pattern string
	glob    bool
	bases   []string          // the folders to which the pattern can be relative
	folders []map[string]bool // for each base: whether the pattern matches a folder, or one of its parents
	used    bool
}

func newExclusion(pattern, folder string) exclusion {
	x := exclusion{pattern: clean(pattern), bases: []string{"", folderOf(folder), folder}}
	x.glob = isGlob(x.pattern)
	slices.Sort(x.bases)
	x.bases = slices.Compact(x.bases)
	for range x.bases {
		x.folders = append(x.folders, map[string]bool{"": false})
	}
	return x
}

// matches reports whether the exclusion matches the file name, or one of its folders.
func (x *exclusion) matches(name string) bool {
	for i, base := range x.bases {
		rest := below(base, name)
		if x.matchesOne(rest) || x.matchesFolder(x.folders[i], folderOf(rest)) {
			return true
		}
	}
	return false
}

func (x *exclusion) matchesFolder(known map[string]bool, folder string) bool {
	matched, ok := known[folder]
	if !ok {
		matched = x.matchesOne(folder) || x.matchesFolder(known, folderOf(folder))
		known[folder] = matched
	}
	return matched
}

func (x *exclusion) matchesOne(name string) bool {
	return name == x.pattern || (x.glob && doublestar.MatchUnvalidated(x.pattern, name))
}

// implicitlyExcluded reports whether an app without specs does not serve the file.
func implicitlyExcluded(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	if first == "specs" && nested {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if (strings.HasPrefix(part, ".") && part != ".well-known") || part == "node_modules" {
			return true
		}
	}
	return false
}

// isGlob reports whether a name has wildcards.
func isGlob(name string) bool { return strings.ContainsAny(name, `*?[{\`) }

// checkGlob returns what is wrong with a glob. Matching tries each alternative with everything that follows, and globs
// come from strangers, so the number of alternatives is limited.
func checkGlob(pattern string) error {
	const maxGlob, maxBraces, maxCommas = 1000, 2, 20
	if !doublestar.ValidatePattern(pattern) {
		return errors.New("its brackets or braces do not close")
	}
	if len(pattern) > maxGlob || strings.Count(pattern, "{") > maxBraces || strings.Count(pattern, ",") > maxCommas {
		return fmt.Errorf("a glob has at most %d characters, %d braces and %d commas", maxGlob, maxBraces, maxCommas)
	}
	return nil
}
