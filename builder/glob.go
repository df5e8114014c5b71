package builder

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Match reports whether the glob matches the path, from the repository's root. "*" and "?" match within a name, "**"
// crosses folders, "[a-z]" and "{a,b}" choose. A leading dot is like any other character. A "./" before the glob and a
// "/" after it make no difference. A malformed glob matches nothing.
func Match(glob, path string) bool {
	return doublestar.MatchUnvalidated(cleanGlob(glob), path)
}

func cleanGlob(glob string) string {
	for strings.HasPrefix(glob, "./") {
		glob = strings.TrimLeft(glob[2:], "/")
	}
	return strings.TrimSuffix(glob, "/")
}

// globFolder returns the folder that contains every match of the glob: "src/app" for "src/app/**/*.js".
func globFolder(glob string) string {
	folder, _ := doublestar.SplitPattern(cleanGlob(glob))
	if folder == "." {
		return ""
	}
	return folder
}
