package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// What a runner is told to make ready stays while the registry is away, and is not made ready again while nothing
// changes.
func TestLiveFunctions(t *testing.T) {
	t.Parallel()
	var said []*landfall.Function
	var away error
	var prepared []string
	l := NewLive(func(context.Context) ([]*landfall.Function, error) { return said, away },
		func(_ context.Context, functions map[string]*landfall.Function) {
			for id := range functions {
				prepared = append(prepared, id)
			}
		}, nil)
	warm := func(id string, n int) *landfall.Function {
		return &landfall.Function{ID: id, Resources: landfall.Resources{KeepWarm: n}}
	}
	for _, step := range []struct {
		said []*landfall.Function
		away error
		live string
	}{
		{[]*landfall.Function{warm("a", 1)}, nil, "[a]"}, {[]*landfall.Function{warm("a", 1)}, nil, "[a]"},
		{nil, errors.New("away"), "[a]"},
		{[]*landfall.Function{warm("a", 2), warm("b", 0)}, nil, "[a b]"}, {nil, nil, "[]"},
	} {
		said, away = step.said, step.away
		if err := l.ask(t.Context()); !errors.Is(err, step.away) {
			t.Errorf("got %v, want %v", err, step.away)
		}
		testkit.Equal(t, "live functions", fmt.Sprint(slices.Sorted(maps.Keys(l.Table().Live()))), step.live)
	}
	testkit.Equal(t, "how often functions were made ready", len(prepared), 3)
}
