package sandbox

import "net/netip"

// isPublic reports whether an address belongs to the public internet.
func isPublic(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	// Of version 6, what IANA has given out as global; the rest leads to version 4 in one way or another, or nowhere.
	if address.Is6() && !netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20}), 3).Contains(address) {
		return false
	}
	for _, prefix := range special() {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}

// special are the networks that IANA's registries set apart beside those that net/netip knows, and the address at which one
// cloud answers machines about themselves.
func special() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "168.63.129.16/32", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}
