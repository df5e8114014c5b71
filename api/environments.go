package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
)

func (a *api) registerEnvironments(h huma.API) {
	register(h, reading("list-environments", "/environments", "The environments in force"), a.environments)
	registerOn(a, h, deploying("delete-environment", http.MethodDelete, "/environments/{name}",
		"Delete an environment, unless something holds it").answering(http.StatusNoContent), a.deleteEnvironment)
}

func (a *api) environments(ctx context.Context, in *struct {
	Paging
	Namespace string `query:"namespace" default:"default"`
}) (*body[page[client.Unit]], error) {
	rows, err := a.DB.Environments(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	return paged(in.Paging, rows, func(row store.Unit) string { return row.Unit.Name + " " + row.App },
		func(row store.Unit) (client.Unit, bool, error) {
			if !caller(ctx).Allows(landfall.ScopeRead, row.App) {
				return client.Unit{}, false, nil
			}
			return units{a, landfall.EnvironmentUnit}.unitOf(ctx, row)
		})
}

// EnvironmentPath names an environment of an app.
type EnvironmentPath struct {
	Name      string `path:"name"`
	Namespace string `query:"namespace" default:"default"`
	App       string `query:"app" doc:"whose it is; where several apps of the namespace have one of the name"`
}

// find returns the row of an environment. Invalid when several apps have one of the name, and none is said.
func (p EnvironmentPath) find(ctx context.Context, a *api, scope landfall.Scope) (found store.Unit, err error) {
	apps, err := a.appsIn(ctx, p.Namespace)
	if err != nil {
		return found, err
	}
	id := landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: p.Name}
	var of []string
	for _, app := range apps {
		row, err := a.DB.Unit(ctx, app, id)
		if err == nil && (p.App == "" || p.App == app.Name) {
			var there bool
			if _, there, err = a.DB.HasVersions(ctx, row.ID); there {
				found, of = row, append(of, app.Name)
			}
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return found, err
		}
	}
	switch {
	case len(of) == 0 && p.App != "":
		return found, landfall.Errorf("api", landfall.NotFound, "the app %q has no %s in the namespace %q", p.App, id,
			p.Namespace)
	case len(of) == 0:
		return found, landfall.Errorf("api", landfall.NotFound, "there is no %s in the namespace %q", id, p.Namespace)
	case len(of) > 1:
		return found, landfall.Errorf("api", landfall.Invalid, "several apps have an %s: %s; say which (app)", id,
			strings.Join(of, ", "))
	case !caller(ctx).Allows(scope, found.App):
		return found, forbidden(scope, id.String())
	}
	return found, nil
}

func (a *api) deleteEnvironment(ctx context.Context, row store.Unit, _ *EnvironmentPath) (*struct{}, error) {
	a.flush(ctx) // executions that run hold a version, and those that are over do not
	return nil, a.Editor.DeleteEnvironment(ctx, row)
}
