package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// verifyStored checks, in a run that rebuilds, every stored byte of a version. When something is damaged or gone, the
// run stores all of it again, at keys of its own where others are taken.
func (a *attempt) verifyStored(ctx context.Context, v *storedVersion) error {
	if !a.run.Rebuild || v.Content == nil {
		return nil
	}
	intact, err := a.intact(ctx, v.Version)
	if err != nil || intact {
		return err
	}
	a.logf("%s: what is stored of it is damaged, and is stored again", v.Unit)
	v.storeAgain = true
	return nil
}

// intact reports whether everything that is stored of a version is undamaged. An error means that this cannot be
// checked now.
func (a *attempt) intact(ctx context.Context, v landfall.Version) (bool, error) {
	type object struct {
		key    string
		digest landfall.Digest
	}
	var objects []object
	switch v.Unit.Kind {
	case landfall.StaticUnit:
		manifest, err := assets.Load(ctx, a.Objects, assets.RefIn(v.Content))
		if err != nil {
			return false, ignoreDamage(err)
		}
		for _, f := range manifest.Files() {
			objects = append(objects, object{f.Key, f.Digest})
		}
	case landfall.PackageUnit:
		content, err := landfall.ReadContent[landfall.PackageContent](v.Content)
		if err != nil {
			return false, err
		}
		for _, a := range content.Archives() {
			objects = append(objects, object{a.Key, a.Digest})
		}
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.FunctionUnit, landfall.HTTPTrigger, landfall.TimeTrigger,
		landfall.QueueTrigger, landfall.AliasUnit, landfall.FunctionTagUnit,
		landfall.SecretUnit:
	}
	for _, o := range objects {
		if same, err := a.holds(ctx, o.key, o.digest); err != nil || !same {
			return false, ignoreDamage(err)
		}
	}
	return true, nil
}

// ignoreDamage returns an error that means that nothing can be checked now; nil for any other error.
func ignoreDamage(err error) error {
	if kind := landfall.KindOf(err); err != nil && kind != landfall.NotFound && kind != landfall.Internal {
		return err
	}
	return nil
}
