package accept

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
	"landfall.dev/landfall/webhook"
)

// WebhookReceiver lets the webhook handler use an Acceptor.
type WebhookReceiver struct {
	*Acceptor
	// InstallationSecret is a secret of the hook for all repositories; empty: only that of the GitHub App counts, if one
	// is connected.
	InstallationSecret string
}

var _ webhook.Store = WebhookReceiver{}

// Secrets implements webhook.Store.
func (r WebhookReceiver) Secrets(ctx context.Context, hook string) ([]string, error) {
	if hook != "" {
		h, err := r.DB.Hook(ctx, hook)
		return []string{h.Secret}, err
	}
	app, err := r.DB.GitHubApp(ctx)
	if err != nil {
		return []string{r.InstallationSecret}, landfall.Ignore(err, landfall.NotFound)
	}
	secret, err := r.GitHub.WebhookSecret(app)
	if err != nil && r.InstallationSecret != "" { // which counts all the same
		r.Logger.ErrorContext(ctx, "deliveries to the GitHub App are refused", "error", err)
		return []string{r.InstallationSecret}, nil
	}
	return []string{r.InstallationSecret, secret.Reveal()}, err
}

// Accept implements webhook.Store.
func (r WebhookReceiver) Accept(ctx context.Context, event webhook.Event) (stored landfall.Delivery, repeat bool,
	err error) {
	packed, err := r.packer.pack(event)
	if err != nil {
		return stored, false, err
	}
	var came outcome
	event.Trace = trace.Parent(ctx) // everything in one transaction has one context
	err = r.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		repeat = false
		if err := r.checkInstallation(ctx, tx, event); err != nil {
			return err
		}
		if event.Repository.ID == 0 { // most of what GitHub sends when nobody chose the events of a hook
			stored = event.Delivery
			if recorded, err := tx.RecordDelivery(ctx, stored, event.Secret); err != nil || recorded {
				return err
			}
		}
		owner, err := ownerOf(ctx, tx, event)
		if err != nil {
			return err
		}
		known, err := knownOf(ctx, tx, event)
		if repeat = known.acted && event.ReplayedBy == ""; err != nil || repeat {
			stored = known.delivery
			return err
		}
		stored, came, repeat, err = r.judge(ctx, tx, owner, event, known)
		if err != nil || repeat {
			return err
		}
		if known.there {
			if err := tx.DeleteDelivery(ctx, stored.Hook, stored.ID); err != nil {
				return err
			}
		}
		if err := keepPayload(ctx, tx, stored, packed); err != nil {
			return err
		}
		return tx.CreateDelivery(ctx, stored, came.apps...)
	})
	if err != nil {
		return stored, repeat, r.recordFailure(ctx, event, packed, err)
	}
	if !repeat {
		crashpoint.Here("intake.stored")
		r.logAccepted(ctx, came.pushes)
		for _, app := range came.changed {
			r.Rollout.Refresh(ctx, app)
		}
	}
	return stored, repeat, nil
}

// judge does what a delivery asks for in the apps that it has not concerned yet, and returns what is to be recorded of
// it. It is a repeat when it was accepted before and there is no such app.
func (r WebhookReceiver) judge(ctx context.Context, tx *store.Tx, owner landfall.App, event webhook.Event,
	known known) (d landfall.Delivery, came outcome, repeat bool, err error) {
	d = event.Delivery
	apps, stopped, err := r.appsOf(ctx, tx, owner, event)
	if err != nil {
		return d, came, false, err
	}
	since := slices.DeleteFunc(slices.Clone(apps), func(app landfall.App) bool {
		return slices.Contains(known.apps, app.ID)
	})
	if known.acted && len(since) == 0 {
		return known.delivery, came, true, nil
	}
	if len(apps) == 0 && event.Repository.ID != 0 {
		d.Unmatched = true
		if d.Decision, err = unmatchedReason(ctx, tx, owner, event); err != nil {
			return d, came, false, err
		}
	}
	if event.ReplayedBy != "" {
		d.Decision += fmt.Sprintf(" (Replayed by %s.)", event.ReplayedBy)
	}
	if came, err = r.actAll(ctx, tx, since, event); err != nil {
		return d, came, false, err
	}
	if err := r.refuse(ctx, tx, stopped, event, &came); err != nil {
		return d, came, false, err
	}
	d.Runs, d.Decision = slices.Concat(known.delivery.Runs, came.runs), strings.TrimSpace(d.Decision+" "+came.decision)
	if len(apps) == 0 { // others get a stopped app's deliveries again once it is confirmed
		apps = stopped
	}
	for _, app := range apps {
		came.apps = append(came.apps, app.ID)
	}
	if known.asked > 0 {
		err = r.recordRecovered(ctx, tx, &d, known.asked)
	}
	return d, came, false, err
}

// known is what is recorded of a delivery that comes again.
type known struct {
	there    bool              // it came before
	acted    bool              // and was accepted: it was for an app, or for nobody at all
	asked    int               // how often the forge was asked to deliver it again
	delivery landfall.Delivery // set when it was accepted
	apps     []string          // ids of those for which it was
}

// knownOf returns what is recorded of an event's delivery.
func knownOf(ctx context.Context, tx *store.Tx, event webhook.Event) (k known, err error) {
	d, err := tx.Delivery(ctx, event.Delivery.Hook, event.Delivery.ID)
	if err != nil {
		return k, landfall.Ignore(err, landfall.NotFound)
	}
	k.there, k.acted, k.asked = true, !d.Unmatched, d.Asked
	if d.Unmatched {
		return k, nil
	}
	k.delivery = d
	k.apps, err = tx.AppsOfDelivery(ctx, d)
	return k, err
}

// outcome is the result of a delivery.
type outcome struct {
	apps    []string // ids of those that it concerns, also of those in which nothing is to be done any more
	runs    []string
	pushes  []acceptedPush
	changed []landfall.App // apps that gateways must read again

	decision string // follows the event's own; may be empty
}

// actAll does what a delivery asks for, in each app that it concerns.
func (r WebhookReceiver) actAll(ctx context.Context, tx *store.Tx, apps []landfall.App,
	event webhook.Event) (outcome, error) {
	var came outcome
	for _, app := range apps {
		run, err := r.act(ctx, tx, app, event)
		if err != nil {
			return outcome{}, err
		}
		if run != "" {
			came.runs = append(came.runs, run)
		}
		if push, ok := pushOf(event); ok {
			came.pushes = append(came.pushes, acceptedPush{app, push, run})
		}
	}
	if pull := event.PullRequest; pull != nil && pull.Fork && pull.Labelled {
		if err := r.unlabel(ctx, tx, apps, pull.Number, event.Delivery.ID); err != nil {
			return outcome{}, err
		}
	}
	var err error
	switch {
	case event.Command != nil:
		command := *event.Command
		command.Delivery = event.Delivery.ID
		came.decision, err = r.queueCommand(ctx, tx, apps, command)
	case event.CommentChange != nil:
		came.decision, err = r.restoreComment(ctx, tx, apps, *event.CommentChange)
	case event.RepositoryChange != nil:
		came.decision, err = r.followRepository(ctx, tx, apps, *event.RepositoryChange)
	}
	for _, app := range apps {
		if tx.HasChanged(app.ID) {
			came.changed = append(came.changed, app)
		}
	}
	return came, err
}

// appsOf returns the apps on which a delivery may act, with the repository's identity bound to them. When its hook
// belongs to an app, that is the only one.
func (r WebhookReceiver) appsOf(ctx context.Context, tx *store.Tx, owner landfall.App,
	event webhook.Event) (apps, stopped []landfall.App, err error) {
	if event.Repository.ID == 0 {
		return nil, nil, nil
	}
	candidates := []landfall.App{owner}
	if event.Delivery.Hook == "" {
		if candidates, err = tx.Apps(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, app := range candidates {
		shared := event.Delivery.Hook == ""
		if !matchesRepository(app, event.Repository, shared) {
			continue
		}
		if stays, err := followTransfer(ctx, tx, &app, event.Repository); err != nil || !stays {
			if err != nil {
				return nil, nil, err
			}
			stopped = append(stopped, app)
			continue
		}
		bound := landfall.GitHubRepository{ID: event.Repository.ID, Owner: event.Repository.Owner,
			Name: event.Repository.Name}
		renames := app.GitHub.ID == 0 || shared // the hook of one repository cannot send reports to another one
		if (app.GitHub != bound || !app.GitHubConfirmed && shared) && renames {
			if address := renamed(app.Repository, app.GitHub, bound); event.Repository.Matches(address) {
				app.Repository = address
			}
			app.GitHub, app.GitHubConfirmed = bound, app.GitHubConfirmed || shared
			if err := tx.UpdateApp(ctx, app); err != nil {
				return nil, nil, err
			}
		}
		apps = append(apps, app)
	}
	return apps, stopped, nil
}

// unmatchedReason says why a delivery that names a repository acts on no app.
func unmatchedReason(ctx context.Context, tx *store.Tx, app landfall.App, event webhook.Event) (string, error) {
	named := landfall.GitHubRepository{ID: event.Repository.ID, Owner: event.Repository.Owner,
		Name: event.Repository.Name}.Title()
	switch {
	case event.Delivery.Hook == "":
		apps, err := tx.Apps(ctx)
		for _, app := range apps {
			if app.Deleted.IsZero() && app.GitHub.ID == event.Repository.ID && app.Stopped() {
				return Stopped(app), nil
			}
			if app.Deleted.IsZero() && app.GitHub.ID == event.Repository.ID {
				return fmt.Sprintf("No app has the repository %s. The app %q has this id, which this hook has not confirmed: if "+
					"the repository was "+
					"renamed, or moved, let it call the app's own hook (landfall app hook %s).", named, app.Name, app.Name), nil
			}
		}
		return fmt.Sprintf("No app has the repository %s.", named), err
	case !app.Deleted.IsZero():
		return fmt.Sprintf("The hook belongs to the app %q, which was deleted.", app.Name), nil
	}
	app, err := tx.App(ctx, app.ID)
	if err != nil || app.Stopped() {
		return Stopped(app), err
	}
	own := app.Repository
	if app.GitHub.ID != 0 {
		own = app.GitHub.Title()
	}
	return fmt.Sprintf("The hook belongs to the app %q, whose repository is %s, not %s.", app.Name, own, named), nil
}

// ownerOf returns the app for which a delivery's hook was made. There is none for the installation's hook, and for a
// delivery that names no repository, which acts on no app. Unauthorized when the hook is gone, or has another secret
// now than the one with which the delivery was verified.
func ownerOf(ctx context.Context, tx *store.Tx, event webhook.Event) (landfall.App, error) {
	if event.Delivery.Hook == "" {
		return landfall.App{}, nil
	}
	h, err := tx.Hook(ctx, event.Delivery.Hook)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return landfall.App{}, err
	}
	if err != nil || !sameSecret(h.Secret, event.Secret) {
		return landfall.App{}, landfall.Wrapf("accept.Accept", landfall.Unauthorized, err,
			"the hook has another secret than before")
	}
	if event.Repository.ID == 0 {
		return landfall.App{}, nil
	}
	return tx.App(ctx, h.App)
}

// matchesRepository reports whether a repository of a payload belongs to an app: by its numeric id once that is bound.
// An id that only the app's own hook has named is not enough for a delivery to the shared hook, unless the repository's
// address is the app's. Otherwise an app could hear about any repository.
func matchesRepository(app landfall.App, repository webhook.Repository, shared bool) bool {
	switch {
	case !app.Deleted.IsZero() || app.Repository == "" || app.GitHub.ID != 0 && app.GitHub.ID != repository.ID:
		return false
	case app.GitHub.ID == 0 || shared && !app.GitHubConfirmed:
		return repository.Matches(app.Repository)
	}
	return true
}

// pushOf returns the push that an event reports, for the log; false when the event reports none.
func pushOf(event webhook.Event) (landfall.Push, bool) {
	switch pull := event.PullRequest; {
	case event.Push != nil:
		push := *event.Push
		push.Delivery = event.Delivery.ID
		return push, true
	case pull != nil && !pull.Closed:
		ref := pull.Head
		if pull.Fork {
			ref = landfall.PullRef(pull.Number)
		}
		return landfall.Push{Source: landfall.FromWebhook, Ref: ref, After: pull.Commit, Delivery: event.Delivery.ID},
			true
	}
	return landfall.Push{}, false
}

// act does what an event asks for, in one app.
func (r WebhookReceiver) act(ctx context.Context, tx *store.Tx, app landfall.App, event webhook.Event) (run string,
	err error) {
	if event.PullRequest != nil {
		return r.pullRequest(ctx, tx, app, *event.PullRequest, event)
	}
	if event.Push == nil {
		return "", nil
	}
	push := *event.Push
	push.App, push.Delivery, push.Trace = app.ID, event.Delivery.ID, event.Trace
	return r.Acceptor.Accept(ctx, tx, push)
}

// lateRun returns the run of the commit that a late event of a pull request names; empty when there is none.
func lateRun(ctx context.Context, tx *store.Tx, app landfall.App, pull webhook.PullRequest, err error) (string, error) {
	if err != nil || pull.Closed {
		return "", err
	}
	fork := 0
	if pull.Fork {
		fork = pull.Number
	}
	earlier, err := tx.RunsOfFork(ctx, app.ID, pull.Commit, fork)
	if err != nil || len(earlier) == 0 {
		return "", err
	}
	return earlier[0].ID, nil
}

// pullRequest records a pull request, and gives its head a release. When the head is in another repository, nothing of
// it is fetched, built or run before a person has approved it.
func (r WebhookReceiver) pullRequest(ctx context.Context, tx *store.Tx, app landfall.App, pull webhook.PullRequest,
	event webhook.Event) (string, error) {
	now := r.Now()
	if newer, err := tx.PullRequestMoved(ctx, app.ID, pull.Number, pull.At); err != nil || !newer {
		return lateRun(ctx, tx, app, pull, err)
	}
	err := tx.PutPullRequest(ctx, app.ID, store.PullRequest{
		Number: pull.Number, Base: pull.Base, HeadRef: pull.Head, HeadSHA: pull.Commit, Fork: pull.Fork, Open: !pull.Closed},
		now)
	if err == nil {
		err = tx.SetPullRequestMoved(ctx, app.ID, pull.Number, pull.At, pull.Merged)
	}
	if err != nil {
		return "", err
	}
	commented, err := r.Runs.CommentsEnabled(ctx, tx, app)
	if err != nil {
		return "", err
	}
	if commented {
		if err := tx.WantComment(ctx, app.GitHub, pull.Number, now); err != nil {
			return "", err
		}
	}
	if pull.Fork {
		return r.fork(ctx, tx, app, pull, event)
	}
	by := deploy.Mover{Actor: pull.Actor, Reason: fmt.Sprintf("pull request %d", pull.Number), At: now}
	branch, _ := pull.Head.Branch()
	if err := tx.WantDeployment(ctx, app.ID, deploy.BranchPointer(branch), now); err != nil {
		return "", err
	}
	if pull.Closed {
		return "", r.dropTag(ctx, tx, app, deploy.PullTag(pull.Number), by, func(r landfall.Release) bool {
			return r.Branch == branch && branch != app.Branch
		})
	}
	return r.Acceptor.Accept(ctx, tx, landfall.Push{
		App: app.ID, Source: landfall.FromWebhook, Ref: pull.Head, After: pull.Commit, Actor: pull.Actor,
		PullRequest: &landfall.PullRequest{Number: pull.Number, Base: pull.Base}, Delivery: event.Delivery.ID,
		Trace: event.Trace,
	})
}
