package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
)

// checkFunctions fails for a new version of a function that cannot be run, once all files of its package are known: its
// WebAssembly module or container image is broken, or its entry point is no file of the package, no function of its
// source, takes a WebSocket, needs a library that is not installed, or is in a Python file that cannot be compiled.
func (b builtPlan) checkFunctions(ctx context.Context) error {
	image := preflight.Image{Below: b.Scratch}
	defer image.Remove()
	var d preflight.Deployment
	of := "" // the package to which it belongs
	var plan packagePlan
	var entries []entryFile
	for _, f := range preflight.ByPackage(b.spec.Functions) {
		_, known := b.current[landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}]
		env, err := preflight.EnvironmentOf(b.spec, f.Environment)
		if known || err != nil {
			continue
		}
		if of != f.Package {
			if d, err = b.deploymentFiles(ctx, landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package}); err != nil {
				return err
			}
			of, plan = f.Package, b.packages[landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package}]
		}
		if len(d.Files) == 0 {
			continue
		}
		verb := "will not run"
		switch {
		case env.Modules():
			verb, err = "cannot be run", b.checkModule(ctx, f, d)
		case env.Images():
			err = image.Check(ctx, env, f, d)
		// for a stored zip, the build output is checked
		case env.IsCompiled(plan.pkg.BuildCommand) && !artifact.IsZip(plan.source):
			err = preflight.CheckCompiled(ctx, env, f.FunctionName, preflight.DeploymentOf(plan.source, b.open))
		default:
			entry := entryFile{function: f, env: env}
			entry.path, entry.source, err = b.checkSource(ctx, env, f.FunctionName, d)
			entries = append(entries, entry)
		}
		if err != nil {
			return landfall.Wrapf("pipeline.build", landfall.KindOf(err), err, "%s: Function %s %s: %s", f.Pos, f.Name, verb,
				landfall.MessageOf(err))
		}
	}
	return b.compile(ctx, entries)
}

// checkSource fails for an entry point that checkEntry refuses, or that needs FastAPI where it is not installed. It
// returns what checkEntry does.
func (b builtPlan) checkSource(ctx context.Context, env environment.Environment, entrypoint string,
	d preflight.Deployment,
) (file string, source []byte, err error) {
	file, source, err = preflight.CheckEntry(ctx, env, entrypoint, d)
	if err == nil && b.HasFastAPI != nil && env.NeedsFastAPI(d.Modes, source, entrypoint) && !b.HasFastAPI() {
		err = landfall.Errorf("pipeline.build", landfall.Invalid,
			"%s needs FastAPI, which neither its package nor the server has: write fastapi into requirements.txt and let the "+
				"package be built "+"(buildcmd: build), or install it on the server (apt-get install python3-fastapi)", file)
	}
	return file, source, err
}
