package spec

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// checkPath returns what is wrong with a path or glob that must stay within the repository, or "".
func checkPath(s string) string {
	switch {
	case s == "":
		return "is empty"
	case strings.HasPrefix(s, "/"):
		return "must be relative to the repository's root"
	case len(s) > 1024:
		return "is longer than 1,024 characters"
	}
	separator := func(r rune) bool { return strings.ContainsRune("/,{}", r) }
	if slices.Contains(strings.FieldsFunc(s, separator), "..") {
		return "must not contain .."
	}
	return checkControl(s)
}

// checkControl says that there are control characters, or "".
func checkControl(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "must not contain control characters"
	}
	return ""
}

// checkGlob returns what is wrong with a glob, or "". Alternatives are limited, because matching tries each combination
// of them.
func checkGlob(s string) string {
	if wrong := checkPath(s); wrong != "" {
		return wrong
	}
	switch {
	case !doublestar.ValidatePattern(s):
		return "is not a glob: a [ or { is not closed"
	case strings.Count(s, "{") > 4 || strings.Count(s, ",") > 32:
		return "has more than 4 groups {…} or 32 alternatives; write several globs"
	}
	return ""
}

// globs checks the globs of the list at the path.
func (d *document) globs(n nodes, all []string, at ...string) {
	for _, glob := range all {
		if wrong := checkGlob(glob); wrong != "" {
			d.problemf(n.at(at...), "%s: %s %s", strings.Join(at, "."), quote(glob), wrong)
		}
	}
}

// checkAddress returns what is wrong with a path under which something is served, or "".
func checkAddress(s string) string {
	switch {
	case !strings.HasPrefix(s, "/"):
		return "must begin with /"
	case strings.Contains(s, "//"):
		return "must not contain //"
	case strings.TrimSuffix(path.Clean(s), "/") != strings.TrimSuffix(s, "/"):
		return "must not contain . or .. as a segment"
	case strings.ContainsAny(s, `%?#\`):
		return `must not contain %, ?, # or \; write the characters themselves`
	case len(s) > 1024:
		return "is longer than 1,024 characters"
	}
	return checkControl(s)
}
