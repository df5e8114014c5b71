package api

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

func (a *api) setCredentials(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Credentials
}) (*body[client.App], error) {
	if accept.ReadsBySSH(app) {
		return nil, landfall.Errorf("api", landfall.Invalid,
			"the repository of %[1]s is read by ssh, with a deploy key (landfall app key %[1]s), and needs no token", app.Name)
	}
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
	if err != nil {
		return nil, err
	}
	return answer(a.withCredentials(ctx, app, a.appOf(app)))
}

func (a *api) setDeployKey(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.NewDeployKey
}) (*body[client.App], error) {
	return a.changeCredentials(ctx, app, func(tx *store.Tx) error {
		return a.Acceptor.SetKey(ctx, tx, app, secret.Text(in.Body.PrivateKey))
	})
}

func (a *api) dropDeployKey(ctx context.Context, app landfall.App, _ *AppPath) (*body[client.App], error) {
	return a.changeCredentials(ctx, app, func(tx *store.Tx) error { return a.Acceptor.DropKey(ctx, tx, app) })
}

func (a *api) setHostKeys(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.HostKeys
}) (*body[client.App], error) {
	return a.changeCredentials(ctx, app, func(tx *store.Tx) error {
		return a.Acceptor.SetHostKeys(ctx, tx, app, in.Body.HostKeys)
	})
}

// withCredentials is showCredentials for an app as it is shown.
func (a *api) withCredentials(ctx context.Context, app landfall.App, shown client.App) (client.App, error) {
	err := a.showCredentials(ctx, app, &shown)
	return shown, err
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
	if accept.ReadsBySSH(app) {
		shown.DeployKey = &client.DeployKey{PublicKey: c.PublicKey, Fingerprint: c.Fingerprint, Set: c.KeySet,
			Page: accept.KeyPage(app), HostKeys: accept.HostFingerprints(app, c.HostKeys)}
	}
	problem, err := a.gitHubProblem(ctx, app)
	if problem != "" {
		shown.Problems = append(shown.Problems, problem)
	}
	return err
}
