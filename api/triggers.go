package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

func (a *api) registerTriggers(h huma.API) {
	registerOn(a, h, reading("list-triggers", "/apps/{app}/triggers",
		"The triggers of the live release, by kind and name"), a.triggers)
}

func (a *api) triggers(ctx context.Context, app landfall.App, _ *AppPath) (*body[page[client.Trigger]], error) {
	triggers, err := a.triggersOf(ctx, app)
	return answer(page[client.Trigger]{Items: triggers}, err)
}

// triggersOf returns the triggers of an app's live release, by kind and name.
func (a *api) triggersOf(ctx context.Context, app landfall.App) ([]client.Trigger, error) {
	all := []client.Trigger{}
	err := a.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		firings, err := at.LastFirings(ctx, app.ID)
		if err != nil {
			return err
		}
		moved, err := at.TriggerWeights(ctx, app.ID)
		if err != nil {
			return err
		}
		for _, kind := range landfall.TriggerKinds() {
			units, err := at.ServedUnits(ctx, app.ID, kind)
			if err != nil {
				return err
			}
			units = slices.DeleteFunc(units, func(u store.ServedUnit) bool { return u.Release != app.Live })
			slices.SortFunc(units, func(a, b store.ServedUnit) int { return cmp.Compare(a.Unit.Name, b.Unit.Name) })
			for _, u := range units {
				all = append(all, shownTrigger(u, firings, moved, a.Now()))
			}
		}
		return nil
	})
	return all, err
}

// shownTrigger returns a trigger as people see it. What of it cannot be read is missing.
func shownTrigger(u store.ServedUnit, firings map[string]store.Firing, moved []store.TriggerWeight,
	now time.Time) client.Trigger {
	t, _ := spec.ReadTriggerVersion(u.Unit, u.Spec)
	canary.MoveWeights(&t, u.Version, moved)
	shown := client.Trigger{Kind: u.Unit.Kind, Name: u.Unit.Name, Version: u.Version, Function: t.Function.String()}
	if t.Tag != "" {
		shown.Function = "tag " + t.Tag
	}
	if len(t.Weights) > 0 {
		var shares []string
		for _, w := range t.Weights {
			shares = append(shares, fmt.Sprintf("%s %d %%", w.Function, w.Percent))
		}
		shown.Function = strings.Join(shares, ", ")
	}
	switch t.Kind {
	case landfall.HTTPTrigger:
		shown.On = strings.Join(t.HTTP.Methods, ",") + " " + t.HTTP.Host + t.HTTP.URL
		if t.HTTP.Prefix {
			shown.On = strings.TrimSuffix(shown.On, "/") + "/*"
		}
		shown.Access = string(t.Access())
	case landfall.TimeTrigger:
		shown.On = strings.TrimSpace(t.Time.Cron + " " + t.Time.TimeZone)
		if schedule, err := cron.Parse(t.Time.Cron, t.Time.TimeZone); err == nil {
			if next := schedule.Next(now); !next.IsZero() {
				shown.Next = &next
			}
		}
		if f, ok := firings[t.Name]; ok {
			shown.Last = firingOf(f)
		}
	case landfall.QueueTrigger:
		shown.On = t.Queue.Topic
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.PackageUnit, landfall.FunctionUnit, landfall.StaticUnit,
		landfall.SecretUnit, landfall.AliasUnit, landfall.FunctionTagUnit:
	}
	return shown
}

func firingOf(f store.Firing) *client.Firing {
	shown := &client.Firing{Due: f.Due, Fired: f.Fired, State: string(f.State), Attempt: f.Attempt, Problem: f.Problem}
	if !f.Finished.IsZero() {
		shown.Finished = &f.Finished
	}
	return shown
}
