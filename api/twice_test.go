package api_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// rows returns how many rows, files and sent things there are in a world.
func (w *world) rows() int {
	w.t.Helper()
	return strings.Count(w.state()+w.sent(), "\n")
}

// Two who ask for the same at the same time are answered as if one came after the other: what has a name is made once,
// what goes away goes once, and the other is told so in a sentence.
func TestTwiceAtOnce(t *testing.T) {
	t.Parallel()
	all := operations(t)
	s := newSeed(t)
	admin := tokenOf(landfall.ScopeAdmin, "")
	for _, o := range all {
		if o.method == http.MethodGet {
			continue
		}
		t.Run(o.id, func(t *testing.T) {
			t.Parallel()
			path, body := o.request(s, "")
			ask := func(w *world) answer { return w.ask(admin, o.method, path, body) }
			turns := s.copy(t)
			first := ask(turns)
			second := ask(turns)
			want := []int{first.status, second.status}

			together := s.copy(t)
			answers := make([]answer, 2)
			var both sync.WaitGroup
			for i := range answers {
				both.Go(func() { answers[i] = ask(together) })
			}
			both.Wait()
			got := []int{answers[0].status, answers[1].status}
			slices.Sort(got)
			slices.Sort(want)
			testkit.EqualList(t, "statuses of both at once", got, want)
			testkit.Equal(t, "rows after both at once", together.rows(), turns.rows())
		})
	}
}
