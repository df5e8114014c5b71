package pipeline

import (
	"context"
	"io"
	"maps"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
)

// Modules knows which WebAssembly modules can be run.
type Modules interface {
	// Check checks a module and prepares it. Invalid, with what is wrong, when it cannot be run.
	Check(ctx context.Context, module io.Reader) error
}

// deploymentFiles returns the files of a package as its functions see them; none when it is not stored.
func (b builtPlan) deploymentFiles(ctx context.Context, id landfall.UnitID) (preflight.Deployment, error) {
	plan := b.packages[id]
	list, built := b.packageFiles[id]
	switch {
	case built:
	case b.current[id].content() != nil:
		return b.earlierDeployment(ctx, id)
	case plan.deployment != nil:
		list = plan.deployment
	default:
		list = plan.source
	}
	return preflight.DeploymentOf(list, b.open), nil
}

// earlierDeployment returns the stored files of an earlier version of a package.
func (b builtPlan) earlierDeployment(ctx context.Context, id landfall.UnitID) (preflight.Deployment, error) {
	content, err := landfall.ReadContent[landfall.PackageContent](b.current[id].content())
	if err != nil || content.Deployment == nil {
		return preflight.Deployment{}, err
	}
	d, err := preflight.Stored(ctx, b.Objects, *content.Deployment)
	return d, landfall.Ignore(err, landfall.NotFound) // it was just collected
}

func (b builtPlan) checkModule(ctx context.Context, f spec.Function, d preflight.Deployment) error {
	name, _, err := environment.Module(slices.Sorted(maps.Keys(d.Files)), f.FunctionName)
	if err != nil {
		return err
	}
	file, err := d.Open(ctx, d.Files[name])
	if err != nil {
		return err
	}
	err = b.Modules.Check(ctx, file)
	_ = file.Close() // it was only read
	if err != nil {
		return &landfall.Error{Op: "pipeline.build", Kind: landfall.KindOf(err), Err: err,
			Message: "its module " + name + ": " + landfall.MessageOf(err)}
	}
	return nil
}
