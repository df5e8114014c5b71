package runs

import (
	"context"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
)

// End ends a run that is not over, in the caller's transaction: it sets the state, queues the final report, and drops
// what the run held.
func (r *Runs) End(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run) error {
	run.Finished = r.Now()
	if err := tx.FinishRun(ctx, run); err != nil {
		return err
	}
	crashpoint.Here("end.finished")
	if err := tx.DropReservations(ctx, run.ID); err != nil {
		return err
	}
	text := run.Reason
	if run.State == landfall.RunSkipped {
		text = "Skipped: " + text
	}
	report := landfall.Report{State: statusOf(run.State), Description: text, NextAt: run.Finished}
	if run.Release != "" {
		report.Target = r.ReleaseURL(app.Name, run.Release)
	}
	if err := tx.DropWaiting(ctx, run, run.Finished); err != nil { // the final state would wait for them
		return err
	}
	if err := r.queueStatus(ctx, tx, app, run, report); err != nil {
		return err
	}
	return tx.EndLog(ctx, run.ID, run.Step, run.Finished, lastLines(run)...)
}

// lastLines returns the end of a run's log. The last line begins with the state; a reason of several lines stands
// before it.
func lastLines(run landfall.Run) []string {
	reason := strings.TrimSpace(run.Reason)
	switch {
	case reason == "":
		return []string{string(run.State)}
	case strings.Contains(reason, "\n"):
		return append(strings.Split(reason, "\n"), string(run.State))
	}
	return []string{string(run.State) + ": " + reason}
}

// queueStatus adds a commit status to the outbox, and queues the comments that say the same, if the forge hears about
// this app. The report has what is said, the address when it is not the run's, and its time.
func (r *Runs) queueStatus(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run,
	report landfall.Report) error {
	if reported, err := r.isTold(ctx, tx, app); err != nil || !reported {
		return err
	}
	report.App, report.Run, report.Repository, report.Commit = app.ID, run.ID, app.GitHub, run.Commit
	report.Context, report.Description = "landfall/"+app.Name, landfall.CutDescription(report.Description)
	if report.Target == "" {
		report.Target = r.RunURL(run.ID)
	}
	if err := tx.CreateReport(ctx, report); err != nil {
		return err
	}
	if err := r.QueueCheck(ctx, tx, app, run.Commit); err != nil {
		return err
	}
	return r.queueComments(ctx, tx, app, run)
}

// isTold returns whether the forge hears about an app.
func (r *Runs) isTold(ctx context.Context, tx *store.Tx, app landfall.App) (bool, error) {
	if app.GitHub.Name == "" {
		return false, nil
	}
	return r.Reports(ctx, tx)
}

// Reports returns whether we have credentials by which the forge hears anything.
func (r *Runs) Reports(ctx context.Context, tx *store.Tx) (bool, error) {
	if r.Reporting {
		return true, nil
	}
	return tx.HasGitHubApp(ctx)
}

// statusOf returns the commit status for a run's state.
func statusOf(s landfall.RunState) landfall.StatusState {
	switch s {
	case landfall.RunQueued, landfall.RunRunning, landfall.RunWaiting:
		return landfall.StatusPending
	case landfall.RunSucceeded, landfall.RunSkipped:
		return landfall.StatusSuccess
	case landfall.RunFailed, landfall.RunDeclined:
		return landfall.StatusFailure
	case landfall.RunError, landfall.RunSuperseded, landfall.RunCancelled, landfall.RunExpired:
		return landfall.StatusError
	}
	return landfall.StatusError
}
