package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const owedColumns = `wanted, covered, attempts, next_at, problem, dropped`

// scanOwed reads columns, and then those of owedColumns.
func scanOwed(row scanner, o *landfall.Owed, columns ...any) error {
	var next int64
	err := row.Scan(append(columns, &o.Wanted, &o.Covered, &o.Attempts, &next, &o.Problem, &o.Dropped)...)
	o.NextAt = timeOf(next)
	return err
}

// covered returns how many events the forge was told of, when it was told of all that was wanted or of a part of it.
func covered(o landfall.Owed, whole bool) int64 {
	if whole {
		return o.Wanted
	}
	return o.Covered
}

// owedTable is a table of what the forge must be told of apps, with the columns of landfall.Owed.
type owedTable struct {
	name    string
	key     string // the column that, with app, identifies a row
	columns string // what the forge has
	nothing string // the values of columns while it has nothing
	feature landfall.Feature
}

func (t owedTable) all() string { return `app, ` + t.key + `, ` + t.columns + `, ` + owedColumns }

// want notes that there is something new to tell of what a key of an app identifies. It does nothing for an app whose
// repository is not at the forge. What waits for its next attempt goes on waiting; what was given up is tried again.
func (tx *Tx) want(ctx context.Context, t owedTable, app, key string, at time.Time) error {
	return tx.exec(ctx, "store.want", `INSERT INTO `+t.name+` (`+t.all()+`)
		SELECT id, $2, `+t.nothing+`, 1, 0, 0, $3, '', 0 FROM apps WHERE id = $1 AND github_name <> ''
		ON CONFLICT (app, `+t.key+`) DO UPDATE SET wanted = `+t.name+`.wanted + 1,
			next_at = CASE WHEN `+t.name+`.next_at > excluded.next_at THEN `+t.name+`.next_at ELSE excluded.next_at END,
			attempts = CASE WHEN `+t.name+`.dropped = 1 THEN 0 ELSE `+t.name+`.attempts END, dropped = 0`,
		app, key, micros(at))
}

// Owed is a durable queue of what the forge must be told.
type Owed[T any] struct {
	DB    *DB
	table owedTable
	scan  func(scanner) (T, error)
	key   func(T) (app, key string)
}

// Due returns that of which the forge must be told, and may be by now. What has waited longest comes first.
func (o Owed[T]) Due(ctx context.Context, now time.Time, limit int) ([]T, error) {
	t := o.table
	return list(ctx, o.DB.queries, "store.Owed", o.scan, `SELECT `+t.all()+` FROM `+t.name+`
		WHERE covered < wanted AND dropped = 0 AND next_at <= $1 AND NOT EXISTS (
			SELECT 1 FROM refusals f JOIN apps a ON a.github_id = f.github_id
			WHERE a.id = `+t.name+`.app AND f.feature = $2 AND f.until > $1)
		ORDER BY next_at, app, `+t.key+` LIMIT $3 + 0`, micros(now), t.feature, limit)
}

// Postpone records that the forge is to be told at the given time, and why.
func (o Owed[T]) Postpone(ctx context.Context, of T, at time.Time, problem string) error {
	return o.update(ctx, of, `next_at = $3, attempts = attempts + 1, problem = $4`, micros(at), problem)
}

// Drop gives one up until something happens again, and records why.
func (o Owed[T]) Drop(ctx context.Context, of T, problem string) error {
	return o.update(ctx, of, `dropped = 1, attempts = attempts + 1, problem = $3`, problem)
}

func (o Owed[T]) update(ctx context.Context, of T, set string, args ...any) error {
	return o.DB.UpdateAsLeader(ctx, func(tx *Tx) error { return o.updateIn(ctx, tx, of, set, args...) })
}

func (o Owed[T]) updateIn(ctx context.Context, tx *Tx, of T, set string, args ...any) error {
	app, key := o.key(of)
	return tx.exec(ctx, "store.Owed", `UPDATE `+o.table.name+` SET `+set+` WHERE app = $1 AND `+o.table.key+` = $2`,
		append([]any{app, key}, args...)...)
}
