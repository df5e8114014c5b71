package api

import (
	"context"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
)

func (a *api) listGitHubRepositories(ctx context.Context, in *struct {
	Filter string `query:"filter" maxLength:"140" doc:"a part of owner/name, in any case"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}) (*body[client.GitHubRepositories], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	listing, err := a.GitHub.Repositories(ctx)
	if err != nil {
		return nil, err
	}
	connected, err := a.DB.GitHubApp(ctx)
	if err != nil {
		return nil, err
	}
	apps, err := a.DB.Apps(ctx)
	if err != nil {
		return nil, err
	}
	shown := client.GitHubRepositories{Items: []client.GitHubRepository{}, More: listing.More,
		Problems: append([]string{}, listing.Problems...)}
	for _, r := range listing.Repositories {
		if !strings.Contains(strings.ToLower(r.Name), strings.ToLower(strings.TrimSpace(in.Filter))) {
			continue
		}
		shown.Found++
		if len(shown.Items) == in.Limit {
			continue
		}
		one := client.GitHubRepository{ID: r.ID, Name: r.Name, Private: r.Private, Archived: r.Archived, Apps: []string{}}
		for _, app := range apps {
			its := app.GitHub.ID == r.ID ||
				app.GitHub.ID == 0 && connect.Named(connected, app.Repository) == strings.ToLower(r.Name)
			if its && app.Deleted.IsZero() {
				one.Apps = append(one.Apps, app.Name)
			}
		}
		shown.Items = append(shown.Items, one)
	}
	return answer(shown, nil)
}
