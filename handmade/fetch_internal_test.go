package handmade

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// Slow addresses hold two requests of a token, four of a namespace, and eight of all.
func TestFetchesAreCounted(t *testing.T) {
	t.Parallel()
	m := &Maker{}
	of := func(namespace string, token landfall.Digest) Version {
		return Version{Namespace: namespace, Caller: token}
	}
	begin := func(v Version) func() { return testkit.Must(m.begin(v))(t) }
	refused := func(what string, v Version) {
		t.Helper()
		_, err := m.begin(v)
		testkit.Kind(t, what, err, landfall.Unavailable, "too much is being fetched already")
	}
	done := begin(of("shop", "a"))
	begin(of("shop", "a"))
	refused("a third one of a token", of("team", "a"))
	done()
	begin(of("shop", "a"))
	begin(of("shop", "b"))
	begin(of("shop", "b"))
	refused("a fifth one of a namespace", of("shop", "c"))
	for _, token := range []landfall.Digest{"c", "c", "d", "d"} {
		done = begin(of("team", token))
	}
	refused("a ninth one", of("third", "e"))
	done()
	begin(of("third", "e"))
}
