package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// AskForPulls has the forge asked which pull requests a commit belongs to, from the time NextAt on. A commit that is
// asked about already is asked about once.
func (tx *Tx) AskForPulls(ctx context.Context, q landfall.PullQuestion) error {
	return tx.exec(ctx, "store.AskForPulls", `INSERT INTO pull_questions (app, commit_sha, ref, run, attempts, next_at)
		VALUES ($1, $2, $3, $4, 0, $5) ON CONFLICT DO NOTHING`, q.App, q.Commit, q.Ref, q.Run, micros(q.NextAt))
}

// OpenPullsInto returns how many open pull requests into a branch are known of an app.
func (q queries) OpenPullsInto(ctx context.Context, app, base string) (int, error) {
	return one(ctx, q, "store.OpenPullsInto", scanValue[int],
		`SELECT COUNT(*) FROM pull_requests WHERE app = $1 AND base = $2 AND open = 1`, app, base)
}

// EndPullQuestion removes a question.
func (tx *Tx) EndPullQuestion(ctx context.Context, q landfall.PullQuestion) error {
	return tx.exec(ctx, "store.EndPullQuestion", `DELETE FROM pull_questions WHERE app = $1 AND commit_sha = $2`, q.App,
		q.Commit)
}

// PullQuestions is the durable queue of questions. Only the leader works on it.
type PullQuestions struct{ DB *DB }

// Due returns questions that may be asked by now, the oldest first.
func (p PullQuestions) Due(ctx context.Context, now time.Time, limit int) ([]landfall.PullQuestion, error) {
	return list(ctx, p.DB.queries, "store.PullQuestions", func(row scanner) (q landfall.PullQuestion, err error) {
		var next int64
		err = row.Scan(&q.App, &q.Repository.ID, &q.Repository.Owner, &q.Repository.Name, &q.Commit, &q.Ref, &q.Run,
			&q.Attempts, &next)
		q.NextAt = timeOf(next)
		return q, err
	}, `SELECT q.app, a.github_id, a.github_owner, a.github_name, q.commit_sha, q.ref, q.run, q.attempts, q.next_at
		FROM pull_questions q JOIN apps a ON a.id = q.app
		WHERE q.next_at <= $1 ORDER BY q.next_at, q.app, q.commit_sha LIMIT $2 + 0`, micros(now), limit)
}

// Postpone records that a question is to be asked again at the given time.
func (p PullQuestions) Postpone(ctx context.Context, q landfall.PullQuestion, at time.Time, _ string) error {
	return p.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.PullQuestions", `UPDATE pull_questions SET next_at = $3, attempts = attempts + 1
			WHERE app = $1 AND commit_sha = $2`, q.App, q.Commit, micros(at))
	})
}
