package history_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// anybody may change all functions.
func anybody(string) error { return nil }

// mark lets a function tag name a version of one function, or of both.
func (h *history) mark(t *rapid.T) step {
	n := versioning.NewFunctionTag{Namespace: h.app.Namespace, Name: rapid.SampledFrom([]string{"night", "day"}).Draw(t, "tag"),
		Actor: actor}
	_, there := h.want.marks[n.Name]
	n.Create = rapid.IntRange(0, 3).Draw(t, "right") == 0 == there
	named := map[landfall.UnitID]int64{}
	for range rapid.IntRange(1, 2).Draw(t, "functions") {
		id, numbers := h.aFunction(t)
		if _, twice := named[id]; twice {
			continue
		}
		named[id] = rapid.SampledFrom(numbers).Draw(t, "number")
		n.Functions = append(n.Functions, landfall.Reference{Name: id.Name, Selector: strconv.FormatInt(named[id], 10)})
	}
	return step{name: "set a function tag", about: fmt.Sprint(n.Name, n.Functions), do: func(ctx context.Context) error {
		_, err := h.editor.SetFunctionTag(ctx, n, anybody)
		return err
	}, next: func(s *state) landfall.Kind {
		_, there := s.marks[n.Name]
		switch {
		case there && n.Create:
			return landfall.Conflict
		case !there && !n.Create:
			return landfall.NotFound
		}
		s.marks[n.Name] = map[landfall.UnitID]int64{}
		for id, number := range named {
			if !s.runnable(id, number) {
				return landfall.NotFound
			}
			s.marks[n.Name][id] = number
		}
		return fine
	}}
}

// unmark removes a function tag.
func (h *history) unmark(t *rapid.T) step {
	name := some(h, "tag", h.want.marks)
	if name == "" {
		t.Skip("there is none")
	}
	return step{name: "delete a function tag", about: name, do: func(ctx context.Context) error {
		return h.editor.DeleteFunctionTag(ctx, h.app.Namespace, name, deploy.Mover{Actor: actor}, anybody)
	}, next: func(s *state) landfall.Kind {
		if _, ok := s.marks[name]; !ok {
			return landfall.NotFound
		}
		delete(s.marks, name)
		return fine
	}}
}

// use makes a job or a webhook of a version, or of the latest.
func (h *history) use(t *rapid.T) step {
	id, numbers := h.aFunction(t)
	number := rapid.SampledFrom(append(numbers, 0)).Draw(t, "number")
	u := landfall.FunctionUse{ID: uuid.NewString(), Number: number}
	hook := rapid.Bool().Draw(t, "webhook")
	return step{name: "make a job or webhook", about: fmt.Sprint(id, number, hook), do: func(ctx context.Context) error {
		u.Created = h.clock.Now()
		return h.db.Update(ctx, func(tx *store.Tx) error {
			ref := landfall.Reference{Name: id.Name, Selector: strconv.FormatInt(number, 10)}
			if _, err := versioning.Find(ctx, tx, h.app.Namespace, id.Kind, ref); err != nil {
				return err
			}
			row, err := tx.UnitInNamespace(ctx, h.app.Namespace, id)
			if err != nil {
				return err
			}
			if u.Unit = row.ID; hook {
				return tx.PutFunctionHook(ctx, landfall.FunctionHook{FunctionUse: u, Key: u.ID})
			}
			return tx.PutJob(ctx, landfall.Job{FunctionUse: u, Pattern: "@daily", State: landfall.JobRunning})
		})
	}, next: func(s *state) landfall.Kind {
		_, there := s.units[id].versions[number]
		if number == 0 && s.latest(id) == 0 || number > 0 && !there {
			return landfall.NotFound
		}
		s.uses[u.ID] = use{id, number}
		return fine
	}}
}

// unuse ends a job, or deletes it, or a webhook.
func (h *history) unuse(t *rapid.T) step {
	id := some(h, "use", h.want.uses)
	if id == "" {
		t.Skip("there is none")
	}
	ends := rapid.Bool().Draw(t, "ends")
	return step{name: "end a job or webhook", do: func(ctx context.Context) error {
		return h.db.Update(ctx, func(tx *store.Tx) error {
			job, err := tx.Job(ctx, id)
			switch {
			case landfall.Is(err, landfall.NotFound):
				return tx.DeleteFunctionHook(ctx, id)
			case err != nil:
				return err
			case ends:
				job.State = landfall.JobCancelled
				return tx.PutJob(ctx, job)
			}
			return tx.DeleteJob(ctx, id)
		})
	}, next: func(s *state) landfall.Kind {
		delete(s.uses, id)
		return fine
	}}
}
