package main

import (
	"sync"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox"
)

// These are what LANDFALL_FUNCTIONS_NETWORK may say.
const (
	networkBySpec = "spec"
	networkOff    = "off"
)

// mostHosts is how many hosts that a function asks for are logged.
const mostHosts = 100

// networkOf returns the way to the network of a function whose spec asks for one.
func (s *server) networkOf(f *landfall.Function) *sandbox.Proxy {
	logger := s.logger.With("namespace", f.Namespace, "function", f.Name, "version", f.Version)
	var mu sync.Mutex
	asked := map[string]bool{}
	return &sandbox.Proxy{
		AllowedHosts: s.config.AllowedHosts,
		Log: func(host string, failure error) {
			allowed := failure == nil
			s.metrics.Asked(allowed)
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
		Count: s.metrics.Proxied,
	}
}

// functionsNetwork says which network functions get that run in this process; empty: none run here.
func (s *server) functionsNetwork() string {
	switch {
	case !s.config.has(roleRunner):
		return ""
	case s.sandbox.Kind() == "off":
		return "any, without a sandbox"
	case s.config.Network == networkOff:
		return "off, whatever their specs say"
	}
	return "as their specs say"
}
