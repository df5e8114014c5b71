package runs

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Wait stores a run of a fork's commit, which nobody works on before a person has approved it, and queues a report that
// says how.
func (r *Runs) Wait(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run, push landfall.Push) error {
	run.State = landfall.RunWaiting
	run.Reason = "Waits for approval by a person with write access: landfall run approve " + run.ID
	if err := tx.CreateRun(ctx, run); err != nil {
		return err
	}
	if err := tx.AddRunRef(ctx, run.ID, push); err != nil {
		return err
	}
	err := tx.AppendLog(ctx, run.ID, run.Step, push.Accepted, fmt.Sprintf(
		"pull request %d of a fork: nothing of the commit is fetched, built or run before it is approved", run.Fork))
	if err != nil {
		return err
	}
	return r.queueStatus(ctx, tx, app, run, r.pending(run.Reason))
}

// Approve lets a run of a fork's commit be worked on, in the caller's transaction. Whoever calls it has found out that
// the person may do that. Conflict when the run does not wait, or its commit is not the head of the pull request any
// more.
func (r *Runs) Approve(ctx context.Context, tx *store.Tx, id string, by landfall.Approval) error {
	run, app, err := waiting(ctx, tx, id)
	if err != nil {
		return err
	}
	head, err := tx.Head(ctx, run.App, landfall.PullRef(run.Fork))
	if err != nil {
		return err
	}
	if head.SHA != run.Commit {
		return landfall.Errorf("runs.Approve", landfall.Conflict, "pull request %d is at another commit by now: approve that",
			run.Fork)
	}
	by.At = r.Now()
	if err := tx.Approve(ctx, id, by); err != nil {
		return err
	}
	if err := tx.AppendLog(ctx, id, run.Step, by.At, "approved "+by.String()); err != nil {
		return err
	}
	run.State = landfall.RunQueued
	if err := r.queueStatus(ctx, tx, app, run, r.pending("Queued: approved by "+by.By)); err != nil {
		return err
	}
	tx.Enqueue(Topic, id, time.Time{})
	return nil
}

// Decline ends a run of a fork's commit, which is then not built. The reason may be empty. Conflict when the run does
// not wait.
func (r *Runs) Decline(ctx context.Context, tx *store.Tx, id, by, reason string) error {
	run, app, err := waiting(ctx, tx, id)
	if err != nil {
		return err
	}
	run.State, run.Reason = landfall.RunDeclined, "Declined by "+by
	if reason != "" {
		run.Reason += ": " + reason
	}
	return r.End(ctx, tx, app, run)
}

// waiting returns a run that waits for approval, and its app.
func waiting(ctx context.Context, tx *store.Tx, id string) (run landfall.Run, app landfall.App, err error) {
	if run, err = tx.Run(ctx, id); err != nil {
		return run, app, err
	}
	if run.State != landfall.RunWaiting {
		state := string(run.State)
		if run.Approval != nil {
			state += ", and was approved " + run.Approval.String()
		}
		return run, app, landfall.Errorf("runs.waiting", landfall.Conflict,
			"the run does not wait for approval: it is %s", state)
	}
	app, err = tx.ActiveApp(ctx, run.App)
	return run, app, err
}

// someDigits matches enough of a commit's name to tell it from others.
var someDigits = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// waitingReader is what Waiting needs; the database and its transactions have it.
type waitingReader interface {
	WaitingRuns(ctx context.Context, app, commit string) ([]landfall.Run, error)
	CommitsOfFork(ctx context.Context, app string, number int, commit string) ([]landfall.CommitSHA, error)
}

// Waiting returns the run of an app's commit that waits for approval: of one pull request, or of any when number is 0.
// The first 7 digits of the commit are enough, unless another commit of the pull request had them: somebody may have
// searched for one with the digits of what was read. NotFound when none waits, Conflict when several are meant, Invalid
// for what is no commit.
func Waiting(ctx context.Context, reader waitingReader, app, commit string, number int) (landfall.Run, error) {
	const op landfall.Op = "runs.Waiting"
	if !someDigits.MatchString(commit) {
		return landfall.Run{}, landfall.Errorf(op, landfall.Invalid, "%q is no commit: give 7 or more of its digits", commit)
	}
	all, err := reader.WaitingRuns(ctx, app, commit)
	if err != nil {
		return landfall.Run{}, err
	}
	var found []landfall.Run
	for _, run := range all {
		if number == 0 || run.Fork == number {
			found = append(found, run)
		}
	}
	switch len(found) {
	case 0:
		return landfall.Run{}, landfall.Errorf(op, landfall.NotFound, "no run of %s waits for approval", commit)
	case 1:
		run := found[0]
		begin, err := reader.CommitsOfFork(ctx, run.App, run.Fork, commit)
		if err == nil && len(begin) > 1 {
			err = landfall.Errorf(op, landfall.Conflict, "%d commits of pull request %d begin with %s: look again at what "+
				"waits, and give all digits of its commit", len(begin), run.Fork, commit)
		}
		return run, err
	}
	return landfall.Run{}, landfall.Errorf(op, landfall.Conflict,
		"%d runs of %s wait for approval: name one by its id: landfall run list --state waiting", len(found), commit)
}

// expireBatch is how many runs are ended in one transaction.
const expireBatch = 100

// ExpireWaiting ends the runs that have waited for approval too long.
func (r *Runs) ExpireWaiting(ctx context.Context) error {
	late, err := r.DB.WaitingSince(ctx, r.Now().Add(-landfall.ApprovalWait), expireBatch)
	if err != nil || len(late) == 0 {
		return err
	}
	return r.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		for _, run := range late {
			if run, err = tx.Run(ctx, run.ID); err != nil {
				return err
			}
			if run.State != landfall.RunWaiting {
				continue
			}
			app, err := tx.App(ctx, run.App)
			if err != nil {
				return err
			}
			run.State = landfall.RunExpired
			run.Reason = fmt.Sprintf("Expired: nobody approved it within %d days; a push makes a new run, as does: landfall "+
				"run retry %s", landfall.ApprovalWait/(24*time.Hour), run.ID)
			if err := r.End(ctx, tx, app, run); err != nil {
				return err
			}
		}
		return nil
	})
}

// rerunFork makes a new run of a fork's commit. It has the approval of the last one, or waits for one. Conflict unless
// the commit is the head of the open pull request.
func (r *Runs) rerunFork(ctx context.Context, tx *store.Tx, app landfall.App, push landfall.Push,
	of retry) (string, error) {
	head, err := tx.Head(ctx, app.ID, push.Ref)
	if err != nil {
		return "", err
	}
	if head.SHA != of.commit {
		return "", landfall.Errorf("runs.Retry", landfall.Conflict,
			"pull request %d is closed, or at another commit: only the commit at its head runs", push.PullRequest.Number)
	}
	if push, err = tx.Push(ctx, head.Push); err != nil {
		return "", err
	}
	push.Actor, push.Accepted = of.actor, r.Now()
	run, err := New(ctx, tx, app, push)
	if err != nil {
		return "", err
	}
	refs, err := tx.RunRefs(ctx, of.of.ID)
	if err != nil {
		return "", err
	}
	run.Rebuild = of.rebuild
	// the commit may have been approved for another base branch
	if slices.ContainsFunc(refs, func(ref store.RunRef) bool { return ref.Push == head.Push }) {
		run.Approval = of.of.Approval
	}
	if run.Approval == nil {
		return run.ID, r.Wait(ctx, tx, app, run, push)
	}
	if err := r.Queue(ctx, tx, app, run, "Queued again by "+of.actor, push); err != nil {
		return "", err
	}
	return run.ID, tx.AppendLog(ctx, run.ID, run.Step, push.Accepted, "approved "+run.Approval.String())
}
