package store

import (
	"context"
	"errors"
	"time"

	"landfall.dev/landfall"
)

// UpdateTogether is Update for functions that share one transaction. Each takes effect, or not, as if it had a
// transaction of its own. It returns the error of each, in the same order. A function may be called twice; what the
// first call did in the database is undone before.
func (db *DB) UpdateTogether(ctx context.Context, all ...func(context.Context, *Tx) error) []error {
	members := make([]*member, 0, len(all))
	for _, f := range all {
		members = append(members, &member{f: f, abandoned: func() error { return nil }})
	}
	err := db.runAll(ctx, members, (*Tx).runInGroup)
	if errors.Is(err, errFailed) {
		err = db.runAll(ctx, members, (*Tx).runInSavepoint)
	}
	errs := make([]error, 0, len(members))
	for _, m := range members {
		errs = append(errs, errors.Join(err, m.err))
	}
	return errs
}

// EnqueueFirst adds a job that starts at once, unless the transaction has the same job already. It reports whether it
// did.
func (tx *Tx) EnqueueFirst(topic, id string) bool {
	for _, there := range tx.jobs {
		if j, ok := there.Args.(job); ok && j.Topic == topic && j.ID == id {
			return false
		}
	}
	tx.Enqueue(topic, id, time.Time{})
	return true
}

// QueuedOfCommit returns the runs of a commit, of all apps, that nobody has worked on yet, oldest first.
func (q queries) QueuedOfCommit(ctx context.Context, commit landfall.CommitSHA) ([]landfall.Run, error) {
	return list(ctx, q, "store.QueuedOfCommit", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE finished = 0 AND state = 'queued' AND attempt = 0 AND commit_sha = $1 ORDER BY created, id`, commit)
}

// DropWaiting gives up the reports of a run that were to wait until after a time, and of which no attempt was made.
func (tx *Tx) DropWaiting(ctx context.Context, run landfall.Run, after time.Time) error {
	return tx.exec(ctx, "store.DropWaiting", `UPDATE reports SET dropped = 1, problem = $5
		WHERE app = $1 AND commit_sha = $2 AND run = $3 AND next_at > $4 AND sent = 0 AND dropped = 0 AND attempts = 0`,
		run.App, run.Commit, run.ID, micros(after), "The run was over before this was to be said.")
}

// HurryReports makes what is to be told of a run due at a time, where it was to wait longer.
func (tx *Tx) HurryReports(ctx context.Context, run landfall.Run, at time.Time) error {
	return tx.exec(ctx, "store.HurryReports", `UPDATE reports SET next_at = $4
		WHERE app = $1 AND commit_sha = $2 AND run = $3 AND sent = 0 AND dropped = 0 AND attempts = 0 AND next_at > $4`,
		run.App, run.Commit, run.ID, micros(at))
}
