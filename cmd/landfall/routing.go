package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// triggers returns the triggers of an app's accessible releases, and the routes of those that are HTTP's. What one of them has that
// cannot be read is missing, and nothing else.
func (m moment) triggers(ctx context.Context, app landfall.App) (
	all map[landfall.UID][]*registry.Trigger, routes map[landfall.UID][]registry.Route, err error,
) {
	var rows []store.ServedUnit
	for _, kind := range []landfall.UnitKind{landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger} {
		units, err := m.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, units...)
	}
	if len(rows) == 0 {
		return nil, nil, nil
	}
	f := newFunctions(m, app)
	for _, kind := range []landfall.UnitKind{landfall.FunctionUnit, landfall.PackageUnit, landfall.EnvironmentUnit, landfall.ConfigUnit, landfall.SecretUnit} {
		units, err := m.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, nil, err
		}
		for _, u := range units {
			f.units[unitOfRelease{u.Release, u.Unit}] = u
		}
	}
	all, routes = map[landfall.UID][]*registry.Trigger{}, map[landfall.UID][]registry.Route{}
	for _, row := range rows {
		read, err := spec.ReadTriggerVersion(row.Unit, row.Spec)
		trigger := triggerOf(app, row, read)
		if err == nil {
			err = f.lead(ctx, trigger, read)
		}
		if err != nil && landfall.KindOf(err) == landfall.Invalid {
			m.logger.WarnContext(ctx, "a trigger leads to no function", "app", app.Name, "release", row.Release, "trigger", row.Unit.Name, "error", err)
		} else if ignoreNotFound(err) != nil {
			return nil, nil, err
		}
		all[row.Release] = append(all[row.Release], trigger)
		if trigger.Kind == landfall.HTTPTrigger {
			routes[row.Release] = append(routes[row.Release], registry.Route{Trigger: trigger, Patterns: read.Patterns()})
		}
	}
	return all, routes, nil
}

// triggerOf returns a trigger of a release, which leads to no function yet.
func triggerOf(app landfall.App, row store.ServedUnit, t spec.Trigger) *registry.Trigger {
	return &registry.Trigger{
		Trigger: t.Trigger, Name: t.Name, App: app.ID, AppName: app.Name, Namespace: app.Namespace, Release: row.Release, Version: row.Version,
	}
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
	made  map[string]*landfall.Function
}

func newFunctions(m moment, app landfall.App) functions {
	return functions{moment: m, app: app, units: map[unitOfRelease]store.ServedUnit{}, made: map[string]*landfall.Function{}}
}

// named returns the function that a reference means, as it runs in the release that is live when that is asked for, and else in what
// production applied last, or in the group version that made it. NotFound, with a sentence, when there is none.
func (s tableSource) named(ctx context.Context, ref landfall.Reference) (*landfall.Function, error) {
	return s.inGroup(ctx, ref, "")
}

// inGroup is named for a function as it runs in a group version, or, for an empty one, where named finds it.
func (s tableSource) inGroup(ctx context.Context, ref landfall.Reference, group landfall.UID) (*landfall.Function, error) {
	f, err := s.find(ctx, ref, group)
	return f.Function, err
}

// find is inGroup, with the commit that made the version.
func (s tableSource) find(ctx context.Context, ref landfall.Reference, group landfall.UID) (found images.Function, err error) {
	err = s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		namespace := cmp.Or(ref.Namespace, landfall.DefaultNamespace)
		shares, err := versioning.FindShares(ctx, at, namespace, ref)
		if err != nil {
			return err
		}
		v := draw(shares)
		f := newFunctions(moment{at, s.logger}, landfall.App{Namespace: namespace})
		if v.App != "" {
			if f.app, err = at.App(ctx, v.App); err != nil {
				return err
			}
		}
		group := group
		switch {
		case group != "":
		case ref.Selector == landfall.LivePointer:
			group = f.app.Live
		default:
			if group, err = f.groupOf(ctx, v); err != nil {
				return err
			}
		}
		group = cmp.Or(group, v.UID)
		units, err := at.RunningUnits(ctx, v.App, group)
		if err != nil {
			return err
		}
		for _, u := range units {
			f.units[unitOfRelease{group, u.Unit}] = u
		}
		found.Commit = v.Commit
		found.Function, err = f.ready(ctx, group, v)
		return err
	})
	return found, err
}

// owner returns the id of the app whose function has a name; empty for one made by hand.
func (s tableSource) owner(ctx context.Context, ref landfall.Reference) (string, error) {
	row, err := s.db.UnitInNamespace(ctx, cmp.Or(ref.Namespace, landfall.DefaultNamespace), landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	return row.App, err
}

// draw returns one of the versions that a reference means, as often as its weight says.
func draw(shares []versioning.Share) landfall.Version {
	const percent = 100
	drawn := rand.IntN(percent)
	for _, s := range shares {
		if drawn < s.Percent {
			return s.Version
		}
		drawn -= s.Percent
	}
	return shares[0].Version
}

// lead lets a trigger lead to what it names: one function, or several by weights.
func (f *functions) lead(ctx context.Context, t *registry.Trigger, named spec.Trigger) (err error) {
	if len(named.Weights) == 0 {
		return f.leadTo(ctx, t, named.Function)
	}
	for _, w := range named.Weights {
		function, err := f.of(ctx, t.Release, w.Function)
		if ignoreNotFound(err) != nil {
			return err
		}
		t.Shares = append(t.Shares, registry.Share{Function: function, Percent: w.Percent})
	}
	return nil
}

// leadTo lets a trigger lead to the version that a reference means, or to the two of an alias that has two.
func (f *functions) leadTo(ctx context.Context, t *registry.Trigger, ref landfall.Reference) (err error) {
	if !ofRelease(ref) {
		alias, err := versioning.FindAlias(ctx, f.Snapshot, f.app.Namespace, ref)
		if ignoreNotFound(err) != nil {
			return err
		}
		if len(alias.Shares) > 1 {
			for _, s := range alias.Shares {
				function, err := f.of(ctx, t.Release, landfall.Reference{Name: ref.Name, Selector: string(s.UID)})
				if ignoreNotFound(err) != nil {
					return err
				}
				t.Shares = append(t.Shares, registry.Share{Function: function, Percent: s.Percent})
			}
			return nil
		}
	}
	t.Function, err = f.of(ctx, t.Release, ref)
	return err
}

// ofRelease reports whether a reference of a trigger means the version that the trigger's release has.
func ofRelease(ref landfall.Reference) bool {
	return slices.Contains([]string{"", "0", landfall.Latest, landfall.LivePointer}, ref.Selector)
}

// of returns the version of a function that a trigger of a release names: the release's own, unless it names another.
func (f *functions) of(ctx context.Context, release landfall.UID, ref landfall.Reference) (*landfall.Function, error) {
	unit, ok := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}}]
	if !ok {
		return nil, &landfall.Error{Op: "functions.of", Kind: landfall.NotFound}
	}
	v := landfall.Version{Unit: unit.Unit, UID: unit.Version, Number: unit.Number, Spec: unit.Spec, Content: unit.Content}
	if !ofRelease(ref) {
		var err error
		if v, err = versioning.Find(ctx, f.Snapshot, f.app.Namespace, landfall.FunctionUnit, ref); err != nil {
			return nil, err
		}
	}
	return f.ready(ctx, release, v)
}

// ready returns a function's version with the environment, the package and the configuration of a group version.
func (f *functions) ready(ctx context.Context, release landfall.UID, v landfall.Version) (*landfall.Function, error) {
	config := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName}}]
	function, err := spec.ReadFunctionVersion(v.Spec)
	if err != nil {
		return nil, err
	}
	unit := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: function.Environment.Name}}]
	key, err := f.secretsOf(ctx, release, v, function.Secrets)
	if err != nil {
		return nil, err
	}
	function.ID = fmt.Sprintf("%s/%s:%d %s %s", f.app.Namespace, v.Unit.Name, v.Number, unit.Digest, config.Digest) + key
	if made, ok := f.made[function.ID]; ok {
		return made, nil
	}
	function.App, function.Namespace, function.Group = f.app.ID, f.app.Namespace, release
	function.Name, function.Version, function.Number = v.Unit.Name, v.UID, v.Number
	var resources landfall.Resources
	if function.Environment, resources, err = spec.ReadEnvironmentVersion(function.Environment.Name, unit.Spec); err != nil {
		return nil, err
	}
	function.Resources = function.Resources.Or(resources)
	if function.Network, err = spec.ReadNetwork(v.Spec, unit.Spec); err != nil {
		return nil, err
	}
	if function.Config, err = spec.ReadConfigVersion(config.Spec); err != nil {
		return nil, err
	}
	if function.Package, err = f.archive(ctx, release, v.Content); err != nil {
		return nil, err
	}
	f.made[function.ID] = &function
	return &function, nil
}

// archive returns the package that a function's version names; none when it is not stored.
func (f *functions) archive(ctx context.Context, release landfall.UID, content json.RawMessage) (landfall.Archive, error) {
	named, err := landfall.ReadContent[landfall.FunctionContent](content)
	if err != nil || named.Package.Name == "" {
		return landfall.Archive{}, err
	}
	number, err := strconv.ParseInt(named.Package.ResourceVersion, 10, 64)
	if err != nil {
		return landfall.Archive{}, unreadable(err)
	}
	name, _ := cutLast(named.Package.Name, "-")
	unit := landfall.UnitID{Kind: landfall.PackageUnit, Name: name}
	stored := f.units[unitOfRelease{release, unit}]
	if stored.Number != number { // of a version that the release does not have
		row, err := f.UnitInNamespace(ctx, named.Package.Namespace, unit)
		if err != nil {
			return landfall.Archive{}, ignoreNotFound(err)
		}
		v, err := f.VersionByNumber(ctx, row.ID, number)
		if err != nil {
			return landfall.Archive{}, ignoreNotFound(err)
		}
		stored.Content = v.Content
	}
	archives, err := landfall.ReadContent[landfall.PackageContent](stored.Content)
	if err != nil || archives.Deployment == nil {
		return landfall.Archive{}, err
	}
	return *archives.Deployment, nil
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
