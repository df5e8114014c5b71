package gateway

import (
	"net/url"
	"strings"
)

// maxPath is the longest path that is looked up; git's own trees rarely reach it.
const maxPath = 4096

// canonicalPath decodes the escaped path of a request, once, and returns the form by which files are looked up: it
// begins with "/", and its segments are names. It returns false for a path that is none within a release: with "." or
// ".." as a segment, with a backslash, a control character or an encoded slash. Runs of slashes become one.
func canonicalPath(escaped string) (string, bool) {
	if len(escaped) > maxPath || !strings.HasPrefix(escaped, "/") {
		return "", false
	}
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%2F") {
		return "", false
	}
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return "", false
	}
	for _, c := range []byte(path) {
		if c < ' ' || c == 0x7f || c == '\\' {
			return "", false
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", false
		}
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path, true
}

// plain reports whether a decoded path is canonical and has no character that is ever escaped, as most have it.
func plain(path string) bool {
	if len(path) > maxPath || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") ||
		strings.Contains(path, "/.") {
		return false
	}
	for _, c := range []byte(path) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '-' || c > '9') && c != '_' { // '-', '.', '/' and digits
			return false
		}
	}
	return true
}
