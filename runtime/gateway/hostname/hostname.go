// Package hostname says whose business a host name is: the control host's, a release's or nobody's.
package hostname

import (
	"net/netip"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// Kind says whose business a request is.
type Kind uint8

// The kinds. The zero value is a host that nobody serves.
const (
	Unknown Kind = iota
	Control      // the base domain, the public URL's host, or an IP literal
	Release      // APP.DOMAIN, APP.RELEASE.DOMAIN or APP--RELEASE.DOMAIN
)

// Host is a classified host.
type Host struct {
	Kind     Kind
	App      string // for Release; not necessarily an app that exists
	Selector string // the label RELEASE; empty for APP.DOMAIN
	Joined   bool   // the form was APP--RELEASE.DOMAIN
}

// Limits of RFC 1035, section 2.3.4, and the separator of APP--RELEASE.
const (
	maxName   = 253
	maxLabel  = 63
	separator = "--"
	punycode  = "xn--"
)

// Canonical returns the host of a Host header in the one form by which hosts are compared: lower case, without port
// and without the final dot; IP addresses as net/netip prints them, version 6 in brackets. It returns false for
// everything else than a host name of letters, digits and hyphens or an IP address. It never changes its own result.
func Canonical(host string) (string, bool) {
	const brackets, dot, port = 2, 1, 6 // what may stand beside a name
	if len(host) > maxName+brackets+dot+port || !isASCII(host) {
		return "", false
	}
	if strings.HasPrefix(host, "[") {
		return canonicalIPv6(host)
	}
	name, number, hasPort := strings.Cut(host, ":")
	if hasPort && !isPort(number) {
		return "", false
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if len(name) > maxName {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return "", false
		}
	}
	return name, true
}

func canonicalIPv6(host string) (string, bool) {
	literal, rest, ok := strings.Cut(host[1:], "]")
	if !ok || (rest != "" && (rest[0] != ':' || !isPort(rest[1:]))) {
		return "", false
	}
	addr, err := netip.ParseAddr(literal)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false
	}
	return "[" + addr.String() + "]", true
}

// isASCII reports whether s has no other characters, some of which are letters of ASCII in lower case.
func isASCII(s string) bool {
	for _, c := range []byte(s) {
		if c > '~' {
			return false
		}
	}
	return true
}

// isPort reports whether s is a port as it stands behind the colon; RFC 3986 lets it be empty.
func isPort(s string) bool {
	if strings.Trim(s, "0123456789") != "" {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' || strings.HasPrefix(s, punycode) {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Hosts are the names of one installation.
type Hosts struct{ domain, suffix, control string }

// New returns the hosts below a base domain, and that of the public URL, if it is another; a port does not matter.
// A name that is none is Invalid.
func New(domain, control string) (Hosts, error) {
	const op landfall.Op = "gateway.hosts"
	base, ok := Canonical(domain)
	if !ok || isIP(base) {
		return Hosts{}, landfall.Errorf(op, landfall.Invalid, "the domain of releases is no host name")
	}
	h := Hosts{domain: base, suffix: "." + base, control: base}
	if control != "" {
		if h.control, ok = Canonical(control); !ok {
			return Hosts{}, landfall.Errorf(op, landfall.Invalid, "the public URL has no host name")
		}
	}
	return h, nil
}

// Classify says whose business a request with this Host header is.
func (h Hosts) Classify(host string) Host {
	name, ok := Canonical(host)
	if !ok {
		return Host{}
	}
	if name == h.domain || name == h.control || isIP(name) {
		return Host{Kind: Control}
	}
	labels, ok := strings.CutSuffix(name, h.suffix)
	if !ok {
		return Host{}
	}
	app, selector, ok := strings.Cut(labels, ".")
	if !ok {
		app, selector, ok = strings.Cut(labels, separator)
		return Host{Kind: Release, App: app, Selector: selector, Joined: ok}
	}
	if strings.Contains(selector, ".") || strings.Contains(app, separator) {
		return Host{}
	}
	return Host{Kind: Release, App: app, Selector: selector}
}

// isIP reports whether the canonical host is an IP address.
func isIP(name string) bool {
	if name[0] == '[' {
		return true
	}
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return false // most names, at no cost
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
