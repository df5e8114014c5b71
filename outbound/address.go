package outbound

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"landfall.dev/landfall"
)

// IsPublic reports whether an address belongs to the public internet. An IPv4 address within an IPv6 one counts as what it is.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	// Of version 6 this is what IANA has given out. All forms of an IPv4 address that are not set apart in it lie outside.
	given := netip.MustParsePrefix("2000::/3")
	return (a.Is4() || within(given)) && !slices.ContainsFunc(specialNetworks(), within)
}

// IsPrivate is the opposite of IsPublic.
func IsPrivate(a netip.Addr) bool { return !IsPublic(a) }

// specialNetworks are the networks that IANA's registries of special-purpose addresses set apart, for multicast and for later use, and the
// address outside of them at which a cloud answers its machines. Some are reached from everywhere, such as the sinks for reverse
// lookups, but nobody keeps a repository or a registry there.
func specialNetworks() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/3",
		"168.63.129.16/32", // Azure
		"2001::/23",        // Teredo, ORCHID, benchmarks and anycast services
		"2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Lookup resolves a name.
type Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

// lookupTimeout is how long a name may take that a proxy is to be asked for: where only the proxy knows names, the machine's own
// resolver may not answer at all.
const lookupTimeout = 5 * time.Second

// addresses returns the addresses of a host that a proxy is to be asked for: none when its name is not known here and may be one of the
// world. Forbidden for what is neither a name nor an address as it is usually written: a proxy might read an address in it.
func addresses(ctx context.Context, host string, lookup Lookup) ([]netip.Addr, error) {
	ascii, err := idna.Lookup.ToASCII(host)
	if isName(host) {
		ascii, err = host, nil // with an underscore, too, which IDNA does not know
	}
	if a, wrong := netip.ParseAddr(ascii); wrong == nil {
		return []netip.Addr{a}, nil
	}
	if a, wrong := netip.ParseAddr(host); wrong == nil {
		return []netip.Addr{a}, nil
	}
	if err != nil || !isName(ascii) {
		return nil, &landfall.Error{Op: "outbound.addresses", Kind: landfall.Forbidden, Message: fmt.Sprintf(
			"%.300q is neither a name nor an IP address as it is usually written", host)}
	}
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ascii = strings.ToLower(strings.TrimSuffix(ascii, "."))
	found, err := lookup(limited, ascii)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && len(found) > 0:
		return found, nil
	case isInternalName(ascii):
		return []netip.Addr{netip.IPv6Unspecified()}, nil // whatever it is to the proxy, it is not public
	}
	return nil, nil // the proxy may know it
}

// isInternalName reports whether a name is one of no public domain: one without a dot, and those that are kept for machines and networks.
func isInternalName(name string) bool {
	at := strings.LastIndexByte(name, '.')
	return at < 0 || slices.Contains([]string{"localhost", "localdomain", "local", "internal"}, name[at+1:])
}

// name is what hosts are called. The last part of a name is no number: 127.1, 0x7f000001 and 2130706433 are addresses to some.
var name = regexp.MustCompile(`^([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]*[A-Za-z_][A-Za-z0-9_-]*\.?$`)

var hexadecimal = regexp.MustCompile(`(^|\.)0[xX][0-9a-fA-F]*\.?$`)

func isName(host string) bool {
	const longest = 254
	return len(host) <= longest && name.MatchString(host) && !hexadecimal.MatchString(host)
}
