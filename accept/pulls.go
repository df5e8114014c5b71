package accept

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// TopicPulls is the topic of the jobs that compare the pull requests of a repository with what was told of them. The
// job has the repository's numeric ID.
const TopicPulls = QueueHooks + "/pulls"

// ForgePulls are the pull requests at a forge. The kinds of their errors are NotFound, Forbidden and Unavailable.
type ForgePulls interface {
	// Open returns all open pull requests of a repository.
	Open(ctx context.Context, of landfall.GitHubRepository) ([]landfall.ForgePull, error)
	// Pull returns one pull request, whatever its state.
	Pull(ctx context.Context, of landfall.GitHubRepository, number int) (landfall.ForgePull, error)
}

// Pulls finds what happened to pull requests and was told by no delivery. A nil Pulls does nothing.
type Pulls struct {
	*Acceptor

	Forge ForgePulls
	Host  string // where the forge's repositories are
	Plain bool   // the forge can be asked while no GitHub App is connected, too
}

// Wake makes a job for each repository with an app, as WakeCatchUp does, while the forge can be asked.
func (p *Pulls) Wake(ctx context.Context, round int64, within time.Duration) error {
	if p == nil {
		return nil
	}
	return p.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		if connected, err := tx.HasGitHubApp(ctx); err != nil || !connected && !p.Plain {
			return err
		}
		apps, err := tx.Apps(ctx)
		if err != nil {
			return err
		}
		var all []int64
		for _, app := range apps {
			if p.knows(app) && !slices.Contains(all, app.GitHub.ID) {
				all = append(all, app.GitHub.ID)
			}
		}
		for i, id := range all {
			var at time.Time
			if within > 0 {
				at = p.Now().Add(within * time.Duration(i) / time.Duration(len(all)))
			}
			tx.EnqueueOnceAt(TopicPulls, strconv.FormatInt(id, 10), round, at)
		}
		return nil
	})
}

// knows reports whether an app's repository is for certain the one that the forge has under its name: an app's own
// webhook may say any name.
func (p *Pulls) knows(app landfall.App) bool {
	if !app.Deleted.IsZero() || app.Repository == "" || app.GitHub.ID == 0 || app.Stopped() {
		return false
	}
	owner, name, ok := webhook.NamesAt(app.Repository, p.Host)
	return app.GitHubConfirmed || ok && strings.EqualFold(owner, app.GitHub.Owner) &&
		strings.EqualFold(name, app.GitHub.Name)
}

// Look compares the pull requests of a repository with what its apps know of them. Unavailable when the forge does not
// answer, or not now. What it does not show to us is left as it is.
func (p *Pulls) Look(ctx context.Context, repository string) error {
	all, err := p.DB.Apps(ctx)
	if err != nil {
		return err
	}
	apps := slices.DeleteFunc(all, func(app landfall.App) bool {
		return !p.knows(app) || strconv.FormatInt(app.GitHub.ID, 10) != repository
	})
	if len(apps) == 0 {
		return nil
	}
	open, err := p.Forge.Open(ctx, apps[0].GitHub)
	if err != nil {
		return landfall.Ignore(landfall.Ignore(err, landfall.NotFound), landfall.Forbidden)
	}
	look := pullsLook{Pulls: p, open: open, others: map[int]landfall.ForgePull{}}
	for _, app := range apps {
		if err := look.compare(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// pullsLook is one look at the pull requests of a repository.
type pullsLook struct {
	*Pulls

	open   []landfall.ForgePull
	others map[int]landfall.ForgePull // by number, as they were asked for
}

// compare makes good what was not told to an app.
func (l *pullsLook) compare(ctx context.Context, app landfall.App) error {
	known, err := l.DB.AllOpenPullRequests(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, pull := range l.open {
		missed, err := l.missed(ctx, app, known, pull)
		if err == nil && missed {
			err = l.recover(ctx, app, pull)
		}
		if err != nil {
			return err
		}
	}
	for _, one := range known {
		if slices.ContainsFunc(l.open, func(pull landfall.ForgePull) bool { return pull.Number == one.Number }) {
			continue
		}
		pull, err := l.other(ctx, app, one.Number)
		if landfall.Is(err, landfall.NotFound) {
			continue
		}
		if err == nil && pull.Closed {
			err = l.recover(ctx, app, pull)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// other returns a pull request that is not among the open ones.
func (l *pullsLook) other(ctx context.Context, app landfall.App, number int) (landfall.ForgePull, error) {
	if pull, asked := l.others[number]; asked {
		return pull, nil
	}
	pull, err := l.Forge.Pull(ctx, app.GitHub, number)
	if err == nil {
		l.others[number] = pull
	}
	return pull, err
}

// missed reports whether an open pull request is not as an app knows it. One that was there before the app counts once
// its branch was pushed.
func (l *pullsLook) missed(ctx context.Context, app landfall.App, known []store.PullRequest,
	pull landfall.ForgePull) (bool, error) {
	i := slices.IndexFunc(known, func(one store.PullRequest) bool { return one.Number == pull.Number })
	if i >= 0 {
		if known[i].Base != pull.Base {
			return true, nil
		}
		head, err := l.DB.Head(ctx, app.ID, known[i].Ref())
		return known[i].HeadSHA != pull.Commit && head.SHA != pull.Commit, landfall.Ignore(err, landfall.NotFound)
	}
	_, err := l.DB.PullRequest(ctx, app.ID, pull.Number)
	since := app.Created.Truncate(time.Second) // GitHub says whole seconds
	if err == nil || !landfall.Is(err, landfall.NotFound) || !pull.Created.Before(since) {
		return true, landfall.Ignore(err, landfall.NotFound)
	}
	fork := 0
	if pull.Fork {
		fork = pull.Number
	}
	runs, err := l.DB.RunsOfFork(ctx, app.ID, pull.Commit, fork)
	return len(runs) > 0, err
}

// recover does what a delivery would have asked for that told of a pull request as it is, unless something newer is
// known of it.
func (l *pullsLook) recover(ctx context.Context, app landfall.App, pull landfall.ForgePull) error {
	if pull.Repository.ID != app.GitHub.ID || !strings.EqualFold(pull.Repository.Owner, app.GitHub.Owner) {
		return nil // the name leads elsewhere now
	}
	told, err := toldOf(pull)
	if err != nil {
		return err
	}
	changed, run := false, ""
	err = l.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil || app.Stopped() {
			return err
		}
		newer, err := tx.PullRequestMoved(ctx, app.ID, told.Number, told.At)
		if err != nil || !newer {
			return err
		}
		receiver := WebhookReceiver{Acceptor: l.Acceptor}
		if run, err = receiver.pullRequest(ctx, tx, app, told, webhook.Event{}); err != nil {
			return err
		}
		if told.Fork && told.Labelled {
			if err := receiver.unlabel(ctx, tx, []landfall.App{app}, told.Number, ""); err != nil {
				return err
			}
		}
		changed = tx.HasChanged(app.ID)
		if run == "" {
			return nil
		}
		return tx.AppendLog(ctx, run, landfall.StepAccept, l.Now(),
			"notice: recovered: no delivery told of this pull request; it was found at the forge")
	})
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound) // the app was deleted meanwhile
	}
	l.Logger.With(app.LogAttrs()...).InfoContext(ctx, "recovered what no delivery told of a pull request", "pull_request",
		told.Number, "closed", told.Closed, "commit", told.Commit, "run", run)
	if changed {
		l.Rollout.Refresh(ctx, app)
	}
	return nil
}

// toldOf returns what a delivery would say of a pull request.
func toldOf(pull landfall.ForgePull) (told webhook.PullRequest, err error) {
	told = webhook.PullRequest{PullRequest: pull.PullRequest, Actor: pull.Author, Merged: pull.Merged, At: pull.Updated,
		Labelled: !pull.Closed && slices.Contains(pull.Labels, landfall.ApprovalLabel)}
	if pull.Closed {
		told.Actor = "forge"
	}
	if told.Head, err = landfall.ParseRefName(string(pull.Head)); err == nil {
		told.Commit, err = landfall.ParseCommitSHA(string(pull.Commit))
	}
	if err != nil {
		return told, landfall.Wrapf("accept.Pulls", landfall.Unavailable, err,
			"the forge names no commit of pull request %d", pull.Number)
	}
	return told, nil
}

// lookAt has the pull requests of the repository of a delivery compared soon, when it told of one that is open: it may
// have been closed since.
func (p *Pulls) lookAt(ctx context.Context, event webhook.Event) error {
	if p == nil || event.PullRequest == nil || event.PullRequest.Closed {
		return nil
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		tx.Enqueue(TopicPulls, strconv.FormatInt(event.Repository.ID, 10), time.Time{})
		return nil
	})
}
