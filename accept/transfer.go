package accept

import (
	"context"
	"fmt"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// followTransfer notes when an app's repository has another owner than before, and reports whether the app goes on
// acting on it: it does not before a person has confirmed the owner, and does again when the repository came back.
func followTransfer(ctx context.Context, tx *store.Tx, app *landfall.App, now webhook.Repository) (stays bool,
	err error) {
	moved := ""
	if app.GitHub.ID == now.ID && !strings.EqualFold(app.GitHub.Owner, now.Owner) {
		moved = now.Owner + "/" + now.Name
	}
	if moved != app.MovedTo {
		app.MovedTo = moved
		err = tx.UpdateApp(ctx, *app)
	}
	return !app.Stopped(), err
}

// Stopped says for people that an app's repository has another owner, or was deleted.
func Stopped(app landfall.App) string {
	if !app.Gone.IsZero() {
		return fmt.Sprintf("The repository of the app %q was deleted at its forge: nothing of it runs, and its releases go "+
			"on answering. When it is there again, an administrator confirms that with landfall app set %[1]s --repo %s/%s.",
			app.Name, app.GitHub.Owner, app.GitHub.Name)
	}
	return fmt.Sprintf("The repository of the app %q was transferred from %s/%s to %s: nothing of it runs before an "+
		"administrator confirms that with landfall app set %[1]s --repo %[4]s.", app.Name, app.GitHub.Owner, app.GitHub.Name,
		app.MovedTo)
}

// refuse gives the commit of a push to transferred repositories a run that was over before it began: so it has a status
// where we still may write one. A commit that has a run gets no other. The push is made when the transfer is confirmed.
func (r WebhookReceiver) refuse(ctx context.Context, tx *store.Tx, stopped []landfall.App, event webhook.Event,
	came *outcome) error {
	if event.Push == nil || event.Push.Deleted() {
		return nil
	}
	for _, app := range stopped {
		earlier, err := tx.RunsOfCommit(ctx, app.ID, event.Push.After)
		if err != nil {
			return err
		}
		if app.MovedTo == "" || len(earlier) > 0 {
			continue
		}
		push := *event.Push
		push.App, push.Accepted = app.ID, r.Now()
		run, err := runs.New(ctx, tx, app, push)
		if err != nil {
			return err
		}
		run.State = landfall.RunQueued
		if err := tx.CreateRun(ctx, run); err != nil {
			return err
		}
		run.State = landfall.RunError
		run.Reason = fmt.Sprintf("Transferred to %s: nothing runs before landfall app set %s --repo %[1]s.", app.MovedTo,
			app.Name)
		if err := r.Runs.End(ctx, tx, app, run); err != nil {
			return err
		}
		came.runs = append(came.runs, run.ID)
	}
	return nil
}

// renamed returns the clone address of a repository that has another name now: old addresses lead to it only until
// somebody makes a repository with the old name.
func renamed(address string, was, is landfall.GitHubRepository) string {
	if was.Name == "" {
		return address
	}
	for _, end := range []string{"", ".git"} {
		old := was.Owner + "/" + was.Name + end
		if at := len(address) - len(old); at > 0 && strings.EqualFold(address[at:], old) {
			return address[:at] + is.Owner + "/" + is.Name + end
		}
	}
	return address
}

// ConfirmTransfer lets an app follow its repository to the owner to whom it was transferred, in the caller's
// transaction. Conflict when it was transferred to another one, or not at all.
func (acceptor *Acceptor) ConfirmTransfer(ctx context.Context, tx *store.Tx, app landfall.App,
	to string) (landfall.App, error) {
	const op landfall.Op = "accept.ConfirmTransfer"
	switch {
	case !app.Gone.IsZero() && strings.EqualFold(app.GitHub.Owner+"/"+app.GitHub.Name, to):
		app.Gone, app.GitHub, app.GitHubConfirmed = time.Time{}, landfall.GitHubRepository{}, false // it may have another id
		return app, tx.UpdateApp(ctx, app)
	case app.MovedTo == "":
		return app, landfall.Errorf(op, landfall.Conflict, "the repository of %s was not transferred: an app keeps its "+
			"repository; make another app for another one (landfall app create NAME --repo OWNER/NAME)", app.Name)
	case !strings.EqualFold(app.MovedTo, to):
		return app, landfall.Errorf(op, landfall.Conflict, "the repository of %s was transferred to %s, not to %s", app.Name,
			app.MovedTo, to)
	}
	is := app.GitHub
	is.Owner, is.Name, _ = strings.Cut(app.MovedTo, "/")
	app.Repository = renamed(app.Repository, app.GitHub, is)
	app.GitHub, app.MovedTo = is, ""
	return app, tx.UpdateApp(ctx, app)
}
