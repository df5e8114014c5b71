package outbound_test

import (
	"net"
	"testing"

	"landfall.dev/landfall/outbound"
)

// An exception counts however it and the host that is asked for are written.
func TestAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		exception, host, port string
		allowed               bool
	}{
		{"git.example", "git.example", "443", true},
		{"git.example", "git.example", "3000", true},
		{"Git.Example", "gIT.example", "443", true},
		{"git.example.", "git.example", "443", true},
		{"git.example", "git.example.", "443", true},
		{"git.example.:443", "git.example", "443", true},
		{"GIT.example:443", "git.example.", "443", true},
		{"git.example:443", "git.example", "80", false},
		{"git.example", "other.git.example", "443", false},
		{"git.example", "example", "443", false},
		{"10.0.0.1:80", "10.0.0.1", "80", true},
		{"10.0.0.1", "::ffff:10.0.0.1", "80", true},
		{"10.0.0.1", "10.0.0.11", "80", false},
		{"::1", "::1", "443", true},
		{"[::1]", "::1", "443", true},
		{"::1", "[::1]", "443", true},
		{"[::1]:443", "::1", "443", true},
		{"[::1]:443", "::1", "80", false},
		{"[0:0:0:0:0:0:0:1]:443", "::1", "443", true},
		{"FD00::A", "fd00:0::a", "443", true},
		{"fd00::a:443", "fd00::a", "443", false}, // which is one address
		{"", "git.example", "443", false},
	} {
		if got := outbound.Allows([]string{"another.example", test.exception}, test.host, test.port); got != test.allowed {
			t.Errorf("%s for %s: got %t", test.exception, net.JoinHostPort(test.host, test.port), got)
		}
	}
}
