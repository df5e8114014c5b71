package builder

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"
)

const maxAddress = 2048

// CheckURL returns an Invalid error unless address can be a clone address: https, or http to an allowed host, without
// credentials, and not an address that DialContext obviously refuses.
func (d *Dialer) CheckURL(address string) error {
	const op = landfall.Op("builder.check-url")
	refuse := func(reason string) error {
		return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "the address " + reason}
	}
	odd := func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' || r == unicode.ReplacementChar
	}
	switch {
	case address == "":
		return refuse("is empty: it is https://HOST/PATH")
	case len(address) > maxAddress:
		return refuse(fmt.Sprintf("is longer than %d bytes", maxAddress))
	case strings.HasPrefix(address, "-"):
		return refuse(`begins with "-": it is https://HOST/PATH`)
	case strings.ContainsFunc(address, odd):
		return refuse("has a space, a backslash or a control character in it")
	case strings.HasPrefix(address, "ssh://") || (!strings.Contains(address, "://") && strings.Contains(address, "@")):
		return refuse("is for ssh, by which only repositories are read: it is https://HOST/PATH")
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return refuse("cannot be read: it is https://HOST/PATH")
	}
	if u.User != nil {
		return refuse("has credentials in it: leave them out, and give the token by --repo-token-file")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(address, "#") {
		return refuse(`has a "?" or "#" in it: it is https://HOST/PATH`)
	}
	return d.checkTarget(op, u)
}

// checkTarget checks the scheme and host of a clone address and of redirects.
func (d *Dialer) checkTarget(op landfall.Op, u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var reason string
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		reason = "must begin with https://"
	case host == "" || strings.HasPrefix(host, "-"):
		reason = "names no host: it is https://HOST/PATH"
	case d.allows(host, port):
		return nil
	case u.Scheme != "https":
		reason = "must begin with https:// (plain http is for hosts that the administrator allows: LANDFALL_ALLOWED_HOSTS)"
	default:
		if a, err := netip.ParseAddr(host); err == nil && !outbound.IsPublic(a) {
			return forbidden(host)
		}
		return nil
	}
	return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "the address " + reason}
}
