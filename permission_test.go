package landfall_test

import (
	"testing"

	"landfall.dev/landfall"
)

// Each permission includes itself and what is less; what is no permission includes nothing, and nothing includes it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	all := []landfall.Permission{"", "custom", "none", "read", "triage", "write", "maintain", "admin"}
	for has, p := range all {
		for needs, needed := range all {
			if got, want := p.Includes(needed), has >= needs && needs >= 2; got != want {
				t.Errorf("%q includes %q: got %t, want %t", p, needed, got, want)
			}
		}
	}
}
