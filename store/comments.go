package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const commentColumns = `github_id, owner, name, number, comment_id, body, wanted, told, attempts, next_at, problem,
	dropped`

func scanComment(row scanner) (c landfall.Comment, err error) {
	r := &c.Repository
	err = scanOwed(row, &c.Owed, &r.ID, &r.Owner, &r.Name, &c.Number, &c.ID, &c.Body)
	return c, err
}

// WantComment notes, from the given time on, that the comment on a pull request has something new to say. A comment
// that waits for its next attempt goes on waiting; one that was given up is tried again.
func (tx *Tx) WantComment(ctx context.Context, r landfall.GitHubRepository, number int, at time.Time) error {
	return tx.exec(ctx, "store.WantComment", `INSERT INTO comments (`+commentColumns+`, since)
		VALUES ($1, $2, $3, $4, 0, '', 1, 0, 0, $5, '', 0, $5)
		ON CONFLICT (github_id, owner, name, number) DO UPDATE SET wanted = comments.wanted + 1,
			since = CASE WHEN comments.told < comments.wanted
			AND comments.dropped = 0 THEN comments.since ELSE excluded.since END,
			next_at = CASE WHEN comments.next_at > excluded.next_at AND comments.attempts > 0
				THEN comments.next_at ELSE excluded.next_at END,
			attempts = CASE WHEN comments.dropped = 1 THEN 0 ELSE comments.attempts END, dropped = 0`,
		r.ID, r.Owner, r.Name, number, micros(at))
}

// Comment returns the comment of a pull request. NotFound when none was ever wanted.
func (q queries) Comment(ctx context.Context, r landfall.GitHubRepository, number int) (landfall.Comment, error) {
	return one(ctx, q, "store.Comment", scanComment, `SELECT `+commentColumns+` FROM comments
		WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4`, r.ID, r.Owner, r.Name, number)
}

// PullRequestsAt returns the numbers of an app's open pull requests whose head is a commit, without those from forks.
// It finds the head by the last event of the pull request, or by where its branch is.
func (q queries) PullRequestsAt(ctx context.Context, app string, commit landfall.CommitSHA) ([]int, error) {
	return list(ctx, q, "store.PullRequestsAt", scanValue[int], `SELECT number FROM pull_requests p
		WHERE app = $1 AND open = 1 AND fork = 0 AND (head_sha = $2
			OR EXISTS (SELECT 1 FROM heads h WHERE h.app = p.app AND h.ref = p.head_ref AND h.sha = $2)) ORDER BY number`,
		app, commit)
}

// PullRequest returns what is known of an app's pull request. NotFound when nothing is.
func (q queries) PullRequest(ctx context.Context, app string, number int) (PullRequest, error) {
	return one(ctx, q, "store.PullRequest", scanPull,
		`SELECT `+pullColumns+` FROM pull_requests WHERE app = $1 AND number = $2`, app, number)
}

// Comments is the durable queue of comments.
type Comments struct{ DB *DB }

// Due returns comments that must be sent and may be tried by now. Those that have waited longest come first.
func (c Comments) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Comment, error) {
	return list(ctx, c.DB.queries, "store.Comments", scanComment, `SELECT `+commentColumns+` FROM comments
		WHERE told < wanted AND dropped = 0 AND next_at <= $1 ORDER BY next_at, github_id, owner, name, number LIMIT $2 + 0`,
		micros(now), limit)
}

// MarkWritten records that the forge has the comment: its ID, its Body, and the value that Wanted had when it was
// composed. When more is wanted since, the forge may have lost the text meanwhile: it is written again.
func (c Comments) MarkWritten(ctx context.Context, comment landfall.Comment) error {
	return c.update(ctx, commentsWritten, comment, `comment_id = $5,
		body = CASE WHEN wanted = $7 THEN $6 ELSE '' END, told = $7, attempts = 0, problem = ''`,
		comment.ID, comment.Body, comment.Wanted)
}

// Postpone records that a comment is to be tried again at the given time, and why.
func (c Comments) Postpone(ctx context.Context, comment landfall.Comment, at time.Time, problem string) error {
	return c.update(ctx, "", comment, `next_at = $5, attempts = attempts + 1, problem = $6`, micros(at), problem)
}

// Drop gives up a comment until something happens again, and records why.
func (c Comments) Drop(ctx context.Context, comment landfall.Comment, problem string) error {
	return c.update(ctx, commentsDropped, comment, `dropped = 1, attempts = attempts + 1, problem = $5`, problem)
}

func (c Comments) update(ctx context.Context, counter string, comment landfall.Comment, set string, args ...any) error {
	r := comment.Repository
	return c.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		if err := tx.count(ctx, counter, 1); err != nil {
			return err
		}
		return tx.exec(ctx, "store.Comments", `UPDATE comments SET `+set+
			` WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4`,
			append([]any{r.ID, r.Owner, r.Name, comment.Number}, args...)...)
	})
}

// RestoreComment has a comment written again whose text the forge has lost, unless that was done within an interval. It
// reports whether it will be.
func (tx *Tx) RestoreComment(ctx context.Context, comment landfall.Comment, now time.Time,
	interval time.Duration) (bool, error) {
	r := comment.Repository
	err := tx.execOne(ctx, "store.RestoreComment", landfall.Error{Kind: landfall.NotFound}, `UPDATE comments
		SET body = '', restored = $5, wanted = wanted + 1, since = CASE WHEN told < wanted THEN since ELSE $5 END,
			dropped = 0, attempts = CASE WHEN dropped = 1 THEN 0 ELSE attempts END
		WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4 AND restored <= $6`,
		r.ID, r.Owner, r.Name, comment.Number, micros(now), micros(now.Add(-interval)))
	return err == nil, landfall.Ignore(err, landfall.NotFound)
}

// RenewComments notes that the comments on the open pull requests into a branch compare with another release now. Each
// is due in its turn, at an interval, those first to which something happened last; and no other one is kept waiting. A
// comment that is owed already says the newest when its time comes.
func (tx *Tx) RenewComments(ctx context.Context, app landfall.App, base string, now time.Time,
	interval time.Duration) error {
	r := app.GitHub
	return tx.exec(ctx, "store.RenewComments", `UPDATE comments SET wanted = comments.wanted + 1,
			since = $6 + due.place * $7, next_at = $6 + due.place * $7
		FROM (SELECT p.number, ROW_NUMBER() OVER (ORDER BY p.updated DESC, p.number) AS place
			FROM pull_requests p JOIN comments c ON c.number = p.number
			WHERE p.app = $1 AND p.base = $2 AND p.open = 1 AND c.github_id = $3 AND c.owner = $4 AND c.name = $5
				AND c.told = c.wanted AND c.dropped = 0 AND c.comment_id <> 0) AS due
		WHERE comments.github_id = $3 AND comments.owner = $4 AND comments.name = $5 AND comments.number = due.number`,
		app.ID, base, r.ID, r.Owner, r.Name, micros(now), interval.Microseconds())
}

// WantComments notes that the comments on an app's pull requests that the forge has have something new to say.
func (tx *Tx) WantComments(ctx context.Context, app landfall.App, at time.Time) error {
	numbers, err := list(ctx, tx.queries, "store.WantComments", scanValue[int], `SELECT p.number FROM pull_requests p
		JOIN comments c ON c.number = p.number AND c.github_id = $2 AND c.owner = $3 AND c.name = $4
		WHERE p.app = $1 AND p.open = 1 AND c.comment_id <> 0`, app.ID, app.GitHub.ID, app.GitHub.Owner, app.GitHub.Name)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := tx.WantComment(ctx, app.GitHub, number, at); err != nil {
			return err
		}
	}
	return nil
}
