package gateway

import (
	"regexp"
	"strings"
)

// minHash is the least length of a hash in a file's name.
const minHash = 8

// hashed reports whether the name of path carries a hash of its content, as bundlers write it, so that other bytes would
// have another name: "main.3f2a1b4c.chunk.js", "index-B7cSm1tF.css", "chunk-RX4V3J3S.js". Words, dates and numbers are
// no hashes, and pages never have one. When in doubt it says no, which costs a revalidation.
func hashed(path string) bool {
	ext := extension(path)
	if ext == "" || ext == "html" || ext == "htm" {
		return false
	}
	stem := path[strings.LastIndexByte(path, '/')+1 : len(path)-len(ext)-1]
	stem = strings.TrimSuffix(stem, ".js") // of a source map, "app-B7cSm1tF.js.map"
	stem = strings.TrimSuffix(stem, ".css")
	for token := range strings.FieldsFuncSeq(stem, func(c rune) bool { return c == '.' || c == '-' || c == '_' || c == '~' }) {
		if isHexHash(token) || isMixed(token) {
			return true
		}
	}
	// Base64 for URLs has "-" and "_" as digits: the last 8 characters behind a separator.
	cut := len(stem) - minHash
	return cut > 0 && strings.IndexByte(".-", stem[cut-1]) >= 0 && isMixed(stem[cut:])
}

// isHexHash reports whether s is 8 or more lower-case hexadecimal digits, not all of them decimal: that is a date.
func isHexHash(s string) bool {
	return len(s) >= minHash && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0123456789") != ""
}

// words is what people write as one token: words with capitals, abbreviations, and numbers behind them.
var words = regexp.MustCompile(`^([A-Z]+|[a-z]+)?([A-Z][a-z]+|\d+)*$`)

// isMixed reports whether s changes between capitals, small letters and digits as only random characters do.
func isMixed(s string) bool {
	if len(s) < minHash {
		return false
	}
	ordinary, small, capital := true, false, false
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == '-' || c == '_' }) {
		ordinary = ordinary && words.MatchString(part)
	}
	changes := 0
	for i := range len(s) {
		class := classOf(s[i])
		switch class {
		case 'a':
			small = true
		case 'A':
			capital = true
		case 0:
			return false
		}
		if i > 0 && class != classOf(s[i-1]) {
			changes++
		}
	}
	switch {
	case ordinary:
		return false
	case small && capital:
		return changes >= len(s)/2-1
	case capital:
		return changes >= len(s)/4
	}
	return changes >= len(s)/2
}

// classOf returns 'A', 'a', '0' or '-' for the characters of base64, and 0 for all others.
func classOf(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= '0' && c <= '9':
		return '0'
	case c == '-' || c == '_':
		return '-'
	}
	return 0
}
