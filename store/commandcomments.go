package store

import (
	"context"

	"landfall.dev/landfall"
)

// TakeComment records for ever that an app was given the command of a comment. It reports whether that is new: a
// command is obeyed once, whichever deliveries tell of it, and also when an app of that name was made anew.
func (tx *Tx) TakeComment(ctx context.Context, app landfall.App, comment int64) (bool, error) {
	err := tx.execOne(ctx, "store.TakeComment", landfall.Error{Kind: landfall.Conflict},
		`INSERT INTO command_comments (github_id, comment_id, app) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		app.GitHub.ID, comment, app.Name)
	return err == nil, landfall.Ignore(err, landfall.Conflict)
}
