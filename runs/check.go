package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// logEnd is how many lines of a run's log a check run is composed from.
const logEnd = 100

// QueueCheck notes news of a commit for its check run, which a GitHub App alone may make.
func (r *Runs) QueueCheck(ctx context.Context, tx *store.Tx, app landfall.App, commit landfall.CommitSHA) error {
	if connected, err := tx.HasGitHubApp(ctx); err != nil || !connected {
		return err
	}
	return tx.WantCheck(ctx, app.ID, commit, r.Now())
}

// Checks is the store's queue of check runs, with what each says as the store has it at that moment. A check run is not
// due while gateways do not show that.
type Checks struct {
	store.Checks

	Runs *Runs
}

// Due returns what the store's Due does, with the report of each check run.
func (c Checks) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Check, error) {
	all := composer[landfall.Check]{c.Runs, "check run", c.composeOrDrop, func(of landfall.Check) []any {
		return []any{"app_id", of.App, "commit", of.Commit}
	}}
	return all.due(ctx, c.Checks, now, limit)
}

// composeOrDrop is compose, and gives up a check run whose run is not on record any more.
func (c Checks) composeOrDrop(ctx context.Context, of *landfall.Check) (bool, error) {
	ready, err := c.compose(ctx, of)
	if err != nil && landfall.Is(err, landfall.NotFound) {
		return false, c.Drop(ctx, *of, "The commit's runs are not on record any more.")
	}
	return ready, err
}

// compose reads what a check run says: of the newest run of its commit. It reports false while gateways do not show
// that.
func (c Checks) compose(ctx context.Context, of *landfall.Check) (bool, error) {
	r := c.Runs
	app, err := r.DB.App(ctx, of.App)
	if err != nil {
		return false, err
	}
	of.Report = landfall.CheckReport{
		AppReport: landfall.AppReport{App: app.Name, Commit: of.Commit}, Repository: app.GitHub}
	run, err := r.DB.NewestRun(ctx, app.ID, of.Commit)
	if err != nil {
		return false, err
	}
	if run.State == landfall.RunSucceeded && r.View(ctx, run).State != run.State {
		return false, nil
	}
	of.Report.RunID, of.Report.Started, of.Report.Finished = run.ID, run.Created, run.Finished
	pull, err := r.pullOf(ctx, app, of.Commit)
	if err != nil {
		return false, err
	}
	if err := r.sectionOfRun(ctx, app, pull, run, &of.Report.AppReport); err != nil {
		return false, err
	}
	if of.Report.Release != "" {
		if err := r.compareLive(ctx, app, run.Release, &of.Report); err != nil {
			return false, err
		}
		of.Report.Promotable = !of.Report.Live && run.Fork == 0
	}
	if of.Report.Answers, err = r.answersAt(ctx, app, of.Commit); err != nil {
		return false, err
	}
	if run.State.Final() {
		of.Report.Log, err = r.DB.LogEnd(ctx, run.ID, logEnd)
	}
	return true, err
}

// answersAt returns what became of the last commands at an app's check run of a commit.
func (r *Runs) answersAt(ctx context.Context, app landfall.App, commit landfall.CommitSHA) (all []string, err error) {
	commands, err := r.DB.CommandsOf(ctx, app.GitHub, 0)
	for _, command := range commands {
		var request landfall.CheckRequest
		if command.Kind != landfall.CheckCommand || json.Unmarshal([]byte(command.Data), &request) != nil ||
			request.Commit != commit {
			continue
		}
		for line := range strings.SplitSeq(command.Answer, "\n") {
			if strings.HasPrefix(line, fmt.Sprintf("%s asked to %s: %s: ", command.Sender.Login, request.Action, app.Name)) {
				all = append(all, line)
			}
		}
	}
	return all, err
}

// pullOf returns the newest open pull request whose head is a commit; where there is none, one into the production
// branch.
func (r *Runs) pullOf(ctx context.Context, app landfall.App, commit landfall.CommitSHA) (store.PullRequest, error) {
	numbers, err := r.DB.PullRequestsAt(ctx, app.ID, commit)
	if err != nil || len(numbers) == 0 {
		return store.PullRequest{Base: app.Branch, Open: true}, err
	}
	return r.DB.PullRequest(ctx, app.ID, slices.Max(numbers))
}

// compareLive says whether a release is live or was it, and compares it with what was live before it then.
func (r *Runs) compareLive(ctx context.Context, app landfall.App, release landfall.UID,
	s *landfall.CheckReport) error {
	s.Live = app.Live == release
	move, err := r.DB.LastMoveTo(ctx, app.ID, landfall.LivePointer, release)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	s.WasLive = !s.Live
	after, err := r.DB.GroupUnits(ctx, app.ID, release)
	if err != nil {
		return err
	}
	var before []store.GroupUnit
	s.Base = string(move.From)
	if move.From != "" {
		if before, err = r.DB.GroupUnits(ctx, app.ID, move.From); err != nil {
			return err
		}
	}
	s.Changes, err = r.Contents.Diff(ctx, before, after)
	return err
}
