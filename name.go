package landfall

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabel is the length of one label of a host name (RFC 1035, section 2.3.4).
const maxLabel = 63

var appName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{1,38})[a-z0-9]$`)

// CheckAppName returns an Invalid error unless name can be the name of an app, which is also its host name.
func CheckAppName(name string) error { return checkName(name, "an app's name") }

// CheckNamespaceName returns an Invalid error unless name can be a namespace's: apps and namespaces share their names.
func CheckNamespaceName(name string) error { return checkName(name, "a namespace's name") }

func checkName(name, what string) error {
	if lower := strings.ToLower(name); lower != name && checkName(lower, what) == nil {
		return Errorf("", Invalid, "%q cannot be %s, because it has upper-case letters: write %q", name, what, lower)
	}
	if !appName.MatchString(name) || strings.Contains(name, "--") {
		return Errorf("", Invalid,
			"%q cannot be %s: 3 to 40 of a-z, 0-9 and -, without -- and without - at an end", name, what)
	}
	return nil
}

// Slug returns name as a label of a host name of at most limit characters: in lower case, with one "-" for each run of
// characters other than a-z and 0-9. If the name changed or is too long, it is cut and gets "-" and 6 hexadecimal
// digits of its SHA-256, so two names never share an address.
func Slug(name string, limit int) string {
	var b strings.Builder
	gap := false
	for _, c := range []byte(strings.ToLower(name)) {
		if (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteByte(c)
			continue
		}
		gap = true
	}
	slug := b.String()
	if slug == name && len(slug) <= limit {
		return slug
	}
	const suffix = 7 // "-" and 6 digits
	slug = strings.TrimSuffix(slug[:max(0, min(len(slug), limit-suffix))], "-")
	return strings.TrimPrefix(slug+"-"+DigestOf([]byte(name)).Hex()[:suffix-1], "-")
}

// ReleaseLabel returns the label RELEASE of APP.RELEASE.DOMAIN for a release id or a tag.
func ReleaseLabel(selector string) string { return Slug(selector, maxLabel) }

// JoinedLabel returns the label APP--RELEASE of APP--RELEASE.DOMAIN for a release id or a tag.
func JoinedLabel(app, selector string) string {
	const separator = "--"
	return app + separator + Slug(selector, maxLabel-len(app)-len(separator))
}

// longestAlias is how long an alias may be: people read it in tables, and it is a part of addresses.
const longestAlias = 100

// UnfitName says why a text cannot name versions, as a label, an alias or a function tag; empty when it can.
func UnfitName(name string) string {
	switch {
	case strings.Trim(name, ".") == "":
		return "it has no letter"
	case slices.Contains([]string{LivePointer, Latest, "all"}, name):
		return fmt.Sprintf("%q is reserved", name)
	case strings.Trim(name, "0123456789") == "":
		return "digits alone are the number of a version"
	case strings.HasPrefix(name, "sha256:"):
		return "it would be taken for a digest"
	case utf8.RuneCountInString(name) > longestAlias || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, isAliasSyntax):
		return fmt.Sprintf("it has at most %d characters, without spaces, control characters and / , = ? # %%",
			longestAlias)
	}
	return ""
}

// isAliasSyntax reports whether a character cannot be in an alias because of the syntax of commands:
// VERSION=PERCENT,VERSION=PERCENT.
func isAliasSyntax(r rune) bool {
	return unicode.IsSpace(r) || unicode.In(r, unicode.C) || strings.ContainsRune("/,=?#%", r)
}
