package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// varying are what two requests of the same make differently: ids, names that are drawn, times, and what is encrypted.
var varying = regexp.MustCompile(`[A-Za-z0-9+/=]{100,}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{2}/[0-9a-f]{38}|` +
	`[A-Za-z0-9+]{26,}|\b[a-z2-7]{8}\b|\d{13,}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// shape is the state of a world without what two requests of the same make differently.
func (w *world) shape() []string {
	w.t.Helper()
	return slices.Sorted(strings.Lines(varying.ReplaceAllString(w.state()+"\n"+w.sent(), "…")))
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
			testkit.Same(t, "what is there after both at once", together.shape(), turns.shape())
		})
	}
}
