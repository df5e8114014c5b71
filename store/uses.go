package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// useColumns are those of a job or a hook f of a function u.
const useColumns = `f.id, f.unit, u.app, u.namespace, u.name, f.number, f.created, f.updated`

// scanUse reads useColumns and what is behind them.
func scanUse(row scanner, more ...any) (use landfall.FunctionUse, err error) {
	var created, updated int64
	err = row.Scan(append([]any{&use.ID, &use.Unit, &use.App, &use.Namespace, &use.Function, &use.Number, &created,
		&updated}, more...)...)
	use.Created, use.Updated = timeOf(created), timeOf(updated)
	return use, err
}

// usesLike returns the newest jobs or hooks of a function, of any for "", and of those apps, of any for nil; newest
// first. before, when it has an ID, is the last one of the page before.
func usesLike[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query, unit string,
	apps []string, before landfall.FunctionUse, limit int) ([]T, error) {
	conditions, args := []string{appIsThere}, []any{limit}
	place := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	if unit != "" {
		conditions = append(conditions, "f.unit = "+place(unit))
	}
	if apps != nil {
		places := []string{"''"}
		for _, app := range apps {
			places = append(places, place(app))
		}
		conditions = append(conditions, "u.app IN ("+strings.Join(places, ", ")+")")
	}
	if before.ID != "" {
		conditions = append(conditions, "(f.created, f.id) < ("+place(micros(before.Created))+", "+place(before.ID)+")")
	}
	return list(ctx, q, op, scan, query+` WHERE `+strings.Join(conditions, " AND ")+
		` ORDER BY f.created DESC, f.id DESC LIMIT $1 + 0`, args...)
}

// appIsThere is true of a unit u unless its app was deleted.
const appIsThere = `NOT EXISTS (SELECT 1 FROM apps a WHERE a.id = u.app AND a.deleted > 0)`

// noUse is the error that a job or a hook is not there.
func noUse(what string) landfall.Error {
	return landfall.Error{Kind: landfall.NotFound, Err: fmt.Errorf("there is no %s", what)}
}

// oneUse returns a job or a hook. NotFound, with a sentence, when there is none, or its app was deleted.
func oneUse[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query, what string,
	id any) (T, error) {
	found, err := one(ctx, q, op, scan, query+` AND `+appIsThere, id)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.NotFound, "there is no %s", what)
	}
	return found, err
}

const jobQuery = `SELECT ` + useColumns + `, f.name, f.input, f.pattern, f.first_at, f.next_at, f.remaining, f.state,
	f.problem FROM function_jobs f JOIN units u ON u.id = f.unit`

func scanJob(row scanner) (j landfall.Job, err error) {
	var first, next int64
	var input string
	j.FunctionUse, err = scanUse(row, &j.Name, &input, &j.Pattern, &first, &next, &j.Count, &j.State, &j.Problem)
	j.First, j.Next = timeOf(first), timeOf(next)
	if input != "" {
		j.Input = json.RawMessage(input)
	}
	return j, err
}

// PutJob stores a job, new or changed.
func (tx *Tx) PutJob(ctx context.Context, j landfall.Job) error {
	return tx.exec(ctx, "store.PutJob", `INSERT INTO function_jobs (id, unit, number, name, input, pattern, first_at,
			next_at, remaining, state, problem, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, input = excluded.input, pattern = excluded.pattern,
			next_at = excluded.next_at, remaining = excluded.remaining, state = excluded.state, problem = excluded.problem,
			updated = excluded.updated`,
		j.ID, j.Unit, j.Number, j.Name, string(j.Input), j.Pattern, micros(j.First), micros(j.Next), j.Count, j.State,
		j.Problem, micros(j.Created), micros(j.Updated))
}

// Job returns a job. NotFound, with a sentence, when there is none, or its app was deleted.
func (q queries) Job(ctx context.Context, id string) (landfall.Job, error) {
	return oneUse(ctx, q, "store.Job", scanJob, jobQuery+` WHERE f.id = $1`, "job "+id, id)
}

// Jobs returns the newest jobs of a function, of any for "", and of those apps, of any for nil; newest first. before,
// when it has an ID, is the last one of the page before.
func (q queries) Jobs(ctx context.Context, unit string, apps []string, before landfall.FunctionUse,
	limit int) ([]landfall.Job, error) {
	return usesLike(ctx, q, "store.Jobs", scanJob, jobQuery, unit, apps, before, limit)
}

// JobsDue returns jobs that are to run by now, those that have waited longest first.
func (q queries) JobsDue(ctx context.Context, now time.Time, limit int) ([]landfall.Job, error) {
	return list(ctx, q, "store.JobsDue", scanJob, jobQuery+` WHERE f.state = 'running' AND f.next_at > 0
		AND f.next_at <= $1 AND `+appIsThere+` ORDER BY f.next_at, f.id LIMIT $2 + 0`, micros(now), limit)
}

// CountJobs returns how many jobs of a function are not over.
func (q queries) CountJobs(ctx context.Context, unit string) (int, error) {
	return one(ctx, q, "store.CountJobs", scanValue[int],
		`SELECT COUNT(*) FROM function_jobs WHERE unit = $1 AND state IN ('running', 'paused')`, unit)
}

// DeleteJob removes a job. What it started goes on. NotFound when it is gone.
func (tx *Tx) DeleteJob(ctx context.Context, id string) error {
	return tx.execOne(ctx, "store.DeleteJob", noUse("job "+id), `DELETE FROM function_jobs WHERE id = $1`, id)
}

// TrimJobs deletes the jobs of a function that are over, but for the newest of them.
func (tx *Tx) TrimJobs(ctx context.Context, unit string, newest int) error {
	const op landfall.Op = "store.TrimJobs"
	ids, err := list(ctx, tx.queries, op, scanValue[string], `SELECT id FROM function_jobs
		WHERE unit = $1 AND state IN ('done', 'cancelled') ORDER BY updated DESC, id LIMIT 1000 OFFSET $2 + 0`, unit, newest)
	for _, id := range ids {
		if err == nil {
			err = tx.DeleteJob(ctx, id)
		}
	}
	return err
}

// ForgetJobs deletes up to limit jobs that were over before a time, and returns how many it deleted.
func (tx *Tx) ForgetJobs(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetJobs"
	ids, err := list(ctx, tx.queries, op, scanValue[string], `SELECT id FROM function_jobs
		WHERE state IN ('done', 'cancelled') AND updated < $1 ORDER BY updated LIMIT $2 + 0`, micros(before), limit)
	for _, id := range ids {
		if err == nil {
			err = tx.DeleteJob(ctx, id)
		}
	}
	return len(ids), err
}

const functionHookQuery = `SELECT ` + useColumns + `, f.secret, f.description FROM function_hooks f JOIN units u ON u.id = f.unit`

func scanFunctionHook(row scanner) (h landfall.FunctionHook, err error) {
	h.FunctionUse, err = scanUse(row, &h.Key, &h.Description)
	return h, err
}

// PutFunctionHook stores a hook of a function, new or changed.
func (tx *Tx) PutFunctionHook(ctx context.Context, h landfall.FunctionHook) error {
	return tx.exec(ctx, "store.PutFunctionHook", `INSERT INTO function_hooks (id, secret, unit, number, description, created,
			updated) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET unit = excluded.unit, number = excluded.number, description = excluded.description,
			updated = excluded.updated`,
		h.ID, h.Key, h.Unit, h.Number, h.Description, micros(h.Created), micros(h.Updated))
}

// FunctionHook returns a hook of a function. NotFound, with a sentence, when there is none, or its app was deleted.
func (q queries) FunctionHook(ctx context.Context, id string) (landfall.FunctionHook, error) {
	return oneUse(ctx, q, "store.FunctionHook", scanFunctionHook, functionHookQuery+` WHERE f.id = $1`, "webhook "+id, id)
}

// FunctionHookOf returns the hook whose address ends in a key. NotFound when there is none, or its app was deleted.
func (q queries) FunctionHookOf(ctx context.Context, key string) (landfall.FunctionHook, error) {
	return oneUse(ctx, q, "store.FunctionHookOf", scanFunctionHook, functionHookQuery+` WHERE f.secret = $1`, "webhook with this address",
		key)
}

// FunctionHooks returns the newest hooks as Jobs returns jobs.
func (q queries) FunctionHooks(ctx context.Context, unit string, apps []string, before landfall.FunctionUse,
	limit int) ([]landfall.FunctionHook, error) {
	return usesLike(ctx, q, "store.FunctionHooks", scanFunctionHook, functionHookQuery, unit, apps, before, limit)
}

// CountFunctionHooks returns how many hooks a function has.
func (q queries) CountFunctionHooks(ctx context.Context, unit string) (int, error) {
	return one(ctx, q, "store.CountFunctionHooks", scanValue[int],
		`SELECT COUNT(*) FROM function_hooks WHERE unit = $1`, unit)
}

// DeleteFunctionHook removes a hook: its address leads nowhere any more. NotFound when it is gone.
func (tx *Tx) DeleteFunctionHook(ctx context.Context, id string) error {
	return tx.execOne(ctx, "store.DeleteFunctionHook", noUse("webhook "+id),
		`DELETE FROM function_hooks WHERE id = $1`, id)
}

// DropUses removes the jobs and hooks of a unit.
func (tx *Tx) DropUses(ctx context.Context, unit string) error {
	const op landfall.Op = "store.DropUses"
	if err := tx.exec(ctx, op, `DELETE FROM function_jobs WHERE unit = $1`, unit); err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM function_hooks WHERE unit = $1`, unit)
}
