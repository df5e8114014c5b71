package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// aFunction draws a function that there is, with its numbers.
func (h *history) aFunction(t *rapid.T) (landfall.UnitID, []int64) {
	id := fn(rapid.SampledFrom([]string{"f", "f", "g"}).Draw(t, "function"))
	u := h.want.units[id]
	if u == nil || len(u.versions) == 0 {
		t.Skip("there is no such function")
	}
	return id, h.numbers(id)
}

func (h *history) numbers(id landfall.UnitID) []int64 {
	return slices.Sorted(maps.Keys(h.want.units[id].versions))
}

// setAlias makes or moves an alias.
func (h *history) setAlias(t *rapid.T) step {
	id, numbers := h.aFunction(t)
	name := rapid.SampledFrom([]string{stable, stable, "next"}).Draw(t, "alias")
	percents := rapid.SampledFrom([][]int{{100}, {100}, {70, 30}, {1, 99}, {70, 40}, {50}}).Draw(t, "percents")
	to := make([]int64, len(percents))
	for i := range to {
		to[i] = rapid.SampledFrom(numbers).Draw(t, "number")
	}
	return h.aliasing(id, versioning.NewAlias{Name: name, Create: rapid.Bool().Draw(t, "create")}, to, percents)
}

func (h *history) aliasing(id landfall.UnitID, p versioning.NewAlias, to []int64, percents []int) step {
	name, sum := p.Name, 0
	p.Actor = actor
	for i, percent := range percents {
		p.To = append(p.To, versioning.Weight{Selector: strconv.FormatInt(to[i], 10), Percent: percent})
		sum += percent
	}
	return step{name: "set an alias", about: fmt.Sprint(id, p.Name, to, percents), do: func(ctx context.Context) error {
		p.At = h.clock.Now()
		return h.moveAlias(ctx, id, func(tx *store.Tx, row store.Unit) error {
			_, err := versioning.SetAlias(ctx, tx, row, p)
			return err
		})
	}, next: func(s *state) landfall.Kind {
		u := s.units[id]
		_, there := u.aliases[name]
		switch {
		case there && p.Create:
			return landfall.Conflict
		case !there && !p.Create:
			return landfall.NotFound
		}
		for _, v := range u.versions {
			if p.Create && v.label == name {
				return landfall.Invalid
			}
		}
		for _, number := range to {
			if !s.runnable(id, number) {
				return landfall.NotFound
			}
		}
		if sum != 100 || len(to) > 1 && to[0] == to[1] { // V5: weights sum to 100
			return landfall.Invalid
		}
		a := alias{first: to[0], percent: percents[0]}
		if len(to) > 1 {
			a.other = to[1]
		}
		u.aliases[name] = a
		return fine
	}}
}

// dropAlias removes an alias.
func (h *history) dropAlias(t *rapid.T) step {
	id, _ := h.aFunction(t)
	name := some(h, "alias", h.want.units[id].aliases)
	if name == "" {
		t.Skip("there is none")
	}
	return step{name: "delete an alias", about: id.String() + " " + name, do: func(ctx context.Context) error {
		return h.moveAlias(ctx, id, func(tx *store.Tx, row store.Unit) error {
			return versioning.RemoveAlias(ctx, tx, row, name, store.AliasMove{Actor: actor, At: h.clock.Now()})
		})
	}, next: func(s *state) landfall.Kind {
		if _, ok := s.units[id].aliases[name]; !ok {
			return landfall.NotFound
		}
		delete(s.units[id].aliases, name)
		return fine
	}}
}

func (h *history) moveAlias(ctx context.Context, id landfall.UnitID, f func(tx *store.Tx, row store.Unit) error) error {
	return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
		row, err := tx.UnitInNamespace(ctx, app.Namespace, id)
		if err != nil {
			return err
		}
		return f(tx, row)
	})
}

// deleteVersions deletes a version by hand, or all.
func (h *history) deleteVersions(t *rapid.T) step {
	id := rapid.SampledFrom([]landfall.UnitID{fn("f"), fn("f"), fn("g"), pkg()}).Draw(t, "unit")
	u := h.want.units[id]
	if u == nil || u.last == 0 {
		t.Skip("there is no such unit")
	}
	return h.deleting(id, rapid.Int64Range(0, u.last).Draw(t, "number"))
}

// deleting deletes a version; all of them for 0.
func (h *history) deleting(id landfall.UnitID, number int64) step {
	selector := deploy.AllVersions
	if number > 0 {
		selector = strconv.FormatInt(number, 10)
	}
	return step{name: "delete a version", about: id.String() + " " + selector, do: func(ctx context.Context) error {
		row, err := h.db.UnitInNamespace(ctx, h.app.Namespace, id)
		if err != nil {
			return err
		}
		_, err = h.editor.DeleteVersions(ctx, row, selector, false)
		return err
	}, next: func(s *state) landfall.Kind {
		numbers := slices.Collect(maps.Keys(s.units[id].versions))
		if number > 0 {
			numbers = []int64{number}
			if _, ok := s.units[id].versions[number]; !ok {
				return landfall.NotFound
			}
		}
		if len(numbers) == 0 {
			return landfall.NotFound
		}
		type one struct {
			id     landfall.UnitID
			number int64
		}
		var gone []one
		for _, n := range numbers {
			gone = append(gone, one{id, n})
			if id.Kind != landfall.PackageUnit {
				continue
			}
			for _, user := range []landfall.UnitID{fn("f"), fn("g")} {
				if s.units[user] == nil {
					continue
				}
				for m, v := range s.units[user].versions {
					if v.pkg == n {
						gone = append(gone, one{user, m})
					}
				}
			}
		}
		for _, v := range gone {
			releases, names, others := s.holders(v.id, v.number)
			if len(releases)+names+others > 0 || v.id == fn("f") && s.leads(v.number) {
				return landfall.Conflict
			}
		}
		for _, v := range gone {
			delete(s.units[v.id].versions, v.number)
		}
		return fine
	}}
}

// deleteFunction deletes a function with its aliases.
func (h *history) deleteFunction(t *rapid.T) step {
	id, _ := h.aFunction(t)
	force := rapid.Bool().Draw(t, "force")
	return step{name: "delete a function", about: fmt.Sprint(id, force), do: func(ctx context.Context) error {
		row, err := h.db.UnitInNamespace(ctx, h.app.Namespace, id)
		if err != nil {
			return err
		}
		_, err = h.editor.DeleteFunction(ctx, row, actor, force, false)
		return err
	}, next: func(s *state) landfall.Kind {
		u := s.units[id]
		if len(u.versions) == 0 {
			return landfall.NotFound
		}
		for _, other := range s.uses {
			if other.function == id {
				return landfall.Conflict
			}
		}
		expired := map[landfall.UID]bool{}
		for number := range u.versions {
			releases, _, others := s.holders(id, number)
			if others > 0 || len(releases) > 0 && !force || slices.Contains(releases, s.live) ||
				s.canary.release != "" && slices.Contains(releases, s.canary.release) {
				return landfall.Conflict
			}
			for _, uid := range releases {
				expired[uid] = true
			}
		}
		for _, t := range s.tags {
			if expired[t.release] {
				return landfall.Conflict
			}
		}
		s.expireAll(func(uid landfall.UID, _ release) bool { return expired[uid] })
		clear(u.aliases)
		for _, named := range s.marks {
			delete(named, id)
		}
		clear(u.versions)
		return fine
	}}
}

// version makes a version by hand of what is there.
func (h *history) version(t *rapid.T) step {
	id := rapid.SampledFrom([]landfall.UnitID{fn("f"), fn("g"), pkg()}).Draw(t, "unit")
	label := rapid.SampledFrom([]string{"", "v1", "v2", "next"}).Draw(t, "label")
	return h.making(id, label, rapid.Bool().Draw(t, "released"))
}

func (h *history) making(id landfall.UnitID, label string, released bool) step {
	var made landfall.Version
	return step{name: "make a version", about: fmt.Sprint(id, label, released), do: func(ctx context.Context) (err error) {
		made, _, err = h.editor.MakeVersion(ctx, h.app, deploy.HandVersion{Unreleased: !released,
			NewVersion: landfall.NewVersion{Unit: id, Label: label}}, actor)
		if err != nil {
			made = landfall.Version{} // what was made is undone
		}
		return err
	}, next: func(s *state) landfall.Kind {
		if len(s.applied) == 0 {
			return landfall.Conflict
		}
		units := maps.Clone(s.groups[s.applied[len(s.applied)-1]].units)
		latest, there := s.unitVersion(id, units[id])
		if !there {
			return landfall.NotFound
		}
		if id.Kind == landfall.FunctionUnit {
			if _, ok := s.unitVersion(pkg(), latest.pkg); !ok {
				return landfall.NotFound
			}
		}
		if label != "" {
			for _, v := range s.units[id].versions {
				if v.label == label {
					return landfall.Conflict
				}
			}
			if _, ok := s.units[id].aliases[label]; ok {
				return landfall.Conflict
			}
		}
		number := s.put(id, latest.of, made.UID, true, true, map[landfall.UnitID]int64{pkg(): latest.pkg})
		v := s.units[id].versions[number]
		v.label = label
		s.units[id].versions[number], units[id] = v, number
		return h.edited(s, units, made.UID, true, released)
	}}
}

func (s *state) unitVersion(id landfall.UnitID, number int64) (version, bool) {
	if s.units[id] == nil {
		return version{}, false
	}
	v, ok := s.units[id].versions[number]
	return v, ok
}

// execute begins an execution of a version.
func (h *history) execute(t *rapid.T) step {
	id, numbers := h.aFunction(t)
	number := rapid.SampledFrom(numbers).Draw(t, "number")
	x := landfall.Execution{ID: uuid.NewString(), AppID: h.app.ID, Namespace: h.app.Namespace, Function: id.Name,
		Number: number, State: landfall.ExecutionRunning, Attempt: 1}
	v := h.want.units[id].versions[number]
	x.Version, x.Group = v.uid, v.uid
	return step{name: "begin an execution", about: fmt.Sprint(id, number), do: func(ctx context.Context) error {
		x.Created, x.Started = h.clock.Now(), h.clock.Now()
		return h.record(ctx, x)
	}, next: func(s *state) landfall.Kind {
		_, there := s.units[id].versions[number]
		s.executions[x.ID] = execution{id, number, x.Group, !there}
		return fine
	}}
}

// finish ends an execution.
func (h *history) finish(t *rapid.T) step {
	id := some(h, "execution", h.want.executions)
	if id == "" {
		t.Skip("there is none")
	}
	return step{name: "end an execution", do: func(ctx context.Context) error {
		x, err := h.db.Execution(ctx, id)
		if err != nil {
			return err
		}
		x.State, x.Finished = landfall.ExecutionSucceeded, h.clock.Now()
		return h.record(ctx, x)
	}, next: func(s *state) landfall.Kind {
		delete(s.executions, id)
		return fine
	}}
}

func (h *history) record(ctx context.Context, x landfall.Execution) error {
	return h.db.Update(ctx, func(tx *store.Tx) error {
		return tx.RecordExecutions(ctx, h.clock.Now(), []store.ExecutionRecord{{Execution: x, Process: "history",
			Until: h.clock.Now().Add(time.Hour)}})
	})
}
