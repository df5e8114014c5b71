package accept

import (
	"context"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// looked records why an app's repository could not be looked at; nil: it could. That is logged when it begins, and when
// it is another reason than before; so it is no error here.
func (acceptor *Acceptor) looked(ctx context.Context, app landfall.App, failure error) error {
	if landfall.Is(failure, landfall.Canceled, landfall.Internal) || ctx.Err() != nil { // the repository is not at fault
		return failure
	}
	problem := ""
	if failure != nil {
		problem = landfall.MessageOf(failure)
	}
	known, err := acceptor.DB.RepositoryProblem(ctx, app.ID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if known.Problem == problem {
		return nil
	}
	logger := acceptor.Logger.With(app.LogAttrs()...)
	if problem == "" {
		logger.InfoContext(ctx, "the repository can be looked at again")
	} else {
		logger.ErrorContext(ctx, "the repository cannot be looked at", "error", failure)
	}
	return acceptor.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.SetRepositoryProblem(ctx, app.ID, problem, acceptor.Now())
	})
}

// Unseen says for people that an app's repository could not be looked at.
func Unseen(app landfall.App, p landfall.RepositoryProblem) string {
	return fmt.Sprintf("The repository %s cannot be looked at since %s, so what is pushed there may stay unknown: %s",
		app.Repository, p.Since.UTC().Format(time.DateTime+" MST"), p.Problem)
}
