package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (a *api) registerTriggers(h huma.API) {
	register(h, reading("list-triggers", "/apps/{app}/triggers", "The triggers of the live release, by kind and name"), a.triggers)
}

func (a *api) triggers(ctx context.Context, in *AppPath) (*body[page[client.Trigger]], error) {
	app, err := a.app(ctx, in.App, landfall.ScopeRead)
	if err != nil {
		return nil, err
	}
	triggers, err := a.Triggers(ctx, app)
	return answer(page[client.Trigger]{Items: triggers}, err)
}
