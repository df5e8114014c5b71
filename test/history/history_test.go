package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// fine is the kind of no error.
const fine landfall.Kind = 255

// history is what happens to one app, and what the model says of it.
type history struct {
	*installation

	t     *rapid.T
	app   landfall.App
	want  *state
	count *figures

	trail   []string                    // what was done
	changed bool                        // something was done since the invariants were checked
	known   map[string]int              // which names came when: the first is 1
	seen    map[string]landfall.Version // V1: by unit and number
	uids    map[landfall.UID]string     // V3: of groups, to their digests
	digest  map[madeOf]landfall.Digest  // V4
	words   map[digestOf]string         // and back
}

// step is one thing that somebody does: how, and what the model says of it, which changes the state that it is given
// unless it returns a kind of error.
type step struct {
	name  string
	about string
	do    func(ctx context.Context) error
	rest  func(ctx context.Context) error // what is left to do once nobody is in the way; nil: nothing
	next  func(s *state) landfall.Kind
}

// all does all of a step.
func (s step) all(ctx context.Context) error {
	if err := s.do(ctx); err != nil || s.rest == nil {
		return err
	}
	return s.rest(ctx)
}

// begin makes an app in a namespace of its own.
func (i *installation) begin(t *rapid.T, count *figures) *history {
	id := fmt.Sprintf("a%06d", i.apps.Add(1))
	h := &history{installation: i, t: t, want: newState(), count: count, known: map[string]int{},
		seen: map[string]landfall.Version{}, uids: map[landfall.UID]string{}, digest: map[madeOf]landfall.Digest{},
		words: map[digestOf]string{}}
	h.app = landfall.App{ID: id, Namespace: "n" + id, Name: id, Branch: branch, UIDSpace: uuid.New(), Created: noon,
		Objects: "apps/" + id + "/", GitHub: landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"}}
	err := i.db.Update(h.t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(h.t.Context(), h.app.Namespace, 0); err != nil {
			return err
		}
		return tx.CreateApp(h.t.Context(), h.app)
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fatalf fails with all that was done until then: what was done at the same time may come out otherwise the next time.
func (h *history) fatalf(format string, args ...any) {
	h.t.Fatalf("%s\nThis was done:\n%s", fmt.Sprintf(format, args...), strings.Join(h.trail, "\n"))
}

// note counts a step, and notes it.
func (h *history) note(s step, err error) {
	h.count.add(s.name, err)
	h.changed = h.changed || err == nil
	h.trail = append(h.trail, fmt.Sprintf("%s %s: %s", s.name, s.about, kindName(kindOf(err))))
}

// kindOf is the kind of an error; fine for none.
func kindOf(err error) landfall.Kind {
	if err == nil {
		return fine
	}
	return landfall.KindOf(err)
}

func kindName(k landfall.Kind) string {
	if k == fine {
		return "done"
	}
	return k.String()
}

// take takes a step, and compares what it came to with what the model says.
func (h *history) take(s step) {
	err := s.all(h.t.Context())
	h.note(s, err)
	next := h.want.clone()
	kind := s.next(next)
	if kind != fine {
		next = h.want.clone()
	}
	if got := kindOf(err); got != kind {
		h.fatalf("%s: got %s (%v), want %s", s.name, kindName(got), err, kindName(kind))
	}
	h.compare(s.name, next)
}

// compare fails unless the store has what is expected, and goes on from there.
func (h *history) compare(what string, want *state) {
	got := h.stored()
	if d := difference(got, want); d != "" {
		h.fatalf("%s: the store has not what the model says:\n%s", what, d)
	}
	h.adopt(got, want)
}

// adopt goes on from a state, with the times that the store has.
func (h *history) adopt(got, want *state) {
	got.applied = want.applied
	for id, x := range want.executions {
		if _, ok := got.executions[id]; ok {
			got.executions[id] = x
		}
	}
	h.want = got
	h.know(got)
}

func (h *history) stored() *state {
	s, err := h.read(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// together takes steps at the same time. What they come to must be what one of their orders comes to.
func (h *history) together(steps ...step) {
	errs := make([]error, len(steps))
	var group sync.WaitGroup
	for i, s := range steps {
		group.Go(func() { errs[i] = s.all(h.t.Context()) })
	}
	group.Wait()
	h.trail = append(h.trail, "at the same time:")
	for i, s := range steps {
		h.note(s, errs[i])
	}
	h.explain(steps, errs)
}

// explain finds an order of steps that comes to what they came to.
func (h *history) explain(steps []step, errs []error) {
	got := h.stored()
	var names, why []string
	for i, s := range steps {
		names = append(names, fmt.Sprintf("%s (%s)", s.name, kindName(kindOf(errs[i]))))
	}
	for _, order := range permutations(len(steps)) {
		next, right := h.want.clone(), true
		for _, i := range order {
			before := next.clone()
			kind := steps[i].next(next)
			if kind != fine {
				next = before
			}
			if right = right && kind == kindOf(errs[i]); !right {
				why = append(why, fmt.Sprintf("%v: %s would be %s, got %v", order, steps[i].name, kindName(kind), errs[i]))
				break
			}
		}
		if !right {
			continue
		}
		d := difference(got, next)
		if d == "" {
			h.adopt(got, next)
			return
		}
		why = append(why, fmt.Sprintf("%v:\n%s", order, d))
	}
	h.fatalf("%s at the same time came to what no order of them comes to:\n%s", strings.Join(names, ", "),
		strings.Join(why, "\n"))
}

func permutations(n int) [][]int {
	if n == 1 {
		return [][]int{{0}}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}

// within takes a step in the middle of another one: of a run when a step of the pipeline is done, of a collection when
// it deletes its first object. When that does not come, it is taken after it.
func (h *history) within(outer step, at landfall.Step, inner step) {
	var errs [2]error
	var once sync.Once
	run := func() { once.Do(func() { errs[1] = inner.do(h.t.Context()) }) }
	if at == "" {
		h.objects.set(run)
	} else {
		h.meter.set(at, run)
	}
	errs[0] = outer.do(h.t.Context())
	h.objects.set(nil)
	h.meter.set("", nil)
	run()
	for i, s := range []step{outer, inner} {
		if s.rest != nil && errs[i] == nil {
			errs[i] = s.rest(h.t.Context())
		}
	}
	h.note(step{name: "within " + outer.name, about: string(at)}, nil)
	h.note(outer, errs[0])
	h.note(inner, errs[1])
	h.explain([]step{outer, inner}, errs[:])
}

// madeOf is a unit, and a word for all that its digest is made of.
type madeOf struct {
	unit landfall.UnitID
	word string
}

// digestOf is a unit, and its digest.
type digestOf struct {
	unit   landfall.UnitID
	digest landfall.Digest
}

// learn notes what a unit's digest is made of.
func (h *history) learn(id landfall.UnitID, word string, digest landfall.Digest) {
	made := madeOf{id, word}
	if was, ok := h.digest[made]; ok && was != digest {
		// V4: the same is the same, whoever pushes it, and whatever else is there
		h.fatalf("%s of %s has the digest %s, and had %s", id, word, digest, was)
	}
	if was, ok := h.words[digestOf{id, digest}]; ok && was != word {
		h.fatalf("%s of %s has the digest of %s", id, word, was) // V4
	}
	h.digest[made], h.words[digestOf{id, digest}] = digest, word
}

// remember compares a version with how it was seen before.
func (h *history) remember(v landfall.Version) {
	v.Production, v.Retired, v.Description = false, false, ""
	if v.Unit.Kind == landfall.StaticUnit || v.Unit.Kind == landfall.SecretUnit {
		v.Content = nil // static files are collected and come back elsewhere, and secrets are revoked
	}
	name := fmt.Sprintf("%s no. %d", v.Unit, v.Number)
	was, ok := h.seen[name]
	if ok && fmt.Sprint(was) != fmt.Sprint(v) {
		// V1: what a version is never changes, and V3: its number is never given again
		h.fatalf("%s is %+v, and was %+v", name, v, was)
	}
	h.seen[name] = v
}

// figures count what was done.
type figures struct {
	mu               sync.Mutex
	done, refused    map[string]int
	histories, steps atomic.Int64
	began            time.Time
}

func newFigures() *figures {
	return &figures{done: map[string]int{}, refused: map[string]int{}, began: time.Now()}
}

func (f *figures) add(name string, err error) {
	f.steps.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused[name]++
		return
	}
	f.done[name]++
}

// String shows the figures in one line for each kind of step.
func (f *figures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	took := time.Since(f.began)
	lines := []string{fmt.Sprintf("%d histories, %d operations in %s", f.histories.Load(), f.steps.Load(),
		took.Round(time.Second))}
	names := map[string]bool{}
	for _, counted := range []map[string]int{f.done, f.refused} {
		for name := range counted {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		lines = append(lines, fmt.Sprintf("%8d done %8d refused  %s", f.done[name], f.refused[name], name))
	}
	return strings.Join(lines, "\n")
}
