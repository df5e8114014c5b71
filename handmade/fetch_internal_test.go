package handmade

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// Slow addresses hold two requests of a token, and eight of all.
func TestFetchesAreCounted(t *testing.T) {
	t.Parallel()
	m := &Maker{}
	begin := func(owner landfall.Digest) func() { return testkit.Must(m.begin(owner))(t) }
	refused := func(what string, owner landfall.Digest) {
		t.Helper()
		_, err := m.begin(owner)
		testkit.Kind(t, what, err, landfall.Unavailable, "too much is being fetched already")
	}
	done := begin("a")
	begin("a")
	refused("a third one of a token", "a")
	done()
	begin("a")
	for _, owner := range []landfall.Digest{"b", "b", "c", "c", "d", "d"} {
		done = begin(owner)
	}
	refused("a ninth one", "e")
	done()
	begin("e")
}
