package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/store"
)

func (a *api) registerCanaries(h huma.API) {
	const all, one = "/apps/{app}/canaries", "/apps/{app}/canaries/{canary}"
	register(h, reading("list-canaries", "/canaries", "The canaries of a namespace, by name"), a.listCanaries)
	register(h, deploying("create-canary", http.MethodPost, all,
		"Move the calls of an alias or a route to another version, step by step").
		answering(http.StatusCreated).making("{name}"),
		a.createCanary)
	registerOn(a, h, reading("show-canary", one, "One canary, with its history, newest first"), a.showCanary)
	registerOn(a, h, deploying("delete-canary", http.MethodDelete, one,
		"Stop a canary, and delete its history; the weights stay as they are").answering(http.StatusNoContent),
		a.deleteCanary)
}

// CanaryPath names a canary of an app.
type CanaryPath struct {
	AppPath
	Canary string `path:"canary" doc:"name of the canary"`
}

func (p CanaryPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.App, error) {
	return a.appOrNamespace(ctx, p.App, scope)
}

func (a *api) listCanaries(ctx context.Context, in *struct {
	Paging

	Namespace string `query:"namespace" default:"default"`
}) (*body[page[client.Canary]], error) {
	all, err := a.DB.Canaries(ctx, "")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c landfall.Canary) bool {
		return c.Namespace != in.Namespace || !caller(ctx).Allows(landfall.ScopeRead, c.AppID)
	})
	name := func(c landfall.Canary) string { return c.Name + " " + c.App }
	slices.SortFunc(all, func(x, y landfall.Canary) int { return cmp.Compare(name(x), name(y)) })
	return paged(in.Paging, all, name, func(c landfall.Canary) (client.Canary, bool, error) {
		return canaryOf(c), true, nil
	})
}

// canaryOf returns a canary as people see it, without its history.
func canaryOf(c landfall.Canary) client.Canary {
	side := func(s landfall.CanarySide) client.CanarySide {
		return client.CanarySide{CanarySide: s, CanaryFigures: s.Figures()}
	}
	return client.Canary{Canary: c, Interval: c.Interval.String(), Older: side(c.Older), Newer: side(c.Newer)}
}

func (a *api) showCanary(ctx context.Context, app landfall.App, in *CanaryPath) (*body[client.Canary], error) {
	c, err := a.DB.Canary(ctx, app.ID, in.Canary)
	if err != nil {
		return nil, err
	}
	shown := canaryOf(c)
	const most = 1000
	shown.History, err = a.DB.CanarySteps(ctx, c.ID, most)
	return answer(shown, err)
}

func (a *api) createCanary(ctx context.Context, in *struct {
	AppPath
	Body client.NewCanary
}) (*body[client.Canary], error) {
	app, err := a.appOrNamespace(ctx, in.App, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	b := in.Body
	if mayBeMade(ctx) {
		there, err := a.DB.Canary(ctx, app.ID, b.Name)
		if err == nil && isOurs(ctx, there.Actor, there.Created) {
			return answer(canaryOf(there), nil)
		}
	}
	rule := landfall.DefaultCanaryRule()
	if b.Interval != "" {
		if rule.Interval, err = time.ParseDuration(b.Interval); err != nil {
			return nil, landfall.Errorf("api", landfall.Invalid, "interval is %q; right would be 30s, 2m or 1h", b.Interval)
		}
	}
	if b.Step != nil {
		rule.Step = *b.Step
	}
	if b.Threshold != nil {
		rule.Threshold = *b.Threshold
	}
	if b.MinRequests != nil {
		rule.MinRequests = *b.MinRequests
	}
	n := canary.New{Name: b.Name, Function: b.Function, Alias: b.Alias, Version: b.Version, Trigger: b.Trigger,
		Newer: b.Newer, Older: b.Older, Actor: caller(ctx).Name, At: a.now(), CanaryRule: rule}
	var made landfall.Canary
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		active, err := tx.ActiveApp(ctx, app.ID)
		if err == nil {
			made, err = canary.Create(ctx, tx, active, n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.Rollout.Show(ctx, app)
	return answer(canaryOf(made), nil)
}

func (a *api) deleteCanary(ctx context.Context, app landfall.App, in *CanaryPath) (*struct{}, error) {
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error {
		c, err := tx.Canary(ctx, app.ID, in.Canary)
		if err != nil {
			return err
		}
		return tx.DeleteCanary(ctx, c.ID)
	})
}
