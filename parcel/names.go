package parcel

import (
	"context"
	"encoding/json"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// What triggers and declared names say of a version by number, label or alias means nothing elsewhere: an archive has
// these versions, too, and says which of them each name meant.

// Version is a version of a function that the release does not have, and one of its units names.
type Version struct {
	Function    Unit  `json:"function"`
	Package     Unit  `json:"package"`
	Environment *Unit `json:"environment,omitempty"` // that it needs, and that the release does not declare
}

// Alias is an alias that triggers of the release name, and that it does not declare itself.
type Alias struct {
	Function string                `json:"function"`
	Name     string                `json:"name"`
	Sticky   landfall.Sticky       `json:"sticky,omitempty"`
	To       []landfall.AliasShare `json:"to"`
}

// Tag is a function tag that triggers of the release name, and that it does not declare itself.
type Tag struct {
	Name      string                    `json:"name"`
	Functions []landfall.TaggedFunction `json:"functions"`
}

// named returns the versions and the function tags that a unit names.
func named(u Unit) (refs []landfall.Reference, tag string, err error) {
	switch {
	case u.Kind == landfall.AliasUnit:
		a, err := spec.ReadAliasVersion(u.ID(), u.Spec)
		return a.References(), "", err
	case u.Kind == landfall.FunctionTagUnit:
		t, err := spec.ReadFunctionTagVersion(u.ID(), u.Spec)
		return t.Functions, "", err
	case u.Kind.IsTrigger():
		t, err := spec.ReadTriggerVersion(u.ID(), u.Spec)
		return t.References(), t.Tag, err
	}
	return nil, "", nil
}

// addNames adds to a document what its units name: versions, aliases and function tags.
func (x *Exporter) addNames(ctx context.Context, app landfall.App, d *Document, blobs contents) error {
	d.Names = map[string]landfall.UID{}
	for _, u := range d.Units {
		refs, tag, err := named(u)
		if err != nil {
			return err
		}
		if tag != "" && !d.knowsTag(tag) {
			if err := x.addTag(ctx, app, d, tag, blobs); err != nil {
				return err
			}
		}
		for _, ref := range refs {
			if d.knows(ref) {
				continue
			}
			err := x.addName(ctx, app, d, ref, blobs)
			if landfall.Is(err, landfall.NotFound) {
				err = landfall.Wrapf("parcel.Prepare", landfall.Conflict, err,
					"the %s of release %s names %s, which is not there any more: what leads nowhere is not exported", u.ID(),
					d.Release, ref)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// knows reports whether a document says what a reference means.
func (d *Document) knows(ref landfall.Reference) bool {
	_, named := d.Names[ref.String()]
	return named || ref.MeansRelease() || d.unit(landfall.UnitID{Kind: landfall.AliasUnit, Name: ref.String()}) != nil ||
		slices.ContainsFunc(d.Aliases, func(a Alias) bool { return a.Function == ref.Name && a.Name == ref.Selector })
}

// knowsTag reports whether a document has a function tag.
func (d *Document) knowsTag(name string) bool {
	return d.unit(tagUnit(name)) != nil || slices.ContainsFunc(d.Tags, func(t Tag) bool { return t.Name == name })
}

func tagUnit(name string) landfall.UnitID {
	return landfall.UnitID{Kind: landfall.FunctionTagUnit, Name: name}
}

// addName adds what a reference means: an alias, or a version. NotFound when that is nothing any more.
func (x *Exporter) addName(ctx context.Context, app landfall.App, d *Document, ref landfall.Reference,
	blobs contents) error {
	alias, err := versioning.FindAlias(ctx, x.DB, app.Namespace, ref)
	if err == nil {
		d.Aliases = append(d.Aliases, Alias{Function: ref.Name, Name: alias.Name, Sticky: alias.Sticky, To: alias.Shares})
		for _, s := range alias.Shares {
			if err := x.addVersion(ctx, app, d, landfall.Reference{Name: ref.Name, Selector: string(s.UID)}, blobs); err != nil {
				return err
			}
		}
		return nil
	}
	if !landfall.Is(err, landfall.NotFound) {
		return err
	}
	return x.addVersion(ctx, app, d, ref, blobs)
}

// addVersion adds the version that a reference means, unless the document has it.
func (x *Exporter) addVersion(ctx context.Context, app landfall.App, d *Document, ref landfall.Reference,
	blobs contents) error {
	v, err := versioning.Find(ctx, x.DB, app.Namespace, landfall.FunctionUnit, ref)
	if err != nil {
		return err
	}
	d.Names[ref.String()] = v.UID
	if d.function(ref.Name, v.UID) != nil {
		return nil
	}
	if len(d.Versions) >= maxBeside {
		return landfall.Errorf("parcel.Prepare", landfall.Conflict,
			"release %s names more than %d versions that it does not have: an archive has no more", d.Release, maxBeside)
	}
	row, err := x.DB.Unit(ctx, app, v.Unit)
	if err != nil {
		return err
	}
	var made Version
	if made.Function, err = x.unit(ctx, unitOf(row, v), blobs); err != nil {
		return err
	}
	if d.Secrets, err = withSecrets(d.Secrets, v.Spec); err != nil {
		return err
	}
	pkg, pv, err := versioning.PackageOf(ctx, x.DB, v)
	if err != nil {
		return err
	}
	if made.Package, err = x.unit(ctx, unitOf(pkg, pv), blobs); err != nil {
		return err
	}
	if err := x.addEnvironment(ctx, d, v, &made, blobs); err != nil {
		return err
	}
	d.Versions = append(d.Versions, made)
	return nil
}

// addEnvironment adds the environment of a function's version as the group version that made it has it, unless the
// release declares one.
func (x *Exporter) addEnvironment(ctx context.Context, d *Document, v landfall.Version, to *Version,
	blobs contents) error {
	f, err := spec.ReadFunctionVersion(v.Spec)
	id := landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: f.Environment.Name}
	if err != nil || d.has(id) {
		return err
	}
	units, err := x.DB.GroupUnits(ctx, v.App, v.UID)
	i := slices.IndexFunc(units, func(u store.GroupUnit) bool { return u.Unit == id })
	if err != nil || i < 0 {
		return err
	}
	env, err := x.unit(ctx, units[i], blobs)
	to.Environment = &env
	return err
}

// withSecrets returns names with those of the secrets that a function's version reads.
func withSecrets(names []string, function json.RawMessage) ([]string, error) {
	f, err := spec.ReadFunctionVersion(function)
	for _, s := range f.Secrets {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names, err
}

func unitOf(row store.Unit, v landfall.Version) store.GroupUnit {
	return store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: row.Unit, UID: v.UID, Number: v.Number,
		Digest: v.Digest}}
}

// addTag adds a function tag with the versions that it names. Conflict when one of them is not the app's.
func (x *Exporter) addTag(ctx context.Context, app landfall.App, d *Document, name string, blobs contents) error {
	t, err := versioning.FunctionTagOf(ctx, x.DB, app.Namespace, name)
	if err != nil {
		return err
	}
	d.Tags = append(d.Tags, Tag{Name: name, Functions: t.Functions})
	for _, f := range t.Functions {
		if f.App != app.ID {
			return landfall.Errorf("parcel.Prepare", landfall.Conflict, "a trigger of release %s calls the function tag %s, "+
				"which names %s, a function that %s does not have: an archive has the functions of one app", d.Release, name,
				f.Name, app.Name)
		}
		if err := x.addVersion(ctx, app, d, f.Reference(), blobs); err != nil {
			return err
		}
	}
	return nil
}

// unit returns a unit of the release; nil when it has none of the name.
func (d *Document) unit(id landfall.UnitID) *Unit {
	i := slices.IndexFunc(d.Units, func(u Unit) bool { return u.ID() == id })
	if i < 0 {
		return nil
	}
	return &d.Units[i]
}

func (d *Document) has(id landfall.UnitID) bool { return d.unit(id) != nil }

// function returns the function of the release, or of the versions beside it, that has a uid; nil when there is none.
func (d *Document) function(name string, uid landfall.UID) *Unit {
	if u := d.unit(landfall.UnitID{Kind: landfall.FunctionUnit, Name: name}); u != nil && u.UID == uid {
		return u
	}
	for i, v := range d.Versions {
		if v.Function.Name == name && v.Function.UID == uid {
			return &d.Versions[i].Function
		}
	}
	return nil
}

// checkBeside fails unless the versions beside the release are whole, and belong there.
func (p *Parcel) checkBeside(ids map[landfall.UnitID]bool) error {
	d := p.Document
	for i, v := range d.Versions {
		f, pkg := v.Function, v.Package
		if f.Kind != landfall.FunctionUnit || pkg.Kind != landfall.PackageUnit || !ids[f.ID()] ||
			spec.ReadPackage(f.Spec) != pkg.Name || d.function(f.Name, f.UID) != &d.Versions[i].Function {
			return invalid("has the %s beside its release, where it does not belong, or twice", f.ID())
		}
		its, units := map[landfall.UnitID]bool{f.ID(): true, pkg.ID(): true}, []Unit{f, pkg}
		if v.Environment != nil {
			units = append(units, *v.Environment)
			if v.Environment.Kind != landfall.EnvironmentUnit || d.has(v.Environment.ID()) {
				return invalid("has the %s beside its release, where it does not belong", v.Environment.ID())
			}
		}
		for _, u := range units {
			if err := p.checkUnit(u, its); err != nil {
				return err
			}
		}
		if err := p.checkRuns(f, v.Environment); err != nil {
			return err
		}
	}
	return nil
}

// checkReferences fails unless the document says what each reference of a unit means.
func (d *Document) checkReferences() error {
	known := map[landfall.Reference]bool{}
	for _, u := range d.Units {
		refs, tag, err := named(u)
		if err != nil {
			return err
		}
		if tag != "" && !d.knowsTag(tag) {
			return invalid("lacks the function tag %s, which the %s calls", tag, u.ID())
		}
		for _, ref := range refs {
			if !known[ref] && !d.knows(ref) {
				return invalid("lacks the version %s, which the %s names", ref, u.ID())
			}
			known[ref] = true
		}
	}
	return nil
}

// checkNames fails unless all that names lead to is there.
func (d *Document) checkNames() error {
	for name, uid := range d.Names {
		ref, err := landfall.ParseReference(name)
		if err != nil || d.function(ref.Name, uid) == nil {
			return invalid("lacks the version %q of a function", name)
		}
	}
	for _, a := range d.Aliases {
		if err := a.check(); err != nil {
			return err
		}
		if d.unit(landfall.UnitID{Kind: landfall.FunctionUnit, Name: a.Function}) == nil || len(a.To) == 0 {
			return invalid("has the alias %s:%s, which leads nowhere", a.Function, a.Name)
		}
		for _, s := range a.To {
			if d.function(a.Function, s.UID) == nil {
				return invalid("lacks the version %s, to which the alias %s:%s leads", s.UID, a.Function, a.Name)
			}
		}
	}
	for _, t := range d.Tags {
		if err := versioning.CheckFunctionTag(t.Name); err != nil || len(t.Functions) == 0 {
			return invalid("has the function tag %q, which cannot be called so, or names nothing", t.Name)
		}
		for _, f := range t.Functions {
			if d.function(f.Name, f.UID) == nil {
				return invalid("lacks the version %s of %s, which the function tag %s names", f.UID, f.Name, t.Name)
			}
		}
	}
	return nil
}

// check fails unless an alias can be made.
func (a Alias) check() error {
	const percent, most = 100, 2
	sum := 0
	for _, s := range a.To {
		sum += s.Percent
	}
	if why := landfall.UnfitName(a.Name); why != "" {
		return invalid("has the alias %q of %s: %s", a.Name, a.Function, why)
	}
	if len(a.To) > 0 && sum != percent || len(a.To) > most {
		return invalid("has the alias %s:%s with %d versions and %d percent", a.Function, a.Name, len(a.To), sum)
	}
	if err := landfall.CheckSticky(a.Sticky); err != nil {
		return invalid("has the alias %s:%s: %s", a.Function, a.Name, landfall.MessageOf(err))
	}
	return nil
}
