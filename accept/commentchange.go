package accept

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// restoreEvery is how often a comment of ours is made good that somebody deleted or edited. It is no fight: between
// that, the comment is as that person wants it until there is news.
const restoreEvery = time.Hour

// restoreComment has a comment of ours written again that somebody deleted or edited, and returns the decision about
// the delivery; empty when the comment is not ours.
func (r WebhookReceiver) restoreComment(ctx context.Context, tx *store.Tx, apps []landfall.App,
	change webhook.CommentChange) (decision string, err error) {
	if len(apps) == 0 {
		return "", nil
	}
	if enabled, err := r.Runs.CommentsEnabled(ctx, tx, apps[0]); err != nil || !enabled {
		return "", err
	}
	comment, err := tx.Comment(ctx, apps[0].GitHub, change.Number)
	if err != nil || comment.ID != change.Comment {
		return "", landfall.Ignore(err, landfall.NotFound)
	}
	restored, err := tx.RestoreComment(ctx, comment, r.Now(), restoreEvery)
	switch {
	case err != nil:
		return "", err
	case restored:
		return "It is ours, and is written again.", nil
	}
	return "It is ours, and was written again not long ago: it waits for the next news.", nil
}
