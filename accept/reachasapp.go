package accept

import (
	"context"
	"crypto/rand"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// GitHubPlace is where a repository is, as GitHub said to the GitHub App.
type GitHubPlace struct {
	Repository landfall.GitHubRepository
	Address    string // to clone it
}

// ReachAsApp lets the repository of an app be reached as the GitHub App from now on, in the caller's transaction, and
// returns the app. The caller has checked that the place is that of the app's own repository. The token, the deploy key
// and the webhook of the app are not used any more: a push counts once, by the App's webhook. It may be repeated.
func (acceptor *Acceptor) ReachAsApp(ctx context.Context, tx *store.Tx, app landfall.App,
	to GitHubPlace) (landfall.App, error) {
	hook, err := tx.HookOf(ctx, app.ID)
	if err != nil {
		return app, err
	}
	app.Repository, app.GitHub, app.GitHubConfirmed = to.Address, to.Repository, true
	if err := tx.UpdateApp(ctx, app); err != nil {
		return app, err
	}
	if err := tx.SetCredentials(ctx, app.ID, store.Credentials{App: true}); err != nil {
		return app, err
	}
	acceptor.Hooks.Enqueue(tx, app.ID) // which takes away the webhook that we made at the forge
	return app, tx.SetHookSecret(ctx, hook.ID, rand.Text())
}
