package pipeline

import (
	"context"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/versioning"
)

// declareNames declares the aliases and function tags of the commit.
func (p plan) declareNames(ctx context.Context) ([]versioning.Declared, error) {
	var declared []versioning.Declared
	for _, a := range p.spec.Aliases {
		d := declaredObject(landfall.AliasUnit, a.Object)
		d.Unit.Name = a.UnitName()
		err := versioning.CheckAliasName(ctx, p.DB, p.app, a.Function, a.Name)
		if err == nil {
			d.Pinned, d.Holds, err = deploy.DeclaredPins(ctx, p.DB, p.app, a.References())
		}
		if err != nil {
			return nil, placed(a.Object, err)
		}
		declared = append(declared, d)
	}
	for _, t := range p.spec.FunctionTags {
		d := declaredObject(landfall.FunctionTagUnit, t.Object)
		var err error
		if d.Pinned, d.Holds, err = deploy.DeclaredPins(ctx, p.DB, p.app, t.Functions); err != nil {
			return nil, placed(t.Object, err)
		}
		declared = append(declared, d)
	}
	return declared, nil
}

// placed is an error about an object, with its place.
func placed(o spec.Object, err error) error {
	return landfall.Wrapf("pipeline.plan", landfall.KindOf(err), err, "%s: %s", o.Pos, landfall.MessageOf(err))
}

// checkNames fails unless the function tag that a trigger names is declared by the commit, or is there.
func (p plan) checkNames(ctx context.Context, t spec.Trigger) error {
	if t.Tag == "" || slices.ContainsFunc(p.spec.FunctionTags, func(d spec.FunctionTag) bool { return d.Name == t.Tag }) {
		return nil
	}
	return deploy.CheckTriggerTag(ctx, p.DB, p.app, t)
}
