package runs

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// Deployments is the store's queue of deployments, with what the forge is to show as the store has it at that moment. A
// deployment is not due while gateways do not show that.
type Deployments struct {
	store.Deployments

	Runs *Runs
}

// Due returns what the store's Due does, with the report of each deployment; none while the server has no credentials
// for the forge.
func (d Deployments) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Deployment, error) {
	if !d.Runs.Reporting {
		if connected, err := d.DB.HasGitHubApp(ctx); err != nil || !connected {
			return nil, err
		}
	}
	all := composer[landfall.Deployment]{d.Runs, "deployment", d.compose, func(of landfall.Deployment) []any {
		return []any{"app_id", of.App, "pointer", of.Pointer}
	}}
	return all.due(ctx, d.Deployments, now, limit)
}

// compose reads what the forge is to show. It reports false while gateways do not show it yet.
func (d Deployments) compose(ctx context.Context, of *landfall.Deployment) (bool, error) {
	app, err := d.DB.App(ctx, of.App)
	if err != nil {
		return false, err
	}
	of.Report = landfall.DeploymentReport{Repository: app.GitHub, AppName: app.Name}
	if err := d.Runs.report(ctx, app, of.Pointer, &of.Report); err != nil {
		return false, err
	}
	// What was read may be newer than what gateways show, so they are asked last.
	if app, err = d.DB.App(ctx, app.ID); err != nil {
		return false, err
	}
	return d.Runs.Rollout.Shows(ctx, app.ID, app.Changed), nil
}

// report fills in what the forge is to show of a pointer. It leaves Release empty when that is nothing.
func (r *Runs) report(ctx context.Context, app landfall.App, pointer string, report *landfall.DeploymentReport) error {
	uid, branch, err := r.pointsTo(ctx, app, pointer)
	if err != nil || uid == "" {
		return err
	}
	release, err := r.DB.Release(ctx, app.ID, uid)
	if err != nil || !release.Expired.IsZero() || release.Commit.IsZero() {
		return landfall.Ignore(err, landfall.NotFound)
	}
	head, err := r.DB.Head(ctx, app.ID, landfall.RefName(landfall.BranchPrefix+branch))
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if err == nil && head.SHA == release.Commit {
		report.Branch = branch
	}
	runs, err := r.DB.RunsOfCommit(ctx, app.ID, release.Commit)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(runs, func(run landfall.Run) bool { return run.Release == uid }); i >= 0 {
		report.Run = r.RunURL(runs[i].ID)
	}
	report.Release, report.Commit, report.Production = uid, release.Commit, pointer == landfall.LivePointer
	report.URL = r.ReleaseURL(app.Name, uid)
	report.Environment = "preview/" + branch
	if report.Production {
		report.URL, report.Environment = r.ReleaseURL(app.Name, ""), "production"
	}
	alone, err := r.alone(ctx, app)
	if !alone {
		report.Environment = app.Name + "/" + report.Environment
	}
	report.Environment = environmentName(report.Environment)
	return err
}

// pointsTo returns the release that a pointer points to, and its branch. The release is empty when the forge is to show
// none: it shows the production branch as what is live, and no branch of which the last pull request is closed and that
// got no push since.
func (r *Runs) pointsTo(ctx context.Context, app landfall.App, pointer string) (landfall.UID, string, error) {
	if !app.Deleted.IsZero() {
		return "", "", nil
	}
	name, ok := deploy.TagOf(pointer)
	if !ok {
		return app.Live, app.Branch, nil
	}
	tag, err := r.DB.Tag(ctx, app.ID, name)
	if err != nil {
		return "", "", landfall.Ignore(err, landfall.NotFound)
	}
	branch, ok := tag.Ref.Branch()
	if !ok || branch == app.Branch {
		return "", "", nil
	}
	pulls, err := r.DB.PullRequestsFrom(ctx, app.ID, tag.Ref)
	if err != nil {
		return "", "", err
	}
	if len(pulls) > 0 && !slices.ContainsFunc(pulls, func(p store.PullRequest) bool { return p.Open }) {
		head, err := r.DB.Head(ctx, app.ID, tag.Ref)
		if err != nil || head.SHA == pulls[0].HeadSHA {
			return "", "", landfall.Ignore(err, landfall.NotFound)
		}
	}
	return tag.Release, branch, nil
}

// alone reports whether no other app has an app's repository.
func (r *Runs) alone(ctx context.Context, app landfall.App) (bool, error) {
	apps, err := r.DB.Apps(ctx)
	return !slices.ContainsFunc(apps, func(other landfall.App) bool {
		return other.ID != app.ID && other.GitHub.ID == app.GitHub.ID && other.Deleted.IsZero()
	}), err
}

// environmentName returns a text as the name of an environment at GitHub: without the characters that it refuses
// there, and with at most 255 others.
func environmentName(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune("'\"`,;\\", r) {
			return '-'
		}
		return r
	}, text)
	return string([]rune(text)[:min(len([]rune(text)), 255)])
}
