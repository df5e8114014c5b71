package outbound

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Allows reports whether a host, at a port, is one of a list of exceptions: HOST for every port of it, or HOST:PORT. However each is
// written it is the same host: in capitals, with a dot at its end, or as an address with brackets and zeros.
func Allows(exceptions []string, host, port string) bool {
	host = Plain(host)
	return slices.ContainsFunc(exceptions, func(exception string) bool {
		if h, p, err := net.SplitHostPort(exception); err == nil {
			return Plain(h) == host && p == port
		}
		return Plain(exception) == host
	})
}

// Plain returns the form of a host by which it is compared.
func Plain(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String()
	}
	return host
}
