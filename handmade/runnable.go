package handmade

import (
	"context"
	"maps"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/versioning"
)

// checkRuns fails with Invalid for a function that could not run what is stored already: as a run checks what it
// stores. The image of a container is looked at when it starts.
func (m *Maker) checkRuns(ctx context.Context, hand deploy.HandVersion, latest landfall.Version) error {
	if hand.Unit.Kind != landfall.FunctionUnit || hand.Package.Number == 0 && hand.Environment+hand.Entrypoint == "" {
		return nil
	}
	fields, err := spec.WithCode(latest.Spec, hand.Package.Unit.Name, hand.Environment, hand.Entrypoint)
	if err != nil {
		return err
	}
	f, err := spec.ReadFunctionVersion(fields)
	if err != nil {
		return err
	}
	pkg := hand.Package
	if pkg.Number == 0 {
		if _, pkg, err = versioning.PackageOf(ctx, m.DB, latest); err != nil {
			return err
		}
	}
	content, err := landfall.ReadContent[landfall.PackageContent](pkg.Content)
	if err != nil || content.Deployment == nil {
		return err
	}
	env, err := environment.Of(landfall.Environment{Name: f.Environment.Name})
	if err == nil {
		err = m.checkEntry(ctx, env, f.Entrypoint, pkg, content)
	}
	if err != nil {
		return landfall.Wrapf("handmade.Make", landfall.KindOf(err), err, "the function %s will not run: %s", hand.Unit.Name,
			landfall.MessageOf(err))
	}
	return nil
}

// checkEntry fails for an entry point that the package has not.
func (m *Maker) checkEntry(ctx context.Context, env environment.Environment, entrypoint string, pkg landfall.Version,
	content landfall.PackageContent) error {
	_, build, err := spec.ReadPackageVersion(pkg.Spec)
	if err != nil || env.Images() {
		return err
	}
	if env.IsCompiled(build) && content.Source != nil {
		source, err := preflight.Stored(ctx, m.Objects, *content.Source)
		if err != nil {
			return err
		}
		return preflight.CheckCompiled(ctx, env, entrypoint, source)
	}
	d, err := preflight.Stored(ctx, m.Objects, *content.Deployment)
	switch {
	case err != nil:
		return err
	case env.Modules():
		_, _, err = environment.Module(slices.Sorted(maps.Keys(d.Files)), entrypoint)
	default:
		_, _, err = preflight.CheckEntry(ctx, env, entrypoint, d)
	}
	return err
}
