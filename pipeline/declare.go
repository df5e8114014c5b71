package pipeline

import (
	"context"
	"encoding/json"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/tree"
	"landfall.dev/landfall/versioning"
)

// draft is what a run knows before it looks at units: the secrets that it uses, and what it is compared with.
type draft struct {
	source

	// the versions that a person makes; the commit then has these units alone
	byHand       map[landfall.UnitID]landfall.NewVersion
	released     bool              // a push wants a release
	secrets      []store.GroupUnit // named by the functions
	buildSecrets buildSecrets
	base         []landfall.GroupUnit                // compared with in the diff
	baseUnits    []store.GroupUnit                   // the same, as stored
	baseGroup    landfall.UID                        // the group version to which it belongs; empty: there is none
	fetched      map[archiveID][]builder.ArchiveFile // the archives that are no files of the commit
}

// plan is the result that a commit will have, before any of it is stored. A plan without units is only a draft: then a
// build makes the files.
type plan struct {
	draft

	statics   map[landfall.UnitID]assets.Unit
	packages  map[landfall.UnitID]packagePlan
	units     []versioning.Unit
	images    map[string]string // environment to the image that is pulled for its packages
	current   map[landfall.UnitID]storedVersion
	manifests map[landfall.UnitID]earlierManifests // of the static units that were asked for
	changes   []landfall.UnitChange
}

// packagePlan says what is in a package's archives.
type packagePlan struct {
	pkg        spec.Package
	source     []builder.ArchiveFile
	deployment []builder.ArchiveFile
	unzipped   bool               // an archive that is a zip was unpacked into its files
	warmup     environment.Warmup // of its build
	// the command that the environment's document names in place of its own; empty: it makes no difference
	builder string
	fork    landfall.Digest // names the fork's commit whose build makes it; empty: no fork's does
}

// declare makes units with digests from the specs and the files. files are the commit's, overlaid with build outputs.
func (p plan) declare(ctx context.Context, files []landfall.File) ([]versioning.Unit, error) {
	var declared []versioning.Declared
	statics, err := p.declareApp(files)
	if err != nil {
		return nil, err
	}
	declared = append(declared, statics...)
	packages, err := p.declarePackages(files)
	if err != nil {
		return nil, err
	}
	declared = append(declared, packages...)
	for _, e := range p.spec.Environments {
		declared = append(declared, declaredObject(landfall.EnvironmentUnit, e.Object))
	}
	for _, f := range p.spec.Functions {
		d := declaredObject(landfall.FunctionUnit, f.Object)
		d.Refs = []landfall.UnitID{
			{Kind: landfall.PackageUnit, Name: f.Package},
			{Kind: landfall.EnvironmentUnit, Name: f.Environment},
		}
		declared = append(declared, d)
	}
	named, err := p.declareNames(ctx)
	if err != nil {
		return nil, err
	}
	declared = append(declared, named...)
	for _, t := range p.spec.Triggers {
		d := declaredObject(t.Kind, t.Object)
		if err = p.checkNames(ctx, t); err == nil {
			d.Pinned, err = deploy.PinnedDigests(ctx, p.DB, p.app, t, p.spec.Aliases)
		}
		if err != nil {
			return nil, placed(t.Object, err)
		}
		declared = append(declared, d)
	}
	return versioning.Resolve(declared)
}

func declaredObject(kind landfall.UnitKind, o spec.Object) versioning.Declared {
	return versioning.Declared{Unit: landfall.UnitID{Kind: kind, Name: o.Name}, Spec: o.Spec, Where: o.Pos.String()}
}

// declareApp declares the tenant configuration and the static units.
func (p plan) declareApp(files []landfall.File) ([]versioning.Declared, error) {
	app := p.spec.App
	if app == nil {
		return nil, nil
	}
	var declared []versioning.Declared
	if app.Config != nil {
		declared = append(declared, versioning.Declared{
			Unit: landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName}, Spec: app.Config,
			Where: app.Pos.String()})
	}
	units, warnings, err := assets.Select(preflight.RulesOf(app), tree.Of(files).Expand(artifact.MaxFiles))
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		p.logf("warning: %s", warning)
	}
	for _, u := range units {
		if err := checkFileNames(u); err != nil {
			return nil, err
		}
		p.statics[u.ID()] = u
		declared = append(declared, versioning.Declared{Unit: u.ID(), Spec: u.Spec(), Content: u.Content(),
			Where: u.Rule.Where})
	}
	return declared, nil
}

// checkFileNames fails for a file to which no address can lead, because visitors' paths with such characters are
// refused.
func checkFileNames(u assets.Unit) error {
	for _, e := range u.Entries {
		if strings.ContainsFunc(e.Path, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }) {
			return landfall.Errorf("pipeline.plan", landfall.Invalid,
				"%s: %q cannot be served, because its name has a control character or a backslash: rename it, or exclude it",
				u.Rule.Where, e.File.Path)
		}
	}
	return nil
}

// declarePackages declares the packages with the files of their archives.
func (p plan) declarePackages(files []landfall.File) ([]versioning.Declared, error) {
	archives := preflight.ArchivesOf(p.spec)
	var declared []versioning.Declared
	for _, pkg := range p.spec.Packages {
		plan := packagePlan{pkg: pkg}
		var err error
		if plan.source, err = p.archive(archives, pkg, sourceArchive, files); err != nil {
			return nil, err
		}
		if plan.deployment, err = p.archive(archives, pkg, deploymentArchive, files); err != nil {
			return nil, err
		}
		if env, err := preflight.EnvironmentOf(p.spec, pkg.Environment); err == nil && plan.source != nil &&
			plan.deployment == nil {
			plan.pkg.BuildCommand, plan.warmup, plan.builder = preflight.BuildCommand(p.spec, pkg, env)
		}
		if plan.pkg.BuildCommand != "" && plan.source != nil {
			plan.fork = p.ownKey("")
		}
		d := declaredObject(landfall.PackageUnit, pkg.Object)
		if plan.source != nil || plan.deployment != nil {
			if d.Content, err = plan.content(); err != nil {
				return nil, err
			}
		}
		if err := p.declareImage(&d, plan); err != nil {
			return nil, err
		}
		p.packages[d.Unit] = plan
		declared = append(declared, d)
	}
	return declared, nil
}

// archive returns the files of an archive of a package: those of the commit, or those that were fetched; nil when the
// package has no such archive.
func (d draft) archive(archives map[string]builder.ArchiveSpec, pkg spec.Package, part archivePart,
	files []landfall.File) ([]builder.ArchiveFile, error) {
	ref := part.of(pkg)
	if ref.Name == "" {
		return d.fetched[archiveID{pkg.Name, part}], nil
	}
	selected, warnings, err := builder.SelectArchive(archives[ref.Name], files)
	for _, warning := range warnings {
		d.logf("warning: %s", warning)
	}
	return selected, err
}

// content lists the package's files for its digest: archive, path, mode and content.
func (p packagePlan) content() ([]byte, error) {
	rows := [][4]string{}
	for _, a := range []struct {
		name  string
		files []builder.ArchiveFile
	}{{"deployment", p.deployment}, {"source", p.source}} {
		for _, f := range a.files {
			mode := "644"
			switch {
			case f.File.Mode == landfall.Executable:
				mode = "755"
			case f.File.IsBuiltLink():
				mode = "link"
			case artifact.IsZip(a.files):
				mode = "zip"
			}
			rows = append(rows, [4]string{a.name, f.Path, mode, f.File.ContentID()})
		}
	}
	if p.fork != "" {
		rows = append(rows, [4]string{"fork", "", "", string(p.fork)})
	}
	if p.builder != "" {
		rows = append(rows, [4]string{"builder", "", "", p.builder})
	}
	return json.Marshal(rows)
}
