package parcel

import (
	"context"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// beside is a version beside the release, as it is made here.
type beside struct {
	named  landfall.Reference // in the archive, by its uid
	uid    landfall.UID       // here
	units  []versioning.Unit  // its environment, if it has its own, its package, and itself
	stored map[landfall.UnitID]versioning.Stored
	made   store.UnitNumber
	parts  []store.GroupUnit // of units, when they are made
}

// digest is that of the function.
func (b *beside) digest() landfall.Digest { return b.units[len(b.units)-1].Digest }

// prepareBeside computes what the versions beside the release are here, and how they are called.
func (w *installation) prepareBeside(ctx context.Context) error {
	for _, v := range w.parcel.Document.Versions {
		var declared []versioning.Declared
		for _, u := range []Unit{v.Package, v.Function} {
			d, err := w.content(u)
			if err != nil {
				return err
			}
			declared = append(declared, d)
		}
		for _, ref := range declared[1].Refs {
			env := w.parcel.Document.unit(ref)
			if env == nil && v.Environment != nil && v.Environment.ID() == ref {
				env = v.Environment
			}
			if env != nil && ref.Kind == landfall.EnvironmentUnit {
				declared = append(declared, versioning.Declared{Unit: ref, Spec: env.Spec, Where: "the archive"})
			}
		}
		units, err := versioning.Resolve(declared)
		if err != nil {
			return err
		}
		b := &beside{named: landfall.Reference{Name: v.Function.Name, Selector: string(v.Function.UID)},
			uid: landfall.NewUID(), stored: map[landfall.UnitID]versioning.Stored{}}
		own := []landfall.UnitID{v.Package.ID(), v.Function.ID()}
		if v.Environment != nil {
			own = append([]landfall.UnitID{v.Environment.ID()}, own...)
		}
		for _, id := range own {
			if err := w.checkOwner(ctx, id); err != nil {
				return err
			}
			i := slices.IndexFunc(units, func(u versioning.Unit) bool { return u.Unit == id })
			b.units = append(b.units, units[i])
		}
		if err := w.share(ctx, b); err != nil {
			return err
		}
		w.beside = append(w.beside, b)
	}
	return nil
}

// share gives a version beside the release the uid of one with the same content, in the archive or here: it is that.
func (w *installation) share(ctx context.Context, b *beside) error {
	for _, same := range w.beside {
		if same.named.Name == b.named.Name && same.digest() == b.digest() {
			b.uid = same.uid
		}
	}
	row, err := w.DB.Unit(ctx, w.app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: b.named.Name})
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	there, err := w.DB.VersionByDigest(ctx, row.ID, b.digest())
	if err == nil {
		b.uid = there.UID
	}
	return landfall.Ignore(err, landfall.NotFound)
}

// versionOf returns the version beside the release that a reference of the archive means; nil for the release's own,
// and for what the archive does not know.
func (w *installation) versionOf(ref landfall.Reference) (b *beside, known bool) {
	uid, known := w.parcel.Document.Names[ref.String()]
	if !known {
		return nil, false
	}
	for _, b := range w.beside {
		if b.named.Name == ref.Name && b.named.Selector == string(uid) {
			return b, true
		}
	}
	return nil, true
}

// here returns a reference of the archive as it is called here.
func (w *installation) here(ref landfall.Reference) landfall.Reference {
	b, known := w.versionOf(ref)
	switch {
	case b != nil:
		ref.Selector = string(b.uid)
	case known:
		ref.Selector = landfall.Latest
	}
	return ref
}

// pinned returns the versions beside the release that references of the archive mean.
func (w *installation) pinned(refs []landfall.Reference) (all []*beside) {
	for _, ref := range refs {
		if b, _ := w.versionOf(ref); b != nil {
			all = append(all, b)
		}
	}
	return all
}

func digests(versions []*beside) (all []landfall.Digest) {
	for _, b := range versions {
		all = append(all, b.digest())
	}
	return all
}

// makeBeside makes the versions beside the release. Unavailable when one was made meanwhile.
func (w *installation) makeBeside(ctx context.Context, tx *store.Tx) error {
	for _, b := range w.beside {
		apply := versioning.Apply{App: w.app, UID: b.uid, Commit: w.parcel.Document.Commit,
			Production: w.line == landfall.Production, Units: b.units, Declares: w.parcel.Document.has, Stored: b.stored,
			At: w.Now()}
		units, err := apply.Versions(ctx, tx)
		if err != nil {
			return err
		}
		b.parts = units
		function := units[len(units)-1]
		if b.made = (store.UnitNumber{Unit: function.UnitID, Number: function.Number}); function.UID != b.uid {
			return landfall.Errorf("parcel.Install", landfall.Unavailable, "%s was changed meanwhile: import it again",
				function.Unit)
		}
	}
	return nil
}

// makeGroups makes an app version, without a release, of each version beside the release: what the version needs to run
// is held, and found, by that. One that is there gets the parts that it has lost.
func (w *installation) makeGroups(ctx context.Context, tx *store.Tx, of landfall.Group, units []store.GroupUnit) error {
	for _, b := range w.beside {
		parts := slices.Clone(b.parts)
		for _, u := range units {
			if slices.Contains([]landfall.UnitKind{landfall.EnvironmentUnit, landfall.ConfigUnit, landfall.SecretUnit},
				u.Unit.Kind) {
				parts = append(parts, u)
			}
		}
		there, err := tx.Group(ctx, of.App, b.uid)
		if err == nil {
			if parts, err = lost(ctx, tx, there, parts); err == nil {
				err = tx.ReplaceGroupUnits(ctx, there, parts)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !landfall.Is(err, landfall.NotFound) {
			return err
		}
		g := of
		g.UID, g.Digest, g.Canaries = b.uid, versioning.GroupDigest(versioning.InForce(parts)), nil
		g.Message = "Imported " + b.named.String() + " beside " + string(w.parcel.Document.Release)
		if err := tx.CreateGroup(ctx, g, parts); err != nil {
			return err
		}
	}
	return nil
}

// lost returns the parts in place of which a group version names versions that are there no more. The others stay as
// they are: one with the same content may be another version, as that of a secret which was revoked and set again.
func lost(ctx context.Context, tx *store.Tx, g landfall.Group, parts []store.GroupUnit) (gone []store.GroupUnit,
	err error) {
	named, err := tx.GroupUnits(ctx, g.App, g.UID)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		at := slices.IndexFunc(named, func(u store.GroupUnit) bool { return u.UnitID == p.UnitID })
		if at < 0 {
			continue
		}
		_, err := tx.VersionByNumber(ctx, p.UnitID, named[at].Number)
		switch {
		case landfall.Is(err, landfall.NotFound):
			gone = append(gone, p)
		case err != nil:
			return nil, err
		}
	}
	return gone, nil
}

// checkAliases fails when a function that is there cannot have an alias that the import makes.
func (w *installation) checkAliases(ctx context.Context, tx *store.Tx) error {
	var made []store.GroupUnit
	for _, a := range w.parcel.Document.Aliases {
		made = append(made, store.GroupUnit{GroupUnit: landfall.GroupUnit{
			Unit: landfall.UnitID{Kind: landfall.AliasUnit, Name: a.Function + ":" + a.Name}}})
	}
	if w.line == landfall.Production { // it declares them
		for _, u := range w.units {
			made = append(made, store.GroupUnit{GroupUnit: landfall.GroupUnit{Unit: u.Unit}})
		}
	}
	return deploy.CheckNewAliases(ctx, tx, w.app, made)
}

// makeNames makes the aliases and function tags that triggers of the release name, unless they are there.
func (w *installation) makeNames(ctx context.Context, tx *store.Tx, units []store.GroupUnit) error {
	here := func(name string, uid landfall.UID) string {
		for _, b := range w.beside {
			if b.named.Name == name && b.named.Selector == string(uid) {
				return string(b.uid)
			}
		}
		i := slices.IndexFunc(units, func(u store.GroupUnit) bool {
			return u.Unit == landfall.UnitID{Kind: landfall.FunctionUnit, Name: name}
		})
		return string(units[i].UID)
	}
	reason := "imported " + string(w.parcel.Document.Release) + " of " + w.parcel.Document.App
	for _, a := range w.parcel.Document.Aliases {
		row, err := tx.Unit(ctx, w.app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: a.Function})
		if err != nil {
			return err
		}
		if _, err := tx.Alias(ctx, row.ID, a.Name); !landfall.Is(err, landfall.NotFound) {
			if err != nil {
				return err
			}
			continue
		}
		n := versioning.NewAlias{Name: a.Name, Create: true, Sticky: &a.Sticky, Actor: w.actor, Reason: reason, At: w.Now()}
		for _, s := range a.To {
			n.To = append(n.To, versioning.Weight{Selector: here(a.Function, s.UID), Percent: s.Percent})
		}
		if _, err := versioning.SetAlias(ctx, tx, row, n); err != nil {
			return err
		}
		w.notes = append(w.notes, "made the alias "+a.Function+":"+a.Name)
	}
	for _, t := range w.parcel.Document.Tags {
		if _, err := tx.FunctionTag(ctx, w.app.Namespace, t.Name); !landfall.Is(err, landfall.NotFound) {
			if err != nil {
				return err
			}
			continue
		}
		n := versioning.NewFunctionTag{Namespace: w.app.Namespace, Name: t.Name, Create: true, Actor: w.actor,
			Reason: reason, At: w.Now()}
		for _, f := range t.Functions {
			n.Functions = append(n.Functions, landfall.Reference{Name: f.Name, Selector: here(f.Name, f.UID)})
		}
		if _, _, err := versioning.SetFunctionTag(ctx, tx, n); err != nil {
			return err
		}
		w.notes = append(w.notes, "made the function tag "+t.Name)
	}
	return nil
}
