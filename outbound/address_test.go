package outbound_test

import (
	"net/netip"
	"testing"

	"landfall.dev/landfall/outbound"
)

// registered are the blocks of IANA's registries of special-purpose addresses, of multicast, and of what is kept for
// later. One is missing: the addresses of version 4 in ::ffff:0:0/96 are what they are without it.
func registered() []string {
	return []string{
		"0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/31", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
		"224.0.0.0/4", "224.0.0.0/24", "232.0.0.0/8", "233.252.0.0/24", "239.0.0.0/8",

		"::1/128", "::/128", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
		"2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32",
		"2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48",
		"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
		"::/3", "4000::/3", "6000::/3", "8000::/3", "a000::/3", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/9",
	}
}

// metadata are the addresses at which clouds tell a machine about itself, and give it credentials.
func metadata() []string {
	return []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.42.42", "169.254.0.23", "100.100.100.200",
		"192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe", "fd00:42::42",
	}
}

// Nothing of a special-purpose registry is public, at its first and last address and in its middle, and no address of
// version 4 is in any of the forms that it has in version 6.
func TestNothingSpecialIsPublic(t *testing.T) {
	t.Parallel()
	var all []netip.Addr
	for _, block := range registered() {
		prefix := netip.MustParsePrefix(block)
		all = append(all, prefix.Addr(), last(prefix), middle(prefix))
	}
	for _, address := range metadata() {
		all = append(all, netip.MustParseAddr(address))
	}
	for _, a := range all {
		if outbound.IsPublic(a) {
			t.Errorf("%s is public", a)
		}
		if !a.Is4() {
			continue
		}
		for _, form := range within6(a) {
			if outbound.IsPublic(form) {
				t.Errorf("%s is public, which is %s", form, a)
			}
		}
	}
	for _, text := range []string{"2606:2800:220:1::1%eth0", "93.184.216.34"} {
		a := netip.MustParseAddr(text)
		if got, want := outbound.IsPublic(a), a.Zone() == ""; got != want {
			t.Errorf("%s: public is %v, want %v", a, got, want)
		}
	}
	if outbound.IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// What lies beside the special blocks belongs to somebody, and is reached.
func TestTheNeighboursArePublic(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.31.195.255", "192.31.197.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
		"198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "168.63.129.15",
		"168.63.129.17", "::ffff:140.82.121.4", "2000::1", "2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2003::1",
		"2606:4700::1111", "2620:4f:7fff::1", "2620:4f:8001::1", "3ffe::1", "3fff:1000::1",
	} {
		if !outbound.IsPublic(netip.MustParseAddr(address)) {
			t.Errorf("%s is not public", address)
		}
	}
}

func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

func middle(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	if p.Bits() < len(bytes)*8 {
		bytes[p.Bits()/8] |= 1 << (7 - p.Bits()%8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// within6 returns an address of version 4 as version 6 writes it: mapped, compatible, translated, NAT64 in both blocks,
// 6to4, and Teredo as server and as client.
func within6(a netip.Addr) (all []netip.Addr) {
	four := a.As4()
	at := func(prefix string, index int, flip byte) {
		bytes := netip.MustParseAddr(prefix).As16()
		for i, b := range four {
			bytes[index+i] = b ^ flip
		}
		all = append(all, netip.AddrFrom16(bytes))
	}
	at("::ffff:0:0", 12, 0)
	at("::", 12, 0)
	at("::ffff:0:0:0", 12, 0)
	at("64:ff9b::", 12, 0)
	at("64:ff9b:1::", 12, 0)
	at("2002::", 2, 0)
	at("2001::", 4, 0)
	at("2001::", 12, 0xff)
	return all
}
