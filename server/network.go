package server

// These are what LANDFALL_FUNCTIONS_NETWORK may say.
const (
	networkBySpec = "spec"
	networkOff    = "off"
)

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
