package accept

import (
	"context"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// fork takes an event of a pull request from another repository. The commit at its head gets a run that waits for
// approval, and takes the place of what waited or ran before. Only the base repository is ever asked for the commit.
func (r WebhookReceiver) fork(ctx context.Context, tx *store.Tx, app landfall.App, pull webhook.PullRequest,
	event webhook.Event) (string, error) {
	push := landfall.Push{
		App: app.ID, Source: landfall.FromWebhook, Ref: landfall.PullRef(pull.Number), Before: pull.Before,
		After: pull.Commit, Actor: pull.Actor, PullRequest: &pull.PullRequest, Delivery: event.Delivery.ID,
		Trace: event.Trace, Accepted: r.Now(),
	}
	if pull.Closed {
		push.After = ""
	}
	push, err := tx.CreatePush(ctx, push)
	if err != nil {
		return "", err
	}
	head, err := tx.Head(ctx, app.ID, push.Ref)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return "", err
	}
	if err == nil && !push.Deleted() {
		a := acceptance{by: r.Acceptor, tx: tx, app: app, push: push, head: head}
		run, known, err := a.forkKnown(ctx)
		if err != nil || known {
			return run, err
		}
	}
	if err := tx.SetHead(ctx, push); err != nil {
		return "", err
	}
	if err := r.supersedeFork(ctx, tx, app, push, head); err != nil {
		return "", err
	}
	if push.Deleted() {
		by := deploy.Mover{Actor: push.Actor, Reason: fmt.Sprintf("pull request %d", pull.Number), At: push.Accepted}
		return "", r.dropTag(ctx, tx, app, deploy.PullTag(pull.Number), by, func(r landfall.Release) bool {
			return r.Branch == landfall.ForkBranch(pull.Number)
		})
	}
	run, err := runs.New(ctx, tx, app, push)
	if err != nil {
		return "", err
	}
	return run.ID, r.Runs.Wait(ctx, tx, app, run, push)
}

// forkKnown returns the run of a fork's commit when its push moved nothing, or came late and is over. It reports false
// for a push that is news.
func (a *acceptance) forkKnown(ctx context.Context) (string, bool, error) {
	push, head := a.push, a.head
	if head.SHA.IsZero() || push.Before == head.SHA {
		return "", false, nil // it was closed, or goes on from where it is
	}
	if head.SHA == push.After {
		last, err := a.tx.Push(ctx, head.Push)
		if err != nil || last.PullRequest.Base != push.PullRequest.Base {
			return "", false, err
		}
	} else if _, err := a.tx.NextPush(ctx, push.App, push.Ref, push.After); err != nil {
		return "", false, landfall.Ignore(err, landfall.NotFound) // no known push has left it
	}
	earlier, err := a.tx.RunsOfFork(ctx, push.App, push.After, push.PullRequest.Number)
	switch {
	case err != nil:
		return "", false, err
	case len(earlier) > 0:
		return earlier[0].ID, true, nil
	case head.SHA == push.After:
		return "", false, nil
	}
	run, err := a.createEnded(ctx, landfall.RunSuperseded, supersededBy(head.SHA))
	return run, true, err
}

// supersedeFork ends the unfinished runs of a pull request whose head was moved, or that was closed.
func (r WebhookReceiver) supersedeFork(ctx context.Context, tx *store.Tx, app landfall.App, push landfall.Push,
	before store.Head) error {
	refs, err := tx.UnfinishedOfRef(ctx, app.ID, push.Ref, push.ID)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if _, err := tx.WithdrawRunRef(ctx, ref); err != nil {
			return err
		}
		run, err := tx.Run(ctx, ref.Run)
		if err != nil {
			return err
		}
		if run.State.Final() { // a push that was told twice wants it twice
			continue
		}
		switch {
		case push.Deleted() && run.State == landfall.RunWaiting:
			run.State, run.Reason = landfall.RunExpired, "Expired: the pull request was closed before the commit was approved"
		case push.Deleted():
			run.State, run.Reason = landfall.RunCancelled, "Cancelled: the pull request was closed"
		case before.SHA == push.After:
			run.State, run.Reason = landfall.RunSuperseded, "Superseded: the base branch is "+push.PullRequest.Base+" now"
		default:
			run.State, run.Reason = landfall.RunSuperseded, supersededBy(push.After)
		}
		if err := r.Runs.End(ctx, tx, app, run); err != nil {
			return err
		}
	}
	return nil
}
