package runs

import (
	"context"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// CommentsEnabled reports whether comments about an app are written on pull requests.
func (r *Runs) CommentsEnabled(ctx context.Context, tx *store.Tx, app landfall.App) (bool, error) {
	if !r.Commenting {
		return false, nil
	}
	return r.isTold(ctx, tx, app)
}

// queueComments notes news of a run for the comments on the open pull requests whose head its commit is.
func (r *Runs) queueComments(ctx context.Context, tx *store.Tx, app landfall.App, run landfall.Run) error {
	if enabled, err := r.CommentsEnabled(ctx, tx, app); err != nil || !enabled {
		return err
	}
	if run.Fork != 0 {
		return tx.WantComment(ctx, app.GitHub, run.Fork, r.Now())
	}
	numbers, err := tx.PullRequestsAt(ctx, app.ID, run.Commit)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := tx.WantComment(ctx, app.GitHub, number, r.Now()); err != nil {
			return err
		}
	}
	return nil
}

// Comments is the store's queue of comments, with the text of each as the store has it at that moment. A comment is not
// due while gateways do not show what it says.
type Comments struct {
	store.Comments

	Runs *Runs
}

// Due returns what the store's Due does, with the report of each comment.
func (c Comments) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Comment, error) {
	all := composer[landfall.Comment]{c.Runs, "comment", c.complete, func(of landfall.Comment) []any {
		return []any{"repository", of.Repository.Title(), "pull_request", of.Number}
	}}
	return all.due(ctx, c.Comments, now, limit)
}

// complete sets the report of a comment. It reports false while gateways do not show it yet, and when its apps were
// deleted: then there is nothing to write.
func (c Comments) complete(ctx context.Context, of *landfall.Comment) (ready bool, err error) {
	of.Report, ready, err = c.compose(ctx, *of)
	if err != nil || !ready || len(of.Report.Apps) > 0 {
		return ready, err
	}
	return false, c.MarkWritten(ctx, *of)
}

// compose reads the report for a comment. It reports false while gateways do not show it yet.
func (c Comments) compose(ctx context.Context, comment landfall.Comment) (landfall.PullRequestReport, bool, error) {
	var report landfall.PullRequestReport
	apps, err := c.DB.Apps(ctx)
	if err != nil {
		return report, false, err
	}
	report.Closed = true
	for _, app := range apps {
		if app.GitHub != comment.Repository || !app.Deleted.IsZero() && (comment.ID == 0 || replaced(apps, app)) {
			continue
		}
		pull, err := c.DB.PullRequest(ctx, app.ID, comment.Number)
		if landfall.KindOf(err) == landfall.NotFound && err != nil {
			continue // the app is younger than the pull request, and got no push of it since
		}
		if err != nil {
			return report, false, err
		}
		if !app.Deleted.IsZero() {
			report.Apps = append(report.Apps, landfall.AppReport{App: app.Name, Deleted: true})
			continue
		}
		section, ready, err := c.Runs.section(ctx, app, pull)
		if err != nil || !ready {
			return report, false, err
		}
		report.Apps = append(report.Apps, section)
		report.Closed = report.Closed && !pull.Open
	}
	commands, err := c.DB.CommandsOf(ctx, comment.Repository, comment.Number)
	if err != nil {
		return report, false, err
	}
	for _, command := range commands {
		if command.Obeyed && command.Answer != "" {
			report.Answers = append(report.Answers, strings.Split(command.Answer, "\n")...)
		}
	}
	slices.SortFunc(report.Apps, func(a, b landfall.AppReport) int { return strings.Compare(a.App, b.App) })
	return report, true, nil
}

// replaced reports whether another app of the same repository has the name of a deleted one.
func replaced(apps []landfall.App, deleted landfall.App) bool {
	return slices.ContainsFunc(apps, func(app landfall.App) bool {
		return app.GitHub == deleted.GitHub && app.Name == deleted.Name && app.Deleted.IsZero()
	})
}

// section reads what a comment says about one app. It reports false while gateways do not show that.
func (r *Runs) section(ctx context.Context, app landfall.App, pull store.PullRequest) (landfall.AppReport,
	bool, error) {
	s := landfall.AppReport{App: app.Name, Commit: pull.HeadSHA}
	head, err := r.DB.Head(ctx, app.ID, pull.Ref())
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return s, false, err
	}
	if !head.SHA.IsZero() && pull.Open {
		s.Commit = head.SHA
	}
	runs, err := r.DB.RunsOfFork(ctx, app.ID, s.Commit, pull.ForkNumber())
	if err != nil {
		return s, false, err
	}
	if len(runs) > 0 {
		if err := r.sectionOfRun(ctx, app, pull, runs[0], &s); err != nil {
			return s, false, err
		}
	}
	if err := r.sectionOfTag(ctx, app, pull, &s); err != nil {
		return s, false, err
	}
	if s.Merged, err = r.DB.PullRequestMerged(ctx, app.ID, pull.Number); err != nil {
		return s, false, err
	}
	// What was read may be newer than what gateways show, so they are asked last.
	if app, err = r.DB.App(ctx, app.ID); err != nil {
		return s, false, err
	}
	return s, r.Rollout.Shows(ctx, app.ID, app.Changed), nil
}

// sectionOfRun fills in the result of the run of the pull request's head.
func (r *Runs) sectionOfRun(ctx context.Context, app landfall.App, pull store.PullRequest, run landfall.Run,
	s *landfall.AppReport) error {
	s.State, s.Reason, s.Run, s.Stats = run.State, run.Reason, r.RunURL(run.ID), run.Stats
	s.RunID = run.ID
	if run.State.Final() {
		s.Took = run.Finished.Sub(run.Ready())
	} else {
		s.Reason = "" // it belongs to an attempt that will be repeated
	}
	if run.Release == "" {
		return nil
	}
	release, err := r.DB.Release(ctx, app.ID, run.Release)
	if err != nil || !release.Expired.IsZero() {
		return landfall.Ignore(err, landfall.NotFound)
	}
	s.Release = r.ReleaseURL(app.Name, run.Release)
	if !pull.Open {
		return nil
	}
	after, err := r.DB.GroupUnits(ctx, app.ID, run.Release)
	if err != nil {
		return err
	}
	base, name, err := r.servedBy(ctx, app, pull.Base)
	if err != nil {
		return err
	}
	var before []store.GroupUnit
	if base != "" {
		if before, err = r.DB.GroupUnits(ctx, app.ID, base); err != nil {
			return err
		}
	}
	s.Base = name
	s.Changes, err = r.Contents.Diff(ctx, before, after)
	return err
}

// servedBy returns the release that a branch serves: for the production branch the live one, for another branch its
// newest. Where there is none, it returns the live one with the name of its branch. Both are empty when nothing is
// live.
func (r *Runs) servedBy(ctx context.Context, app landfall.App, branch string) (landfall.UID, string, error) {
	if branch != app.Branch {
		tag, err := r.DB.Tag(ctx, app.ID, deploy.BranchTag(branch))
		if err == nil {
			return tag.Release, branch, nil
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return "", "", err
		}
	}
	if app.Live == "" {
		return "", "", nil
	}
	return app.Live, app.Branch, nil
}

// sectionOfTag fills in the address that follows the pull request.
func (r *Runs) sectionOfTag(ctx context.Context, app landfall.App, pull store.PullRequest,
	s *landfall.AppReport) error {
	name := deploy.PullTag(pull.Number)
	tag, err := r.DB.Tag(ctx, app.ID, name)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	group, err := r.DB.Group(ctx, app.ID, tag.Release)
	if err != nil {
		return err
	}
	s.Preview, s.PreviewCommit = r.ReleaseURL(app.Name, landfall.UID(name)), group.Commit
	return nil
}
