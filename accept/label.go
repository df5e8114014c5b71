package accept

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
)

// doLabel approves the commit at which somebody put the label that approves.
func (acceptor *Acceptor) doLabel(ctx context.Context, tx *store.Tx, app landfall.App, command landfall.Command,
	permission landfall.Permission) (answer string, err error) {
	if err := need(landfall.PermissionWrite, permission, command, "the label "+landfall.ApprovalLabel); err != nil {
		return "", err
	}
	return acceptor.approve(ctx, tx, app, command, command.Data, "the label "+landfall.ApprovalLabel)
}

// approve approves the commit of a fork for a command whose sender may do that, and says so. The commit may be given by
// its first digits; it must be the head of the pull request.
func (acceptor *Acceptor) approve(ctx context.Context, tx *store.Tx, app landfall.App, command landfall.Command,
	commit, via string) (string, error) {
	run, err := runs.Waiting(ctx, tx, app.ID, commit, command.Number)
	if err == nil {
		err = acceptor.Runs.Approve(ctx, tx, run.ID, landfall.Approval{By: command.Sender.Login, Via: via})
	}
	if err != nil {
		return "", err
	}
	return run.Commit.Short() + " is approved", nil
}

// unlabel has the label that approves taken off a pull request of a fork, which was pushed to.
func (r WebhookReceiver) unlabel(ctx context.Context, tx *store.Tx, apps []landfall.App, number int,
	delivery string) error {
	_, err := r.queueCommand(ctx, tx, apps, landfall.Command{Kind: landfall.UnlabelCommand, Number: number,
		Delivery: delivery})
	return err
}
