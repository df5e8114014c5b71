package outbound

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"landfall.dev/landfall"
)

// IsPublic reports whether an address belongs to the public internet. An IPv4 address inside an IPv6 one counts as the
// IPv4 address.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	// This is what IANA has given out of IPv6. All forms of an IPv4 address in it without a special meaning are
	// outside.
	given := netip.MustParsePrefix("2000::/3")
	return (a.Is4() || within(given)) && !slices.ContainsFunc(specialNetworks(), within)
}

// IsPrivate is the opposite of IsPublic.
func IsPrivate(a netip.Addr) bool { return !IsPublic(a) }

// specialNetworks returns the networks that IANA's registries reserve for special purposes, for multicast and for later
// use, and the address outside of them at which a cloud answers its machines. Some can be reached from everywhere, such
// as the sinks for reverse lookups, but nobody keeps a repository or a registry there.
func specialNetworks() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
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

// lookupTimeout is how long the lookup of a name for a proxy may take: where only the proxy knows names, the machine's
// own resolver may not answer at all.
const lookupTimeout = 5 * time.Second

// addresses returns the addresses of a host for which a proxy will be asked: none when its name is not known here and
// may be a public one. Forbidden for a text that is neither a name nor an address in the usual form, because a proxy
// might take it for an address.
func addresses(ctx context.Context, host string, lookup Lookup) ([]netip.Addr, error) {
	ascii, err := idna.Lookup.ToASCII(host)
	if isName(host) {
		ascii, err = host, nil // it may have an underscore, which IDNA refuses
	}
	if a, wrong := netip.ParseAddr(ascii); wrong == nil {
		return []netip.Addr{a}, nil
	}
	if a, wrong := netip.ParseAddr(host); wrong == nil {
		return []netip.Addr{a}, nil
	}
	if err != nil || !isName(ascii) {
		return nil, landfall.Errorf("outbound.addresses", landfall.Forbidden,
			"%.300q is neither a name nor an IP address as it is usually written", host)
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
		return []netip.Addr{netip.IPv6Unspecified()}, nil // whatever it is for the proxy, it is not public
	}
	return nil, nil // the proxy may know it
}

// isInternalName reports whether a name is in no public domain: it has no dot, or is reserved for machines and
// networks.
func isInternalName(name string) bool {
	at := strings.LastIndexByte(name, '.')
	return at < 0 || slices.Contains([]string{"localhost", "localdomain", "local", "internal"}, name[at+1:])
}

// name matches the names of hosts. The last part of a name is not a number, because some programs read 127.1,
// 0x7f000001 and 2130706433 as addresses.
var name = regexp.MustCompile(`^([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]*[A-Za-z_][A-Za-z0-9_-]*\.?$`)

var hexadecimal = regexp.MustCompile(`(^|\.)0[xX][0-9a-fA-F]*\.?$`)

func isName(host string) bool {
	const longest = 254
	return len(host) <= longest && name.MatchString(host) && !hexadecimal.MatchString(host)
}
