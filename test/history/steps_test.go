package history_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

const actor = "ada"

// by is somebody who moves pointers now.
func (h *history) by() deploy.Mover {
	return deploy.Mover{Actor: actor, Reason: "by hand", At: h.clock.Now()}
}

// move moves pointers as the API does it: in one transaction, and then the gateways are shown.
func (h *history) move(ctx context.Context, f func(tx *store.Tx, app *landfall.App) error) error {
	app := h.app
	err := h.db.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.ActiveApp(ctx, h.app.ID); err != nil {
			return err
		}
		if err := f(tx, &app); err != nil {
			return err
		}
		_, err = tx.Changed(ctx, app.ID)
		return err
	})
	if err == nil {
		h.rollout.Show(ctx, app)
	}
	return err
}

// some draws one of several. They are in the order in which the history came to know them, so that the same numbers draw
// the same ones again.
func some[K ~string, V any](h *history, what string, all map[K]V) K {
	keys := slices.SortedFunc(maps.Keys(all), func(a, b K) int {
		return cmp.Or(cmp.Compare(h.known[string(a)], h.known[string(b)]), cmp.Compare(a, b))
	})
	if len(keys) == 0 {
		return ""
	}
	return keys[rapid.IntRange(0, len(keys)-1).Draw(h.t, what)]
}

// know notes the names that a state has for the first time.
func (h *history) know(s *state) {
	fresh := map[string]bool{}
	note(h.known, fresh, s.groups)
	note(h.known, fresh, s.releases)
	note(h.known, fresh, s.runs)
	note(h.known, fresh, s.executions)
	note(h.known, fresh, s.uses)
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		h.known[name] = len(h.known) + 1
	}
}

func note[K ~string, V any](known map[string]int, fresh map[string]bool, all map[K]V) {
	for name := range all {
		if known[string(name)] == 0 {
			fresh[string(name)] = true
		}
	}
}

// sorted returns words in their order, each with a space behind it.
func sorted(words string) string {
	var all strings.Builder
	for _, word := range slices.Sorted(strings.FieldsSeq(words)) {
		all.WriteString(word + " ")
	}
	return all.String()
}

// group returns the digest of a group version.
func (h *history) group(uid landfall.UID) string {
	g, err := h.db.Group(h.t.Context(), h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(g.Digest)
}

func (h *history) branchOf(uid landfall.UID) string {
	g, err := h.db.Group(h.t.Context(), h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	return g.Branch
}

// pass lets a branch's tag become old.
func (h *history) pass(*rapid.T) step {
	const long = 91 * 24 * time.Hour
	return step{name: "91 days pass", do: func(context.Context) error {
		h.clock.pass(long)
		return nil
	}, next: func(*state) landfall.Kind { return fine }}
}

// collect collects.
func (h *history) collect(*rapid.T) step {
	return step{name: "collect", do: func(ctx context.Context) error { return h.upkeep.Collect(ctx, h.app.ID) },
		next: func(s *state) landfall.Kind {
			s.collect(h.clock.Now())
			return fine
		}}
}

// word is what a version is made of, also one that is gone.
func (h *history) word(id landfall.UnitID, number int64) string {
	return h.words[digestOf{id, h.seen[fmt.Sprintf("%s no. %d", id, number)].Digest}]
}

// learnOf notes the digest of a unit of a group version that was made.
func (h *history) learnOf(uid landfall.UID, id landfall.UnitID, word string) {
	units, err := h.db.GroupUnits(h.t.Context(), h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range units {
		if u.Unit == id {
			h.learn(id, word, u.Digest)
		}
	}
}
