package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

func (a *api) registerReleaseCanaries(h huma.API) {
	const path = "/apps/{app}/canary"
	registerOn(a, h, reading("show-release-canary", path,
		"The canary of a release that runs, or else the last one, with what happened to it"), a.releaseCanary)
	registerOn(a, h, deploying("start-release-canary", http.MethodPut, path,
		"Let a share of the visitors of the live address get another release whole"), a.startCanary)
	registerOn(a, h, deploying("stop-release-canary", http.MethodDelete, path,
		"End the canary of a release that runs: all visitors get live"), a.stopCanary)
}

func (a *api) releaseCanary(ctx context.Context, app landfall.App, _ *AppPath) (*body[client.ReleaseCanary], error) {
	return answer(a.releaseCanaryOf(ctx, app))
}

// releaseCanaryOf returns the canary of a release of an app that runs, or else the last one.
func (a *api) releaseCanaryOf(ctx context.Context, app landfall.App) (shown client.ReleaseCanary, err error) {
	err = a.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		c, err := at.LastReleaseCanary(ctx, app.ID)
		if landfall.Is(err, landfall.NotFound) {
			return landfall.Errorf("api", landfall.NotFound, "no release of %[1]s has been a canary; begin with: landfall "+
				"release canary %[1]s RELEASE", app.Name)
		}
		if err != nil {
			return err
		}
		now, err := at.App(ctx, app.ID)
		if err != nil {
			return err
		}
		steps, err := at.ReleaseCanarySteps(ctx, c.ID)
		if err != nil {
			return err
		}
		shown = client.ReleaseCanary{
			App: app.Name, Release: c.Release, Live: now.Live, State: c.State, Reason: c.Reason, Weight: c.Weight, Step: c.Step,
			Interval: c.Interval.String(), Threshold: c.Threshold, Actor: c.Actor, Started: c.Started, Next: c.Next,
			Ended: c.Ended, URL: a.ReleaseURL(app.Name, c.Release), Held: now.Held && c.Ended.IsZero(),
			History: make([]client.ReleaseCanaryStep, len(steps)),
		}
		for i, s := range steps {
			shown.History[i] = client.ReleaseCanaryStep(s)
		}
		shown.Canary, shown.LiveSide, err = at.ReleaseCanaryFigures(ctx, c.ID)
		return err
	})
	return shown, err
}

func (a *api) startCanary(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.NewReleaseCanary
}) (*body[client.ReleaseCanary], error) {
	if err := a.checkCookies(); err != nil {
		return nil, err
	}
	uid, err := a.find(ctx, app, in.Body.Release)
	if err != nil {
		return nil, err
	}
	interval, err := time.ParseDuration(in.Body.Interval)
	if err != nil {
		return nil, landfall.Errorf("api", landfall.Invalid, "the interval %q is no duration such as 5m or 1h30m",
			in.Body.Interval)
	}
	c := landfall.ReleaseCanary{Release: uid, Weight: in.Body.Weight, Step: in.Body.Step, Interval: interval,
		Threshold: *in.Body.Threshold}
	_, err = a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		return deploy.StartCanary(ctx, tx, *app, c, a.mover(ctx, in.Body.Reason, "started"))
	})
	if err != nil {
		return nil, err
	}
	return answer(a.releaseCanaryOf(ctx, app))
}

// checkCookies fails with Conflict where browsers would not keep the cookie of the choice, so that each file of a page
// could be another release's: over plain http they keep it on their own machine alone.
func (a *api) checkCookies() error {
	if a.URL.Scheme == "https" || a.Domain == "localhost" || strings.HasSuffix(a.Domain, ".localhost") {
		return nil
	}
	return landfall.Errorf("api", landfall.Conflict, "visitors could not stay with one release: over plain http browsers "+
		"keep the cookie for it on localhost alone; a canary of a release needs https (LANDFALL_URL)")
}

func (a *api) stopCanary(ctx context.Context, app landfall.App, in *struct {
	AppPath

	Reason string `query:"reason" maxLength:"500" doc:"kept in the history"`
}) (*body[client.ReleaseCanary], error) {
	_, err := a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		ended, err := deploy.EndCanary(ctx, tx, app.ID, landfall.ReleaseCanaryStopped, a.mover(ctx, in.Reason, "stopped"))
		if err == nil && !ended {
			return landfall.Errorf("api", landfall.NotFound, "no canary of a release of %s runs", app.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer(a.releaseCanaryOf(ctx, app))
}
