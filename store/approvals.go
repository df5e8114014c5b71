package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// Approve lets a run that waits for approval be worked on. Conflict when it does not wait any more.
func (tx *Tx) Approve(ctx context.Context, run string, by landfall.Approval) error {
	now, err := tx.Now(ctx, by.At)
	if err != nil {
		return err
	}
	data, err := json.Marshal(by)
	if err != nil {
		return err
	}
	return tx.execOne(ctx, "store.Approve",
		landfall.Error{Kind: landfall.Conflict, Message: "the run does not wait for approval any more"},
		`UPDATE runs SET state = 'queued', reason = '', next_at = $3, approval = $2
		WHERE id = $1 AND state = 'waiting'`, run, string(data), micros(now))
}

// WaitingSince returns the runs that have waited for approval since before a time, oldest first.
func (q queries) WaitingSince(ctx context.Context, before time.Time, limit int) ([]landfall.Run, error) {
	return list(ctx, q, "store.WaitingSince", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE state = 'waiting' AND created < $1 ORDER BY created LIMIT $2 + 0`, micros(before), limit)
}

// WaitingRuns returns the runs that wait for approval and whose commit begins with the given digits, oldest first: of
// one app, or of all apps when app is empty.
func (q queries) WaitingRuns(ctx context.Context, app, commit string) ([]landfall.Run, error) {
	return list(ctx, q, "store.WaitingRuns", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE state = 'waiting' AND (app = $1 OR $1 = '') AND commit_sha >= $2 AND commit_sha < $2 || 'g' ORDER BY created`, app, commit)
}

// CommitsOfFork returns the commits of which a pull request of a fork has a run, in whatever state, and that begin with
// the given digits.
func (q queries) CommitsOfFork(ctx context.Context, app string, number int,
	commit string) ([]landfall.CommitSHA, error) {
	return list(ctx, q, "store.CommitsOfFork", scanValue[landfall.CommitSHA], `SELECT DISTINCT commit_sha FROM runs
		WHERE app = $1 AND fork = $2 AND commit_sha >= $3 AND commit_sha < $3 || 'g' ORDER BY commit_sha`, app, number, commit)
}
