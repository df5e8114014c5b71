package accept

import (
	"context"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
	"landfall.dev/landfall/webhook"
)

// Intake is an Acceptor as the webhook's door knows it.
type Intake struct {
	*Acceptor
	// InstallationSecret is the secret of the hook that belongs to no single repository; empty: it is refused.
	InstallationSecret string
}

var _ webhook.Store = Intake{}

// Secret implements webhook.Store.
func (in Intake) Secret(ctx context.Context, hook string) (string, error) {
	if hook == "" {
		return in.InstallationSecret, nil
	}
	h, err := in.DB.Hook(ctx, hook)
	return h.Secret, err
}

// Accept implements webhook.Store.
func (in Intake) Accept(ctx context.Context, intake webhook.Intake) (stored landfall.Delivery, repeat bool, err error) {
	var came outcome
	intake.Trace = trace.Parent(ctx) // what is stored together has one context
	err = in.DB.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error {
		repeat = false
		if intake.Repository.ID == 0 { // most of what GitHub sends, when a hook is not told what to send
			stored = intake.Delivery
			if recorded, err := tx.RecordDelivery(ctx, stored, intake.Secret); err != nil || recorded {
				return err
			}
		}
		owner, err := ownerOf(ctx, tx, intake)
		if err != nil {
			return err
		}
		stored, err = tx.Delivery(ctx, intake.Delivery.Hook, intake.Delivery.ID)
		switch {
		case err == nil && !stored.Unmatched:
			repeat = true
			return nil
		case err == nil:
			err = tx.DeleteDelivery(ctx, stored.Hook, stored.ID)
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
		stored = intake.Delivery
		apps, err := in.appsOf(ctx, tx, owner, intake)
		if err != nil {
			return err
		}
		if len(apps) == 0 && intake.Repository.ID != 0 {
			stored.Unmatched = true
			if stored.Decision, err = unconcerned(ctx, tx, owner, intake); err != nil {
				return err
			}
		}
		if came, err = in.actAll(ctx, tx, apps, intake); err != nil {
			return err
		}
		stored.Runs = came.runs
		ids := make([]string, len(apps))
		for i, app := range apps {
			ids[i] = app.ID
		}
		return tx.CreateDelivery(ctx, stored, ids...)
	})
	if err == nil && !repeat {
		crashpoint.Here("intake.stored")
		in.logArrivals(ctx, came.pushes)
		for _, app := range came.changed {
			in.Rollout.Refresh(ctx, app)
		}
	}
	return stored, repeat, err
}

// outcome is what came of a delivery.
type outcome struct {
	runs    []string
	pushes  []arrival
	changed []landfall.App // those that gateways have to read again
}

// actAll does what a delivery asks for in each app that it concerns.
func (in Intake) actAll(ctx context.Context, tx *store.Tx, apps []landfall.App, intake webhook.Intake) (outcome, error) {
	var came outcome
	for _, app := range apps {
		run, err := in.act(ctx, tx, app, intake)
		if err != nil {
			return outcome{}, err
		}
		if run != "" {
			came.runs = append(came.runs, run)
		}
		if push, ok := pushOf(intake); ok {
			came.pushes = append(came.pushes, arrival{app, push, run})
		}
		if tx.HasChanged(app.ID) {
			came.changed = append(came.changed, app)
		}
	}
	return came, nil
}

// appsOf returns the apps that a delivery may act on, with the repository's identity bound to them: the owner of its hook alone,
// when it has one.
func (in Intake) appsOf(ctx context.Context, tx *store.Tx, owner landfall.App, intake webhook.Intake) ([]landfall.App, error) {
	if intake.Repository.ID == 0 {
		return nil, nil
	}
	candidates := []landfall.App{owner}
	if intake.Delivery.Hook == "" {
		var err error
		if candidates, err = tx.Apps(ctx); err != nil {
			return nil, err
		}
	}
	var apps []landfall.App
	for _, app := range candidates {
		shared := intake.Delivery.Hook == ""
		if !names(app, intake.Repository, shared) {
			continue
		}
		bound := landfall.GitHubRepository{ID: intake.Repository.ID, Owner: intake.Repository.Owner, Name: intake.Repository.Name}
		renames := app.GitHub.ID == 0 || shared // one repository's hook cannot send reports to another one
		if (app.GitHub != bound || !app.GitHubConfirmed && shared) && renames {
			app.GitHub, app.GitHubConfirmed = bound, app.GitHubConfirmed || shared
			if err := tx.UpdateApp(ctx, app); err != nil {
				return nil, err
			}
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// unconcerned says why a delivery that names a repository acts on no app.
func unconcerned(ctx context.Context, tx *store.Tx, app landfall.App, intake webhook.Intake) (string, error) {
	named := landfall.GitHubRepository{ID: intake.Repository.ID, Owner: intake.Repository.Owner, Name: intake.Repository.Name}.Title()
	switch {
	case intake.Delivery.Hook == "":
		apps, err := tx.Apps(ctx)
		for _, app := range apps {
			if app.Deleted.IsZero() && app.GitHub.ID == intake.Repository.ID {
				return fmt.Sprintf("No app has the repository %s. The app %q has this id, which this hook has not confirmed: if the repository was "+
					"renamed, or moved, let it call the app's own hook (landfall app hook %s).", named, app.Name, app.Name), nil
			}
		}
		return fmt.Sprintf("No app has the repository %s.", named), err
	case !app.Deleted.IsZero():
		return fmt.Sprintf("The hook belongs to the app %q, which was deleted.", app.Name), nil
	}
	own := app.Repository
	if app.GitHub.ID != 0 {
		own = app.GitHub.Title()
	}
	return fmt.Sprintf("The hook belongs to the app %q, whose repository is %s, not %s.", app.Name, own, named), nil
}

// ownerOf returns the app that a delivery's hook was made for; none for the installation's hook, and for a delivery that names no
// repository, which acts on no app. Unauthorized when the hook has another secret by now than the one that the delivery was
// verified with, or is gone.
func ownerOf(ctx context.Context, tx *store.Tx, intake webhook.Intake) (landfall.App, error) {
	if intake.Delivery.Hook == "" {
		return landfall.App{}, nil
	}
	h, err := tx.Hook(ctx, intake.Delivery.Hook)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return landfall.App{}, err
	}
	if err != nil || h.Secret != intake.Secret {
		return landfall.App{}, &landfall.Error{
			Op: "accept.Accept", Kind: landfall.Unauthorized, Err: err, Message: "the hook has another secret than before"}
	}
	if intake.Repository.ID == 0 {
		return landfall.App{}, nil
	}
	return tx.App(ctx, h.App)
}

// names reports whether a repository of a payload is an app's: by its numeric id once that is bound. An id that only the app's own hook
// has named tells nothing of what came to the shared one, unless the repository's address is the app's: else an app could hear of any
// repository.
func names(app landfall.App, r webhook.Repository, shared bool) bool {
	switch {
	case !app.Deleted.IsZero() || app.Repository == "" || app.GitHub.ID != 0 && app.GitHub.ID != r.ID:
		return false
	case app.GitHub.ID == 0 || shared && !app.GitHubConfirmed:
		return r.Matches(app.Repository)
	}
	return true
}

// pushOf returns what an event says was pushed, as the log names it; false when it says nothing of that.
func pushOf(intake webhook.Intake) (landfall.Push, bool) {
	switch pull := intake.PullRequest; {
	case intake.Push != nil:
		push := *intake.Push
		push.Delivery = intake.Delivery.ID
		return push, true
	case pull != nil && !pull.Fork && !pull.Closed:
		return landfall.Push{Source: landfall.FromWebhook, Ref: pull.Head, After: pull.Commit, Delivery: intake.Delivery.ID}, true
	}
	return landfall.Push{}, false
}

// act does for one app what an event asks for.
func (in Intake) act(ctx context.Context, tx *store.Tx, app landfall.App, intake webhook.Intake) (run string, err error) {
	if intake.PullRequest != nil {
		return in.pullRequest(ctx, tx, app, *intake.PullRequest, intake)
	}
	if intake.Push == nil {
		return "", nil
	}
	push := *intake.Push
	push.App, push.Delivery, push.Trace = app.ID, intake.Delivery.ID, intake.Trace
	return in.Acceptor.Accept(ctx, tx, push)
}

// pullRequest records a pull request, and gives its head a release unless the head is another repository's: nothing of
// that is fetched, built or run.
func (in Intake) pullRequest(ctx context.Context, tx *store.Tx, app landfall.App, pull webhook.PullRequest, intake webhook.Intake) (string, error) {
	now := in.Now()
	err := tx.PutPullRequest(ctx, app.ID, store.PullRequest{
		Number: pull.Number, Base: pull.Base, HeadRef: pull.Head, HeadSHA: pull.Commit, Fork: pull.Fork, Open: !pull.Closed}, now)
	if err != nil || pull.Fork {
		return "", err
	}
	if in.Runs.CommentsEnabled(app) {
		if err := tx.WantComment(ctx, app.GitHub, pull.Number, now); err != nil {
			return "", err
		}
	}
	by := deploy.Mover{Actor: pull.Actor, Reason: fmt.Sprintf("pull request %d", pull.Number), At: now}
	if pull.Closed {
		branch, _ := pull.Head.Branch()
		return "", in.dropTag(ctx, tx, app, deploy.PullTag(pull.Number), by, func(r landfall.Release) bool { return r.Branch == branch && branch != app.Branch })
	}
	return in.Acceptor.Accept(ctx, tx, landfall.Push{
		App: app.ID, Source: landfall.FromWebhook, Ref: pull.Head, After: pull.Commit, Actor: pull.Actor,
		PullRequest: &landfall.PullRequest{Number: pull.Number, Base: pull.Base}, Delivery: intake.Delivery.ID, Trace: intake.Trace,
	})
}
