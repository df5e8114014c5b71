package stored

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// triggers returns the triggers of an app's accessible releases, and the routes of those that are HTTP's. What one of
// them has that cannot be read is missing, and nothing else.
func (r tableReader) triggers(ctx context.Context, app landfall.App) (
	all map[landfall.UID][]*registry.Trigger, routes map[landfall.UID][]registry.Route, err error,
) {
	var rows []store.ServedUnit
	for _, kind := range landfall.TriggerKinds() {
		units, err := r.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, units...)
	}
	if len(rows) == 0 {
		return nil, nil, nil
	}
	moved, err := r.TriggerWeights(ctx, app.ID)
	if err != nil {
		return nil, nil, err
	}
	f := newFunctionReader(r, app)
	for _, kind := range []landfall.UnitKind{landfall.FunctionUnit, landfall.PackageUnit, landfall.EnvironmentUnit,
		landfall.AliasUnit, landfall.FunctionTagUnit, landfall.ConfigUnit, landfall.SecretUnit} {
		units, err := r.ServedUnits(ctx, app.ID, kind)
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
		if row.Release == app.Live {
			canary.MoveWeights(&read, row.Version, moved)
		}
		trigger := newTrigger(app, row, read)
		if err == nil {
			err = f.bind(ctx, trigger, read)
		}
		if err != nil && landfall.KindOf(err) == landfall.Invalid {
			r.logger.WarnContext(ctx, "a trigger leads to no function", "app", app.Name, "release", row.Release, "trigger",
				row.Unit.Name, "error", err)
		} else if landfall.Ignore(err, landfall.NotFound) != nil {
			return nil, nil, err
		}
		all[row.Release] = append(all[row.Release], trigger)
		if trigger.Kind == landfall.HTTPTrigger {
			routes[row.Release] = append(routes[row.Release], registry.Route{Trigger: trigger, Patterns: read.Patterns()})
		}
	}
	return all, routes, nil
}

// newTrigger returns a trigger of a release, which leads to no function yet.
func newTrigger(app landfall.App, row store.ServedUnit, t spec.Trigger) *registry.Trigger {
	return &registry.Trigger{
		Trigger: t.Trigger, Name: t.Name, App: app.ID, AppName: app.Name, Namespace: app.Namespace, Release: row.Release,
		Version: row.Version,
	}
}

type unitOfRelease struct {
	release landfall.UID
	unit    landfall.UnitID
}

// functionReader reads the functions that the releases of an app run. What two releases share is there once.
type functionReader struct {
	tableReader

	app   landfall.App
	units map[unitOfRelease]store.ServedUnit
	made  map[string]*landfall.Function
}

func newFunctionReader(r tableReader, app landfall.App) functionReader {
	return functionReader{tableReader: r, app: app, units: map[unitOfRelease]store.ServedUnit{},
		made: map[string]*landfall.Function{}}
}

// bind lets a trigger lead to what it names: one function, several by weights, or all of a function tag.
func (f *functionReader) bind(ctx context.Context, t *registry.Trigger, named spec.Trigger) (err error) {
	if named.Tag != "" {
		t.Tag = named.Tag
		t.Tagged, err = f.tagged(ctx, t.Release, named.Tag)
		return err
	}
	t.Sticky, t.StickyID = t.HTTP.Sticky, f.app.ID+"/"+t.Name
	weights := named.Weights
	if len(weights) == 0 {
		if weights, err = f.weightsOf(ctx, t, named.Function); err != nil {
			return err
		}
	}
	if len(weights) == 0 {
		t.Sticky, t.StickyID = "", ""
		t.Function, err = f.inRelease(ctx, t.Release, named.Function)
		return err
	}
	for _, w := range weights {
		function, err := f.inRelease(ctx, t.Release, w.Function)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
		t.Shares = append(t.Shares, registry.Share{Function: function, Percent: w.Percent})
	}
	return nil
}

// weightsOf returns the two versions of an alias that a trigger names, as its release declares it, or else as it is at
// the moment; nil when the trigger names one version. Their order stays when the weights move.
func (f *functionReader) weightsOf(ctx context.Context, t *registry.Trigger,
	ref landfall.Reference) (weights []spec.Weight, err error) {
	if ref.MeansRelease() {
		return nil, nil
	}
	if weights, err = f.declaredAlias(t.Release, ref); err != nil || len(weights) > 0 {
		if len(weights) == 1 {
			return nil, err
		}
		slices.SortFunc(weights, func(a, b spec.Weight) int { return cmp.Compare(a.Function.Selector, b.Function.Selector) })
		t.StickyID = f.app.ID + "/" + ref.String()
		return weights, err
	}
	alias, err := versioning.FindAlias(ctx, f.Snapshot, f.app.Namespace, ref)
	if err != nil || len(alias.Shares) < 2 {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	row, err := f.UnitInNamespace(ctx, f.app.Namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	t.Sticky, t.StickyID, t.Alias = cmp.Or(t.HTTP.Sticky, alias.Sticky), row.ID+":"+alias.Name, alias.Name
	for _, s := range alias.ByNumber() {
		named := landfall.Reference{Name: ref.Name, Selector: string(s.UID)}
		weights = append(weights, spec.Weight{Function: named, Percent: s.Percent})
	}
	return weights, err
}

// declaredAlias returns what an alias means in a release that declares it itself; nil when ref is none.
func (f *functionReader) declaredAlias(release landfall.UID, ref landfall.Reference) ([]spec.Weight, error) {
	unit, declared := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.AliasUnit,
		Name: ref.Name + ":" + ref.Selector}}]
	if !declared {
		return nil, nil
	}
	a, err := spec.ReadAliasVersion(unit.Unit, unit.Spec)
	return a.To, err
}

// tagged returns the functions that a function tag names: nil for one of another app. One that the app's release has is
// as the release runs it; any other is as it runs when it is called by its name.
func (f *functionReader) tagged(ctx context.Context, release landfall.UID, tag string) ([]*landfall.Function, error) {
	var all []*landfall.Function
	unit, declared := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.FunctionTagUnit, Name: tag}}]
	if declared {
		t, err := spec.ReadFunctionTagVersion(unit.Unit, unit.Spec)
		for i := 0; i < len(t.Functions) && err == nil; i++ {
			var function *landfall.Function
			function, err = f.inRelease(ctx, release, t.Functions[i])
			all = append(all, function)
		}
		return all, err
	}
	named, err := f.FunctionTag(ctx, f.app.Namespace, tag)
	if err != nil {
		return nil, err
	}
	for _, entry := range named.Functions {
		function, err := f.inRelease(ctx, release, entry.Reference())
		if landfall.Is(err, landfall.NotFound) || err == nil && entry.App != f.app.ID {
			function, err = f.byName(ctx, entry)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, function)
	}
	return all, nil
}

// byName returns the function that a function tag names as it runs when it is called by its name.
func (f *functionReader) byName(ctx context.Context, entry landfall.TaggedFunction) (*landfall.Function, error) {
	v, err := f.VersionByNumber(ctx, entry.Unit, entry.Number)
	if err != nil {
		return nil, err
	}
	owner, err := f.readerOf(ctx, v)
	if err != nil || v.App != f.app.ID && !owner.app.OfNamespace() {
		return nil, err
	}
	group, err := owner.groupOf(ctx, v)
	if err != nil {
		return nil, err
	}
	return owner.runIn(ctx, group, v)
}

// byHand returns the function that a trigger of a namespace's app names: the newest version, unless it names another.
// NotFound when an app has the function now.
func (f *functionReader) byHand(ctx context.Context, ref landfall.Reference) (*landfall.Function, error) {
	if ref.MeansRelease() {
		ref.Selector = landfall.Latest
	}
	v, err := versioning.Find(ctx, f.Snapshot, f.app.Namespace, landfall.FunctionUnit, ref)
	if err == nil && v.App != f.app.ID {
		err = &landfall.Error{Op: "functions.byHand", Kind: landfall.NotFound}
	}
	if err != nil {
		return nil, err
	}
	group, err := f.groupOf(ctx, v)
	if err != nil {
		return nil, err
	}
	return f.runIn(ctx, group, v)
}

// inRelease returns the version of a function that a trigger of a release names: the release's own, unless it names
// another.
func (f *functionReader) inRelease(ctx context.Context, release landfall.UID,
	ref landfall.Reference) (*landfall.Function, error) {
	unit, ok := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}}]
	if !ok && f.app.OfNamespace() {
		return f.byHand(ctx, ref)
	}
	if !ok {
		return nil, &landfall.Error{Op: "functions.of", Kind: landfall.NotFound}
	}
	v := landfall.Version{Unit: unit.Unit, UID: unit.Version, Number: unit.Number, Spec: unit.Spec, Content: unit.Content}
	declared, err := f.declaredAlias(release, ref)
	if err != nil {
		return nil, err
	}
	if len(declared) > 0 {
		ref = declared[0].Function
	}
	if !ref.MeansRelease() {
		if v, err = versioning.Find(ctx, f.Snapshot, f.app.Namespace, landfall.FunctionUnit, ref); err != nil {
			return nil, err
		}
	}
	return f.assemble(ctx, release, v)
}

// environment returns the environment of a function's version: as the group version declares it, or else, for a version
// that this does not have, as the group version that made it does. It is empty for one that is not declared.
func (f *functionReader) environment(ctx context.Context, release landfall.UID, v landfall.Version,
	name string) (store.ServedUnit, error) {
	id := landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: name}
	unit, declared := f.units[unitOfRelease{release, id}]
	if declared || release == v.UID || f.units[unitOfRelease{release, v.Unit}].Version == v.UID {
		return unit, nil
	}
	return f.ownUnit(ctx, v.UID, id)
}

// assemble returns a function's version with the environment, the package and the configuration of a group version.
func (f *functionReader) assemble(ctx context.Context, release landfall.UID,
	v landfall.Version) (*landfall.Function, error) {
	config := f.units[unitOfRelease{release, landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName}}]
	function, err := spec.ReadFunctionVersion(v.Spec)
	if err != nil {
		return nil, err
	}
	unit, err := f.environment(ctx, release, v, function.Environment.Name)
	if err != nil {
		return nil, err
	}
	key, err := f.fillSecrets(ctx, release, v, function.Secrets)
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
	if function.Environment, resources, err = spec.ReadEnvironmentVersion(function.Environment.Name,
		unit.Spec); err != nil {
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
func (f *functionReader) archive(ctx context.Context, release landfall.UID,
	content json.RawMessage) (landfall.Archive, error) {
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
			return landfall.Archive{}, landfall.Ignore(err, landfall.NotFound)
		}
		v, err := f.VersionByNumber(ctx, row.ID, number)
		if err != nil {
			return landfall.Archive{}, landfall.Ignore(err, landfall.NotFound)
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

// unreadable is the error for something stored that makes no sense: it is the fault of one release, and no failure of
// the store.
func unreadable(err error) error {
	return landfall.Wrapf("functions", landfall.Invalid, err, "what is stored of the function cannot be read")
}
