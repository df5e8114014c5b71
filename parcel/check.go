package parcel

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/versioning"
)

// How much a document may have, as each is looked for among all. Where there is a limit of pushes, it is that.
const (
	maxUnits  = 10_000
	maxBeside = 1000 // of each kind
)

// checkCounts fails when a list of the document is longer than it may be.
func (d *Document) checkCounts() error {
	type list struct {
		what     string
		n, limit int
	}
	files, aliases, tags := 0, map[string]int{}, map[string]int{}
	lists := []list{
		{"units", len(d.Units), maxUnits}, {"names", len(d.Names), maxUnits}, {"secrets", len(d.Secrets), secret.MaxCount},
		{"versions beside its release", len(d.Versions), maxBeside},
		{"aliases beside its release", len(d.Aliases), maxBeside},
		{"function tags beside its release", len(d.Tags), maxBeside},
	}
	for _, u := range d.Units {
		files += len(u.Files)
	}
	lists = append(lists, list{"static files", files, artifact.MaxFiles})
	for _, a := range d.Aliases {
		aliases[a.Function]++
	}
	for _, t := range d.Tags {
		lists = append(lists, list{fmt.Sprintf("functions in the function tag %.40q", t.Name), len(t.Functions),
			versioning.MaxTagged})
		for _, f := range t.Functions {
			tags[f.Name]++
		}
	}
	for name, n := range aliases {
		lists = append(lists, list{fmt.Sprintf("aliases of the function %.40q", name), n, versioning.MaxAliases})
	}
	for name, n := range tags {
		lists = append(lists, list{fmt.Sprintf("function tags that name the function %.40q", name), n, versioning.MaxTagsOf})
	}
	for _, l := range lists {
		if l.n > l.limit {
			return invalid("has %d %s; the limit is %d", l.n, l.what, l.limit)
		}
	}
	return nil
}

// check fails unless the document describes a release that can be made of the blobs.
func (p *Parcel) check() error {
	d, ids := p.Document, map[landfall.UnitID]bool{}
	if len(d.Units) == 0 {
		return invalid("has a release without units")
	}
	if err := d.checkCounts(); err != nil {
		return err
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
	if err := p.checkBeside(ids); err != nil {
		return err
	}
	return cmp.Or(d.checkSecrets(), d.checkReferences(), d.checkNames())
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

// checkSecrets fails when the secrets, with those of the versions beside the release, are more than an app may have, or
// no app can have one.
func (d *Document) checkSecrets() error {
	names := slices.Clone(d.Secrets)
	for _, v := range d.Versions {
		var err error
		if names, err = withSecrets(names, v.Function.Spec); err != nil {
			return err
		}
		if len(names) > secret.MaxCount {
			return invalid("has %d secrets, with those of the versions beside its release; the limit is %d", len(names),
				secret.MaxCount)
		}
	}
	for _, name := range names {
		if err := secret.CheckName(name); err != nil {
			return invalid("names a secret that cannot be: %s", landfall.MessageOf(err))
		}
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
		return checkFunction(u, ids)
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
	return unread(u, err)
}

// unread says that a unit cannot be read when err does.
func unread(u Unit, err error) error {
	if err == nil {
		return nil
	}
	return invalid("has a %s that cannot be read: %s", u.ID(), landfall.MessageOf(err))
}

// checkFunction fails unless a function can be read, its package is in the document, and it names no more than it may.
func checkFunction(u Unit, ids map[landfall.UnitID]bool) error {
	f, err := spec.ReadFunctionVersion(u.Spec)
	if err != nil {
		return unread(u, err)
	}
	if pkg := (landfall.UnitID{Kind: landfall.PackageUnit, Name: spec.ReadPackage(u.Spec)}); !ids[pkg] {
		return invalid("lacks the %s, which the %s needs", pkg, u.ID())
	}
	if len(f.Secrets) > spec.MaxNamed || len(f.Folders) > 2*spec.MaxNamed {
		return invalid("has the %s, which names %d secrets, and %d with its config maps; the limit is %d of each", u.ID(),
			len(f.Secrets), len(f.Folders), spec.MaxNamed)
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
	if len(refs) > versioning.MaxTagged {
		return invalid("has the %s, which leads to %d functions; the limit is %d", u.ID(), len(refs), versioning.MaxTagged)
	}
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
