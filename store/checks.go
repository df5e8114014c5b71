package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const checkColumns = `app, commit_sha, github_id, run, id, body, wanted, covered, attempts, next_at, problem, dropped`

func scanCheck(row scanner) (landfall.Check, error) {
	var c landfall.Check
	var next int64
	err := row.Scan(&c.App, &c.Commit, &c.Repository, &c.Run, &c.ID, &c.Body, &c.Wanted, &c.Covered, &c.Attempts, &next,
		&c.Problem, &c.Dropped)
	c.NextAt = timeOf(next)
	return c, err
}

// WantCheck notes that the check run of a commit has something new to say. One that waits for its next attempt goes on
// waiting; one that was given up is tried again.
func (tx *Tx) WantCheck(ctx context.Context, app string, commit landfall.CommitSHA, at time.Time) error {
	return tx.exec(ctx, "store.WantCheck", `INSERT INTO checks (`+checkColumns+`)
		VALUES ($1, $2, 0, '', 0, '', 1, 0, 0, $3, '', 0)
		ON CONFLICT (app, commit_sha) DO UPDATE SET wanted = checks.wanted + 1,
			next_at = CASE WHEN checks.next_at > excluded.next_at THEN checks.next_at ELSE excluded.next_at END,
			attempts = CASE WHEN checks.dropped = 1 THEN 0 ELSE checks.attempts END, dropped = 0`,
		app, commit, micros(at))
}

// Check returns the check run of a commit. NotFound when none was ever wanted.
func (q queries) Check(ctx context.Context, app string, commit landfall.CommitSHA) (landfall.Check, error) {
	return one(ctx, q, "store.Check", scanCheck,
		`SELECT `+checkColumns+` FROM checks WHERE app = $1 AND commit_sha = $2`, app, commit)
}

// LogEnd returns the last lines of a run's log, in order.
func (q queries) LogEnd(ctx context.Context, run string, limit int) ([]string, error) {
	return list(ctx, q, "store.LogEnd", scanValue[string], `SELECT text FROM (SELECT seq, text FROM run_log
		WHERE run = $1 ORDER BY seq DESC LIMIT $2 + 0) AS last ORDER BY seq`, run, limit)
}

// Checks is the durable queue of check runs.
type Checks struct{ DB *DB }

// Due returns check runs of which the forge must be told, and may be by now. Those that have waited longest come first.
func (c Checks) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Check, error) {
	return list(ctx, c.DB.queries, "store.Checks", scanCheck, `SELECT `+checkColumns+` FROM checks
		WHERE covered < wanted AND dropped = 0 AND next_at <= $1 AND NOT EXISTS (
			SELECT 1 FROM refusals f JOIN apps a ON a.github_id = f.github_id
			WHERE a.id = checks.app AND f.feature = $2 AND f.until > $1)
		ORDER BY next_at, app, commit_sha LIMIT $3 + 0`, micros(now), landfall.ChecksFeature, limit)
}

// Record stores what the forge has of a check run: Repository, Run, ID and Body. That covers the events that Wanted
// counted when it was composed.
func (c Checks) Record(ctx context.Context, of landfall.Check) error {
	return c.update(ctx, of, `github_id = $3, run = $4, id = $5, body = $6, covered = $7, attempts = 0, problem = ''`,
		of.Repository, of.Run, of.ID, of.Body, of.Wanted)
}

// Postpone records that the forge is to be told at the given time, and why.
func (c Checks) Postpone(ctx context.Context, of landfall.Check, at time.Time, problem string) error {
	return c.update(ctx, of, `next_at = $3, attempts = attempts + 1, problem = $4`, micros(at), problem)
}

// Drop gives up a check run until something happens again, and records why.
func (c Checks) Drop(ctx context.Context, of landfall.Check, problem string) error {
	return c.update(ctx, of, `dropped = 1, attempts = attempts + 1, problem = $3`, problem)
}

func (c Checks) update(ctx context.Context, of landfall.Check, set string, args ...any) error {
	return c.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.Checks", `UPDATE checks SET `+set+` WHERE app = $1 AND commit_sha = $2`,
			append([]any{of.App, of.Commit}, args...)...)
	})
}
