package api

import (
	"context"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/store"
)

// setRepository confirms that an app follows its repository, which was transferred or deleted, or lets its repository
// be reached as the GitHub App.
func (a *api) setRepository(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Repository
}) (*body[client.App], error) {
	confirmed := false // by somebody else, meanwhile
	change := func(ctx context.Context, tx *store.Tx, now landfall.App) (landfall.App, error) {
		confirmed = !now.Stopped()
		return a.Acceptor.ConfirmTransfer(ctx, tx, now, in.Body.Repository)
	}
	if err := a.seesMoved(ctx, app, in.Body.Repository); err != nil {
		return nil, err
	}
	if !app.Stopped() {
		to, err := a.sameRepository(ctx, app, in.Body.Repository)
		if err != nil {
			return nil, err
		}
		change = func(ctx context.Context, tx *store.Tx, now landfall.App) (landfall.App, error) {
			if now.Repository != app.Repository || now.GitHub != app.GitHub || now.Stopped() {
				return now, landfall.Errorf("api", landfall.Conflict,
					"the repository of %s changed meanwhile: nothing was done; look at it, and say it again", app.Name)
			}
			return a.Acceptor.ReachAsApp(ctx, tx, now, to)
		}
	}
	var changed landfall.App
	err := a.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) {
		if changed, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		if changed, err = change(ctx, tx, changed); err == nil {
			tx.Enqueue(accept.TopicCatchUp, app.ID, time.Time{}) // which runs what was pushed meanwhile
		}
		return err
	})
	if err != nil && confirmed {
		return a.setRepository(ctx, changed, in)
	}
	if err != nil {
		return nil, err
	}
	return answer(a.appAtGitHub(ctx, changed))
}

// seesMoved checks that an app whose repository was transferred, and that is reached as the GitHub App, can be so where
// the repository is now.
func (a *api) seesMoved(ctx context.Context, app landfall.App, name string) error {
	kept, err := a.DB.Credentials(ctx, app.ID)
	if err != nil || !kept.App || app.MovedTo == "" || !strings.EqualFold(app.MovedTo, name) {
		return err
	}
	_, _, err = a.GitHub.Repository(ctx, name)
	return err
}

// sameRepository returns the repository that a name (owner/name) leads to, which the GitHub App sees, once it is
// certain that it is an app's own. Conflict when it is another one.
func (a *api) sameRepository(ctx context.Context, app landfall.App, name string) (to accept.GitHubPlace, err error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return to, err // a token bound to less could fetch whatever the App sees
	}
	switch {
	case !connect.IsName(name):
		return to, landfall.Errorf("api", landfall.Invalid, "%q is no repository at GitHub: write it as OWNER/NAME", name)
	case app.Repository == "":
		return to, landfall.Errorf("api", landfall.Conflict, "the repository of %s is the built-in remote, and stays so: "+
			"make another app for %s (landfall app create NAME --repo %[2]s)", app.Name, name)
	}
	if to.Repository, to.Address, err = a.GitHub.Repository(ctx, name); err != nil {
		return to, err
	}
	connected, err := a.DB.GitHubApp(ctx)
	if err != nil {
		return to, err
	}
	known, itsName := app.Repository, connect.Named(connected, app.Repository)
	if app.GitHub.ID != 0 {
		known = app.GitHub.Title()
	}
	if app.GitHub.ID == to.Repository.ID ||
		app.GitHub.ID == 0 && itsName != "" && itsName == connect.Named(connected, to.Address) {
		return to, nil
	}
	return to, landfall.Errorf("api", landfall.Conflict, "the repository of %s is %s, and %s is another one: an app "+
		"keeps its repository; make another app for another one (landfall app create NAME --repo OWNER/NAME)", app.Name,
		known, to.Repository.Title())
}
