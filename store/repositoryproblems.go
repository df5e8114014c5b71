package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// RepositoryProblem returns why the repository of an app could not be looked at last, and since when. NotFound
// when it could, or was not looked at.
func (q queries) RepositoryProblem(ctx context.Context, app string) (landfall.RepositoryProblem, error) {
	return one(ctx, q, "store.RepositoryProblem", func(row scanner) (p landfall.RepositoryProblem, err error) {
		var since int64
		err = row.Scan(&p.Problem, &since)
		p.Since = timeOf(since)
		return p, err
	}, `SELECT problem, since FROM repository_problems WHERE app = $1`, app)
}

// SetRepositoryProblem notes why the repository of an app could not be looked at; empty: it could.
func (tx *Tx) SetRepositoryProblem(ctx context.Context, app, problem string, at time.Time) error {
	const op landfall.Op = "store.SetRepositoryProblem"
	if problem == "" {
		return tx.exec(ctx, op, `DELETE FROM repository_problems WHERE app = $1`, app)
	}
	return tx.exec(ctx, op, `INSERT INTO repository_problems (app, problem, since) VALUES ($1, $2, $3)
		ON CONFLICT (app) DO UPDATE SET problem = excluded.problem, since = excluded.since`, app, problem, micros(at))
}
