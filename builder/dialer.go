package builder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// Dialer connects to addresses that come from outside, and never into the installation's own network: every address that
// a name resolves to must be public, and the one that was checked is the one that is dialed. It is safe for use at once.
type Dialer struct {
	// AllowedHosts are the exceptions: HOST for every port of it, or HOST:PORT. They may be private, and may be plain http.
	AllowedHosts []string

	// Lookup resolves a name; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

const dialTimeout = 15 * time.Second

// DialContext resolves, checks and connects. It returns a Forbidden error for an address that is not public, and the
// error of the network otherwise.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, forbidden(address)
	}
	addresses, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if !d.allows(host, port) {
		for _, a := range addresses {
			if !isPublic(a) {
				return nil, forbidden(host)
			}
		}
	}
	var errs []error
	for _, a := range addresses {
		plain := net.Dialer{Timeout: dialTimeout}
		conn, err := plain.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addresses, err := lookup(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return addresses, err
}

// Transport returns an http.Transport that connects through d only: no proxy is taken from the environment.
func (d *Dialer) Transport() *http.Transport {
	return &http.Transport{
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: 2 * time.Minute,
	}
}

// allows reports whether the host, or this port of it, is an exception.
func (d *Dialer) allows(host, port string) bool {
	host = plainHost(host)
	return slices.ContainsFunc(d.AllowedHosts, func(allowed string) bool {
		if h, p, err := net.SplitHostPort(allowed); err == nil {
			return plainHost(h) == host && p == port
		}
		return plainHost(allowed) == host
	})
}

func plainHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func forbidden(host string) error {
	return &landfall.Error{Op: "builder.dial", Kind: landfall.Forbidden, Message: fmt.Sprintf(
		"%s is an address of this installation's own network; the administrator can allow it (LANDFALL_ALLOWED_HOSTS)", host)}
}

// isPublic reports whether a belongs to the public Internet, by IANA's registries of special-purpose addresses. An IPv4
// address within an IPv6 one counts as what it is.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" {
		return false
	}
	within := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return netip.MustParsePrefix(p).Contains(a) })
	}
	if a.Is4() {
		return !within([]string{
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
			"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
			"224.0.0.0/3",
		})
	}
	// All that is handed out lies in 2000::/3; the rest of the list are its own special blocks (Teredo, ORCHID,
	// documentation, 6to4), which also are the ways to write an IPv4 address inside of it.
	return within([]string{"2000::/3"}) && !within([]string{"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"})
}
