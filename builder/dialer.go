package builder

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"
)

// Dialer connects to addresses from outside, and never into the installation's own network: every address of a name
// must be public, and it dials the address that it has checked. It is safe for concurrent use.
type Dialer struct {
	// AllowedHosts are exceptions: HOST for every port, or HOST:PORT. They may be private, and may use plain http.
	AllowedHosts []string

	// Lookup resolves a name; nil stands for the system's resolver.
	Lookup outbound.Lookup

	// Proxy is used for hosts outside; nil: they are dialed directly.
	Proxy *outbound.Proxy
}

const dialTimeout = 15 * time.Second

// DialContext resolves, checks and connects, without a proxy. It returns a Forbidden error for an address that is not
// public, and otherwise the error of the network.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, forbidden(address)
	}
	addresses, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := d.check(host, port, addresses); err != nil {
		return nil, err
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
	addresses, err := d.resolver()(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return addresses, err
}

func (d *Dialer) resolver() outbound.Lookup {
	if d.Lookup != nil {
		return d.Lookup
	}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
}

// check fails when one of a host's addresses is not public, unless the host is an exception.
func (d *Dialer) check(host, port string, addresses []netip.Addr) error {
	if d.allows(host, port) {
		return nil
	}
	if slices.ContainsFunc(addresses, outbound.IsPrivate) {
		return forbidden(host)
	}
	return nil
}

// Transport returns a transport that connects only through d and its proxy.
func (d *Dialer) Transport() *outbound.Transport {
	return d.Proxy.Transport(&http.Transport{
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: 2 * time.Minute,
	}, d.resolver(), d.check)
}

// allows reports whether the host, or this port of it, is an exception.
func (d *Dialer) allows(host, port string) bool { return outbound.Allows(d.AllowedHosts, host, port) }

func forbidden(host string) error {
	return landfall.Errorf("builder.dial", landfall.Forbidden,
		"%s is an address of this installation's own network; the administrator can allow it (LANDFALL_ALLOWED_HOSTS)", host)
}
