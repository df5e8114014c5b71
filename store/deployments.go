package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

func deploymentTable() owedTable {
	return owedTable{"deployments", "pointer", `github_id, id, release, told, replaced`, `0, 0, '', 0, 0`,
		landfall.DeploymentsFeature}
}

func scanDeployment(row scanner) (d landfall.Deployment, err error) {
	err = scanOwed(row, &d.Owed, &d.App, &d.Pointer, &d.Repository, &d.ID, &d.Release, &d.Told, &d.Replaced)
	return d, err
}

// WantDeployment notes that what the forge shows of a pointer may have changed.
func (tx *Tx) WantDeployment(ctx context.Context, app, pointer string, at time.Time) error {
	return tx.want(ctx, deploymentTable(), app, pointer, at)
}

// Deployment returns what the forge shows of a pointer. NotFound when it shows nothing, and is to show nothing.
func (q queries) Deployment(ctx context.Context, app, pointer string) (landfall.Deployment, error) {
	return one(ctx, q, "store.Deployment", scanDeployment,
		`SELECT `+deploymentTable().all()+` FROM deployments WHERE app = $1 AND pointer = $2`, app, pointer)
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
type Deployments struct{ Owed[landfall.Deployment] }

// NewDeployments returns the queue in a database.
func NewDeployments(db *DB) Deployments {
	key := func(d landfall.Deployment) (app, key string) { return d.App, d.Pointer }
	return Deployments{Owed[landfall.Deployment]{db, deploymentTable(), scanDeployment, key}}
}

// Record stores what the forge has of a pointer: Repository, ID, Release, Told and Replaced. With whole, that covers
// the events that Wanted counted when the deployment was composed. A pointer of which the forge shows nothing is
// forgotten.
func (d Deployments) Record(ctx context.Context, of landfall.Deployment, whole bool) error {
	return d.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		err := d.updateIn(ctx, tx, of, `github_id = $3, id = $4, release = $5, told = $6, replaced = $7, covered = $8,
			attempts = 0, problem = ''`, of.Repository, of.ID, of.Release, of.Told, of.Replaced, covered(of.Owed, whole))
		if err != nil || !whole || of.ID != 0 || of.Replaced != 0 {
			return err
		}
		return tx.exec(ctx, "store.Deployments",
			`DELETE FROM deployments WHERE app = $1 AND pointer = $2 AND wanted = covered`, of.App, of.Pointer)
	})
}
