package assets

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"landfall.dev/landfall"
)

// These are the limits of a key, in bytes. S3 allows keys of 1,024; file systems allow names of 255.
const (
	maxKey  = 1000
	maxName = 255
)

// manifestName is the manifest's key below its version's prefix.
const manifestName = ".manifest.json"

// suffixLength is the length of the suffix of a key where other bytes lie: "~" and 8 digits.
const suffixLength = 9

// CheckKey returns an Invalid error unless key can be an object's. A key is valid UTF-8 of at most 1,000 bytes without
// NUL. It consists of names with single slashes between them, each of 1 to 255 bytes, and none is "." or "..". Keys
// whose first name begins with "." belong to the store itself.
func CheckKey(key string) error {
	ok := fs.ValidPath(key) && len(key) <= maxKey && key[0] != '.' && !strings.Contains(key, "\x00") &&
		!hasLongName(key, maxName)
	if !ok {
		return landfall.Errorf("assets.key", landfall.Invalid, "%q cannot be the key of an object", key)
	}
	return nil
}

// hasLongName reports whether a name in key is longer than limit.
func hasLongName(key string, limit int) bool {
	for name := range strings.SplitSeq(key, "/") {
		if len(name) > limit {
			return true
		}
	}
	return false
}

// Prefix returns the prefix of one version of a static unit, whose name is its path: the folder for what the version
// stores, below the folder of its app, with a slash at its end. Two units never share a prefix.
func Prefix(app, unit string, uid landfall.UID) string {
	const slugLimit = 63
	folder := "root"
	if unit != "/" {
		folder = landfall.Slug(unit, slugLimit)
	}
	return fmt.Sprintf("%s/static/%s/%s/", strings.TrimSuffix(app, "/"), folder, uid)
}

// sameApp reports whether two prefixes belong to one app. Content is never shared between apps.
func sameApp(a, b string) bool {
	folder := func(prefix string) string { // without "static", the unit and the uid
		return path.Dir(path.Dir(path.Dir(strings.TrimSuffix(prefix, "/"))))
	}
	return folder(a) == folder(b)
}

// objectKey returns the key of the file at rel, a path below the unit's, in the version with the prefix. Every path has
// a key, and no two paths share one: a path that cannot be a key is replaced by its digest, and a file with the name of
// the manifest gets another name.
func objectKey(prefix, rel string) string {
	name := escape(rel)
	if rest, ok := strings.CutPrefix(name, manifestName); ok && (rest == "" || rest[0] == '/') {
		name = "%2E" + name[1:]
	}
	if len(prefix)+len(name) > maxKey-suffixLength || hasLongName(name, maxName-suffixLength) {
		name = "%long-" + landfall.DigestOf([]byte(rel)).Hex()
	}
	return prefix + name
}

// alternateKey returns the key for bytes with this digest when key has other bytes.
func alternateKey(key string, digest landfall.Digest) string {
	return key + "~" + digest.Hex()[:suffixLength-1]
}

// escape returns the name as valid UTF-8 without control characters, so that it fits into keys and JSON. It writes each
// byte of control characters, of invalid UTF-8, and of "%" and "\" as "%" and two hexadecimal digits.
func escape(name string) string {
	var b strings.Builder
	done := 0 // bytes of name that are in b
	for i := 0; i < len(name); {
		c, size := utf8.DecodeRuneInString(name[i:])
		if c < ' ' || c == '%' || c == '\\' || c == '\x7f' || (c == utf8.RuneError && size == 1) {
			b.WriteString(name[done:i])
			fmt.Fprintf(&b, "%%%02X", name[i])
			done = i + 1
		}
		i += size
	}
	if done == 0 {
		return name
	}
	b.WriteString(name[done:])
	return b.String()
}

// unescape is the inverse of escape, and reports whether s can be a result of escape.
func unescape(s string) (string, bool) {
	name, err := url.PathUnescape(s)
	return name, err == nil && escape(name) == s
}

// joinURL returns the URL path of rel below base.
func joinURL(base, rel string) string { return strings.TrimSuffix(base, "/") + "/" + rel }

// relative returns the part of the URL path p after base; the last name of p if p is base itself.
func relative(base, p string) string {
	if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(base, "/")+"/"); ok && rest != "" {
		return rest
	}
	return path.Base(p)
}
