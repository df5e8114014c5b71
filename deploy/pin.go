package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Pin returns the version of a secret that a new release of a line uses: the value that was set last for the line.
// Branches other than production use the value for previews, if there is one. Invalid, with a sentence without a place,
// when there is none or it was revoked; an older one is never used instead.
func Pin(ctx context.Context, r pinReader, app landfall.App, name string, line landfall.Line) (store.GroupUnit, error) {
	id := landfall.UnitID{Kind: landfall.SecretUnit, Name: name}
	row, err := r.Unit(ctx, app, id)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return store.GroupUnit{}, err
	}
	var v landfall.Version
	if err == nil {
		v, err = NewestSecret(ctx, r, row, line, false)
	}
	if err != nil {
		if landfall.KindOf(err) != landfall.NotFound {
			return store.GroupUnit{}, err
		}
		if _, err := NewestSecret(ctx, r, row, line, true); row.ID != "" && err == nil {
			return store.GroupUnit{}, secretMissing(app, name, "which builds alone get")
		}
		return store.GroupUnit{}, secretMissing(app, name, "which the app does not have")
	}
	content, err := secret.ReadContent(v.Content)
	if err != nil {
		return store.GroupUnit{}, err
	}
	if !content.Revoked.IsZero() {
		return store.GroupUnit{}, secretMissing(app, name, fmt.Sprintf("whose last value (no. %d) was revoked", v.Number))
	}
	return store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: id, UID: v.UID, Number: v.Number,
		Digest: v.Digest}}, nil
}

// pinReader is what Pin needs; the database and its transactions have it.
type pinReader interface {
	Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (store.Unit, error)
	NewestVersion(ctx context.Context, unit string, spec json.RawMessage) (landfall.Version, error)
}

// NewestSecret returns the newest version of a secret for a line, for builds or for functions. NotFound when there is
// none.
func NewestSecret(ctx context.Context, r pinReader, row store.Unit, line landfall.Line,
	build bool) (landfall.Version, error) {
	if line == landfall.Preview {
		v, err := r.NewestVersion(ctx, row.ID, secret.Spec{Build: build, Preview: true}.JSON())
		if err == nil || landfall.KindOf(err) != landfall.NotFound {
			return v, err
		}
	}
	return r.NewestVersion(ctx, row.ID, secret.Spec{Build: build}.JSON())
}

func secretMissing(app landfall.App, name, why string) error {
	return landfall.Errorf("deploy.Pin", landfall.Invalid,
		"the secret %s, %s: set it with landfall secret set %s %s, then push another commit, or: landfall run retry RUN",
		name, why, app.Name, name)
}

// SecretsUnchanged reports whether a group version has the versions of secrets that a new release of a line would get.
// An earlier version with the same value is not the same: it may have been revoked.
func SecretsUnchanged(ctx context.Context, tx *store.Tx, app landfall.App, units []store.GroupUnit,
	line landfall.Line) (bool, error) {
	for _, u := range units {
		if u.Unit.Kind != landfall.SecretUnit {
			continue
		}
		now, err := Pin(ctx, tx, app, u.Unit.Name, line)
		if err = landfall.Ignore(err, landfall.Invalid); err != nil || now.Number != u.Number {
			return false, err
		}
	}
	return true, nil
}

// PinnedDigests returns the digests of the versions that a trigger names by a fixed selector. It leaves out latest and
// aliases, which move while the trigger does not change; declared are those of its spec, which need not be there yet.
func PinnedDigests(ctx context.Context, r versioning.Reader, app landfall.App, t spec.Trigger,
	declared []spec.Alias) ([]landfall.Digest, error) {
	var pinned []landfall.Digest
	for _, ref := range t.References() {
		if ref.Selector == landfall.Latest || ref.Selector == "" || slices.ContainsFunc(declared,
			func(a spec.Alias) bool { return a.Function == ref.Name && a.Name == ref.Selector }) {
			continue
		}
		v, err := versioning.Find(ctx, r, app.Namespace, landfall.FunctionUnit, ref)
		if err == nil {
			err = versioning.CheckWhole(ctx, r, v)
		}
		if err != nil {
			return nil, landfall.Wrapf("deploy.Pin", landfall.KindOf(err), err, "%s names %s: %s",
				landfall.UnitID{Kind: t.Kind, Name: t.Name}, ref, landfall.MessageOf(err)+remedy(ref, err))
		}
		_, err = versioning.FindAlias(ctx, r, app.Namespace, ref)
		switch {
		case err == nil:
			continue
		case landfall.KindOf(err) != landfall.NotFound:
			return nil, err
		}
		pinned = append(pinned, v.Digest)
	}
	return pinned, nil
}

// pinnedReader is what Pinned needs; the database and its transactions have it.
type pinnedReader interface {
	versioning.Reader
	ServedUnits(ctx context.Context, app string, kind landfall.UnitKind) ([]store.ServedUnit, error)
	GroupUnits(ctx context.Context, app string, group landfall.UID) ([]store.GroupUnit, error)
}

// Pinned returns the versions of functions that triggers of an app's accessible releases name by a fixed selector, and
// the versions of packages and environments that these run. They are held although no release has them.
func Pinned(ctx context.Context, r pinnedReader, app landfall.App) (map[store.UnitNumber]bool, error) {
	pinned := map[store.UnitNumber]bool{}
	for _, kind := range landfall.TriggerKinds() {
		served, err := r.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return nil, err
		}
		for _, s := range served {
			t, err := spec.ReadTriggerVersion(s.Unit, s.Spec)
			if landfall.Ignore(err, landfall.Invalid) != nil { // what cannot be read leads nowhere
				return nil, err
			}
			for _, ref := range t.References() {
				if ref.MeansRelease() {
					continue
				}
				if err := addPinned(ctx, r, app, ref, pinned); err != nil {
					return nil, err
				}
			}
		}
	}
	return pinned, nil
}

// LeadsNowhere says which triggers of an app's live release lead nowhere, because what they name is gone, and why.
func LeadsNowhere(ctx context.Context, tx *store.Tx, app landfall.App) (notes []string, err error) {
	units, err := tx.GroupUnits(ctx, app.ID, app.Live)
	if err != nil {
		return nil, err
	}
	declared := namesOf(idsOf(units))
	for _, u := range units {
		if !u.Unit.Kind.IsTrigger() {
			continue
		}
		v, err := tx.VersionByNumber(ctx, u.UnitID, u.Number)
		if err != nil {
			return nil, err
		}
		t, err := spec.ReadTriggerVersion(u.Unit, v.Spec)
		if err == nil && t.Tag != "" && !declared.tags[t.Tag] {
			_, err = versioning.FunctionTagOf(ctx, tx, app.Namespace, t.Tag)
		}
		for _, ref := range t.References() {
			if err == nil && !ref.MeansRelease() && !declared.aliases[ref.String()] {
				_, err = versioning.Find(ctx, tx, app.Namespace, landfall.FunctionUnit, ref)
			}
		}
		switch landfall.KindOf(err) { //nolint:exhaustive // the others are failures
		case landfall.NotFound, landfall.Invalid:
			notes = append(notes, fmt.Sprintf("the %s leads nowhere now: %s", u.Unit, landfall.MessageOf(err)))
		default:
			if err != nil {
				return nil, err
			}
		}
	}
	return notes, nil
}

// addPinned adds the version that a reference names, unless that is an alias, which holds its versions itself.
func addPinned(ctx context.Context, r pinnedReader, app landfall.App, ref landfall.Reference,
	pinned map[store.UnitNumber]bool) error {
	_, err := versioning.FindAlias(ctx, r, app.Namespace, ref)
	if err == nil || !landfall.Is(err, landfall.NotFound) {
		return err
	}
	v, err := versioning.Find(ctx, r, app.Namespace, landfall.FunctionUnit, ref)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	row, err := r.UnitInNamespace(ctx, app.Namespace, v.Unit)
	if err != nil {
		return err
	}
	pinned[store.UnitNumber{Unit: row.ID, Number: v.Number}] = true
	pkg, runs, err := versioning.PackageOf(ctx, r, v)
	if err == nil {
		pinned[store.UnitNumber{Unit: pkg.ID, Number: runs.Number}] = true
	}
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	units, err := r.GroupUnits(ctx, v.App, v.UID)
	for _, u := range units {
		if u.Unit.Kind == landfall.EnvironmentUnit {
			pinned[store.UnitNumber{Unit: u.UnitID, Number: u.Number}] = true
		}
	}
	return err
}

// CheckTriggerTag fails unless there is the function tag that a trigger of an app names, if it names one, and the
// trigger may call the functions: those of its app, and those that people made by hand. Its errors have a sentence
// without a place.
func CheckTriggerTag(ctx context.Context, r tagReader, app landfall.App, t spec.Trigger) error {
	if t.Tag == "" {
		return nil
	}
	named, err := versioning.FunctionTagOf(ctx, r, app.Namespace, t.Tag)
	if err != nil {
		return err
	}
	for _, f := range named.Functions {
		owner, err := r.App(ctx, f.App)
		if err != nil {
			return err
		}
		if owner.ID != app.ID && !owner.OfNamespace() {
			return landfall.Errorf("deploy.CheckTriggerTag", landfall.Invalid,
				"the function tag %s names the function %s of the app %s: a trigger calls functions of its own app, and those "+
					"that were made by hand", t.Tag, f.Name, owner.Name)
		}
	}
	return nil
}

// tagReader is what CheckTriggerTag needs; the database and its transactions have it.
type tagReader interface {
	App(ctx context.Context, id string) (landfall.App, error)
	FunctionTag(ctx context.Context, namespace, name string) (landfall.FunctionTag, error)
}

// remedy says what to do when a trigger names a version that does not exist: it must exist before the push.
func remedy(ref landfall.Reference, err error) string {
	if landfall.KindOf(err) != landfall.NotFound || strings.Trim(ref.Selector, "0123456789") == "" ||
		strings.Contains(ref.Selector, ":") {
		return ""
	}
	return fmt.Sprintf("; an alias is made before it is named, once a push made the function: landfall function alias "+
		"create %s %s VERSION", ref.Name, ref.Selector)
}
