package parcel

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// How much a document may have, as each is looked for among all.
const (
	maxUnits  = 10_000
	maxBeside = 1000 // of each kind
)

// check fails unless the document describes a release that can be made of the blobs.
func (p *Parcel) check() error {
	d, ids, files := p.Document, map[landfall.UnitID]bool{}, 0
	if len(d.Units) == 0 {
		return invalid("has a release without units")
	}
	for what, n := range map[string]int{"units": len(d.Units), "names": len(d.Names)} {
		if n > maxUnits {
			return invalid("has %d %s; the limit is %d", n, what, maxUnits)
		}
	}
	for what, n := range map[string]int{"versions": len(d.Versions), "aliases": len(d.Aliases),
		"function tags": len(d.Tags)} {
		if n > maxBeside {
			return invalid("has %d %s beside its release; the limit is %d", n, what, maxBeside)
		}
	}
	if err := d.checkAbout(); err != nil {
		return err
	}
	for _, u := range d.Units {
		if !slices.Contains(landfall.UnitKinds(), u.Kind) || u.Kind == landfall.SecretUnit {
			return invalid("has a unit of the kind %q, which does not belong there", u.Kind)
		}
		if ids[u.ID()] {
			return invalid("has the %s twice", u.ID())
		}
		ids[u.ID()] = true
		if files += len(u.Files); files > artifact.MaxFiles {
			return invalid("has more than %d static files", artifact.MaxFiles)
		}
	}
	for _, u := range d.Units {
		err := p.checkUnit(u, ids)
		if err == nil && u.Kind == landfall.FunctionUnit {
			err = p.checkRuns(u, nil)
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(p.checkBeside(ids), p.Document.checkReferences(), p.Document.checkNames())
}

// checkAbout fails unless what the document says of where its release comes from can be stored and shown.
func (d *Document) checkAbout() error {
	if d.Commit != "" {
		if _, err := landfall.ParseCommitSHA(string(d.Commit)); err != nil {
			return invalid("names a commit that is none: %q", d.Commit)
		}
	}
	const most = 1000
	for _, said := range [][2]string{{"app", d.App}, {"release", string(d.Release)}, {"branch", d.Branch},
		{"actor", d.Actor}} {
		if len(said[1]) > most || !utf8.ValidString(said[1]) || strings.ContainsFunc(said[1], unicode.IsControl) {
			return invalid("names %s %.40q: such a name has at most %d bytes, and no control characters", said[0], said[1], most)
		}
	}
	secrets := slices.Sorted(slices.Values(d.Secrets))
	if len(slices.Compact(secrets)) < len(d.Secrets) {
		return invalid("names a secret twice")
	}
	return nil
}

// checkUnit fails unless a unit is whole, and what it needs is in the document.
func (p *Parcel) checkUnit(u Unit, ids map[landfall.UnitID]bool) error {
	if !slices.Contains([]landfall.UnitKind{landfall.StaticUnit, landfall.ConfigUnit, landfall.AliasUnit,
		landfall.FunctionTagUnit}, u.Kind) {
		if err := spec.CheckName(u.Name); err != nil {
			return invalid("has a %s with a wrong name: %s", u.Kind, landfall.MessageOf(err))
		}
	}
	if (u.Kind != landfall.StaticUnit && u.Files != nil) || (u.Kind != landfall.PackageUnit && (u.Source != nil ||
		u.Deployment != nil)) {
		return invalid("has files of the %s, which can have none", u.ID())
	}
	var err error
	switch u.Kind { //nolint:exhaustive // the others are triggers
	case landfall.StaticUnit:
		return p.checkStatic(u)
	case landfall.PackageUnit:
		if _, _, err = spec.ReadPackageVersion(u.Spec); err == nil {
			return p.checkPackage(u)
		}
	case landfall.FunctionUnit:
		pkg := landfall.UnitID{Kind: landfall.PackageUnit, Name: spec.ReadPackage(u.Spec)}
		if _, err = spec.ReadFunctionVersion(u.Spec); err == nil && !ids[pkg] {
			return invalid("lacks the %s, which the %s needs", pkg, u.ID())
		}
	case landfall.EnvironmentUnit:
		_, _, err = spec.ReadEnvironmentVersion(u.Name, u.Spec)
	case landfall.ConfigUnit:
		if _, err = spec.ReadConfigVersion(u.Spec); err == nil && u.Name != landfall.ConfigName {
			return invalid("has a configuration that is called %q", u.Name)
		}
	case landfall.AliasUnit, landfall.FunctionTagUnit:
		var refs []landfall.Reference
		if refs, err = spec.CheckNameVersion(u.ID(), u.Spec); err == nil {
			return leads(u, refs, ids)
		}
	default:
		var t spec.Trigger
		if t, err = spec.ReadTriggerVersion(u.ID(), u.Spec); err == nil {
			return leads(u, t.References(), ids)
		}
	}
	if err != nil {
		return invalid("has a %s that cannot be read: %s", u.ID(), landfall.MessageOf(err))
	}
	return nil
}

// checkRuns fails unless a function can run here in its environment: one of its own, or that of the release.
func (p *Parcel) checkRuns(function Unit, own *Unit) error {
	f, err := spec.ReadFunctionVersion(function.Spec)
	if err != nil {
		return err
	}
	env := p.Document.unit(landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: f.Environment.Name})
	if env == nil && own != nil && own.Name == f.Environment.Name {
		env = own
	}
	e := landfall.Environment{Name: f.Environment.Name}
	if env != nil {
		e, _, err = spec.ReadEnvironmentVersion(e.Name, env.Spec)
	}
	if err == nil {
		_, err = environment.Of(e)
	}
	if err != nil {
		return invalid("has the %s, which cannot run here: %s", function.ID(), landfall.MessageOf(err))
	}
	return nil
}

// leads fails unless the functions to which a unit leads are in the document.
func leads(u Unit, refs []landfall.Reference, ids map[landfall.UnitID]bool) error {
	for _, ref := range refs {
		if id := (landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}); !ids[id] {
			return invalid("lacks the %s, to which the %s leads", id, u.ID())
		}
	}
	return nil
}

// checkStatic fails unless every file is there, under a path at which it can be served.
func (p *Parcel) checkStatic(u Unit) error {
	s, err := landfall.ReadStaticSpec(u.Spec)
	if err != nil || s.Path != u.Name || u.Name != path.Clean(u.Name) || !strings.HasPrefix(u.Name, "/") {
		return invalid("has static files at %q, which is no path", u.Name)
	}
	before := ""
	for _, f := range u.Files {
		unseen := func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }
		below := f.Path == u.Name || strings.HasPrefix(f.Path, strings.TrimSuffix(u.Name, "/")+"/")
		if f.Path <= before || f.Path != path.Clean(f.Path) || !below || strings.ContainsFunc(f.Path, unseen) {
			return invalid("has a file at %q, where it cannot be served, or twice", f.Path)
		}
		before = f.Path
		if err := p.checkBlob(f.Blob, f.Path); err != nil {
			return err
		}
		if f.Git != "" && f.Git != p.blobs[f.Digest].git {
			return invalid("says that git calls %s %s, and it is %s", f.Path, f.Git, p.blobs[f.Digest].git)
		}
	}
	if len(u.Files) == 0 {
		return invalid("has no file of the %s", u.ID())
	}
	return nil
}

func (p *Parcel) checkPackage(u Unit) error {
	if u.Deployment == nil {
		return invalid("lacks what runs of the %s", u.ID())
	}
	for _, b := range []*Blob{u.Source, u.Deployment} {
		if b == nil {
			continue
		}
		if err := p.checkBlob(*b, u.ID().String()); err != nil {
			return err
		}
	}
	return nil
}

// checkBlob fails unless a blob is there with its size.
func (p *Parcel) checkBlob(b Blob, of string) error {
	if there, ok := p.blobs[b.Digest]; !ok || there.size != b.Size {
		return invalid("lacks %s of %s", b.Digest, of)
	}
	return nil
}
