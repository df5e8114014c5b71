package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

func (a *api) registerSecrets(h huma.API) {
	registerOn(a, h, reading("list-secrets", "/apps/{app}/secrets", "An app's secrets, without their values"),
		a.listSecrets)
	registerOn(a, h, deploying("set-secret", http.MethodPut, "/apps/{app}/secrets/{secret}",
		"Give a secret a value, and release the app with it"), a.setSecret)
	registerOn(a, h, deploying("revoke-secret", http.MethodPost, "/apps/{app}/secrets/{secret}/revoke",
		"Take the value of a version away for good"), a.revokeSecret)
	registerOn(a, h, deploying("delete-secret", http.MethodDelete, "/apps/{app}/secrets/{secret}",
		"Delete a secret that no release has"), a.deleteSecret)
}

// SecretPath names a secret.
type SecretPath struct {
	AppPath
	Secret string `path:"secret" doc:"name of the secret"`
}

func (a *api) listSecrets(ctx context.Context, app landfall.App, _ *AppPath) (*body[page[client.Secret]], error) {
	owned, err := a.DB.UnitsOf(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	users, err := a.secretUsers(ctx, app)
	if err != nil {
		return nil, err
	}
	p := page[client.Secret]{Items: []client.Secret{}}
	for _, row := range owned {
		if row.Unit.Kind != landfall.SecretUnit {
			continue
		}
		versions, err := a.DB.Versions(ctx, row.ID, true)
		if err != nil {
			return nil, err
		}
		if len(versions) == 0 {
			continue
		}
		live, err := units{a, landfall.SecretUnit}.number(a.DB.LiveNumber(ctx, row.ID))
		if err != nil {
			return nil, err
		}
		s := client.Secret{Name: row.Unit.Name, Variable: secret.Variable(row.Unit.Name), Functions: users[row.Unit.Name]}
		for _, v := range versions {
			c, err := secretVersion(v, live)
			if err != nil {
				return nil, err
			}
			s.Versions = append(s.Versions, c)
		}
		p.Items = append(p.Items, s)
	}
	return answer(p, nil)
}

// secretUsers returns the functions that name each secret, as production has them.
func (a *api) secretUsers(ctx context.Context, app landfall.App) (map[string][]string, error) {
	users := map[string][]string{}
	inForce, err := a.inForce(ctx, app)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(inForce, func(u store.GroupUnit) bool { return u.Unit.Kind == landfall.SecretUnit }) {
		return users, nil
	}
	for _, u := range inForce {
		if u.Unit.Kind != landfall.FunctionUnit {
			continue
		}
		v, err := a.DB.VersionByNumber(ctx, u.UnitID, u.Number)
		if err != nil {
			if landfall.Is(err, landfall.NotFound) {
				continue
			}
			return nil, err
		}
		f, err := spec.ReadFunctionVersion(v.Spec)
		if err != nil {
			return nil, err
		}
		for _, s := range f.Secrets {
			users[s.Name] = append(users[s.Name], u.Unit.Name)
		}
	}
	return users, nil
}

func secretVersion(v landfall.Version, live int64) (client.SecretVersion, error) {
	content, err := secret.ReadContent(v.Content)
	given := secret.ReadSpec(v.Spec)
	return client.SecretVersion{
		Number: v.Number, UID: v.UID, Created: v.Created, Actor: content.Actor, Preview: given.Preview, Build: given.Build,
		Live: v.Number == live, Revoked: content.Revoked, RevokedBy: content.RevokedBy,
	}, err
}

func (a *api) setSecret(ctx context.Context, app landfall.App, in *struct {
	SecretPath
	Body client.NewSecret
}) (*body[client.SecretSet], error) {
	set, err := a.Editor.SetSecret(ctx, app, deploy.NewSecret{
		Name: in.Secret, Value: secret.Text(in.Body.Value), Preview: in.Body.Preview, Build: in.Body.Build,
		NoRelease: in.Body.NoRelease, Actor: caller(ctx).Name})
	if err != nil {
		return nil, err
	}
	c := client.SecretSet{Name: in.Secret, Made: set.Created, Release: set.Release, Note: set.Note,
		Hidden: len(in.Body.Value) >= secret.Shortest}
	if c.SecretVersion, err = secretVersion(set.Version, 0); err != nil {
		return nil, err
	}
	if set.Release != "" {
		c.URL = a.ReleaseURL(app.Name, set.Release)
		if app, err = a.DB.App(ctx, app.ID); err != nil {
			return nil, err
		}
		c.Live = app.Live == set.Release
	}
	return answer(c, nil)
}

func (a *api) revokeSecret(ctx context.Context, app landfall.App, in *struct {
	SecretPath
	Body struct {
		Version string `json:"version" minLength:"1" doc:"number, uid, latest or live"`
	}
}) (*body[client.SecretVersion], error) {
	v, err := a.Editor.RevokeSecret(ctx, app, in.Secret, in.Body.Version, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	return answer(secretVersion(v, 0))
}

func (a *api) deleteSecret(ctx context.Context, app landfall.App, in *SecretPath) (*struct{}, error) {
	return nil, a.Editor.DeleteSecret(ctx, app, in.Secret)
}
