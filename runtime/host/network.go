package host

import (
	"log/slog"
	"sync"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox"
)

// mostHosts is how many hosts that a function asks for are logged.
const mostHosts = 100

// Network is the way to the network of functions whose specs ask for one.
type Network struct {
	AllowedHosts []string                 // HOST (at every port) or HOST:PORT that may be private
	Asked        func(allowed bool)       // is told of each host that a function asks for
	Count        func(sent, received int) // is told of the bytes that went to hosts and came from them
}

// proxy returns the way of one function.
func (n *Network) proxy(f *landfall.Function, logger *slog.Logger) *sandbox.Proxy {
	logger = logger.With("namespace", f.Namespace, "function", f.Name, "version", f.Version)
	var mu sync.Mutex
	asked := map[string]bool{}
	return &sandbox.Proxy{
		AllowedHosts: n.AllowedHosts,
		Log: func(host string, failure error) {
			allowed := failure == nil
			n.Asked(allowed)
			mu.Lock()
			known := asked[host] || len(asked) == mostHosts
			if !known {
				asked[host] = true
			}
			mu.Unlock()
			if !known {
				logger.Info("a function asked for a host, for the first time here", "host", host, "allowed", allowed)
			}
		},
		Count: n.Count,
	}
}
