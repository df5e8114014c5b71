// Package outbound decides which addresses outside may be connected to, and leads through the proxy that the machine's environment
// names.
//
// Repositories, registries, build commands and functions name hosts that people outside chose. Whoever connects to one on their behalf
// asks this room whether its addresses are public: there is one list, and every dialer of the project uses it.
//
// Through a proxy, a host is checked before the proxy hears of it: an address as it is written, and a name by the addresses that it has
// here. A name that has none here is the proxy's business, since many companies resolve the names of the world at their proxy only.
package outbound
