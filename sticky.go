package landfall

import "strings"

// Sticky says by what a client of an alias or a route with weights is known, so that it stays on one version: "cookie"
// stands for a cookie that the gateway sets, "cookie:NAME" and "header:NAME" for one that the app has. Empty: every
// request is drawn by itself.
type Sticky string

// StickyCookie is the cookie that the gateway sets.
const StickyCookie Sticky = "cookie"

// Header and Cookie return the name of the app's own header or cookie; empty when s names none.
func (s Sticky) Header() string { return s.named("header:") }

// Cookie is like Header.
func (s Sticky) Cookie() string { return s.named("cookie:") }

func (s Sticky) named(kind string) string {
	name, _ := strings.CutPrefix(string(s), kind)
	if name == string(s) {
		return ""
	}
	return name
}

// CheckSticky returns an Invalid error unless s can be used. Landfall's own headers and cookies know nobody, and the
// header with all cookies changes with each of them.
func CheckSticky(s Sticky) error {
	const longest = 100
	name := s.Header() + s.Cookie()
	small := strings.ToLower(name)
	own := strings.HasPrefix(small, "__host-landfall") || strings.HasPrefix(small, "landfall-")
	switch {
	case s == "" || s == StickyCookie:
		return nil
	case name == "" || len(name) > longest || strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }):
		return Errorf("landfall.CheckSticky", Invalid,
			"sticky is %.120q; right would be cookie, cookie:NAME or header:NAME, for example header:X-User", string(s))
	case own || strings.EqualFold(name, "cookie") && s.Header() != "":
		return Errorf("landfall.CheckSticky", Invalid, "sticky is %q, and %s is not the app's own", string(s), name)
	}
	return nil
}

// isToken reports whether a character may be in the name of a header or a cookie (RFC 9110, section 5.6.2).
func isToken(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
