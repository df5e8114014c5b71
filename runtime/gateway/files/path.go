package files

import "strings"

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
