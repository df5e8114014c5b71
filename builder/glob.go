package builder

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Match reports whether the path, from the repository's root, is meant by the glob: "*" and "?" stay within a name, "**"
// crosses folders, "[a-z]" and "{a,b}" choose. Nothing is hidden: a leading dot is like any character. A "./" before the
// glob and a "/" after it say nothing; a glob that cannot be read matches nothing.
func Match(glob, path string) bool {
	return doublestar.MatchUnvalidated(cleanGlob(glob), path)
}

func cleanGlob(glob string) string {
	for strings.HasPrefix(glob, "./") {
		glob = strings.TrimLeft(glob[2:], "/")
	}
	return strings.TrimSuffix(glob, "/")
}

// globFolder returns the folder that every match of the glob lies in: "src/app" for "src/app/**/*.js".
func globFolder(glob string) string {
	folder, _ := doublestar.SplitPattern(cleanGlob(glob))
	if folder == "." {
		return ""
	}
	return folder
}
