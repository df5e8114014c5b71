package api

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

func (a *api) setCredentials(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Credentials
}) (*body[client.App], error) {
	return a.changeCredentials(ctx, app, func(tx *store.Tx) error {
		return a.Acceptor.SetToken(ctx, tx, app.ID, in.Body.Username, secret.Text(in.Body.Password))
	})
}

func (a *api) dropCredentials(ctx context.Context, app landfall.App, _ *AppPath) (*body[client.App], error) {
	return a.changeCredentials(ctx, app, func(tx *store.Tx) error {
		return a.Acceptor.SetToken(ctx, tx, app.ID, new(string), "")
	})
}

// changeCredentials changes how an app's repository is reached. Invalid for the built-in remote.
func (a *api) changeCredentials(ctx context.Context, app landfall.App,
	change func(*store.Tx) error) (*body[client.App], error) {
	if app.Repository == "" {
		return nil, landfall.Errorf("api", landfall.Invalid,
			"the repository of %s is the built-in remote, which takes the token of this server", app.Name)
	}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		return change(tx)
	})
	c := a.appOf(app)
	if err == nil {
		err = a.showCredentials(ctx, app, &c)
	}
	return answer(c, err)
}

// showCredentials adds to what is shown of an app what may be shown of how its repository is reached.
func (a *api) showCredentials(ctx context.Context, app landfall.App, shown *client.App) error {
	c, err := a.DB.Credentials(ctx, app.ID)
	if err != nil {
		return err
	}
	shown.TokenSet = c.TokenSet
	if c.App { // which hears of the app's pushes
		shown.GitHubApp, shown.Hook = c.TokenSet.IsZero(), nil
	}
	problem, err := a.gitHubProblem(ctx, app)
	if problem != "" {
		shown.Problems = append(shown.Problems, problem)
	}
	return err
}
