package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const deploymentColumns = `app, pointer, github_id, id, release, told, replaced, wanted, covered, attempts, next_at,
	problem, dropped`

func scanDeployment(row scanner) (landfall.Deployment, error) {
	var d landfall.Deployment
	var next int64
	err := row.Scan(&d.App, &d.Pointer, &d.Repository, &d.ID, &d.Release, &d.Told, &d.Replaced, &d.Wanted, &d.Covered,
		&d.Attempts, &next, &d.Problem, &d.Dropped)
	d.NextAt = timeOf(next)
	return d, err
}

// WantDeployment notes that what the forge shows of a pointer may have changed. It does nothing for an app whose
// repository is not at the forge. A deployment that waits for its next attempt goes on waiting; one that was given up
// is tried again.
func (tx *Tx) WantDeployment(ctx context.Context, app, pointer string, at time.Time) error {
	return tx.exec(ctx, "store.WantDeployment", `INSERT INTO deployments (`+deploymentColumns+`)
		SELECT id, $2, 0, 0, '', 0, 0, 1, 0, 0, $3, '', 0 FROM apps WHERE id = $1 AND github_name <> ''
		ON CONFLICT (app, pointer) DO UPDATE SET wanted = deployments.wanted + 1,
			next_at = CASE WHEN deployments.next_at > excluded.next_at THEN deployments.next_at ELSE excluded.next_at END,
			attempts = CASE WHEN deployments.dropped = 1 THEN 0 ELSE deployments.attempts END, dropped = 0`,
		app, pointer, micros(at))
}

// Deployment returns what the forge shows of a pointer. NotFound when it shows nothing, and is to show nothing.
func (q queries) Deployment(ctx context.Context, app, pointer string) (landfall.Deployment, error) {
	return one(ctx, q, "store.Deployment", scanDeployment,
		`SELECT `+deploymentColumns+` FROM deployments WHERE app = $1 AND pointer = $2`, app, pointer)
}

// PullRequestsFrom returns the pull requests whose head is a reference of the app's own repository, the newest first.
func (q queries) PullRequestsFrom(ctx context.Context, app string, ref landfall.RefName) ([]PullRequest, error) {
	return list(ctx, q, "store.PullRequestsFrom", scanPull, `SELECT `+pullColumns+` FROM pull_requests
		WHERE app = $1 AND head_ref = $2 AND fork = 0 ORDER BY number DESC`, app, ref)
}

// Refusals returns what we may not do at a repository of the forge.
func (q queries) Refusals(ctx context.Context, repository int64) ([]landfall.Refusal, error) {
	return list(ctx, q, "store.Refusals", func(row scanner) (landfall.Refusal, error) {
		var r landfall.Refusal
		var until int64
		err := row.Scan(&r.Feature, &r.Problem, &until)
		r.Until = timeOf(until)
		return r, err
	}, `SELECT feature, problem, until FROM refusals WHERE github_id = $1 ORDER BY feature`, repository)
}

// Refusals keeps what we may not do at repositories of the forge.
type Refusals struct{ DB *DB }

// Refuse records that we may not do something at a repository, and when to try it again.
func (r Refusals) Refuse(ctx context.Context, repository int64, refusal landfall.Refusal) error {
	return r.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.Refuse", `INSERT INTO refusals (github_id, feature, problem, until)
			VALUES ($1, $2, $3, $4)
			ON CONFLICT (github_id, feature) DO UPDATE SET problem = excluded.problem, until = excluded.until`,
			repository, refusal.Feature, refusal.Problem, micros(refusal.Until))
	})
}

// Forgive forgets at which repositories we may not do something.
func (r Refusals) Forgive(ctx context.Context, feature landfall.Feature) error {
	return r.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.Forgive", `DELETE FROM refusals WHERE feature = $1`, feature)
	})
}

// Deployments is the durable queue of deployments.
type Deployments struct{ DB *DB }

// Due returns deployments of which the forge must be told, and may be by now. Those that have waited longest come
// first.
func (d Deployments) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Deployment, error) {
	return list(ctx, d.DB.queries, "store.Deployments", scanDeployment, `SELECT `+deploymentColumns+` FROM deployments
		WHERE covered < wanted AND dropped = 0 AND next_at <= $1 AND NOT EXISTS (
			SELECT 1 FROM refusals f JOIN apps a ON a.github_id = f.github_id
			WHERE a.id = deployments.app AND f.feature = $2 AND f.until > $1)
		ORDER BY next_at, app, pointer LIMIT $3 + 0`, micros(now), landfall.DeploymentsFeature, limit)
}

// Record stores what the forge has of a pointer: Repository, ID, Release, Told and Replaced. With whole, that covers
// the events that Wanted counted when the deployment was composed. A pointer of which the forge shows nothing is
// forgotten.
func (d Deployments) Record(ctx context.Context, of landfall.Deployment, whole bool) error {
	covered := of.Covered
	if whole {
		covered = of.Wanted
	}
	return d.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		err := tx.exec(ctx, "store.Deployments", `UPDATE deployments SET github_id = $3, id = $4, release = $5, told = $6,
			replaced = $7, covered = $8, attempts = 0, problem = '' WHERE app = $1 AND pointer = $2`,
			of.App, of.Pointer, of.Repository, of.ID, of.Release, of.Told, of.Replaced, covered)
		if err != nil || !whole || of.ID != 0 || of.Replaced != 0 {
			return err
		}
		return tx.exec(ctx, "store.Deployments",
			`DELETE FROM deployments WHERE app = $1 AND pointer = $2 AND wanted = covered`, of.App, of.Pointer)
	})
}

// Postpone records that the forge is to be told at the given time, and why.
func (d Deployments) Postpone(ctx context.Context, of landfall.Deployment, at time.Time, problem string) error {
	return d.update(ctx, of, `next_at = $3, attempts = attempts + 1, problem = $4`, micros(at), problem)
}

// Drop gives up a deployment until something happens again, and records why.
func (d Deployments) Drop(ctx context.Context, of landfall.Deployment, problem string) error {
	return d.update(ctx, of, `dropped = 1, attempts = attempts + 1, problem = $3`, problem)
}

func (d Deployments) update(ctx context.Context, of landfall.Deployment, set string, args ...any) error {
	return d.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.Deployments", `UPDATE deployments SET `+set+` WHERE app = $1 AND pointer = $2`,
			append([]any{of.App, of.Pointer}, args...)...)
	})
}
