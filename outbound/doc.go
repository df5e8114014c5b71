// Package outbound decides to which outside addresses a connection may be made, and connects through the proxy that the
// machine's environment names.
//
// Strangers choose the hosts of repositories, registries, build commands and functions. Whoever connects to a host for
// them asks this room whether its addresses are public: there is one list, and every dialer of the project uses it.
//
// A host is checked before a proxy is asked for it: an address as it is written, and a name by the addresses that it
// has here. A name that has no address here is left to the proxy, because many companies resolve public names only at
// their proxy.
package outbound
