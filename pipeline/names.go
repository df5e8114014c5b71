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
			return nil, placed(a.Object, p.notYet(ctx, a.References(), err))
		}
		declared = append(declared, d)
	}
	for _, t := range p.spec.FunctionTags {
		d := declaredObject(landfall.FunctionTagUnit, t.Object)
		var err error
		if d.Pinned, d.Holds, err = deploy.DeclaredPins(ctx, p.DB, p.app, t.Functions); err != nil {
			return nil, placed(t.Object, p.notYet(ctx, t.Functions, err))
		}
		declared = append(declared, d)
	}
	return declared, nil
}

// notYet says of a version that is not there that the commit makes the first one of its function.
func (p plan) notYet(ctx context.Context, refs []landfall.Reference, err error) error {
	if !landfall.Is(err, landfall.NotFound) {
		return err
	}
	for _, ref := range refs {
		id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}
		if _, there := p.DB.UnitInNamespace(ctx, p.app.Namespace, id); !ref.MeansRelease() && p.declaresFunction(id) &&
			landfall.Is(there, landfall.NotFound) {
			return landfall.Wrapf("pipeline.plan", landfall.NotFound, err,
				"%s has no version %q yet: this commit makes its first one, which is called latest", id, ref.Selector)
		}
	}
	return err
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
