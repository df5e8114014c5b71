package outbound

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Allows reports whether a host, at a port, is in a list of exceptions: HOST for every port, or HOST:PORT. Different
// forms of a host are equal: in capitals, with a dot at its end, or as an address with brackets and zeros.
func Allows(exceptions []string, host, port string) bool {
	host = CanonicalHost(host)
	return slices.ContainsFunc(exceptions, func(exception string) bool {
		if h, p, err := net.SplitHostPort(exception); err == nil {
			return CanonicalHost(h) == host && p == port
		}
		return CanonicalHost(exception) == host
	})
}

// CanonicalHost returns the form of a host that is used to compare it.
func CanonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String()
	}
	return host
}
