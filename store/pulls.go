package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// PullRequestMoved reports whether what happened to a pull request at a time, as the forge says, is not older than what
// is known of it. The forge may not say it: a zero time is never older.
func (q queries) PullRequestMoved(ctx context.Context, app string, number int, at time.Time) (bool, error) {
	if at.IsZero() {
		return true, nil
	}
	older, err := one(ctx, q, "store.PullRequestMoved", scanValue[int64],
		`SELECT COUNT(*) FROM pull_requests WHERE app = $1 AND number = $2 AND moved > $3`, app, number,
		micros(at))
	return older == 0, err
}

// SetPullRequestMoved records when the forge says that what is known of a pull request came to be, and whether it was
// merged.
func (tx *Tx) SetPullRequestMoved(ctx context.Context, app string, number int, at time.Time, merged bool) error {
	return tx.exec(ctx, "store.SetPullRequestMoved",
		`UPDATE pull_requests SET moved = $3, merged = $4 WHERE app = $1 AND number = $2`, app, number, micros(at), merged)
}

// PullRequestMerged reports whether an app's pull request was merged.
func (q queries) PullRequestMerged(ctx context.Context, app string, number int) (bool, error) {
	return one(ctx, q, "store.PullRequestMerged", scanValue[bool],
		`SELECT merged FROM pull_requests WHERE app = $1 AND number = $2`, app, number)
}

// PullGroup is a group version of the head of a pull request.
type PullGroup struct {
	Number int
	Commit landfall.CommitSHA
	Group  landfall.UID
}

// PullGroups returns group versions of the heads of an app's pull requests into a branch, without those from forks. The
// pull requests that something happened to last come first.
func (q queries) PullGroups(ctx context.Context, app, base string, limit int) ([]PullGroup, error) {
	return list(ctx, q, "store.PullGroups", func(row scanner) (g PullGroup, err error) {
		return g, row.Scan(&g.Number, &g.Commit, &g.Group)
	}, `SELECT p.number, g.commit_sha, g.uid FROM pull_requests p
		JOIN group_versions g ON g.app = p.app AND g.commit_sha = p.head_sha AND g.fork = 0
		WHERE p.app = $1 AND p.base = $2 AND p.fork = 0 ORDER BY p.updated DESC, g.created DESC LIMIT $3 + 0`,
		app, base, limit)
}
