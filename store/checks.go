package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

func checkTable() owedTable {
	return owedTable{"checks", "commit_sha", `github_id, run, id, body`, `0, '', 0, ''`, landfall.ChecksFeature}
}

func scanCheck(row scanner) (c landfall.Check, err error) {
	err = scanOwed(row, &c.Owed, &c.App, &c.Commit, &c.Repository, &c.Run, &c.ID, &c.Body)
	return c, err
}

// WantCheck notes that the check run of a commit has something new to say.
func (tx *Tx) WantCheck(ctx context.Context, app string, commit landfall.CommitSHA, at time.Time) error {
	return tx.want(ctx, checkTable(), app, string(commit), at)
}

// RenewChecks notes that the check runs of two releases may have something new to say: of the one that was live, and of
// the one that is. Commits that have none get none.
func (tx *Tx) RenewChecks(ctx context.Context, app string, from, to landfall.UID) error {
	return tx.exec(ctx, "store.RenewChecks", `UPDATE checks SET wanted = wanted + 1 WHERE app = $1 AND dropped = 0
		AND commit_sha IN (SELECT commit_sha FROM releases WHERE app = $1 AND uid IN ($2, $3))`, app, from, to)
}

// Check returns the check run of a commit. NotFound when none was ever wanted.
func (q queries) Check(ctx context.Context, app string, commit landfall.CommitSHA) (landfall.Check, error) {
	return one(ctx, q, "store.Check", scanCheck,
		`SELECT `+checkTable().all()+` FROM checks WHERE app = $1 AND commit_sha = $2`, app, commit)
}

// LogEnd returns the last lines of a run's log, in order.
func (q queries) LogEnd(ctx context.Context, run string, limit int) ([]string, error) {
	return list(ctx, q, "store.LogEnd", scanValue[string], `SELECT text FROM (SELECT seq, text FROM run_log
		WHERE run = $1 ORDER BY seq DESC LIMIT $2 + 0) AS last ORDER BY seq`, run, limit)
}

// Checks is the durable queue of check runs.
type Checks struct{ Owed[landfall.Check] }

// NewChecks returns the queue in a database.
func NewChecks(db *DB) Checks {
	key := func(c landfall.Check) (app, key string) { return c.App, string(c.Commit) }
	return Checks{Owed[landfall.Check]{db, checkTable(), scanCheck, key}}
}

// Record stores what the forge has of a check run: Repository, Run, ID and Body. With whole, that covers the events
// that Wanted counted when it was composed.
func (c Checks) Record(ctx context.Context, of landfall.Check, whole bool) error {
	return c.update(ctx, of, `github_id = $3, run = $4, id = $5, body = $6, covered = $7, attempts = 0, problem = ''`,
		of.Repository, of.Run, of.ID, of.Body, covered(of.Owed, whole))
}
