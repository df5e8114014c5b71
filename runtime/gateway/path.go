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
	if len(path) > maxPath || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return false
	}
	for _, c := range []byte(path) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '-' || c > '9') && c != '_' { // '-', '.', '/' and digits
			return false
		}
	}
	return true
}

// location returns path, which is canonical, as it stands in a Location header. It names no scheme and no host.
func location(path, query string) string {
	u := url.URL{Path: path, RawQuery: query}
	return u.String()
}

// covers reports whether path is the folder mount or lies in it.
func covers(mount, path string) bool {
	rest, ok := strings.CutPrefix(path, mount)
	return ok && (rest == "" || rest[0] == '/' || mount == "/")
}

// extension returns the file extension of a path's last segment, in lower case and without the dot: empty when there is
// none that has a letter, as in "/docs/v1.2".
func extension(path string) string {
	const longest = 12 // webmanifest has 11
	name := path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot-1 > longest {
		return ""
	}
	ext := strings.ToLower(name[dot+1:])
	letters := false
	for _, c := range []byte(ext) {
		letter := c >= 'a' && c <= 'z'
		letters = letters || letter
		if !letter && (c < '0' || c > '9') {
			return ""
		}
	}
	if !letters {
		return ""
	}
	return ext
}

// navigation reports whether a browser may ask for path because somebody goes to a page: only such a path gets an app's
// fallback page. What looks like an asset never does.
func navigation(path string) bool {
	return extension(path) == "" && !strings.HasPrefix(path, "/.well-known/")
}
