package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// routes returns the routes of an app's accessible releases. What one of them has that cannot be read is missing, and nothing else.
func (m moment) routes(ctx context.Context, app landfall.App) (map[landfall.UID]*registry.Routes, error) {
	triggers, err := m.ServedUnits(ctx, app.ID, landfall.HTTPTrigger)
	if err != nil || len(triggers) == 0 {
		return nil, err
	}
	f := newFunctions(m, app)
	for _, kind := range []landfall.UnitKind{landfall.FunctionUnit, landfall.PackageUnit, landfall.EnvironmentUnit, landfall.ConfigUnit} {
		units, err := m.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			f.units[unitOfRelease{u.Release, u.Unit}] = u
		}
	}
	routes := map[landfall.UID][]registry.Route{}
	for _, row := range triggers {
		trigger, err := spec.ReadTriggerVersion(row.Unit.Name, row.Spec)
		route := registry.Route{Trigger: trigger.Name, Patterns: trigger.Patterns(), Access: registry.Access(trigger.Access)}
		if err == nil {
			err = f.lead(ctx, &route, row.Release, trigger)
		}
		if err != nil && landfall.KindOf(err) == landfall.Invalid {
			m.logger.WarnContext(ctx, "a route leads to no function", "app", app.Name, "release", row.Release, "trigger", row.Unit.Name, "error", err)
		} else if ignoreNotFound(err) != nil {
			return nil, err
		}
		routes[row.Release] = append(routes[row.Release], route)
	}
	ready := map[landfall.UID]*registry.Routes{}
	for release, all := range routes {
		ready[release] = registry.NewRoutes(all)
	}
	return ready, nil
}

type unitOfRelease struct {
	release landfall.UID
	unit    landfall.UnitID
}

// functions finds what the releases of an app run. What two releases share is there once.
type functions struct {
	moment
	app   landfall.App
	units map[unitOfRelease]store.ServedUnit
	made  map[string]*registry.Function
}

func newFunctions(m moment, app landfall.App) functions {
	return functions{moment: m, app: app, units: map[unitOfRelease]store.ServedUnit{}, made: map[string]*registry.Function{}}
}

// named returns the function that a reference means, as it runs in the release that is live when that is asked for, and else in the
// group version that made it. NotFound, with a sentence, when there is none.
func (s tableSource) named(ctx context.Context, ref landfall.Reference) (function *registry.Function, err error) {
	err = s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		namespace := cmp.Or(ref.Namespace, landfall.DefaultNamespace)
		v, err := versioning.Find(ctx, at, namespace, landfall.FunctionUnit, ref)
		if err != nil {
			return err
		}
		f := newFunctions(moment{at, s.logger}, landfall.App{Namespace: namespace})
		if v.App != "" {
			if f.app, err = at.App(ctx, v.App); err != nil {
				return err
			}
		}
		group := v.UID
		if ref.Selector == landfall.LivePointer {
			group = f.app.Live
		}
		units, err := at.RunningUnits(ctx, v.App, group)
		if err != nil {
			return err
		}
		for _, u := range units {
			f.units[unitOfRelease{group, u.Unit}] = u
		}
		function, err = f.ready(ctx, group, v)
		return err
	})
	return function, err
}

// lead lets a route lead to what its trigger names: one function, or several by weights.
func (f *functions) lead(ctx context.Context, route *registry.Route, release landfall.UID, trigger spec.Trigger) (err error) {
	if len(trigger.Weights) == 0 {
		route.Function, err = f.of(ctx, release, trigger.Function)
		return err
	}
	for _, w := range trigger.Weights {
		function, err := f.of(ctx, release, w.Function)
		if ignoreNotFound(err) != nil {
			return err
		}
		route.Shares = append(route.Shares, registry.Share{Function: function, Percent: w.Percent})
	}
	return nil
}

// of returns the version of a function that a trigger of a release names: the release's own, unless it names another.
func (f *functions) of(ctx context.Context, release landfall.UID, ref landfall.Reference) (*registry.Function, error) {
	unit, ok := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}}]
	if !ok {
		return nil, &landfall.Error{Op: "functions.of", Kind: landfall.NotFound}
	}
	v := landfall.Version{Unit: unit.Unit, UID: unit.Version, Number: unit.Number, Spec: unit.Spec, Content: unit.Content}
	if !slices.Contains([]string{"", "0", landfall.Latest, landfall.LivePointer}, ref.Selector) {
		var err error
		if v, err = versioning.Find(ctx, f.Snapshot, f.app.Namespace, landfall.FunctionUnit, ref); err != nil {
			return nil, err
		}
	}
	return f.ready(ctx, release, v)
}

// ready returns a function's version with the environment, the package and the configuration of a group version.
func (f *functions) ready(ctx context.Context, release landfall.UID, v landfall.Version) (*registry.Function, error) {
	config := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.ConfigUnit, Name: pipeline.ConfigName}}]
	stored, err := spec.ReadFunctionVersion(v.Spec)
	if err != nil {
		return nil, err
	}
	environment := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: stored.Environment}}]
	id := fmt.Sprintf("%s/%s:%d %s %s", f.app.Namespace, v.Unit.Name, v.Number, environment.Digest, config.Digest)
	if function, ok := f.made[id]; ok {
		return function, nil
	}
	function := &registry.Function{
		ID: id, App: f.app.ID, Namespace: f.app.Namespace, Name: v.Unit.Name, Version: v.UID, Number: v.Number, Entrypoint: stored.Entrypoint,
		Environment: registry.Environment{Name: stored.Environment}, Resources: stored.Resources,
	}
	if environment.Spec != nil {
		image, resources, err := spec.ReadEnvironmentVersion(environment.Spec)
		if err != nil {
			return nil, err
		}
		function.Environment.Image, function.Resources = image, function.Resources.Or(resources)
	}
	if function.Config, err = configOf(config.Spec); err != nil {
		return nil, err
	}
	if function.Package, err = f.archive(ctx, release, v.Content); err != nil {
		return nil, err
	}
	f.made[id] = function
	return function, nil
}

// archive returns the package that a function's version names; none when it is not stored.
func (f *functions) archive(ctx context.Context, release landfall.UID, content json.RawMessage) (registry.Archive, error) {
	if len(content) == 0 {
		return registry.Archive{}, nil
	}
	var named versioning.FunctionContent
	if err := json.Unmarshal(content, &named); err != nil {
		return registry.Archive{}, unreadable(err)
	}
	number, err := strconv.ParseInt(named.Package.ResourceVersion, 10, 64)
	if err != nil {
		return registry.Archive{}, unreadable(err)
	}
	name, _ := cutLast(named.Package.Name, "-")
	unit := landfall.UnitID{Kind: landfall.PackageUnit, Name: name}
	stored := f.units[unitOfRelease{release, unit}]
	if stored.Number != number { // of a version that the release does not have
		row, err := f.UnitInNamespace(ctx, named.Package.Namespace, unit)
		if err != nil {
			return registry.Archive{}, ignoreNotFound(err)
		}
		v, err := f.VersionByNumber(ctx, row.ID, number)
		if err != nil {
			return registry.Archive{}, ignoreNotFound(err)
		}
		stored.Content = v.Content
	}
	if len(stored.Content) == 0 {
		return registry.Archive{}, nil
	}
	var archives pipeline.PackageContent
	if err := json.Unmarshal(stored.Content, &archives); err != nil {
		return registry.Archive{}, unreadable(err)
	}
	if archives.Deployment == nil {
		return registry.Archive{}, nil
	}
	return registry.Archive{Key: archives.Deployment.Key, Digest: archives.Deployment.Digest, Size: archives.Deployment.Size}, nil
}

func cutLast(s, separator string) (before, after string) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):]
	}
	return s, ""
}

// unreadable is the error for something stored that makes no sense: it is the fault of one release, and no failure of the store.
func unreadable(err error) error {
	return &landfall.Error{Op: "functions", Kind: landfall.Invalid, Message: "what is stored of the function cannot be read", Err: err}
}

func ignoreNotFound(err error) error {
	if landfall.KindOf(err) == landfall.NotFound {
		return nil
	}
	return err
}

// configOf returns the configuration of an app as functions get it: text as it is, everything else as JSON.
func configOf(stored json.RawMessage) (map[string]string, error) {
	config := map[string]string{}
	if len(stored) == 0 {
		return config, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(stored, &values); err != nil {
		return nil, unreadable(err)
	}
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		config[name] = text
	}
	return config, nil
}
