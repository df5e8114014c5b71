package accept

import (
	"context"
	"encoding/json"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// checkRequest returns what a command at a check run asks for.
func checkRequest(command landfall.Command) (request landfall.CheckRequest) {
	_ = json.Unmarshal([]byte(command.Data), &request) // we wrote it
	return request
}

// doCheck obeys a command at a check run, about the newest run of its commit.
func (acceptor *Acceptor) doCheck(ctx context.Context, tx *store.Tx, app landfall.App, command landfall.Command,
	permission landfall.Permission) (answer string, err error) {
	const op landfall.Op = "accept.doCheck"
	request := checkRequest(command)
	needed := landfall.PermissionWrite
	if request.Action == landfall.PromoteAction {
		needed = landfall.PermissionMaintain
	}
	if err := need(needed, permission, command, string(request.Action)); err != nil {
		return "", err
	}
	run, err := tx.NewestRun(ctx, app.ID, request.Commit)
	if err != nil {
		if landfall.Is(err, landfall.NotFound) {
			err = landfall.Errorf(op, landfall.Conflict, "%s has no run", request.Commit.Short())
		}
		return "", err
	}
	switch request.Action {
	case landfall.PromoteAction:
		return acceptor.promoteRun(ctx, tx, app, run, command, "promoted at the check of "+request.Commit.Short())
	case landfall.ApproveAction:
		by := landfall.Approval{By: command.Sender.Login, Via: "the commit's check", At: acceptor.Now()}
		return "the commit " + request.Commit.Short() + " is approved", acceptor.Runs.Approve(ctx, tx, run.ID, by)
	case landfall.RetryAction:
	}
	if _, err := acceptor.Runs.RetryIn(ctx, tx, run.ID, command.Sender.Login, false); err != nil {
		return "", err
	}
	return request.Commit.Short() + " is queued again", nil
}

// answerCheck has the check run say what became of a command at it.
func (acceptor *Acceptor) answerCheck(ctx context.Context, tx *store.Tx, app landfall.App,
	command landfall.Command) error {
	if command.Kind != landfall.CheckCommand || app.ID == "" {
		return nil
	}
	return acceptor.Runs.QueueCheck(ctx, tx, app, checkRequest(command).Commit)
}

// promoteRun makes the release of a run live.
func (acceptor *Acceptor) promoteRun(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run,
	command landfall.Command, reason string) (string, error) {
	switch {
	case run.Fork != 0:
		return "", landfall.Errorf("accept.promoteRun", landfall.Forbidden,
			"a release of a fork never becomes live; merge it")
	case run.Release == "":
		return "", landfall.Errorf("accept.promoteRun", landfall.Conflict, "%s has no release: its run is %s",
			run.Commit.Short(), run.State)
	case app.Live == run.Release && !app.Held:
		return fmt.Sprintf("release %s is live already", run.Release), nil
	}
	by := deploy.Mover{Actor: command.Sender.Login, At: acceptor.Now(), Reason: reason}
	if err := deploy.Promote(ctx, tx, &app, run.Release, by); err != nil {
		return "", err
	}
	if _, err := tx.Changed(ctx, app.ID); err != nil {
		return "", err
	}
	return fmt.Sprintf("release %s is live", run.Release), nil
}
